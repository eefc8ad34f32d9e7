//! `wal verify`: every frame and every record of the newest logs, in the order of a replay, and what
//! they must be to each other.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use indicatif::{ProgressBar, ProgressStyle};

use super::counts::WalCounts;
use super::cross_check::CrossCheck;
use super::{OfflineLogs, WalCommandError};
use crate::node::table::size;
use silverback_host::Alone;
use silverback_storage::wal::WalRecovery;
use silverback_storage::wal::progress::ReplayProgress;
use silverback_storage::wal::replay::{ReplayError, Replayed, replay};

/// How often the progress is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// What logs or blocks turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Soundness {
    /// A node would start on the logs without losing anything; all that can be read from the blocks is what was
    /// written.
    Whole,
    /// Something that was acknowledged is lost; something of the blocks can't be read, or is wrong.
    Damaged,
}

/// Checks the newest logs of the data directory at `root`, and reports what it finds.
pub fn verify(root: &Path, out: &mut impl Write) -> Result<Soundness, WalCommandError> {
    let logs = match OfflineLogs::open(root) {
        Ok(logs) => logs,
        Err(WalCommandError::LogsMissing(gone)) => {
            writeln!(out, "damage: {gone}")?;
            return sum_up(out, 1, 0);
        }
        Err(error) => return Err(error),
    };
    let (mut damages, mut torn) = (0, 0);
    for damaged in &logs.identity_damage {
        // Nothing is lost: the directory's other file says the same.
        writeln!(out, "repaired when a node starts: {damaged}")?;
    }
    for shard in 0..logs.generation.shards {
        let place = logs.place(shard);
        let mut check = CrossCheck::default();
        let progress = ReplayProgress::default();
        let replayed = watched(&format!("shard {shard}"), &progress, || {
            block_on(replay(&place, WalRecovery::Salvage, &Alone, &progress, &mut check))
        });
        let replayed = replayed?;
        damages += tell(out, shard, &replayed, check.counts())?;
        torn += usize::from(replayed.torn.is_some());
    }
    sum_up(out, damages, torn)
}

fn sum_up(out: &mut impl Write, damages: usize, torn: usize) -> Result<Soundness, WalCommandError> {
    match damages {
        0 if torn > 0 => writeln!(out, "no damage but what may be torn or damaged")?,
        0 => writeln!(out, "no damage")?,
        1 => writeln!(out, "1 damage; `--wal-recovery=salvage` starts a node with what can be read")?,
        _ => {
            writeln!(out, "{damages} damages; `--wal-recovery=salvage` starts a node with what can be read")?
        }
    }
    Ok(if damages == 0 { Soundness::Whole } else { Soundness::Damaged })
}

/// Reports one log; returns how many damages it has.
fn tell(out: &mut impl Write, shard: usize, replayed: &Replayed, counts: WalCounts) -> io::Result<usize> {
    write!(out, "shard {shard}: ")?;
    match replayed.checkpoint_bytes {
        0 => write!(out, "no checkpoint, ")?,
        bytes => write!(out, "a checkpoint of {}, ", size(bytes))?,
    }
    let (groups, last) = (replayed.groups, replayed.last.0);
    writeln!(out, "{groups} groups up to {last}: {counts}")?;
    if let Some(torn) = &replayed.torn {
        writeln!(out, "  torn or damaged: {torn}")?;
    }
    for damage in &replayed.damage {
        writeln!(out, "  damage: {damage}")?;
    }
    if let Some(error) = &replayed.unread_closing {
        writeln!(
            out,
            "  damage: what the last clean stop left (closed) can't be read ({error}): if acknowledged groups are missing \
             at the end, that can't be known"
        )?;
    }
    Ok(replayed.damage.len() + usize::from(replayed.unread_closing.is_some()))
}

/// Runs a replay, its progress on the terminal if there is one.
fn watched(
    what: &str,
    progress: &ReplayProgress,
    run: impl FnOnce() -> Result<Replayed, ReplayError>,
) -> Result<Replayed, ReplayError> {
    if !io::stderr().is_terminal() {
        return run();
    }
    let style = ProgressStyle::with_template("{prefix} [{wide_bar}] {pos} % ({eta} left)");
    let bar = ProgressBar::new(100).with_style(style.expect("the template is well formed"));
    bar.set_prefix(what.to_owned());
    let began = Instant::now();
    let (running, has_ended) = mpsc::channel::<()>();
    let replayed = std::thread::scope(|scope| {
        let bar = &bar;
        scope.spawn(move || {
            while has_ended.recv_timeout(DRAW_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                bar.set_position(progress.after(began.elapsed()).percent.into());
            }
        });
        let replayed = run();
        drop(running);
        replayed
    });
    bar.finish_and_clear();
    replayed
}

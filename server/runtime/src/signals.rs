//! Signals: the first SIGTERM or SIGINT gives the notice to end, the second ends the process; so does
//! an end that takes too long. SIGHUP is counted, for those who read files again.
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::Builder,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::shutdown::Shutdown;

/// What a shell shows of a process that a signal ended: this and the signal's number.
const SIGNAL_EXIT_CODE_BASE: i32 = 128;

/// Supervisors signal a process and then its group: signals this close together are one.
const SIGNAL_DEBOUNCE: Duration = Duration::from_millis(500);

/// The exit code of a process that didn't come to its end in time.
const LATE_EXIT_CODE: i32 = 1;

/// How often SIGHUP came; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Hangups(Arc<AtomicU64>);

impl Hangups {
    /// So often until now.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Listens for signals on a thread of its own, from now on.
///
/// The executors' threads run at the pace of their queues; this one is always there to hear.
pub fn request_on_signal(shutdown: Shutdown, hangups: Hangups) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    // It ends with the process.
    Builder::new().name("signals".into()).spawn(move || {
        let mut first = None;
        for signal in signals.forever() {
            if signal == SIGHUP {
                tracing::info!(
                    "SIGHUP: the files of users, tokens and certificates, if there are any, are read again"
                );
                hangups.0.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if first.get_or_insert_with(Instant::now).elapsed() > SIGNAL_DEBOUNCE {
                tracing::warn!(signal, "a second signal: ending at once");
                std::process::exit(SIGNAL_EXIT_CODE_BASE + signal);
            }
            if !shutdown.is_requested() {
                tracing::info!(signal, "ending: no new connections, what is in flight is finished");
                shutdown.request();
            }
        }
    })?;
    Ok(())
}

/// Ends the process where it is still there `limit` after the notice: an executor may wait for a disk that
/// never answers.
pub fn end_within(shutdown: &Shutdown, limit: Duration) -> io::Result<()> {
    let requested = shutdown.requested();
    // It ends with the process.
    Builder::new().name("end".into()).spawn(move || {
        futures::executor::block_on(requested);
        std::thread::sleep(limit);
        tracing::error!(?limit, "the node did not come to its end in time; the process ends as it is");
        std::process::exit(LATE_EXIT_CODE);
    })?;
    Ok(())
}

//! `silverctl import`: what a Prometheus has kept, to a node.

mod blocks;
mod head;
mod pieces;
mod report;
mod sources;
mod state;

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;
use silverback_client::{RefusalReason, Selector};

use crate::connection::ConnectionArgs;
use crate::error::{CommandError, Done, output};
use crate::figures::counted;
use crate::filter::Filter;
use crate::formats::Format;
use crate::interrupt::Interrupt;
use crate::progress::{ProgressLine, ProgressUnit};
use crate::sending::Sending;
use crate::time_text::{TimeArg, now_ms, parse_time};
use crate::write::{BadLinePolicy, Course, Input, pump};
use head::Head;
use sources::{ImportSource, Tsdb};
use state::{ImportState, NOTE_INTERVAL};

const DETAILS: &str =
    "PATH is a data directory of a Prometheus, one block of it, or a file in OpenMetrics or another
format that `silverctl write` reads. Of a data directory all blocks are read, and then the head:
what is in no block yet, up to three hours, out of its write-ahead log. Prometheus may go on writing
meanwhile; what comes later is imported by a later run. Samples that came out of order and are in no
block yet (wbl) are left out and reported: Prometheus merges them into its blocks some hours later.

A node keeps what is younger than its --retention, and takes a series' samples in the order of their
times: import into a node that doesn't have newer samples of these series yet.

An import that ended early goes on where it was when it is run again: how far it got is in the
state file. So does one of a text that has grown since.

Exit code 1: something was refused, damaged, or not read to its end.";

/// Import what a Prometheus has kept, blocks and head, or a file of samples.
#[derive(Debug, Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct ImportArgs {
    /// A data directory, a block, or a file.
    path: PathBuf,
    /// Only series that match.
    #[arg(long = "match", value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Only samples from then on: -30d, 2026-01-31T12:00:00Z, or milliseconds since 1970.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time)]
    min_time: Option<TimeArg>,
    /// Only samples until then, inclusive.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time)]
    max_time: Option<TimeArg>,
    /// Where it is noted how far the import is; PATH.import.json unless given.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// What a file is written in; guessed from the first line unless given.
    #[arg(long, value_enum)]
    format: Option<Format>,
}

impl ImportArgs {
    fn range_ms(&self) -> RangeInclusive<i64> {
        let now_ms = now_ms();
        let resolved = |time: Option<TimeArg>| time.map(|time| time.resolve_ms(now_ms));
        resolved(self.min_time).unwrap_or(i64::MIN)..=resolved(self.max_time).unwrap_or(i64::MAX)
    }

    /// What decides which samples are imported, in words: a state holds for the same alone.
    fn scope(&self) -> String {
        let selector = self.selector.as_ref().map(|selector| {
            let matchers: Vec<_> = selector.iter().map(ToString::to_string).collect();
            format!("{{{}}}", matchers.join(","))
        });
        let time = |time: Option<TimeArg>| time.map_or("any".to_owned(), |time| time.to_string());
        let selector = selector.unwrap_or_else(|| "all series".to_owned());
        format!("{selector} from {} to {}", time(self.min_time), time(self.max_time))
    }

    fn open_state(&self, connection: &ConnectionArgs) -> Done<ImportState> {
        ImportState::open(&self.state_path(), &connection.address, &self.scope())
    }

    fn state_path(&self) -> PathBuf {
        let beside = || {
            let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
            let mut name = path.into_os_string();
            name.push(".import.json");
            name.into()
        };
        self.state.clone().unwrap_or_else(beside)
    }
}

/// Imports until the end, Ctrl-C or a failure.
pub(crate) async fn run(arguments: ImportArgs, connection: &ConnectionArgs, interrupt: Interrupt) -> Done {
    let filter = Filter::new(arguments.selector.as_ref(), arguments.range_ms())?;
    match sources::find(&arguments.path)? {
        ImportSource::Tsdb(tsdb) => {
            let state = arguments.open_state(connection)?;
            let client = connection.connect().await?;
            let head = interrupt.clone().or(survey(&tsdb)).await?;
            let in_blocks = tsdb.blocks.iter().map(|block| block.meta.stats.num_series);
            let series = in_blocks.chain(head.as_ref().map(|head| head.series)).sum();
            let progress = ProgressLine::begin(Some(series), ProgressUnit::Series);
            let sending = Sending::begin(client, connection.retry(), progress);
            let report = blocks::import(tsdb, head, filter, state, sending, interrupt).await?;
            let mut out = output();
            writeln!(out, "{report}")?;
            out.flush()?;
            report.verdict()
        }
        ImportSource::Text(path) => import_text(&path, &arguments, filter, connection, interrupt).await,
    }
}

/// Looks through the head, if there is one. A large log takes a while.
async fn survey(tsdb: &Tsdb) -> Done<Option<Head>> {
    let Some(files) = tsdb.head.clone() else { return Ok(None) };
    let blocks_end_ms = tsdb.blocks_end_ms();
    Ok(Some(tokio::task::spawn_blocking(move || Head::survey(&files, blocks_end_ms)).await?))
}

async fn import_text(
    path: &Path,
    arguments: &ImportArgs,
    filter: Filter,
    connection: &ConnectionArgs,
    interrupt: Interrupt,
) -> Done {
    let mut input = Input::open(Some(path), arguments.format)?;
    // A pipe can't be read again from any place.
    let mut state = input.size.map(|_| arguments.open_state(connection)).transpose()?;
    let begin = state.as_ref().and_then(ImportState::of_text).unwrap_or_default();
    if let Some(state) = &state
        && !input.go_to(begin)?
    {
        return Err(CommandError::Usage(format!(
            "{} is no longer the text of which {} says that {} are done; remove that to start over",
            path.display(),
            state.path().display(),
            counted(begin.lines, "line", "lines"),
        )));
    }
    let client = connection.connect().await?;
    let progress = ProgressLine::begin(input.size, ProgressUnit::Bytes);
    let sending = Sending::begin(client, connection.retry(), progress);
    let mut note = |place| state.as_mut().map_or(Ok(()), |state| state.note_text(place));
    let course =
        Course { filter: &filter, bad_lines: BadLinePolicy::Skip, note: Some((NOTE_INTERVAL, &mut note)) };
    let report = pump(input, course, sending, interrupt).await?;
    let mut out = output();
    if begin.lines > 0 {
        let lines = counted(begin.lines, "line of an earlier run is", "lines of an earlier run are");
        writeln!(out, "{lines} left out")?;
    }
    writeln!(out, "{report}")?;
    if let Some(state) = state.filter(|_| report.is_interrupted()) {
        writeln!(out, "run it again to go on; how far it got is in {}", state.path().display())?;
    }
    if report.sent().main_reason() == Some(RefusalReason::TooOld) {
        writeln!(out, "{}", report::TOO_OLD_HINT)?;
    }
    out.flush()?;
    report.verdict()
}

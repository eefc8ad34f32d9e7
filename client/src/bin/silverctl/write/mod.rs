//! `silverctl write`: samples from a file or from standard input to a node.

mod input;
mod pump;

pub(crate) use input::{Input, TextPosition};
pub(crate) use pump::{Course, run as pump};

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::connection::ConnectionArgs;
use crate::error::{Done, output};
use crate::filter::Filter;
use crate::formats::Format;
use crate::interrupt::Interrupt;
use crate::progress::{ProgressLine, ProgressUnit};
use crate::sending::Sending;

const FORMATS: &str = "Formats:
  openmetrics  name{label=\"value\"} 1.5 1700000000.250    (timestamps in seconds)
  prometheus   name{label=\"value\"} 1.5 1700000000250     (timestamps in milliseconds)
  csv          a header timestamp,value,name,LABEL… and a row for each sample; timestamps in
               milliseconds or as 2026-01-31T12:00:00Z
  json         JSON lines, also called jsonl, as `silverctl query --output json` prints them:
               {\"metric\":{\"__name__\":\"up\",\"job\":\"a\"},\"values\":[1],\"timestamps\":[1700000000250]}
               {\"name\":\"up\",\"labels\":{\"job\":\"a\"},\"timestamp\":1700000000250,\"value\":1}
A sample without a timestamp is of now. Where no format is given the first line tells which it is;
in the text formats, a whole number from 100,000,000,000 on counts milliseconds then.

Example: echo 'room_temperature{room=\"kitchen\"} 21.5' | silverctl write

Exit code 1: a line was wrong, or a sample was refused.";

/// Write samples that are read from a file or from standard input.
#[derive(Debug, Args)]
#[command(after_long_help = FORMATS)]
pub(crate) struct WriteArgs {
    /// What is read; `-` or nothing: standard input.
    file: Option<PathBuf>,
    /// What it is written in; guessed from the first line unless given.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Stop at the first line that is wrong; what is before it is written.
    #[arg(long)]
    strict: bool,
}

/// Reads and writes until the end of the input, Ctrl-C or a failure.
pub(crate) async fn run(arguments: WriteArgs, connection: &ConnectionArgs, interrupt: Interrupt) -> Done {
    let input = Input::open(arguments.file.as_deref(), arguments.format)?;
    let client = connection.connect().await?;
    let every = Filter::new(None, i64::MIN..=i64::MAX)?;
    let bad_lines = if arguments.strict { BadLinePolicy::End } else { BadLinePolicy::Skip };
    let sending =
        Sending::begin(client, connection.retry(), ProgressLine::begin(input.size, ProgressUnit::Bytes));
    let course = Course { filter: &every, bad_lines, note: None };
    let report = pump(input, course, sending, interrupt).await?;
    let mut out = output();
    writeln!(out, "{report}")?;
    out.flush()?;
    report.verdict()
}

/// What a bad line does to those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadLinePolicy {
    /// Nothing.
    Skip,
    /// They aren't read.
    End,
}

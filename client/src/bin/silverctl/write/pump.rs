//! From a text to a node: batches of lines are sent, bad lines told, and all of it counted.

use std::fmt;
use std::time::Instant;

use super::input::Batch;
use super::{BadLines, Input};
use crate::failure::{Context, Failure};
use crate::figures::{counted, grouped};
use crate::filter::Filter;
use crate::formats::{Entry, LineFault};
use crate::interrupt::Interrupt;
use crate::sending::{SendReport, Sending};
use crate::time_text::now_ms;

/// Bad lines that are told one by one.
const TOLD_MAX: u64 = 20;

/// Sends what a text holds, until it ends, a bad line ends it, or Ctrl-C comes. What was read by
/// then is written in any case.
pub async fn run(
    input: Input,
    filter: &Filter,
    bad_lines: BadLines,
    sending: Sending,
    mut interrupt: Interrupt,
) -> Result<LineReport, Failure> {
    let mut pump = Pump { filter, bad_lines, began: Instant::now(), sending, report: LineReport::default() };
    let mut batches = input.read();
    while pump.report.end == End::Input {
        let batch = tokio::select! {
            batch = batches.recv() => batch,
            () = interrupt.come() => {
                pump.report.end = End::Interrupt;
                break;
            }
        };
        let Some(batch) = batch else { break };
        pump.take(batch.context(|| "can't read on".to_owned())?).await?;
    }
    pump.finish().await
}

struct Pump<'a> {
    filter: &'a Filter,
    bad_lines: BadLines,
    began: Instant,
    sending: Sending,
    report: LineReport,
}

impl Pump<'_> {
    async fn take(&mut self, batch: Batch) -> Result<(), Failure> {
        let first_fault = batch.faults.first().map(|fault| fault.line);
        for (line, entry) in &batch.entries {
            let is_behind_end = self.bad_lines == BadLines::End && first_fault.is_some_and(|end| end < *line);
            if !is_behind_end {
                self.send(entry).await?;
            }
        }
        for fault in &batch.faults {
            self.tell(fault.line, &fault.fault);
            if self.report.end != End::Input {
                break;
            }
        }
        self.report.lines = batch.line;
        self.show(batch.bytes);
        Ok(())
    }

    async fn send(&mut self, entry: &Entry) -> Result<(), Failure> {
        if !self.filter.takes_series(|name| entry.labels.get(name)) {
            return Ok(());
        }
        let now_ms = now_ms();
        let timed = entry.samples.iter().map(|(at_ms, value)| (at_ms.unwrap_or(now_ms), *value));
        let taken: Vec<_> = timed.filter(|(at_ms, _)| self.filter.takes_time(*at_ms)).collect();
        self.report.samples_read += taken.len() as u64;
        self.sending.send(&entry.labels, taken).await
    }

    fn tell(&mut self, line: u64, fault: &LineFault) {
        self.report.bad_lines += 1;
        if self.report.bad_lines <= TOLD_MAX {
            self.sending.progress().tell(&format!("line {}: {fault}", grouped(line)));
        } else if self.report.bad_lines == TOLD_MAX + 1 {
            self.sending.progress().tell("further bad lines are counted only");
        }
        if self.bad_lines == BadLines::End || fault.ends_all() {
            self.report.end = End::BadLine;
        }
    }

    fn show(&self, bytes: u64) {
        let samples = self.report.samples_read;
        let rate = samples as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        self.sending
            .progress()
            .show(bytes, format!("{} samples, {}/s", grouped(samples), grouped(rate as u64)));
    }

    async fn finish(self) -> Result<LineReport, Failure> {
        let sent = self.sending.close().await?;
        Ok(LineReport { sent, ..self.report })
    }
}

/// What became of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineReport {
    sent: SendReport,
    samples_read: u64,
    bad_lines: u64,
    lines: u64,
    end: End,
}

/// Why reading ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum End {
    /// There was nothing more.
    #[default]
    Input,
    /// A bad line ended it.
    BadLine,
    /// Ctrl-C did.
    Interrupt,
}

impl LineReport {
    /// What became of the samples.
    pub const fn sent(&self) -> &SendReport {
        &self.sent
    }

    /// A failure unless all that stood there is written.
    pub fn verdict(&self) -> Result<(), Failure> {
        let is_whole = self.bad_lines == 0 && !self.sent.has_refusals() && self.end == End::Input;
        if is_whole { Ok(()) } else { Err(Failure::Told) }
    }
}

/// Lines of words, for a person.
impl fmt::Display for LineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sent)?;
        if self.bad_lines > 0 {
            let bad = counted(self.bad_lines, "bad line", "bad lines");
            write!(f, "\n{bad} of {}", grouped(self.lines))?;
        }
        match self.end {
            End::Input => Ok(()),
            End::BadLine => f.write_str("\nended at the first bad line"),
            End::Interrupt => write!(f, "\ninterrupted behind line {}", grouped(self.lines)),
        }
    }
}

//! From a text to a node: batches of lines are sent, bad lines told, and all of it counted.

use std::fmt;
use std::time::{Duration, Instant};

use super::input::Batch;
use super::{BadLines, Input, Place};
use crate::failure::{Context, Failure};
use crate::figures::{counted, grouped};
use crate::filter::Filter;
use crate::formats::{Entry, LineFault};
use crate::interrupt::Interrupt;
use crate::sending::{SendReport, Sending};
use crate::time_text::now_ms;

/// Bad lines that are told one by one.
const TOLD_MAX: u64 = 20;

/// What is done with the lines of a text.
pub struct Course<'a> {
    /// Which samples are sent.
    pub filter: &'a Filter,
    /// What a bad line does.
    pub bad_lines: BadLines,
    /// How often it is noted how far it is, and by what: all before that place is acknowledged.
    pub note: Option<(Duration, &'a mut NotePlace<'a>)>,
}

/// Notes how far a text is.
pub type NotePlace<'a> = dyn FnMut(Place) -> Result<(), Failure> + 'a;

/// Sends what a text holds, until it ends, a bad line ends it, or Ctrl-C comes. What was read by
/// then is written in any case.
pub async fn run(
    input: Input,
    course: Course<'_>,
    sending: Sending,
    mut interrupt: Interrupt,
) -> Result<LineReport, Failure> {
    let (began, report) = (Instant::now(), LineReport::default());
    let mut pump = Pump { course, began, noted: began, sending, report };
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
    course: Course<'a>,
    began: Instant,
    noted: Instant,
    sending: Sending,
    report: LineReport,
}

impl Pump<'_> {
    async fn take(&mut self, batch: Batch) -> Result<(), Failure> {
        let first_fault = batch.faults.first().map(|fault| fault.line);
        for (line, entry) in &batch.entries {
            let is_behind_end =
                self.course.bad_lines == BadLines::End && first_fault.is_some_and(|end| end < *line);
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
        self.report.read = batch.end;
        self.show(batch.end.bytes);
        if self.course.note.as_ref().is_some_and(|(interval, _)| self.noted.elapsed() >= *interval) {
            self.sending.flush().await?;
            self.noted = Instant::now();
            self.course.note(batch.end)?;
        }
        Ok(())
    }

    async fn send(&mut self, entry: &Entry) -> Result<(), Failure> {
        if !self.course.filter.takes_series(|name| entry.labels.get(name)) {
            return Ok(());
        }
        let now_ms = now_ms();
        let timed = entry.samples.iter().map(|(at_ms, value)| (at_ms.unwrap_or(now_ms), *value));
        let taken: Vec<_> = timed.filter(|(at_ms, _)| self.course.filter.takes_time(*at_ms)).collect();
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
        if self.course.bad_lines == BadLines::End || fault.ends_all() {
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

    async fn finish(mut self) -> Result<LineReport, Failure> {
        let sent = self.sending.close().await?;
        if self.report.read != Place::default() {
            self.course.note(self.report.read)?;
        }
        Ok(LineReport { sent, ..self.report })
    }
}

impl Course<'_> {
    fn note(&mut self, place: Place) -> Result<(), Failure> {
        match &mut self.note {
            Some((_, note)) => note(place),
            None => Ok(()),
        }
    }
}

/// What became of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineReport {
    sent: SendReport,
    samples_read: u64,
    bad_lines: u64,
    read: Place,
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

    /// Whether Ctrl-C ended it.
    pub fn is_interrupted(&self) -> bool {
        self.end == End::Interrupt
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
            write!(f, "\n{bad} of {}", grouped(self.read.lines))?;
        }
        match self.end {
            End::Input => Ok(()),
            End::BadLine => f.write_str("\nended at the first bad line"),
            End::Interrupt => write!(f, "\ninterrupted behind line {}", grouped(self.read.lines)),
        }
    }
}

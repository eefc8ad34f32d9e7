//! From a text to a node: batches of lines are sent, bad lines reported, and all of it counted.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::input::LineBatch;
use super::{BadLinePolicy, Input, TextPosition};
use crate::error::{CommandError, Context, Done};
use crate::figures::{counted, grouped};
use crate::filter::Filter;
use crate::formats::{LineEntry, LineError};
use crate::interrupt::Interrupt;
use crate::sending::{SendReport, Sending};
use crate::time_text::now_ms;

/// Bad lines that are reported one by one.
const TOLD_MAX: u64 = 20;

/// What is done with the lines of a text.
pub(crate) struct Course<'a> {
    /// Which samples are sent.
    pub filter: &'a Filter,
    /// What a bad line does.
    pub bad_lines: BadLinePolicy,
    /// How often it is noted how far it is, and by what: all before that place is acknowledged.
    pub note: Option<(Duration, &'a mut NotePlace<'a>)>,
}

/// Notes how far a text is.
pub(super) type NotePlace<'a> = dyn FnMut(TextPosition) -> Done + 'a;

/// Sends what a text holds, until it ends, a bad line ends it, or Ctrl-C comes. What was read by
/// then is written in any case.
pub(crate) async fn run(
    input: Input,
    course: Course<'_>,
    sending: Sending,
    mut interrupt: Interrupt,
) -> Done<TextReport> {
    let (began, report) = (Instant::now(), TextReport::default());
    let (under_way, answered) = (VecDeque::new(), TextPosition::default());
    let mut pump = Pump { course, began, noted: began, sending, under_way, answered, report };
    let mut batches = input.read();
    let pumped = pump.all(&mut batches, &mut interrupt).await;
    match pumped {
        Ok(()) => pump.finish().await,
        Err(failure) => {
            pump.tell_answered();
            Err(failure)
        }
    }
}

struct Pump<'a> {
    course: Course<'a>,
    began: Instant,
    noted: Instant,
    sending: Sending,
    /// Batches of lines that the node hasn't answered for: how many samples were sent up to their end, and that
    /// end. No more than a writer holds samples.
    under_way: VecDeque<(u64, TextPosition)>,
    /// All before it is answered for.
    answered: TextPosition,
    report: TextReport,
}

impl Pump<'_> {
    async fn all(
        &mut self,
        batches: &mut mpsc::Receiver<io::Result<LineBatch>>,
        interrupt: &mut Interrupt,
    ) -> Done {
        while self.report.end == End::Input {
            let batch = tokio::select! {
                batch = batches.recv() => batch,
                () = interrupt.come() => {
                    self.report.end = End::Interrupt;
                    break;
                }
            };
            let Some(batch) = batch else { break };
            self.take(batch.context(|| "can't read on".to_owned())?).await?;
        }
        Ok(())
    }

    async fn take(&mut self, batch: LineBatch) -> Done {
        let first_fault = batch.faults.first().map(|fault| fault.line);
        for (line, entry) in &batch.entries {
            let is_behind_end =
                self.course.bad_lines == BadLinePolicy::End && first_fault.is_some_and(|end| end < *line);
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
        self.went_out(batch.end);
        if self.course.note.as_ref().is_some_and(|(interval, _)| self.noted.elapsed() >= *interval) {
            self.noted = Instant::now();
            if self.answered != TextPosition::default() {
                self.course.note(self.answered)?;
            }
        }
        Ok(())
    }

    /// Notes that all before a place is sent, and how far the node has answered: nothing waits for that.
    fn went_out(&mut self, end: TextPosition) {
        let samples = self.sending.samples();
        // Lines without samples are answered for with those before them.
        match self.under_way.back_mut() {
            Some((same, place)) if *same == samples => *place = end,
            Some(_) | None => self.under_way.push_back((samples, end)),
        }
        self.look_what_is_answered();
    }

    fn look_what_is_answered(&mut self) {
        let answered = self.sending.samples_answered();
        while let Some((samples, place)) = self.under_way.front().copied()
            && samples <= answered
        {
            self.under_way.pop_front();
            self.answered = place;
        }
    }

    /// Where a run that failed can be gone on with.
    fn tell_answered(&mut self) {
        self.look_what_is_answered();
        let lines = self.answered.lines;
        let words = match lines {
            0 => "the node has answered for none of the lines".to_owned(),
            _some => format!("the node has answered for all lines up to line {}", grouped(lines)),
        };
        self.sending.progress().tell(&words);
    }

    async fn send(&mut self, entry: &LineEntry) -> Done {
        if !self.course.filter.takes_series(|name| entry.labels.get(name)) {
            return Ok(());
        }
        let now_ms = now_ms();
        let timed = entry.samples.iter().map(|(at_ms, value)| (at_ms.unwrap_or(now_ms), *value));
        let taken: Vec<_> = timed.filter(|(at_ms, _)| self.course.filter.takes_time(*at_ms)).collect();
        self.report.samples_read += taken.len() as u64;
        self.sending.send(&entry.labels, taken).await
    }

    fn tell(&mut self, line: u64, fault: &LineError) {
        self.report.bad_lines += 1;
        if self.report.bad_lines <= TOLD_MAX {
            self.sending.progress().tell(&format!("line {}: {fault}", grouped(line)));
        } else if self.report.bad_lines == TOLD_MAX + 1 {
            self.sending.progress().tell("further bad lines are counted only");
        }
        if self.course.bad_lines == BadLinePolicy::End || fault.ends_all() {
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

    async fn finish(mut self) -> Done<TextReport> {
        // Before it is closed, because a failure leaves nothing to ask.
        if let Err(failure) = self.sending.flush().await {
            self.tell_answered();
            return Err(failure);
        }
        let sent = self.sending.close().await?;
        if self.report.read != TextPosition::default() {
            self.course.note(self.report.read)?;
        }
        Ok(TextReport { sent, ..self.report })
    }
}

impl Course<'_> {
    fn note(&mut self, place: TextPosition) -> Done {
        match &mut self.note {
            Some((_, note)) => note(place),
            None => Ok(()),
        }
    }
}

/// What became of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TextReport {
    sent: SendReport,
    samples_read: u64,
    bad_lines: u64,
    read: TextPosition,
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

impl TextReport {
    /// What became of the samples.
    pub(crate) const fn sent(&self) -> &SendReport {
        &self.sent
    }

    /// Whether Ctrl-C ended it.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.end == End::Interrupt
    }

    /// A failure unless all that was there is written.
    pub(crate) fn verdict(&self) -> Done {
        let is_whole = self.bad_lines == 0 && !self.sent.has_refusals() && self.end == End::Input;
        if is_whole { Ok(()) } else { Err(CommandError::Told) }
    }
}

/// Lines of words, for a person.
impl fmt::Display for TextReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sent)?;
        if self.bad_lines > 0 {
            let bad = counted(self.bad_lines, "bad line", "bad lines");
            write!(f, "\n{bad} of {}", grouped(self.read.lines))?;
        }
        match self.end {
            End::Input => Ok(()),
            End::BadLine => f.write_str("\nended at the first bad line"),
            End::Interrupt => write!(f, "\ninterrupted after line {}", grouped(self.read.lines)),
        }
    }
}

//! A line on standard error that shows how far a command is. None where that isn't a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use silverback_model::printable::Printable;

const TICK: Duration = Duration::from_millis(100);

/// The line.
#[derive(Debug)]
pub(crate) struct ProgressLine(ProgressBar);

/// What is counted, and so how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressUnit {
    /// Bytes of a file.
    Bytes,
    /// Series.
    Series,
}

impl ProgressLine {
    /// Begins one; `total` is where it is done, if that is known.
    pub(crate) fn begin(total: Option<u64>, unit: ProgressUnit) -> Self {
        let stderr = std::io::stderr();
        let target =
            if stderr.is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target).with_style(style(total, unit));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// How far it is, and what else there is to say.
    pub(crate) fn show(&self, position: u64, words: String) {
        self.0.set_position(position);
        self.0.set_message(words);
    }

    /// Writes a line on standard error, above.
    pub(crate) fn tell(&self, line: &str) {
        self.voice().tell(line);
    }

    /// What others can report by, as long as they live.
    pub(crate) fn voice(&self) -> Voice {
        Voice(self.0.clone())
    }
}

/// Writes lines on standard error, so that they don't get mixed up with the line that shows progress.
#[derive(Debug, Clone)]
pub(crate) struct Voice(ProgressBar);

impl Voice {
    /// Writes a line, printable whatever is in it.
    pub(crate) fn tell(&self, line: &str) {
        self.0.suspend(|| eprintln!("{}", Printable(line)));
    }
}

/// Leaves nothing of it on the screen.
impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style(total: Option<u64>, unit: ProgressUnit) -> ProgressStyle {
    let template = match (total, unit) {
        (Some(_), ProgressUnit::Bytes) => {
            "{bar:30} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {wide_msg} {eta:>4} left"
        }
        (Some(_), ProgressUnit::Series) => {
            "{bar:30} {percent:>3} %  {human_pos} of {human_len} series  {wide_msg} {eta:>4} left"
        }
        (None, ProgressUnit::Bytes) => "{spinner} {binary_bytes}  {wide_msg}",
        (None, ProgressUnit::Series) => "{spinner} {human_pos} series  {wide_msg}",
    };
    let style = ProgressStyle::with_template(template).expect("the templates are as written here");
    style.progress_chars("━╸─")
}

//! Series as lines in the terminal: an axis on each side, a legend below.
//!
//! Lines are of braille dots. Several series differ by colours; where there are none each has a character of
//! its own that its line is of.

use std::io::{self, IsTerminal, Write};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Context, Line, Points};

use super::ticks::{Tick, time_ticks, value_ticks};
use super::{QueriedSeries, value_text};
use crate::time_text::format_rfc3339;

/// Easy to tell apart on dark and on light screens; and where they begin and end as escapes.
const COLOURS: [(Color, &str); 8] = [
    (Color::Cyan, "\x1b[36m"),
    (Color::Yellow, "\x1b[33m"),
    (Color::Green, "\x1b[32m"),
    (Color::Magenta, "\x1b[35m"),
    (Color::Blue, "\x1b[34m"),
    (Color::Red, "\x1b[31m"),
    (Color::LightCyan, "\x1b[96m"),
    (Color::LightYellow, "\x1b[93m"),
];
/// Without colours, characters that every terminal and every file has, of one line alone and of several.
const SIGN_OF_ONE: char = '●';
const SIGNS: [char; COLOURS.len()] = ['*', '+', 'o', 'x', '#', '@', '%', '='];
const COLOUR_END: &str = "\x1b[0m";
/// A plot that isn't shown in a terminal, in characters.
const WIDTH: usize = 100;
const HEIGHT: usize = 16;
const HEIGHT_MIN: usize = 6;
const HEIGHT_MAX: usize = 24;
/// Values beyond can't be set against each other.
const VALUE_MAX: f64 = 1e300;
/// A tick on the left every so many lines, one below every so many characters, at most.
const LINES_PER_TICK: usize = 4;
const CHARACTERS_PER_TICK: usize = 14;

/// Whether series differ by colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// They are.
    Colours,
    /// There are none.
    Plain,
}

/// Series to be plotted together.
#[derive(Debug)]
pub(super) struct Plot {
    ink: Ink,
    width: usize,
    height: usize,
    series: Vec<QueriedSeries>,
}

impl Plot {
    /// As large as the terminal has room, and with colours if it is one.
    pub(super) fn for_terminal() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if !io::stdout().is_terminal() {
            return Self::new(Ink::Plain, WIDTH, HEIGHT);
        }
        let (lines, columns) = console::Term::stdout().size();
        let height = (usize::from(lines) / 2).clamp(HEIGHT_MIN, HEIGHT_MAX);
        Self::new(if no_color { Ink::Plain } else { Ink::Colours }, usize::from(columns), height)
    }

    /// Of a size in characters.
    pub(super) const fn new(ink: Ink, width: usize, height: usize) -> Self {
        Self { ink, width, height, series: Vec::new() }
    }

    /// Whether there are as many series as a plot can show.
    pub(super) const fn is_full(&self) -> bool {
        self.series.len() == COLOURS.len()
    }

    /// Adds a series, unless it is full.
    pub(super) fn add(&mut self, series: QueriedSeries) {
        if !self.is_full() {
            self.series.push(series);
        }
    }

    /// Prints all of them.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if let Some(frame) = Frame::around(&self.series, self.width, self.height) {
            let buffer = self.draw(&frame);
            self.print_lines(&frame, &buffer, out)?;
            print_times(&frame, out)?;
        }
        for (index, series) in self.series.iter().enumerate() {
            let (begin, end) = match self.ink {
                Ink::Colours => (COLOURS[index].1, COLOUR_END),
                Ink::Plain => ("", ""),
            };
            let sign = if self.has_signs() { SIGNS[index] } else { SIGN_OF_ONE };
            writeln!(out, "{begin}{sign}{end} {}  {}", series.labels, summary(series))?;
        }
        writeln!(out)
    }

    /// Whether lines differ by what they are made of.
    fn has_signs(&self) -> bool {
        self.ink == Ink::Plain && self.series.len() > 1
    }

    fn draw(&self, frame: &Frame) -> Buffer {
        if !self.has_signs() {
            return frame.draw(&self.series, Marker::Braille);
        }
        let mut all = Buffer::empty(frame.area());
        for (series, sign) in self.series.iter().zip(SIGNS) {
            let own = frame.draw(std::slice::from_ref(series), Marker::Dot);
            for (cell, drawn) in all.content.iter_mut().zip(&own.content) {
                if drawn.symbol() != " " {
                    cell.set_char(sign);
                }
            }
        }
        all
    }

    fn print_lines(&self, frame: &Frame, buffer: &Buffer, out: &mut impl Write) -> io::Result<()> {
        for line in 0..frame.height {
            let tick = frame.value_ticks.iter().find(|tick| frame.line_of(tick.at) == line);
            let (label, edge) = tick.map_or(("", '│'), |tick| (tick.label.as_str(), '┤'));
            write!(out, "{label:>0$} {edge}", frame.margin)?;
            self.print_cells(buffer, line, out)?;
            writeln!(out)?;
        }
        Ok(())
    }

    fn print_cells(&self, buffer: &Buffer, line: usize, out: &mut impl Write) -> io::Result<()> {
        let mut colour = "";
        for column in 0..buffer.area.width {
            let cell = &buffer[(column, line as u16)];
            let of_cell = match self.ink {
                Ink::Plain => "",
                Ink::Colours => COLOURS.iter().find(|(name, _)| *name == cell.fg).map_or("", |found| found.1),
            };
            if of_cell != colour {
                write!(out, "{}{of_cell}", if colour.is_empty() { "" } else { COLOUR_END })?;
                colour = of_cell;
            }
            out.write_all(cell.symbol().as_bytes())?;
        }
        if colour.is_empty() { Ok(()) } else { out.write_all(COLOUR_END.as_bytes()) }
    }
}

/// What a plot shows, and how large it is without its axes.
struct Frame {
    times_ms: [f64; 2],
    value_ticks: Vec<Tick>,
    time_ticks: Vec<Tick>,
    /// The width of the labels on the left.
    margin: usize,
    width: usize,
    height: usize,
}

impl Frame {
    /// `None` where there is no sample to be seen.
    fn around(series: &[QueriedSeries], width: usize, height: usize) -> Option<Self> {
        let seen = || series.iter().flat_map(|series| &series.samples).filter(|sample| is_seen(sample));
        let (first, last) = (seen().map(|(at_ms, _)| *at_ms).min()?, seen().map(|(at_ms, _)| *at_ms).max()?);
        let min = seen().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
        let max = seen().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
        let value_ticks = value_ticks(min, max, height / LINES_PER_TICK);
        let margin = value_ticks.iter().map(|tick| tick.label.len()).max().unwrap_or(0);
        // A space and the axis are between the labels and the plot.
        let width = width.saturating_sub(margin + 2).clamp(CHARACTERS_PER_TICK, u16::MAX.into());
        let time_ticks = time_ticks(first, last, width / CHARACTERS_PER_TICK);
        // A single time is in the middle.
        let widened = if first == last { 1.0 } else { 0.0 };
        let times_ms = [first as f64 - widened, last as f64 + widened];
        Some(Self { times_ms, value_ticks, time_ticks, margin, width, height })
    }

    fn values(&self) -> [f64; 2] {
        let at = |tick: Option<&Tick>| tick.map_or(0.0, |tick| tick.at);
        [at(self.value_ticks.first()), at(self.value_ticks.last())]
    }

    fn line_of(&self, value: f64) -> usize {
        let [min, max] = self.values();
        ((max - value) / (max - min) * (self.height - 1) as f64).round() as usize
    }

    fn column_of(&self, at_ms: f64) -> usize {
        let [min_ms, max_ms] = self.times_ms;
        ((at_ms - min_ms) / (max_ms - min_ms) * (self.width - 1) as f64).round() as usize
    }

    fn area(&self) -> Rect {
        Rect::new(0, 0, self.width as u16, self.height as u16)
    }

    fn draw(&self, series: &[QueriedSeries], marker: Marker) -> Buffer {
        let area = self.area();
        let mut buffer = Buffer::empty(area);
        let canvas = Canvas::default().marker(marker).x_bounds(self.times_ms).y_bounds(self.values()).paint(
            |context| {
                for (series, (colour, _)) in series.iter().zip(COLOURS) {
                    draw_series(series, colour, context);
                }
            },
        );
        canvas.render(area, &mut buffer);
        buffer
    }
}

fn draw_series(series: &QueriedSeries, color: Color, context: &mut Context<'_>) {
    for pair in series.samples.windows(2) {
        // A marker of staleness, like any NaN, is a gap.
        if let [from, to] = pair
            && is_seen(from)
            && is_seen(to)
        {
            context.draw(&Line { x1: from.0 as f64, y1: from.1, x2: to.0 as f64, y2: to.1, color });
        }
    }
    let seen = series.samples.iter().filter(|sample| is_seen(sample));
    let coords: Vec<_> = seen.map(|(at_ms, value)| (*at_ms as f64, *value)).collect();
    context.draw(&Points { coords: &coords, color });
}

fn is_seen((_, value): &(i64, f64)) -> bool {
    value.abs() <= VALUE_MAX
}

/// The axis below, and its labels.
fn print_times(frame: &Frame, out: &mut impl Write) -> io::Result<()> {
    let mut axis = vec!['─'; frame.width];
    let mut labels = String::new();
    for tick in &frame.time_ticks {
        let column = frame.column_of(tick.at);
        axis[column] = '┬';
        let length = tick.label.len();
        let begins = column.saturating_sub(length / 2).min(frame.width.saturating_sub(length));
        let is_apart = labels.is_empty() || begins > labels.len() + 1;
        if is_apart {
            labels = format!("{labels:<begins$}{}", tick.label);
        }
    }
    let margin = frame.margin;
    writeln!(out, "{:margin$} └{}", "", axis.iter().collect::<String>())?;
    writeln!(out, "{:margin$}  {labels}", "")
}

/// What a glance at the line doesn't give.
fn summary(series: &QueriedSeries) -> String {
    let Some((at_ms, last)) = series.samples.last() else { return "no samples".to_owned() };
    let seen = || series.samples.iter().map(|(_, value)| *value).filter(|value| !value.is_nan());
    let last = format!("last {} at {}", glance_text(*last), format_rfc3339(*at_ms));
    match (seen().reduce(f64::min), seen().reduce(f64::max)) {
        (Some(min), Some(max)) => format!("{last}, min {}, max {}", glance_text(min), glance_text(max)),
        (None, _) | (_, None) => last,
    }
}

/// A whole number as it is, another one to six digits.
fn glance_text(value: f64) -> String {
    let rounded = format!("{value:.5e}").parse().unwrap_or(value);
    value_text(if value.fract() == 0.0 || !value.is_finite() { value } else { rounded })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::STALE_NAN;

    #[test]
    fn numbers_of_a_legend_are_short() {
        let values = [9_080.466_67, 15_037_034_496.0, 1.0 / 3.0, -0.5, 0.0, f64::INFINITY, STALE_NAN];
        let expect = ["9080.47", "15037034496", "0.333333", "-0.5", "0", "+Inf", "StaleNaN"];
        assert_eq!(values.map(glance_text), expect);
    }
}

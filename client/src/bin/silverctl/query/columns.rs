//! A series as a table: times and values below its labels, side by side where the terminal has room.

use std::io::{self, Write};

use super::json::histogram_text;
use super::{QueriedSeries, value_text};
use crate::figures::counted;
use crate::time_text::format_rfc3339;

/// Between two columns.
const GAP: usize = 4;
/// What sets a table off from the labels above it.
const INDENT: usize = 2;
/// Columns hold at least so many samples: a handful reads better below each other.
const COLUMN_SAMPLES_MIN: usize = 10;

/// Prints it; `width` is the terminal's, none for a table of one column.
pub(super) fn print(series: &QueriedSeries, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let samples = (series.samples.len() + series.histograms.len()) as u64;
    writeln!(out, "{}  ({})", series.labels, counted(samples, "sample", "samples"))?;
    let values: Vec<String> = series.samples.iter().map(|(_, value)| value_text(*value)).collect();
    let times: Vec<String> = series.samples.iter().map(|(at_ms, _)| format_rfc3339(*at_ms)).collect();
    let longest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    let (time_width, value_width) = (longest(&times), longest(&values));
    let column = time_width + 2 + value_width + GAP;
    let fitting = width.map_or(1, |width| ((width.saturating_sub(INDENT) + GAP) / column).max(1));
    let columns = fitting.min(values.len() / COLUMN_SAMPLES_MIN).max(1);
    let lines = values.len().div_ceil(columns);
    for line in 0..lines {
        write!(out, "{:INDENT$}", "")?;
        for index in (line..values.len()).step_by(lines) {
            if index != line {
                write!(out, "{:GAP$}", "")?;
            }
            write!(out, "{:<time_width$}  {:>value_width$}", times[index], values[index])?;
        }
        writeln!(out)?;
    }
    for (at_ms, histogram) in &series.histograms {
        writeln!(out, "{:INDENT$}{}  {}", "", format_rfc3339(*at_ms), histogram_text(histogram))?;
    }
    writeln!(out)
}

//! The texts that samples are read from, a line at a time: OpenMetrics and Prometheus' own format,
//! CSV, JSON lines.
//!
//! A bad line is reported and costs no other line. Knows nothing of where lines come from or where
//! samples go.

mod csv_rows;
mod exposition;
mod json_lines;
mod lines;

use clap::ValueEnum;

pub(crate) use lines::{InputLine, Lines};

use crate::label_set::{LabelSet, LabelSetError};
use csv_rows::CsvRows;
use exposition::TimestampUnit;

/// A format that samples are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// OpenMetrics text: timestamps in seconds.
    Openmetrics,
    /// Prometheus' older text format: timestamps in milliseconds.
    Prometheus,
    /// Rows below a header `timestamp,value,name,LABEL…`.
    Csv,
    /// JSON lines, a series or a sample each; also called jsonl.
    #[value(alias = "jsonl")]
    Json,
}

/// What one line holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineEntry {
    /// Of which series.
    pub labels: LabelSet,
    /// Times in milliseconds since the Unix epoch, `None` for now, and values.
    pub samples: Vec<(Option<i64>, f64)>,
}

/// Why a line holds no samples.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// It is longer than a line may be.
    #[error("longer than {} MiB", lines::LINE_BYTES_MAX >> 20)]
    TooLong,
    /// It isn't text.
    #[error("not UTF-8")]
    NotUtf8,
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What should be there.
        expected: &'static str,
        /// What is, in quotes.
        found: String,
    },
    /// The labels make no series.
    #[error(transparent)]
    Labels(#[from] LabelSetError),
    /// It isn't JSON, or not of the right shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A JSON object without samples.
    #[error("{0}")]
    Shape(&'static str),
    /// It isn't CSV.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// A row has another number of fields than the header.
    #[error("{found} fields, where the header has {expected}")]
    FieldCount {
        /// The header's.
        expected: usize,
        /// The row's.
        found: usize,
    },
    /// Without a header no row can be read.
    #[error("the header names no column {0:?}")]
    Header(&'static str),
}

impl LineError {
    fn unexpected(expected: &'static str, found: &str) -> Self {
        const SHOWN_MAX: usize = 40;
        let found = match found.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{:?}…", &found[..end]),
            None if found.is_empty() => "the end".to_owned(),
            None => format!("{found:?}"),
        };
        Self::Unexpected { expected, found }
    }

    /// Whether nothing after this line can be read either.
    pub(crate) const fn ends_all(&self) -> bool {
        matches!(self, Self::Header(_))
    }
}

/// Reads lines of one format.
#[derive(Debug)]
pub(crate) enum Parser {
    /// OpenMetrics or Prometheus' text.
    Exposition(TimestampUnit),
    /// CSV; its header, once that was read.
    Csv(Option<CsvRows>),
    /// JSON lines.
    JsonLines,
}

impl Parser {
    /// Of a format.
    pub(crate) const fn new(format: Format) -> Self {
        match format {
            Format::Openmetrics => Self::Exposition(TimestampUnit::Seconds),
            Format::Prometheus => Self::Exposition(TimestampUnit::Milliseconds),
            Format::Csv => Self::Csv(None),
            Format::Json => Self::JsonLines,
        }
    }

    /// Of the format that a text's first line that isn't blank looks like.
    pub(crate) fn guess(line: &[u8]) -> Self {
        let line = line.trim_ascii();
        if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() && line.starts_with(b"{") {
            Self::JsonLines
        } else if CsvRows::is_header(line) {
            Self::Csv(None)
        } else {
            Self::Exposition(TimestampUnit::ByMagnitude)
        }
    }

    /// Has a line that is left out say how the others are to be read, where it is the one that does.
    pub(crate) fn note_header(&mut self, line: &[u8]) {
        match self {
            Self::Csv(header @ None) if !line.trim_ascii().is_empty() => {
                *header = CsvRows::new(line.trim_ascii()).ok();
            }
            Self::Csv(_) | Self::Exposition(_) | Self::JsonLines => {}
        }
    }

    /// What a line holds; `None` where that isn't a sample.
    pub(crate) fn parse(&mut self, line: &[u8]) -> Result<Option<LineEntry>, LineError> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        match self {
            Self::Exposition(unit) => exposition::parse(text(line)?, *unit),
            Self::JsonLines => json_lines::parse(line).map(Some),
            Self::Csv(Some(rows)) => rows.parse(line).map(Some),
            Self::Csv(header @ None) => {
                *header = Some(CsvRows::new(line)?);
                Ok(None)
            }
        }
    }
}

fn text(line: &[u8]) -> Result<&str, LineError> {
    std::str::from_utf8(line).map_err(|_invalid| LineError::NotUtf8)
}

/// Prometheus' NaN that means "no value" rather than "this series has ended".
pub(crate) const NORMAL_NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0001);
/// Prometheus' NaN that means that a series has ended.
pub(crate) const STALE_NAN: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// A value as text. `NaN` is Prometheus' own.
fn parse_value(text: &str) -> Result<f64, LineError> {
    if text == "StaleNaN" {
        return Ok(STALE_NAN);
    }
    let value: f64 = text.parse().map_err(|_| LineError::unexpected("a value", text))?;
    Ok(if value.is_nan() { NORMAL_NAN } else { value })
}

#[cfg(test)]
mod tests;

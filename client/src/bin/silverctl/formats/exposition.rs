//! The exposition formats: OpenMetrics text and Prometheus' older one.
//!
//! `name{label="value"} 1.5 1700000000 # exemplar`, and comments. What is said of metrics as a whole
//! (`HELP`, `TYPE`, `UNIT`) isn't kept, and exemplars aren't either. `# EOF` is a comment too: texts
//! that were joined have it in the middle.

use super::{LineEntry, LineError, parse_value};
use crate::label_set::{LabelSet, METRIC_NAME};

/// What timestamps count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimestampUnit {
    /// OpenMetrics' seconds, with decimals or without.
    Seconds,
    /// The older format's milliseconds.
    Milliseconds,
    /// Whole numbers that are years away as seconds are milliseconds.
    ByMagnitude,
}

/// As seconds this is the year 5138, as milliseconds 1973.
const MILLISECONDS_FROM: i64 = 100_000_000_000;

/// Reads one line; `None` for a comment.
pub(super) fn parse(line: &str, unit: TimestampUnit) -> Result<Option<LineEntry>, LineError> {
    if line.starts_with('#') {
        return Ok(None);
    }
    let (labels, rest) = parse_series(line)?;
    // An exemplar's labels may hold anything, spaces and quotes too: nothing after it is read.
    let mut words = rest.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
    let value = parse_value(words.next().ok_or(LineError::unexpected("a value", ""))?)?;
    let timestamp_ms = words.next().map(|word| parse_timestamp(word, unit)).transpose()?;
    match words.next() {
        None => Ok(Some(LineEntry { labels: LabelSet::new(labels)?, samples: vec![(timestamp_ms, value)] })),
        Some(more) => Err(LineError::unexpected("the line's end", more)),
    }
}

type LabelPairs = Vec<(String, String)>;

/// The labels that a line begins with, and the rest of it.
fn parse_series(line: &str) -> Result<(LabelPairs, &str), LineError> {
    let end = line.find(|c: char| c == '{' || c.is_ascii_whitespace()).unwrap_or(line.len());
    let (metric, rest) = line.split_at(end);
    let mut labels = Vec::new();
    if !metric.is_empty() {
        labels.push((METRIC_NAME.to_owned(), metric.to_owned()));
    }
    let rest = rest.trim_ascii_start();
    let behind = match rest.strip_prefix('{') {
        None => rest,
        Some(braces) => labels_of(braces, &mut labels)?,
    };
    Ok((labels, behind))
}

/// Reads up to the closing brace, and gives what is after it.
fn labels_of<'a>(mut rest: &'a str, labels: &mut LabelPairs) -> Result<&'a str, LineError> {
    loop {
        rest = rest.trim_ascii_start();
        if let Some(behind) = rest.strip_prefix('}') {
            return Ok(behind);
        }
        rest = label(rest, labels)?.trim_ascii_start();
        rest = match rest.strip_prefix(',') {
            Some(behind) => behind,
            None if rest.starts_with('}') => rest,
            None => return Err(LineError::unexpected("a comma or }", rest)),
        };
    }
}

/// `name="value"`, `"name"="value"`, or the metric's name alone in quotes.
fn label<'a>(text: &'a str, labels: &mut LabelPairs) -> Result<&'a str, LineError> {
    let (name, rest) = match text.strip_prefix('"') {
        Some(quoted) => {
            let (name, rest) = quoted_text(quoted)?;
            if rest.trim_ascii_start().starts_with([',', '}']) {
                labels.push((METRIC_NAME.to_owned(), name));
                return Ok(rest);
            }
            (name, rest)
        }
        None => {
            let end = text.find(['=', ',', '}', '"']).unwrap_or(text.len());
            (text[..end].trim_ascii_end().to_owned(), &text[end..])
        }
    };
    let rest = rest.trim_ascii_start();
    let value = rest.strip_prefix('=').ok_or(LineError::unexpected("=", rest))?.trim_ascii_start();
    let quoted = value.strip_prefix('"').ok_or(LineError::unexpected("a quoted value", value))?;
    let (value, rest) = quoted_text(quoted)?;
    labels.push((name, value));
    Ok(rest)
}

/// A text up to its closing quote, and what is after that. `\\`, `\"` and `\n` are escapes.
fn quoted_text(text: &str) -> Result<(String, &str), LineError> {
    let mut content = String::new();
    let mut rest = text;
    loop {
        let at = rest.find(['"', '\\']).ok_or(LineError::unexpected("a closing quote", ""))?;
        content.push_str(&rest[..at]);
        let (special, behind) = rest[at..].split_at(1);
        if special == "\"" {
            return Ok((content, behind));
        }
        rest = match behind.as_bytes().first() {
            Some(b'n') => {
                content.push('\n');
                &behind[1..]
            }
            Some(b'"' | b'\\') => {
                content.push_str(&behind[..1]);
                &behind[1..]
            }
            // Of any other the backslash stands for itself, as Prometheus has it.
            Some(_) | None => {
                content.push('\\');
                behind
            }
        };
    }
}

fn parse_timestamp(text: &str, unit: TimestampUnit) -> Result<i64, LineError> {
    let whole: Option<i64> = text.parse().ok();
    let from_seconds = || {
        let seconds: Option<f64> = text.parse().ok().filter(|seconds: &f64| seconds.is_finite());
        seconds.map(|seconds| (seconds * 1000.0).round() as i64)
    };
    let timestamp_ms = match (unit, whole) {
        (TimestampUnit::Milliseconds, whole) => whole,
        (TimestampUnit::ByMagnitude, Some(whole)) if whole >= MILLISECONDS_FROM => Some(whole),
        (TimestampUnit::Seconds | TimestampUnit::ByMagnitude, _) => from_seconds(),
    };
    timestamp_ms.ok_or_else(|| LineError::unexpected("a timestamp", text))
}

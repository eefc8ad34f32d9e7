//! A series, its samples and its native histograms, as a program hands them over.

use std::collections::BTreeMap;

use crate::histogram::Histogram;
use crate::labels::{Labels, METRIC_NAME};

/// One label set and some of its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Names ascending, each once, as the protocol wants them.
    pub(crate) labels: BTreeMap<String, String>,
    /// Timestamps in ms and values, in the order in which they were added.
    pub(crate) samples: Vec<(i64, f64)>,
    /// Native histograms, likewise.
    pub(crate) histograms: Vec<(i64, Histogram)>,
}

/// Why a text isn't a series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} isn't a series, as in up{{job=\"node\"}}: {what}")]
pub struct SeriesParseError {
    text: String,
    what: &'static str,
}

impl Series {
    /// A series without samples yet. A label that is given twice has its last value.
    pub fn new<N, V>(metric: &str, labels: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let mut all: BTreeMap<String, String> =
            labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        all.insert(METRIC_NAME.to_owned(), metric.to_owned());
        Self { labels: all, samples: Vec::new(), histograms: Vec::new() }
    }

    /// The series with one sample more: ms since the Unix epoch, and the value.
    #[must_use]
    pub fn sample(mut self, timestamp_ms: i64, value: f64) -> Self {
        self.samples.push((timestamp_ms, value));
        self
    }

    /// The series with one native histogram more: ms since the Unix epoch, and the histogram. At one time a series has
    /// a sample or a histogram.
    #[must_use]
    pub fn histogram(mut self, timestamp_ms: i64, histogram: Histogram) -> Self {
        self.histograms.push((timestamp_ms, histogram));
        self
    }

    /// Its labels, names ascending.
    pub(crate) fn labels(&self) -> Labels {
        self.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Reads `name` or `name{label="value",…}`; in values `\\`, `\"` and `\n` are escapes.
    pub fn parse(text: &str) -> Result<Self, SeriesParseError> {
        let fail = |what| SeriesParseError { text: text.to_owned(), what };
        let (metric, labels) = match text.split_once('{') {
            None => (text, ""),
            Some((metric, rest)) => {
                (metric, rest.trim_end().strip_suffix('}').ok_or(fail("the closing brace is missing"))?)
            }
        };
        let metric = metric.trim();
        if metric.is_empty() {
            return Err(fail("the name is missing"));
        }
        Ok(Self::new(metric, parse_labels(labels).map_err(fail)?))
    }
}

fn parse_labels(mut rest: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut labels = Vec::new();
    while !rest.trim_start_matches([' ', ',']).is_empty() {
        rest = rest.trim_start_matches([' ', ',']);
        let (name, after) = rest.split_once('=').ok_or("a label has no =")?;
        let quoted = after.trim_start().strip_prefix('"').ok_or("a value isn't quoted")?;
        let (value, after) = take_quoted(quoted).ok_or("a value's closing quote is missing")?;
        labels.push((name.trim().to_owned(), value));
        rest = after;
    }
    Ok(labels)
}

fn take_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (end, '"') => return Some((value, &text[end + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                plain => plain,
            }),
            (_, plain) => value.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[(&str, &str)]) {
        let labels = Series::parse(text).unwrap().labels;
        let labels: Vec<_> = labels.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(labels, expect, "{text}");
    }

    #[test]
    fn a_series_is_read_as_prometheus_writes_it() {
        check("up", &[("__name__", "up")]);
        check("up{}", &[("__name__", "up")]);
        check(r#"up{job="a", Zone = "b"}"#, &[("Zone", "b"), ("__name__", "up"), ("job", "a")]);
        check(r#"x{a="q\"\\\nz,}"}"#, &[("__name__", "x"), ("a", "q\"\\\nz,}")]);
    }

    #[test]
    fn what_is_no_series_is_told() {
        for text in ["", "{}", "up{", "up{a}", "up{a=b}", "up{a=\"b}"] {
            assert!(Series::parse(text).is_err(), "{text}");
        }
    }
}

//! Warnings and infos of an evaluation: each once, in Prometheus' words, with its place in the expression.

use std::cell::RefCell;

use silverback_model::utc::format_rfc3339;

use crate::number::{format_general, format_two_digits, quote};
use crate::span::{TextSpan, line_and_column};

/// What an operation on histograms was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HistogramOperation {
    Addition,
    Subtraction,
    Aggregation,
}

impl HistogramOperation {
    const fn text(self) -> &'static str {
        match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Aggregation => "aggregation",
        }
    }
}

/// What was noticed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Note {
    InvalidQuantile(f64),
    InvalidRatio { given: f64, used: f64 },
    BadBucketLabel { metric: String, value: String },
    MixedFloatsHistograms(String),
    MixedFloatsHistogramsAggregation,
    MixedClassicNative(String),
    HistogramNotCounter(String),
    HistogramNotGauge(String),
    MixedExponentialCustom(String),
    IncompatibleLayout(&'static str),
    SortInRange,
    PossibleNonCounter(String),
    ForcedMonotonicity { metric: String, monotonicity: Monotonicity },
    IncompatibleTypes { operator: &'static str, left: &'static str, right: &'static str },
    HistogramIgnoredInAggregation(&'static str),
    HistogramIgnoredInMixedRange(String),
    QuantileOfNan(String),
    QuantileSkewedByNan(String),
    FractionOfNan(String),
    ResetCollision(HistogramOperation),
    MismatchedCustomBuckets(HistogramOperation),
}

/// What was fixed in a classic histogram's buckets, where and how often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Monotonicity {
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    pub(crate) difference: f64,
    pub(crate) samples: usize,
}

impl Note {
    const fn is_info(&self) -> bool {
        match self {
            Self::InvalidQuantile(_)
            | Self::InvalidRatio { .. }
            | Self::BadBucketLabel { .. }
            | Self::MixedFloatsHistograms(_)
            | Self::MixedFloatsHistogramsAggregation
            | Self::MixedClassicNative(_)
            | Self::HistogramNotCounter(_)
            | Self::HistogramNotGauge(_)
            | Self::MixedExponentialCustom(_)
            | Self::IncompatibleLayout(_)
            | Self::SortInRange
            | Self::ResetCollision(_) => false,
            Self::PossibleNonCounter(_)
            | Self::ForcedMonotonicity { .. }
            | Self::IncompatibleTypes { .. }
            | Self::HistogramIgnoredInAggregation(_)
            | Self::HistogramIgnoredInMixedRange(_)
            | Self::QuantileOfNan(_)
            | Self::QuantileSkewedByNan(_)
            | Self::FractionOfNan(_)
            | Self::MismatchedCustomBuckets(_) => true,
        }
    }

    fn words(&self) -> String {
        let for_metric = |words: &str, metric: &str| match metric.is_empty() {
            true => words.to_owned(),
            false => format!("{words} for metric name {}", quote(metric)),
        };
        match self {
            Self::InvalidQuantile(q) => {
                format!("quantile value should be between 0 and 1, got {}", format_general(*q))
            }
            Self::InvalidRatio { given, used } => format!(
                "ratio value should be between -1 and 1, got {}, capping to {}",
                format_general(*given),
                format_general(*used)
            ),
            Self::BadBucketLabel { metric, value } => for_metric(
                &format!("bucket label \"le\" is missing or has a malformed value of {}", quote(value)),
                metric,
            ),
            Self::MixedFloatsHistograms(metric) => {
                format!("encountered a mix of histograms and floats for metric name {}", quote(metric))
            }
            Self::MixedFloatsHistogramsAggregation => {
                "encountered a mix of histograms and floats for aggregation".to_owned()
            }
            Self::MixedClassicNative(metric) => {
                for_metric("vector contains a mix of classic and native histograms", metric)
            }
            Self::HistogramNotCounter(metric) => {
                format!("this native histogram metric is not a counter: {}", quote(metric))
            }
            Self::HistogramNotGauge(metric) => {
                format!("this native histogram metric is not a gauge: {}", quote(metric))
            }
            Self::MixedExponentialCustom(metric) => format!(
                "vector contains a mix of histograms with exponential and custom buckets schemas for metric name {}",
                quote(metric)
            ),
            Self::IncompatibleLayout(operator) => {
                format!("incompatible bucket layout encountered for binary operator {operator}")
            }
            Self::SortInRange => {
                "sort is ineffective for range queries since results are always ordered by labels".to_owned()
            }
            Self::PossibleNonCounter(metric) => format!(
                "metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {}",
                quote(metric)
            ),
            Self::ForcedMonotonicity { metric, monotonicity } => {
                let base = for_metric(
                    "input to histogram_quantile needed to be fixed for monotonicity (see \
                     https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)",
                    metric,
                );
                let Monotonicity { first_ms, last_ms, lowest, highest, difference, samples } = *monotonicity;
                let second = |ms: i64| format_rfc3339(ms - ms.rem_euclid(1000));
                format!(
                    "{base}, from buckets {} to {}, with a max diff of {}, over {samples} samples from {} to {}",
                    format_general(lowest),
                    format_general(highest),
                    format_two_digits(difference),
                    second(first_ms),
                    second(last_ms)
                )
            }
            Self::IncompatibleTypes { operator, left, right } => format!(
                "incompatible sample types encountered for binary operator {}: {left} {operator} {right}",
                quote(operator)
            ),
            Self::HistogramIgnoredInAggregation(name) => format!("ignored histogram in {name} aggregation"),
            Self::HistogramIgnoredInMixedRange(metric) => format!(
                "ignored histograms in a range containing both floats and histograms for metric name {}",
                quote(metric)
            ),
            Self::QuantileOfNan(metric) => {
                for_metric("input to histogram_quantile has NaN observations, result is NaN", metric)
            }
            Self::QuantileSkewedByNan(metric) => for_metric(
                "input to histogram_quantile has NaN observations, result is skewed higher",
                metric,
            ),
            Self::FractionOfNan(metric) => for_metric(
                "input to histogram_fraction has NaN observations, which are excluded from all fractions",
                metric,
            ),
            Self::ResetCollision(operation) => {
                format!("conflicting counter resets during histogram {}", operation.text())
            }
            Self::MismatchedCustomBuckets(operation) => {
                format!("mismatched custom buckets were reconciled during {}", operation.text())
            }
        }
    }

    /// Whether another note says the same; then this one takes what the other counted.
    fn absorbs(&mut self, other: &Self) -> bool {
        if let (
            Self::ForcedMonotonicity { metric, monotonicity: ours },
            Self::ForcedMonotonicity { metric: other_metric, monotonicity: theirs },
        ) = (&mut *self, other)
        {
            if metric != other_metric {
                return false;
            }
            ours.first_ms = ours.first_ms.min(theirs.first_ms);
            ours.last_ms = ours.last_ms.max(theirs.last_ms);
            ours.lowest = ours.lowest.min(theirs.lowest);
            ours.highest = ours.highest.max(theirs.highest);
            ours.difference = ours.difference.max(theirs.difference);
            ours.samples += theirs.samples;
            return true;
        }
        // NaN is the same as NaN here.
        self == other || (matches!(self, Self::InvalidQuantile(_)) && self.words() == other.words())
    }
}

/// So many warnings and so many infos are shown; of others the number.
const SHOWN_MAX: usize = 10;
/// More are not kept: they are only counted.
const KEPT_MAX: usize = 100;

/// The notes of one evaluation.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    kept: RefCell<Vec<(Note, TextSpan)>>,
}

impl Notes {
    pub(crate) fn add(&self, note: Note, span: TextSpan) {
        let mut kept = self.kept.borrow_mut();
        // The same note comes again at each step: it is mostly the last. Its place is the one where it came last.
        for (other, place) in kept.iter_mut().rev() {
            if other.absorbs(&note) {
                *place = span;
                return;
            }
        }
        if kept.len() < KEPT_MAX {
            kept.push((note, span));
        }
    }

    /// All of them, for other notes to take.
    pub(crate) fn into_kept(self) -> Vec<(Note, TextSpan)> {
        self.kept.into_inner()
    }

    /// Warnings and infos with their places in a text.
    pub(crate) fn in_text(&self, text: &str) -> (Vec<String>, Vec<String>) {
        let shown = |is_info: bool| {
            let kept = self.kept.borrow();
            let of_kind: Vec<_> = kept.iter().filter(|(note, _)| note.is_info() == is_info).collect();
            let kind = if is_info { "info" } else { "warning" };
            let mut texts: Vec<_> = of_kind
                .iter()
                .take(SHOWN_MAX)
                .map(|(note, span)| {
                    format!("PromQL {kind}: {} ({})", note.words(), line_and_column(text, span.start))
                })
                .collect();
            if of_kind.len() > SHOWN_MAX {
                let more = of_kind.len() - SHOWN_MAX;
                texts.push(format!("{more} more {kind} annotations omitted"));
            }
            texts
        };
        (shown(false), shown(true))
    }
}

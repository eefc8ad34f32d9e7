//! Instant selectors with `smoothed`: at each step the value between the samples around it.

use std::rc::Rc;

use silverback_model::Labels;

use super::labels::metric_name;
use super::series::SeriesColumn;
use super::{Evaluator, Samples};
use crate::histogram::{FloatHistogram, HistogramAccumulator, Incompatible, ResetHint};
use crate::notes::{HistogramOperation, Note};
use crate::plan::{InstantSelector, Times};

/// Where a time is among the times of samples.
enum TimePosition {
    At(usize),
    Between(usize),
    After(usize),
    Before,
}

fn place(times: &[i64], at_ms: i64) -> TimePosition {
    let next = times.partition_point(|time| *time < at_ms);
    match next {
        next if times.get(next) == Some(&at_ms) => TimePosition::At(next),
        0 => TimePosition::Before,
        next if next == times.len() => TimePosition::After(next - 1),
        next => TimePosition::Between(next - 1),
    }
}

impl Evaluator<'_> {
    /// A series at all steps. Samples are looked at from a lookback before each step to one after it.
    pub(super) fn smoothed(
        &self,
        samples: &Samples,
        labels: &Labels,
        moment: &InstantSelector,
        times: Times,
    ) -> SeriesColumn {
        let lookback_ms = self.plan.options.lookback_ms;
        let mut column = SeriesColumn::absent(times.count);
        for (step, at_ms) in times.all().enumerate() {
            let at_ms = moment.shift.of(at_ms);
            let within = |all: &[i64]| {
                let first = all.partition_point(|time| *time <= at_ms.saturating_sub(lookback_ms));
                first..all.partition_point(|time| *time <= at_ms.saturating_add(lookback_ms)).max(first)
            };
            let (floats, histograms) = (within(&samples.float_times), within(&samples.histogram_times));
            if !floats.is_empty() && !histograms.is_empty() {
                self.notes.add(Note::MixedFloatsHistograms(metric_name(labels).to_owned()), moment.span);
            } else if !histograms.is_empty() {
                let (all, values) =
                    (&samples.histogram_times[histograms.clone()], &samples.histograms[histograms]);
                if let Some(histogram) = self.between_histograms(all, values, at_ms, labels, moment) {
                    column.set_histogram(step, histogram);
                }
            } else if let Some(value) =
                between(&samples.float_times[floats.clone()], &samples.floats[floats], at_ms)
            {
                column.floats[step] = value;
            }
        }
        column
    }

    fn between_histograms(
        &self,
        times: &[i64],
        values: &[Rc<FloatHistogram>],
        at_ms: i64,
        labels: &Labels,
        moment: &InstantSelector,
    ) -> Option<Rc<FloatHistogram>> {
        let at = match place(times, at_ms) {
            TimePosition::At(at) => return Some(Rc::clone(&values[at])),
            // What it says of the one before it isn't said of its value.
            TimePosition::After(last) => return Some(values[last].without_reset_hint()),
            TimePosition::Before => return None,
            TimePosition::Between(at) => at,
        };
        let (before, after) = (&values[at], &values[at + 1]);
        let share = (at_ms - times[at]) as f64 / (times[at + 1] - times[at]) as f64;
        let is_gauge = |histogram: &FloatHistogram| histogram.reset_hint == ResetHint::Gauge;
        let is_counter = !is_gauge(before) || !is_gauge(after);
        match mix(before, after, share, is_counter) {
            Ok((histogram, is_reconciled)) => {
                if is_reconciled {
                    let note = Note::MismatchedCustomBuckets(HistogramOperation::Subtraction);
                    self.notes.add(note, moment.span);
                }
                Some(Rc::new(histogram))
            }
            Err(Incompatible) => {
                self.notes.add(Note::MixedExponentialCustom(metric_name(labels).to_owned()), moment.span);
                None
            }
        }
    }
}

fn between(times: &[i64], values: &[f64], at_ms: i64) -> Option<f64> {
    match place(times, at_ms) {
        TimePosition::At(at) | TimePosition::After(at) => Some(values[at]),
        TimePosition::Before => None,
        TimePosition::Between(at) => {
            let (from, to) = (values[at], values[at + 1]);
            Some(from + (to - from) * (at_ms - times[at]) as f64 / (times[at + 1] - times[at]) as f64)
        }
    }
}

/// A histogram between two; a counter that started again grows from zero.
fn mix(
    before: &FloatHistogram,
    after: &FloatHistogram,
    share: f64,
    is_counter: bool,
) -> Result<(FloatHistogram, bool), Incompatible> {
    if before.has_custom_buckets() != after.has_custom_buckets() {
        return Err(Incompatible);
    }
    if is_counter && after.is_reset_after(before) {
        return Ok((after.multiplied(share), false));
    }
    let mut tally = HistogramAccumulator::first(after);
    let combined = tally.subtract(before)?;
    let mut tally = HistogramAccumulator::first(&tally.sum().multiplied(share));
    tally.add(before)?;
    Ok((tally.sum(), combined.is_reconciled))
}

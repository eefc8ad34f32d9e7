//! Rates of native histograms.

use std::rc::Rc;

use super::rate::{RateKind, factor};
use super::window::{FunctionContext, StepValue, StepView};
use crate::ast::Edge;
use crate::histogram::{Combined, FloatHistogram, HistogramAccumulator, Incompatible, ResetHint};
use crate::notes::{HistogramOperation, Note};

/// As `rate` of floats.
pub(super) fn extrapolated(context: &FunctionContext<'_>, view: &StepView<'_>, kind: RateKind) -> StepValue {
    if view.histograms.len() < 2 {
        return StepValue::Nothing;
    }
    let Some(result) = difference(context, view.histograms, kind) else { return StepValue::Nothing };
    let first = view.histograms[0].count;
    let zero = (kind.is_counter && result.count > 0.0 && first >= 0.0).then(|| first / result.count);
    let factor = factor(context, view, view.histogram_times, zero, kind);
    StepValue::Histogram(Rc::new(result.multiplied(factor)))
}

/// From the first to the last, with what a counter had before each time that it began again.
fn difference(
    context: &FunctionContext<'_>,
    histograms: &[Rc<FloatHistogram>],
    kind: RateKind,
) -> Option<FloatHistogram> {
    let (first, last) = (&histograms[0], &histograms[histograms.len() - 1]);
    let is_gauge = |histogram: &FloatHistogram| histogram.reset_hint == ResetHint::Gauge;
    if kind.is_counter && histograms.iter().any(|histogram| is_gauge(histogram)) {
        context.note(Note::HistogramNotCounter(context.metric()));
    }
    let mixed = || {
        context.note(Note::MixedExponentialCustom(context.metric()));
        None
    };
    // What the first has doesn't matter where the counter begins again at the second.
    let starts_anew = kind.is_counter && histograms[1].is_reset_after(first);
    let empty = Rc::new(FloatHistogram {
        schema: histograms[1].schema,
        custom_bounds: histograms[1].custom_bounds.clone(),
        ..FloatHistogram::default()
    });
    let first = if starts_anew { &empty } else { first };
    let is_custom = first.has_custom_buckets();
    let between = &histograms[1..histograms.len() - 1];
    if last.has_custom_buckets() != is_custom
        || (kind.is_counter && between.iter().any(|histogram| histogram.has_custom_buckets() != is_custom))
    {
        return mixed();
    }
    let mut tally = HistogramAccumulator::first(last);
    let Ok(combined) = tally.subtract(first) else { return mixed() };
    note_reconciled(context, combined, HistogramOperation::Subtraction);
    if kind.is_counter {
        let mut before = first;
        for histogram in &histograms[1..] {
            if histogram.is_reset_after(before) {
                let Ok(combined) = tally.add(before) else { return mixed() };
                note_reconciled(context, combined, HistogramOperation::Addition);
            }
            before = histogram;
        }
    } else if !is_gauge(&histograms[0]) || !is_gauge(last) {
        context.note(Note::HistogramNotGauge(context.metric()));
    }
    Some(FloatHistogram { reset_hint: ResetHint::Gauge, ..tally.sum() })
}

fn note_reconciled(context: &FunctionContext<'_>, combined: Combined, operation: HistogramOperation) {
    if combined.is_reconciled {
        context.note(Note::MismatchedCustomBuckets(operation));
    }
}

/// `irate` and `idelta`.
pub(super) fn instant(
    context: &FunctionContext<'_>,
    before: &FloatHistogram,
    last: &FloatHistogram,
    is_rate: bool,
    seconds: f64,
) -> StepValue {
    let are_gauges = [before, last].map(|histogram| histogram.reset_hint == ResetHint::Gauge);
    if is_rate && are_gauges.contains(&true) {
        context.note(Note::HistogramNotCounter(context.metric()));
    }
    if !is_rate && are_gauges.contains(&false) {
        context.note(Note::HistogramNotGauge(context.metric()));
    }
    let mut tally = HistogramAccumulator::first(last);
    if !is_rate || !last.is_reset_after(before) {
        match tally.subtract(before) {
            Ok(combined) => note_reconciled(context, combined, HistogramOperation::Subtraction),
            Err(Incompatible) => {
                context.note(Note::MixedExponentialCustom(context.metric()));
                return StepValue::Nothing;
            }
        }
    }
    let mut result = FloatHistogram { reset_hint: ResetHint::Gauge, ..tally.sum() };
    if is_rate {
        result = result.divided(seconds);
    }
    StepValue::Histogram(Rc::new(result))
}

/// Between the range's edges exactly.
pub(super) fn extended(context: &FunctionContext<'_>, view: &StepView<'_>, kind: RateKind) -> StepValue {
    match between_edges(context, view, kind) {
        Ok(Some(result)) => StepValue::Histogram(Rc::new(result)),
        Ok(None) => StepValue::Nothing,
        Err(Incompatible) => {
            context.note(Note::MixedExponentialCustom(context.metric()));
            StepValue::Nothing
        }
    }
}

fn between_edges(
    context: &FunctionContext<'_>,
    view: &StepView<'_>,
    kind: RateKind,
) -> Result<Option<FloatHistogram>, Incompatible> {
    let (values, times) = (view.histograms, view.histogram_times);
    let is_smoothed = context.window.source.edge == Edge::Smoothed;
    let mut last = values.len() - 1;
    let first = times[..last].partition_point(|time| *time <= view.start_ms).saturating_sub(1);
    if is_smoothed {
        last = times[..last].partition_point(|time| *time < view.end_ms);
    }
    if times[last] <= view.start_ms || (is_smoothed && times[first] > view.end_ms) {
        return Ok(None);
    }
    let seen = &values[first..=last.max(first)];
    if seen.iter().any(|value| value.has_custom_buckets() != seen[0].has_custom_buckets()) {
        return Err(Incompatible);
    }
    let is_gauge = |value: &FloatHistogram| value.reset_hint == ResetHint::Gauge;
    if kind.is_counter && seen.iter().any(|value| is_gauge(value)) {
        context.note(Note::HistogramNotCounter(context.metric()));
    }
    let cuts_left = is_smoothed && times[first] < view.start_ms;
    let left = match cuts_left {
        true => between(context, view, first, view.start_ms, kind)?,
        false => FloatHistogram::clone(&values[first]),
    };
    let right = match is_smoothed && last > 0 && times[last] > view.end_ms {
        true => between(context, view, last - 1, view.end_ms, kind)?,
        false => FloatHistogram::clone(&values[last]),
    };
    if !kind.is_counter && (!is_gauge(&left) || !is_gauge(&right)) {
        context.note(Note::HistogramNotGauge(context.metric()));
    }
    let mut tally = HistogramAccumulator::first(&right);
    note_reconciled(context, tally.subtract(&left)?, HistogramOperation::Subtraction);
    if kind.is_counter {
        let mut before = &left;
        let mut from = first + 1;
        if cuts_left && values[first + 1].is_reset_after(&values[first]) {
            before = &values[first + 1];
            from += 1;
        }
        if from <= last {
            for value in values[from..last].iter().map(|value| &**value).chain([&right]) {
                if value.is_reset_after(before) {
                    note_reconciled(context, tally.add(before)?, HistogramOperation::Addition);
                }
                before = value;
            }
        }
    }
    let mut result = tally.sum();
    if kind.is_per_second {
        result = result.divided(context.range_s());
    }
    Ok(Some(FloatHistogram { reset_hint: ResetHint::Gauge, ..result }))
}

/// The histogram between one and the next at a time.
fn between(
    context: &FunctionContext<'_>,
    view: &StepView<'_>,
    from: usize,
    at_ms: i64,
    kind: RateKind,
) -> Result<FloatHistogram, Incompatible> {
    let (before, after) = (&view.histograms[from], &view.histograms[from + 1]);
    let (before_ms, after_ms) = (view.histogram_times[from], view.histogram_times[from + 1]);
    if at_ms == before_ms || at_ms == after_ms {
        return Ok(FloatHistogram::clone(if at_ms == before_ms { before } else { after }));
    }
    let share = (at_ms - before_ms) as f64 / (after_ms - before_ms) as f64;
    if kind.is_counter && after.is_reset_after(before) {
        return Ok(after.multiplied(share));
    }
    let mut tally = HistogramAccumulator::first(after);
    note_reconciled(context, tally.subtract(before)?, HistogramOperation::Subtraction);
    let mut tally = HistogramAccumulator::first(&tally.sum().multiplied(share));
    note_reconciled(context, tally.add(before)?, HistogramOperation::Addition);
    Ok(tally.sum())
}

//! What each function over a range gives for one window.

use std::rc::Rc;

use super::Evaluator;
use super::abreast::{Lines, Range, Variances, through_one};
use super::math::{Mean, Sum, quantile};
use super::rate::{self, RateKind};
use super::window::{FunctionContext, StepValue, StepView};
use super::window_histograms;
use crate::ast::Edge;
use crate::error::QueryError;
use crate::functions::Function;
use crate::notes::Note;
use crate::number::format_fixed;
use crate::plan::RangeFunction;

/// What a function does with a window, in values looked at.
pub(super) fn work(function: Function, view: &StepView<'_>) -> usize {
    match function {
        Function::Rate
        | Function::Increase
        | Function::Delta
        | Function::Irate
        | Function::Idelta
        | Function::CountOverTime
        | Function::FirstOverTime
        | Function::LastOverTime
        | Function::PresentOverTime
        | Function::AbsentOverTime => 1 + view.resets.len() + 64 * view.histograms.len(),
        _other => view.floats.len() + 64 * view.histograms.len(),
    }
}

/// Whether a function's numbers are in their bounds.
pub(super) fn check_parameters(window: &RangeFunction, parameters: &[Vec<f64>]) -> Result<(), QueryError> {
    if window.function != Function::DoubleExponentialSmoothing {
        return Ok(());
    }
    for (name, short, values) in [("smoothing", "sf", &parameters[0]), ("trend", "tf", &parameters[1])] {
        if let Some(bad) = values.iter().find(|value| !(**value > 0.0 && **value < 1.0)) {
            let bad = format_fixed(*bad);
            let words = format!("invalid {name} factor. Expected: 0 < {short} < 1, got: {bad}");
            return Err(QueryError::execution(words));
        }
    }
    Ok(())
}

/// What a function gives at one step. The window holds a sample at least.
#[inline]
pub(super) fn apply(context: &FunctionContext<'_>, view: &StepView<'_>) -> StepValue {
    match context.window.function {
        Function::Rate => {
            rate::extrapolated(context, view, RateKind { is_counter: true, is_per_second: true })
        }
        Function::Increase => {
            rate::extrapolated(context, view, RateKind { is_counter: true, is_per_second: false })
        }
        Function::Delta => {
            rate::extrapolated(context, view, RateKind { is_counter: false, is_per_second: false })
        }
        Function::Irate => rate::instant(context, view, true),
        Function::Idelta => rate::instant(context, view, false),
        Function::CountOverTime => StepValue::Float((view.floats.len() + view.histograms.len()) as f64),
        Function::PresentOverTime | Function::AbsentOverTime => StepValue::Float(1.0),
        Function::FirstOverTime => first(view),
        Function::LastOverTime => last(view),
        Function::SumOverTime => same_kind(context, view, sum, window_histograms::sum),
        Function::AvgOverTime => same_kind(context, view, avg, window_histograms::avg),
        Function::Changes => {
            count_pairs(context, view, |left, right| left != right && !(left.is_nan() && right.is_nan()))
        }
        Function::Resets => count_pairs(context, view, |left, right| right < left),
        Function::TsOfFirstOverTime => {
            let times = [view.float_times.first(), view.histogram_times.first()];
            seconds(times.into_iter().flatten().min())
        }
        Function::TsOfLastOverTime => {
            let times = [view.float_times.last(), view.histogram_times.last()];
            seconds(times.into_iter().flatten().max())
        }
        other => of_floats(context, view, other),
    }
}

fn seconds(time: Option<&i64>) -> StepValue {
    time.map_or(StepValue::Nothing, |ms| StepValue::Float(*ms as f64 / 1000.0))
}

/// Functions that leave out histograms.
fn of_floats(context: &FunctionContext<'_>, view: &StepView<'_>, function: Function) -> StepValue {
    let (values, parameters) = (view.floats, context.parameters);
    let wants_two =
        matches!(function, Function::Deriv | Function::PredictLinear | Function::DoubleExponentialSmoothing);
    if values.is_empty() {
        return StepValue::Nothing;
    }
    if function == Function::QuantileOverTime {
        note_quantile(context.evaluator, context.window, parameters[0]);
    }
    if !view.histograms.is_empty() {
        context.note(Note::HistogramIgnoredInMixedRange(context.metric()));
    }
    if wants_two && values.len() < 2 {
        return StepValue::Nothing;
    }
    StepValue::Float(match function {
        Function::MinOverTime => values[best(values, |new, old| new < old || old.is_nan())],
        Function::MaxOverTime => values[best(values, |new, old| new > old || old.is_nan())],
        Function::TsOfMinOverTime => time_of(view, best(values, |new, old| new <= old || old.is_nan())),
        Function::TsOfMaxOverTime => time_of(view, best(values, |new, old| new >= old || old.is_nan())),
        Function::QuantileOverTime => quantile(parameters[0], &mut values.to_vec()),
        Function::MadOverTime => deviation_from_median(values),
        Function::StddevOverTime => variance(view).sqrt(),
        Function::StdvarOverTime => variance(view),
        Function::Deriv => regression(view, view.float_times[0]).0,
        Function::PredictLinear => {
            let (slope, intercept) = regression(view, view.step_ms);
            slope * parameters[0] + intercept
        }
        Function::DoubleExponentialSmoothing => smoothing(values, parameters[0], parameters[1]),
        _not_over_ranges => return StepValue::Nothing,
    })
}

pub(super) fn note_quantile(evaluator: &Evaluator<'_>, window: &RangeFunction, q: f64) {
    if !(0.0..=1.0).contains(&q) {
        evaluator.notes.add(Note::InvalidQuantile(q), window.first_span);
    }
}

fn time_of(view: &StepView<'_>, at: usize) -> f64 {
    view.float_times[at] as f64 / 1000.0
}

fn first(view: &StepView<'_>) -> StepValue {
    match (view.float_times.first(), view.histogram_times.first()) {
        (Some(float), Some(histogram)) if histogram <= float => {
            StepValue::Histogram(Rc::clone(&view.histograms[0]))
        }
        (Some(_), _) => StepValue::Float(view.floats[0]),
        (None, Some(_)) => StepValue::Histogram(Rc::clone(&view.histograms[0])),
        (None, None) => StepValue::Nothing,
    }
}

fn last(view: &StepView<'_>) -> StepValue {
    let of_histogram = || StepValue::Histogram(Rc::clone(&view.histograms[view.histograms.len() - 1]));
    match (view.float_times.last(), view.histogram_times.last()) {
        (Some(float), Some(histogram)) if histogram >= float => of_histogram(),
        (Some(_), _) => StepValue::Float(view.floats[view.floats.len() - 1]),
        (None, Some(_)) => of_histogram(),
        (None, None) => StepValue::Nothing,
    }
}

/// Floats alone or histograms alone.
fn same_kind(
    context: &FunctionContext<'_>,
    view: &StepView<'_>,
    floats: impl Fn(&[f64]) -> f64,
    histograms: impl Fn(&FunctionContext<'_>, &StepView<'_>) -> StepValue,
) -> StepValue {
    match (view.floats.is_empty(), view.histograms.is_empty()) {
        (false, true) => StepValue::Float(floats(view.floats)),
        (true, false) => histograms(context, view),
        (false, false) => {
            context.note(Note::MixedFloatsHistograms(context.metric()));
            StepValue::Nothing
        }
        (true, true) => StepValue::Nothing,
    }
}

pub(super) fn sum(values: &[f64]) -> f64 {
    let mut sum = Sum::default();
    values.iter().for_each(|value| sum.add(*value));
    if sum.value.is_infinite() { sum.value } else { sum.total() }
}

pub(super) fn avg(values: &[f64]) -> f64 {
    let mut mean = Mean::first(values[0]);
    values[1..].iter().for_each(|value| mean.add(*value));
    mean.total()
}

/// The place of the value that no other is better than.
#[inline]
pub(super) fn best(values: &[f64], is_better: impl Fn(f64, f64) -> bool) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if is_better(*value, values[best]) {
            best = at;
        }
    }
    best
}

fn deviation_from_median(values: &[f64]) -> f64 {
    if values.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    let mut values = values.to_vec();
    let median = quantile(0.5, &mut values);
    values.iter_mut().for_each(|value| *value = (*value - median).abs());
    quantile(0.5, &mut values)
}

fn variance(view: &StepView<'_>) -> f64 {
    // Times don't matter.
    let range = Range { times: view.float_times, values: view.floats, from_ms: 0 };
    through_one(range, Variances::default()).variance()
}

/// The slope a second of a line through the values, and its value at a time.
fn regression(view: &StepView<'_>, from_ms: i64) -> (f64, f64) {
    let range = Range { times: view.float_times, values: view.floats, from_ms };
    through_one(range, Lines::of([view.floats[0]])).slope_and_start()
}

/// Holt and Winters' double exponential smoothing.
fn smoothing(values: &[f64], factor: f64, trend_factor: f64) -> f64 {
    let (mut before, mut smoothed, mut trend) = (0.0, values[0], values[1] - values[0]);
    for (i, value) in values.iter().enumerate().skip(1) {
        let scaled = factor * value;
        if i > 1 {
            trend = trend_factor * (smoothed - before) + (1.0 - trend_factor) * trend;
        }
        let next = scaled + (1.0 - factor) * (smoothed + trend);
        (before, smoothed) = (smoothed, next);
    }
    smoothed
}

/// Among neighbours in time, those of whom the second has changed or begun again. A float and a histogram always
/// differ.
fn count_pairs(
    context: &FunctionContext<'_>,
    view: &StepView<'_>,
    floats: impl Fn(f64, f64) -> bool,
) -> StepValue {
    let Some((mut float, mut histogram)) = first_places(context, view) else { return StepValue::Nothing };
    let is_change = context.window.function == Function::Changes;
    let (mut count, mut before) = (0_usize, None);
    loop {
        let is_float = match (view.float_times.get(float), view.histogram_times.get(histogram)) {
            (None, None) => return StepValue::Float(count as f64),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => left < right,
        };
        let sample = if is_float { Ok(view.floats[float]) } else { Err(&*view.histograms[histogram]) };
        let counts = match (before, sample) {
            (None, _) => false,
            (Some(Ok(left)), Ok(right)) => floats(left, right),
            (Some(Err(left)), Err(right)) if is_change => !right.equals(left),
            (Some(Err(left)), Err(right)) => right.is_reset_after(left),
            (Some(Ok(_)), Err(_)) | (Some(Err(_)), Ok(_)) => true,
        };
        count += usize::from(counts);
        before = Some(sample);
        if is_float {
            float += 1;
        } else {
            histogram += 1;
        }
    }
}

/// From which samples on pairs count: an anchored range begins with the last sample before it.
fn first_places(context: &FunctionContext<'_>, view: &StepView<'_>) -> Option<(usize, usize)> {
    if context.window.source.edge != Edge::Anchored {
        return Some((0, 0));
    }
    let floats = view.float_times.partition_point(|time| *time <= view.start_ms);
    let histograms = view.histogram_times.partition_point(|time| *time <= view.start_ms);
    if floats >= view.floats.len() && histograms >= view.histograms.len() {
        return None;
    }
    let float = floats.checked_sub(1).map(|last| view.float_times[last]);
    let histogram = histograms.checked_sub(1).map(|last| view.histogram_times[last]);
    Some(match (float, histogram) {
        (None, None) => (0, 0),
        (Some(float), Some(histogram)) if float < histogram => (floats, histograms - 1),
        (Some(_), _) => (floats - 1, histograms),
        (None, Some(_)) => (floats, histograms - 1),
    })
}

//! `rate`, `increase`, `delta` and their likes, over floats and over histograms.

use std::rc::Rc;

use super::window::{FunctionContext, StepValue, StepView};
use crate::ast::Edge;
use crate::budget::{Held, PIECE, Pacing};
use crate::error::QueryError;
use crate::functions::Function;
use crate::notes::Note;

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateKind {
    pub(super) is_counter: bool,
    pub(super) is_per_second: bool,
}

/// Whether a function goes over a counter's resets.
pub(super) fn wants_resets(function: Function) -> bool {
    matches!(function, Function::Rate | Function::Increase)
}

impl RateKind {
    /// Whether a counter rose from zero or more.
    #[inline(always)]
    fn has_zero(self, first: f64, result: f64) -> bool {
        self.is_counter && result > 0.0 && first >= 0.0
    }
}

/// The places of the values that are below the one before them, which are held.
pub(super) async fn resets(
    values: &[f64],
    held: &mut Held<'_>,
    pacing: &Pacing<'_>,
) -> Result<Vec<usize>, QueryError> {
    let (mut places, mut first) = (Vec::new(), 1);
    while first < values.len() {
        let end = values.len().min(first + PIECE);
        let (before, later) = (&values[first - 1..end - 1], &values[first..end]);
        // Mostly there are none, which is quicker to see without a branch for each.
        let count: usize = before.iter().zip(later).map(|(before, value)| usize::from(value < before)).sum();
        if count > 0 {
            held.add(0, count * size_of::<usize>())?;
            places.reserve_exact(count);
            let pairs = before.iter().zip(later).zip(first..);
            places.extend(pairs.filter(|((before, value), _)| value < before).map(|(_, place)| place));
        }
        pacing.spent(end - first).await?;
        first = end;
    }
    Ok(places)
}

/// From the first sample to the last, and on to the range's edges where they are near.
pub(super) fn extrapolated(context: &FunctionContext<'_>, view: &StepView<'_>, kind: RateKind) -> StepValue {
    if !view.floats.is_empty() && !view.histograms.is_empty() {
        context.note(Note::MixedFloatsHistograms(context.metric()));
        return StepValue::Nothing;
    }
    if context.window.source.edge != Edge::Plain {
        return match view.floats.is_empty() {
            true => super::rate_histograms::extended(context, view, kind),
            false => extended(context, view, kind),
        };
    }
    match view.floats.is_empty() {
        true => super::rate_histograms::extrapolated(context, view, kind),
        false => floats(context, view, kind),
    }
}

#[inline]
fn floats(context: &FunctionContext<'_>, view: &StepView<'_>, kind: RateKind) -> StepValue {
    let (values, times) = (view.floats, view.float_times);
    let last = values.len() - 1;
    if last == 0 {
        return StepValue::Nothing;
    }
    let mut result = values[last] - values[0];
    if kind.is_counter {
        for place in view.resets {
            result += values[place - view.first - 1];
        }
    }
    let zero = kind.has_zero(values[0], result).then(|| values[0] / result);
    let factor = factor(context, view, times, zero, kind);
    StepValue::Float(result * factor)
}

/// By how much a difference grows, from the samples' time to the range. `zero_share`: how far before the first
/// sample a counter was zero, as a share of the samples' time.
pub(super) fn factor(
    context: &FunctionContext<'_>,
    view: &StepView<'_>,
    times: &[i64],
    zero_share: Option<f64>,
    kind: RateKind,
) -> f64 {
    let (first_ms, last_ms) = (times[0], times[times.len() - 1]);
    let sampled = Sampled {
        before_ms: first_ms - view.start_ms,
        between_ms: last_ms - first_ms,
        after_ms: view.end_ms - last_ms,
        count: times.len(),
    };
    let extrapolation = sampled.extrapolation(kind, context.range_s());
    zero_share.map_or(extrapolation.factor, |share| extrapolation.factor_from(share))
}

/// Where the samples of a range are in it: how long before the first of them it begins, how long they last, and how
/// long after the last of them it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sampled {
    pub(super) before_ms: i64,
    pub(super) between_ms: i64,
    pub(super) after_ms: i64,
    /// Two at least.
    pub(super) count: usize,
}

/// From the samples' time to the range's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extrapolation {
    kind: RateKind,
    range_s: f64,
    sampled_s: f64,
    to_start_s: f64,
    to_end_s: f64,
    /// By how much a difference grows.
    factor: f64,
}

impl Sampled {
    #[inline(always)]
    pub(super) fn extrapolation(self, kind: RateKind, range_s: f64) -> Extrapolation {
        let mut to_start_s = self.before_ms as f64 / 1000.0;
        let mut to_end_s = self.after_ms as f64 / 1000.0;
        let sampled_s = self.between_ms as f64 / 1000.0;
        let between_s = sampled_s / (self.count - 1) as f64;
        let threshold_s = between_s * 1.1;
        if to_start_s >= threshold_s {
            to_start_s = between_s / 2.0;
        }
        if to_end_s >= threshold_s {
            to_end_s = between_s / 2.0;
        }
        let of = Extrapolation { kind, range_s, sampled_s, to_start_s, to_end_s, factor: 1.0 };
        Extrapolation { factor: of.factor_to(to_start_s), ..of }
    }
}

impl Extrapolation {
    /// Room for what rounding does to a product, and above this products are no smaller than rounding takes them for.
    const ROUNDING: f64 = 1.000_001;
    const SMALL: f64 = 1e-200;

    /// Where a counter's zero limits it.
    #[inline(always)]
    pub(super) fn factor_of(&self, first: f64, result: f64) -> f64 {
        // Mostly zero was long before the range: that is seen without a division.
        let is_far =
            result > Self::SMALL && first * self.sampled_s > self.to_start_s * result * Self::ROUNDING;
        match self.kind.has_zero(first, result) && !is_far {
            true => self.factor_from(first / result),
            false => self.factor,
        }
    }

    /// `zero_share`: how far before the first sample a counter was zero, as a share of the samples' time.
    fn factor_from(&self, zero_share: f64) -> f64 {
        let to_zero_s = self.sampled_s * zero_share;
        match to_zero_s < self.to_start_s {
            true => self.factor_to(to_zero_s),
            false => self.factor,
        }
    }

    #[inline(always)]
    fn factor_to(&self, to_start_s: f64) -> f64 {
        let mut factor = 1.0;
        if self.sampled_s != 0.0 {
            factor = (self.sampled_s + to_start_s + self.to_end_s) / self.sampled_s;
        }
        if self.kind.is_per_second {
            factor /= self.range_s;
        }
        factor
    }
}

/// Between the range's edges exactly: with the sample before it, or with values between samples.
fn extended(context: &FunctionContext<'_>, view: &StepView<'_>, kind: RateKind) -> StepValue {
    let (values, times) = (view.floats, view.float_times);
    let is_smoothed = context.window.source.edge == Edge::Smoothed;
    let mut last = values.len() - 1;
    let mut first = times[..last].partition_point(|time| *time <= view.start_ms).saturating_sub(1);
    if is_smoothed {
        last = times[..last].partition_point(|time| *time < view.end_ms);
    }
    if times[last] <= view.start_ms || (is_smoothed && times[first] > view.end_ms) {
        return StepValue::Nothing;
    }
    let between = |from: usize, at_ms: i64| {
        let (mut before, after) = (values[from], values[from + 1]);
        if kind.is_counter && after < before {
            before = 0.0;
        }
        before + (after - before) * (at_ms - times[from]) as f64 / (times[from + 1] - times[from]) as f64
    };
    let left = if is_smoothed && times[first] < view.start_ms {
        between(first, view.start_ms)
    } else {
        values[first]
    };
    let right = if is_smoothed && last > 0 && times[last] > view.end_ms {
        between(last - 1, view.end_ms)
    } else {
        values[last]
    };
    let mut result = right - left;
    if kind.is_counter {
        if times[first] <= view.start_ms {
            first += 1;
        }
        let end = if times[last] >= view.end_ms { last } else { last + 1 };
        result += correction(left, right, values.get(first..end).unwrap_or_default());
    }
    if kind.is_per_second {
        result /= context.range_s();
    }
    StepValue::Float(result)
}

/// What a counter had when it began again, summed.
fn correction(left: f64, right: f64, values: &[f64]) -> f64 {
    let (mut total, mut before) = (0.0, left);
    for value in values.iter().chain([&right]) {
        if *value < before {
            total += before;
        }
        before = *value;
    }
    total
}

/// `irate` and `idelta`: from the last sample but one to the last.
pub(super) fn instant(context: &FunctionContext<'_>, view: &StepView<'_>, is_rate: bool) -> StepValue {
    if view.floats.len() + view.histograms.len() < 2 {
        return StepValue::Nothing;
    }
    let float = |back: usize| {
        view.floats.len().checked_sub(back).map(|at| (view.float_times[at], Ok(view.floats[at])))
    };
    let histogram = |back: usize| {
        view.histograms
            .len()
            .checked_sub(back)
            .map(|at| (view.histogram_times[at], Err(Rc::clone(&view.histograms[at]))))
    };
    let mut latest: Vec<_> = [float(1), float(2), histogram(1), histogram(2)].into_iter().flatten().collect();
    latest.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let [(last_ms, last), (before_ms, before), ..] = &latest[..] else { return StepValue::Nothing };
    let seconds = (last_ms - before_ms) as f64 / 1000.0;
    if seconds == 0.0 {
        return StepValue::Nothing;
    }
    match (before, last) {
        (Ok(before), Ok(last)) => {
            let difference = if is_rate && last < before { *last } else { last - before };
            StepValue::Float(if is_rate { difference / seconds } else { difference })
        }
        (Err(before), Err(last)) => super::rate_histograms::instant(context, before, last, is_rate, seconds),
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => {
            context.note(Note::MixedFloatsHistograms(context.metric()));
            StepValue::Nothing
        }
    }
}

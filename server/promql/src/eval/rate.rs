//! `rate`, `increase`, `delta` and their likes, over floats and over histograms.

use std::rc::Rc;

use super::window::{Context, Given, View};
use crate::ast::Edge;
use crate::functions::Function;
use crate::notes::Note;

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) is_counter: bool,
    pub(super) is_per_second: bool,
}

/// Whether a function goes over a counter's resets.
pub(super) fn wants_resets(function: Function) -> bool {
    matches!(function, Function::Rate | Function::Increase)
}

/// The places of the values that are below the one before them.
pub(super) fn resets(values: &[f64]) -> Vec<usize> {
    values.windows(2).enumerate().filter(|(_, pair)| pair[1] < pair[0]).map(|(at, _)| at + 1).collect()
}

/// From the first sample to the last, and on to the range's edges where they are near.
pub(super) fn extrapolated(context: &Context<'_>, view: &View<'_>, kind: Kind) -> Given {
    if !view.floats.is_empty() && !view.histograms.is_empty() {
        context.note(Note::MixedFloatsHistograms(context.metric()));
        return Given::Nothing;
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
fn floats(context: &Context<'_>, view: &View<'_>, kind: Kind) -> Given {
    let (values, times) = (view.floats, view.float_times);
    let last = values.len() - 1;
    if last == 0 {
        return Given::Nothing;
    }
    let mut result = values[last] - values[0];
    if kind.is_counter {
        for place in view.resets {
            result += values[place - view.first - 1];
        }
    }
    let zero = (kind.is_counter && result > 0.0 && values[0] >= 0.0).then(|| values[0] / result);
    let factor = factor(context, view, times, zero, kind);
    Given::Float(result * factor)
}

/// By how much a difference grows, from the samples' time to the range. `zero_share`: how far before the first
/// sample a counter was zero, as a share of the samples' time.
pub(super) fn factor(
    context: &Context<'_>,
    view: &View<'_>,
    times: &[i64],
    zero_share: Option<f64>,
    kind: Kind,
) -> f64 {
    let (first, last) = (times[0], times[times.len() - 1]);
    let mut to_start = (first - view.start_ms) as f64 / 1000.0;
    let mut to_end = (view.end_ms - last) as f64 / 1000.0;
    let sampled = (last - first) as f64 / 1000.0;
    let between = sampled / (times.len() - 1) as f64;
    let threshold = between * 1.1;
    if to_start >= threshold {
        to_start = between / 2.0;
    }
    if let Some(share) = zero_share {
        let to_zero = sampled * share;
        if to_zero < to_start {
            to_start = to_zero;
        }
    }
    if to_end >= threshold {
        to_end = between / 2.0;
    }
    let mut factor = 1.0;
    if sampled != 0.0 {
        factor = (sampled + to_start + to_end) / sampled;
    }
    if kind.is_per_second {
        factor /= context.range_s();
    }
    factor
}

/// Between the range's edges exactly: with the sample before it, or with values between samples.
fn extended(context: &Context<'_>, view: &View<'_>, kind: Kind) -> Given {
    let (values, times) = (view.floats, view.float_times);
    let is_smoothed = context.window.source.edge == Edge::Smoothed;
    let mut last = values.len() - 1;
    let mut first = times[..last].partition_point(|time| *time <= view.start_ms).saturating_sub(1);
    if is_smoothed {
        last = times[..last].partition_point(|time| *time < view.end_ms);
    }
    if times[last] <= view.start_ms || (is_smoothed && times[first] > view.end_ms) {
        return Given::Nothing;
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
    Given::Float(result)
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
pub(super) fn instant(context: &Context<'_>, view: &View<'_>, is_rate: bool) -> Given {
    if view.floats.len() + view.histograms.len() < 2 {
        return Given::Nothing;
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
    let [(last_ms, last), (before_ms, before), ..] = &latest[..] else { return Given::Nothing };
    let seconds = (last_ms - before_ms) as f64 / 1000.0;
    if seconds == 0.0 {
        return Given::Nothing;
    }
    match (before, last) {
        (Ok(before), Ok(last)) => {
            let difference = if is_rate && last < before { *last } else { last - before };
            Given::Float(if is_rate { difference / seconds } else { difference })
        }
        (Err(before), Err(last)) => super::rate_histograms::instant(context, before, last, is_rate, seconds),
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => {
            context.note(Note::MixedFloatsHistograms(context.metric()));
            Given::Nothing
        }
    }
}

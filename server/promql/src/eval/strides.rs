//! Functions over ranges of floats alone: all steps of a series in one pass, constant work a step where a function allows
//! that. Each gives bit for bit what [`over_time`](super::over_time) gives of each step's samples, but for what is in a NaN.

mod several;

use several::{OfDeviation, OfPrediction, OfSlope, OfVariance, SeveralSteps};

use super::over_time::{avg, best, note_quantile, sum};
use super::rate::{Extrapolation, RateKind, Sampled, resets};
use super::series::{ABSENT, SeriesColumn};
use super::{Evaluator, Samples};
use crate::ast::Edge;
use crate::budget::{PIECE, Pacing};
use crate::error::QueryError;
use crate::eval::math::quantile_of_sorted;
use crate::functions::Function;
use crate::number::WHOLE_END;
use crate::plan::{RangeFunction, Times};

/// Values' worth of work between two looks at the pace.
const WORK_AT_ONCE: usize = 2048;

/// The samples of a step: those of these places, one at least.
#[derive(Debug, Clone, Copy, Default)]
struct Stride {
    step: usize,
    first: usize,
    end: usize,
    /// The range's start, which isn't in it.
    start_ms: i64,
    end_ms: i64,
}

/// What a function does from step to step. Places never go back.
trait Striding {
    /// Its value, or [`ABSENT`].
    fn value(&mut self, stride: &Stride) -> f64;

    /// What that takes, in values.
    fn work(&self, _stride: &Stride) -> usize {
        1
    }
}

/// How a function goes through the steps.
trait Going {
    /// Goes on for some work's time, and returns how much that was. `seen` is told of each step and its count of samples.
    fn go_on(
        &mut self,
        strides: &mut Strides<'_>,
        values: &mut [f64],
        seen: impl FnMut(usize, usize),
    ) -> usize;
}

/// Step by step.
struct Stepwise<S>(S);

impl<S: Striding> Going for Stepwise<S> {
    fn go_on(
        &mut self,
        strides: &mut Strides<'_>,
        values: &mut [f64],
        mut seen: impl FnMut(usize, usize),
    ) -> usize {
        let mut work = 0;
        while strides.step < strides.times.count && work < WORK_AT_ONCE {
            if let Some(stride) = strides.next() {
                seen(stride.step, stride.end - stride.first);
                values[stride.step] = self.0.value(&stride);
                work += self.0.work(&stride);
            }
            work += 1;
        }
        work
    }
}

/// Where the first sample after a time is, from step to step.
#[derive(Debug, Default)]
pub(super) struct Border {
    at: usize,
    moved: usize,
}

impl Border {
    #[inline(always)]
    pub(super) fn after(&mut self, times: &[i64], ms: i64) -> usize {
        // Most steps go on by as many samples as the one before.
        let guess = self.at + self.moved;
        let is_sound = self.moved > 0 && times.get(guess - 1).is_some_and(|time| *time <= ms);
        let mut at = if is_sound { guess } else { self.at };
        while times.get(at).is_some_and(|time| *time <= ms) {
            at += 1;
        }
        self.moved = at - self.at;
        self.at = at;
        at
    }
}

/// One series on its way through the steps.
struct Strides<'a> {
    window: &'a RangeFunction,
    times: Times,
    samples: &'a Samples,
    first: Border,
    end: Border,
    step: usize,
}

impl Strides<'_> {
    /// The next step's samples; `None` where it has none.
    #[inline(always)]
    fn next(&mut self) -> Option<Stride> {
        let step = self.step;
        self.step += 1;
        let end_ms = self.window.source.shift.of(self.times.ms(step));
        let start_ms = end_ms.saturating_sub(self.window.source.range_ms);
        let first = self.first.after(&self.samples.float_times, start_ms);
        let end = self.end.after(&self.samples.float_times, end_ms).max(first);
        (first < end).then_some(Stride { step, first, end, start_ms, end_ms })
    }
}

/// What a function keeps of a series' values beside them, in bytes.
pub(super) fn kept_bytes(function: Function, values: usize) -> usize {
    match function {
        Function::SumOverTime
        | Function::AvgOverTime
        | Function::MinOverTime
        | Function::MaxOverTime
        | Function::Changes
        | Function::Resets => values * size_of::<f64>(),
        // What is sorted, and what changes of it from step to step.
        Function::QuantileOverTime => (values + values / CHANGED_SHARE) * size_of::<f64>(),
        // What rates keep is held as it is found: a counter's resets are few.
        _other => 0,
    }
}

impl Evaluator<'_> {
    /// The values of a series without histograms at all steps. `None`: the function isn't one of those here.
    pub(super) async fn strides(
        &self,
        window: &RangeFunction,
        times: Times,
        parameters: &[Vec<f64>],
        samples: &Samples,
    ) -> Result<Option<SeriesColumn>, QueryError> {
        let (at, values) = (&samples.float_times[..], &samples.floats[..]);
        if window.source.edge != Edge::Plain {
            return Ok(None);
        }
        macro_rules! through {
            ($of:expr) => {
                self.through(window, times, samples, Stepwise($of)).await.map(Some)
            };
        }
        macro_rules! abreast {
            ($of:expr) => {
                self.through(window, times, samples, SeveralSteps($of)).await.map(Some)
            };
        }
        let range_s = window.source.range_ms as f64 / 1000.0;
        let (pacing, mut held) = (&self.pacing, self.budget.hold());
        let mut extrapolating = async |is_counter, is_per_second| {
            let kind = RateKind { is_counter, is_per_second };
            let resets = if is_counter { resets(values, &mut held, pacing).await? } else { Vec::new() };
            Ok::<_, QueryError>(Extrapolating { at, values, kind, range_s, resets, passed: 0, before: None })
        };
        match window.function {
            Function::Rate => through!(extrapolating(true, true).await?),
            Function::Increase => through!(extrapolating(true, false).await?),
            Function::Delta => through!(extrapolating(false, false).await?),
            Function::Irate => through!(|stride: &Stride| instant(at, values, stride, true)),
            Function::Idelta => through!(|stride: &Stride| instant(at, values, stride, false)),
            Function::CountOverTime => through!(|stride: &Stride| (stride.end - stride.first) as f64),
            Function::PresentOverTime | Function::AbsentOverTime => through!(|_: &Stride| 1.0),
            Function::FirstOverTime => through!(|stride: &Stride| values[stride.first]),
            Function::LastOverTime => through!(|stride: &Stride| values[stride.end - 1]),
            Function::SumOverTime => match exact_sums(values, pacing).await? {
                Some(sums) => through!(|stride: &Stride| sums[stride.end] - sums[stride.first]),
                None => through!(Each(|stride: &Stride| sum(&values[stride.first..stride.end]))),
            },
            Function::AvgOverTime => match exact_sums(values, pacing).await? {
                Some(sums) => through!(|stride: &Stride| {
                    (sums[stride.end] - sums[stride.first]) / (stride.end - stride.first) as f64
                }),
                None => through!(Each(|stride: &Stride| avg(&values[stride.first..stride.end]))),
            },
            Function::MinOverTime if has_nan(values, pacing).await? => through!(Each(|stride: &Stride| {
                let values = &values[stride.first..stride.end];
                values[best(values, |new, old| new < old || old.is_nan())]
            })),
            Function::MaxOverTime if has_nan(values, pacing).await? => through!(Each(|stride: &Stride| {
                let values = &values[stride.first..stride.end];
                values[best(values, |new, old| new > old || old.is_nan())]
            })),
            Function::MinOverTime => through!(Best::new(values, |new, old| new < old)),
            Function::MaxOverTime => through!(Best::new(values, |new, old| new > old)),
            Function::Changes => {
                let is_change = |left: f64, right: f64| left != right && !(left.is_nan() && right.is_nan());
                let pairs = pairs(values, is_change, pacing).await?;
                through!(|stride: &Stride| f64::from(pairs[stride.end - 1] - pairs[stride.first]))
            }
            Function::Resets => {
                let pairs = pairs(values, |left, right| right < left, pacing).await?;
                through!(|stride: &Stride| f64::from(pairs[stride.end - 1] - pairs[stride.first]))
            }
            Function::QuantileOverTime if !has_nan(values, pacing).await? => {
                let note = |q| note_quantile(self, window, q);
                through!(Sorting::new(values, &parameters[0], note))
            }
            Function::StddevOverTime => abreast!(OfDeviation(samples)),
            Function::StdvarOverTime => abreast!(OfVariance(samples)),
            Function::Deriv => abreast!(OfSlope(samples)),
            Function::PredictLinear => {
                abreast!(OfPrediction { samples, times, ahead_s: &parameters[0] })
            }
            _other => Ok(None),
        }
    }

    async fn through(
        &self,
        window: &RangeFunction,
        times: Times,
        samples: &Samples,
        mut of: impl Going,
    ) -> Result<SeriesColumn, QueryError> {
        let mut column = SeriesColumn::absent(times.count);
        let (first, end) = Default::default();
        let mut strides = Strides { window, times, samples, first, end, step: 0 };
        let counts = self.queryable.counts();
        while strides.step < times.count {
            let work = of.go_on(&mut strides, &mut column.floats, |step, seen| {
                if counts {
                    self.queryable.add(step, seen as u64);
                }
            });
            self.pacing.spent(work).await?;
        }
        Ok(column)
    }
}

/// A function of the places alone.
impl<F: FnMut(&Stride) -> f64> Striding for F {
    #[inline(always)]
    fn value(&mut self, stride: &Stride) -> f64 {
        self(stride)
    }
}

/// A function that looks at each of a step's values.
struct Each<F>(F);

impl<F: FnMut(&Stride) -> f64> Striding for Each<F> {
    #[inline(always)]
    fn value(&mut self, stride: &Stride) -> f64 {
        (self.0)(stride)
    }

    fn work(&self, stride: &Stride) -> usize {
        stride.end - stride.first
    }
}

/// `rate`, `increase` and `delta`.
struct Extrapolating<'a> {
    at: &'a [i64],
    values: &'a [f64],
    kind: RateKind,
    range_s: f64,
    resets: Vec<usize>,
    /// Resets before the present step.
    passed: usize,
    /// Of the step before: scrapes are regular, and so many steps lie alike in their samples.
    before: Option<(Sampled, Extrapolation)>,
}

impl Extrapolating<'_> {
    #[inline(always)]
    fn extrapolation(&mut self, sampled: Sampled) -> Extrapolation {
        match self.before {
            Some((before, extrapolation)) if before == sampled => extrapolation,
            _other => {
                let extrapolation = sampled.extrapolation(self.kind, self.range_s);
                self.before = Some((sampled, extrapolation));
                extrapolation
            }
        }
    }
}

impl Striding for Extrapolating<'_> {
    #[inline(always)]
    fn value(&mut self, stride: &Stride) -> f64 {
        let Stride { first, end, start_ms, end_ms, .. } = *stride;
        if end - first < 2 {
            return ABSENT;
        }
        let mut result = self.values[end - 1] - self.values[first];
        if self.passed < self.resets.len() {
            // A reset counts where the float before it is in the range too.
            self.passed += self.resets[self.passed..].iter().take_while(|place| **place <= first).count();
            for place in self.resets[self.passed..].iter().take_while(|place| **place < end) {
                result += self.values[place - 1];
            }
        }
        let (first_ms, last_ms) = (self.at[first], self.at[end - 1]);
        let extrapolation = self.extrapolation(Sampled {
            before_ms: first_ms - start_ms,
            between_ms: last_ms - first_ms,
            after_ms: end_ms - last_ms,
            count: end - first,
        });
        result * extrapolation.factor_of(self.values[first], result)
    }

    fn work(&self, _stride: &Stride) -> usize {
        1 + self.resets.len() - self.passed
    }
}

/// `irate` and `idelta`.
#[inline(always)]
fn instant(at: &[i64], values: &[f64], stride: &Stride, is_rate: bool) -> f64 {
    let last = stride.end - 1;
    if last == stride.first {
        return ABSENT;
    }
    let seconds = (at[last] - at[last - 1]) as f64 / 1000.0;
    let (before, value) = (values[last - 1], values[last]);
    let difference = if is_rate && value < before { value } else { value - before };
    if is_rate { difference / seconds } else { difference }
}

/// The first of the best values, where none is NaN.
struct Best<'a, F> {
    values: &'a [f64],
    is_better: F,
    /// Places, of which each is better than those after it or as good.
    queue: Vec<usize>,
    /// Places in front that are over.
    over: usize,
    seen: usize,
}

impl<'a, F: Fn(f64, f64) -> bool> Best<'a, F> {
    fn new(values: &'a [f64], is_better: F) -> Self {
        Self { values, is_better, queue: Vec::new(), over: 0, seen: 0 }
    }
}

impl<F: Fn(f64, f64) -> bool> Striding for Best<'_, F> {
    #[inline]
    fn value(&mut self, stride: &Stride) -> f64 {
        for place in self.seen.max(stride.first)..stride.end {
            let value = self.values[place];
            while self.queue.len() > self.over
                && self.queue.last().is_some_and(|last| (self.is_better)(value, self.values[*last]))
            {
                self.queue.pop();
            }
            self.queue.push(place);
        }
        self.seen = stride.end;
        while self.queue[self.over] < stride.first {
            self.over += 1;
        }
        self.values[self.queue[self.over]]
    }
}

/// Where more than one in so many values of a range change, all of them are sorted again.
const CHANGED_SHARE: usize = 4;
/// So many changes are made one by one, each of which moves what is after it; more are made in one go through all.
const ONE_BY_ONE_MAX: usize = 16;
/// Values that are moved in the time that one takes to be compared.
const MOVED_AT_ONCE: usize = 8;

/// `quantile_over_time`, where no value is NaN.
struct Sorting<'a, F> {
    values: &'a [f64],
    sorted: Vec<f64>,
    /// Values that come to be in the range or leave it, sorted.
    changed: Vec<f64>,
    /// The places of what is sorted.
    within: (usize, usize),
    /// At each step.
    q: &'a [f64],
    note: F,
    /// What the present step took, in values.
    work: usize,
}

impl<'a, F: Fn(f64)> Sorting<'a, F> {
    fn new(values: &'a [f64], q: &'a [f64], note: F) -> Self {
        Self { values, sorted: Vec::new(), changed: Vec::new(), within: (0, 0), q, note, work: 0 }
    }
}

impl<F: Fn(f64)> Striding for Sorting<'_, F> {
    fn value(&mut self, stride: &Stride) -> f64 {
        let (first, end) = (stride.first, stride.end);
        let (first_before, end_before) = self.within;
        let changes = first - first_before + end - end_before;
        if CHANGED_SHARE * changes > end - first || first >= end_before {
            self.sorted.clear();
            self.sorted.extend_from_slice(&self.values[first..end]);
            self.sorted.sort_unstable_by(f64::total_cmp);
            self.work = sorting_work(end - first);
        } else if changes <= ONE_BY_ONE_MAX {
            for value in &self.values[first_before..first] {
                let at = self.place(*value);
                self.sorted.remove(at);
            }
            for value in &self.values[end_before..end] {
                let at = self.place(*value);
                self.sorted.insert(at, *value);
            }
            self.work = 1 + changes * (1 + (end - first) / MOVED_AT_ONCE);
        } else {
            self.take_out(first_before, first);
            self.put_in(end_before, end);
            self.work = 2 * (end - first) + sorting_work(changes);
        }
        self.within = (first, end);
        let q = self.q[stride.step];
        (self.note)(q);
        quantile_of_sorted(q, &self.sorted)
    }

    fn work(&self, _stride: &Stride) -> usize {
        self.work
    }
}

impl<F> Sorting<'_, F> {
    fn place(&self, value: f64) -> usize {
        self.sorted.partition_point(|other| other.total_cmp(&value).is_lt())
    }

    /// Takes the values of these places out of what is sorted.
    fn take_out(&mut self, first: usize, end: usize) {
        self.sort_changed(first, end);
        let mut changed = self.changed.iter().copied().peekable();
        self.sorted.retain(|value| changed.next_if(|out| out.to_bits() == value.to_bits()).is_none());
    }

    /// Puts the values of these places into what is sorted, the greatest first.
    fn put_in(&mut self, first: usize, end: usize) {
        self.sort_changed(first, end);
        let mut old = self.sorted.len();
        self.sorted.resize(old + self.changed.len(), 0.0);
        let mut to = self.sorted.len();
        while let Some(new) = self.changed.last().copied() {
            to -= 1;
            match old.checked_sub(1).map(|last| self.sorted[last]) {
                Some(value) if value.total_cmp(&new).is_gt() => {
                    self.sorted[to] = value;
                    old -= 1;
                }
                _other => {
                    self.sorted[to] = new;
                    self.changed.pop();
                }
            }
        }
    }

    fn sort_changed(&mut self, first: usize, end: usize) {
        self.changed.clear();
        self.changed.extend_from_slice(&self.values[first..end]);
        self.changed.sort_unstable_by(f64::total_cmp);
    }
}

/// What sorting takes, in values.
fn sorting_work(count: usize) -> usize {
    count * (1 + count.checked_ilog2().unwrap_or(0) as usize)
}

async fn has_nan(values: &[f64], pacing: &Pacing<'_>) -> Result<bool, QueryError> {
    for piece in values.chunks(PIECE) {
        // Without a branch for each, which is quicker than a look that ends at the first.
        if piece.iter().fold(false, |any, value| any | value.is_nan()) {
            return Ok(true);
        }
        pacing.spent(piece.len()).await?;
    }
    Ok(false)
}

/// The sum of the values before each place, and of all. `None`: not all sums of neighbours are exact.
async fn exact_sums(values: &[f64], pacing: &Pacing<'_>) -> Result<Option<Vec<f64>>, QueryError> {
    let (mut sum, mut magnitude, mut are_whole) = (0.0, 0.0, true);
    let mut sums = Vec::with_capacity(values.len() + 1);
    sums.push(0.0);
    for piece in values.chunks(PIECE) {
        for value in piece {
            are_whole &= value.trunc() == *value;
            sum += value;
            magnitude += value.abs();
            sums.push(sum);
        }
        // Below that sums are exact, whatever their order. Not so where any is NaN or infinite.
        if !(are_whole && magnitude < WHOLE_END) {
            return Ok(None);
        }
        pacing.spent(piece.len()).await?;
    }
    Ok(Some(sums))
}

/// At each place, for how many values up to there the one before makes a pair with it.
async fn pairs(
    values: &[f64],
    is_pair: impl Fn(f64, f64) -> bool,
    pacing: &Pacing<'_>,
) -> Result<Vec<u32>, QueryError> {
    let (mut count, mut pairs) = (0, Vec::with_capacity(values.len()));
    let mut before = values.first().copied().unwrap_or_default();
    for (number, piece) in values.chunks(PIECE).enumerate() {
        pairs.extend(piece.iter().enumerate().map(|(at, value)| {
            // The first of all has none before it.
            count += u32::from((number, at) != (0, 0) && is_pair(before, *value));
            before = *value;
            count
        }));
        pacing.spent(piece.len()).await?;
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_a_quantile_takes_no_more_than_sorting_its_range() {
        const RANGE: usize = 4000;
        let values: Vec<f64> =
            (0..20_000_u32).map(|at| f64::from(at.wrapping_mul(2_654_435_761) >> 22)).collect();
        for by in [1, 5, 8, 9, 40, 400, 499, 500, 501, 2000, 4000] {
            let mut sorting = Sorting::new(&values, &[0.5; 16], |_| {});
            for step in 0..4 {
                let (first, end) = (step * by, step * by + RANGE);
                let stride = Stride { step, first, end, start_ms: 0, end_ms: 0 };
                sorting.value(&stride);
                let mut expect = values[first..end].to_vec();
                expect.sort_unstable_by(f64::total_cmp);
                assert_eq!(sorting.sorted, expect, "{by}");
                let (work, most) = (sorting.work(&stride), sorting_work(RANGE));
                assert!(work <= most, "{work}, at most {most}: {by} places on");
            }
        }
    }
}

//! Steps whose ranges are gone through [abreast](super::super::abreast).

use std::array::from_fn;

use super::super::abreast::{ABREAST, Lines, Range, Variances, through};
use super::super::series::ABSENT;
use super::{Going, Samples, Stride, Strides, WORK_AT_ONCE};
use crate::plan::Times;

/// Steps that are taken together at least: fewer take as long as one after the other.
const FEW: usize = 4;

/// A function that gives the values of several steps at once.
pub(super) trait Several {
    /// Their values, or [`ABSENT`].
    fn values<const N: usize>(&self, strides: &[Stride; N]) -> [f64; N];
}

/// Goes through the steps by it.
pub(super) struct SeveralSteps<S>(pub(super) S);

impl<S: Several> SeveralSteps<S> {
    fn put<const N: usize>(&self, strides: &[Stride; N], values: &mut [f64]) {
        strides.iter().zip(self.0.values(strides)).for_each(|(stride, value)| values[stride.step] = value);
    }
}

impl<S: Several> Going for SeveralSteps<S> {
    fn go_on(
        &mut self,
        strides: &mut Strides<'_>,
        values: &mut [f64],
        mut seen: impl FnMut(usize, usize),
    ) -> usize {
        let (mut work, mut waiting, mut count, mut longest) = (0, [Stride::default(); ABREAST], 0, 0);
        while strides.step < strides.times.count && !is_enough(work, count, longest) {
            if let Some(stride) = strides.next() {
                let samples = stride.end - stride.first;
                seen(stride.step, samples);
                work += samples;
                longest = samples.max(longest);
                waiting[count] = stride;
                count += 1;
            }
            work += 1;
            if count == ABREAST {
                self.put(&waiting, values);
                count = 0;
            }
        }
        let mut left = &waiting[..count];
        if let Some((few, others)) = left.split_first_chunk::<FEW>() {
            self.put(few, values);
            left = others;
        }
        left.iter().for_each(|one| self.put(&[*one], values));
        work
    }
}

/// Whether it is time to look at the pace: a few steps later, rather than with some that have none beside them. Abreast
/// they take a fraction of the time, and where ranges are long there won't be as many.
fn is_enough(work: usize, waiting: usize, longest: usize) -> bool {
    let may_wait = waiting > 0 && longest <= WORK_AT_ONCE;
    work >= if may_wait { ABREAST / 2 * WORK_AT_ONCE } else { WORK_AT_ONCE }
}

fn ranges<'a, const N: usize>(
    samples: &'a Samples,
    strides: &[Stride; N],
    from_ms: impl Fn(&Stride) -> i64,
) -> [Range<'a>; N] {
    from_fn(|step| {
        let stride = &strides[step];
        Range {
            times: &samples.float_times[stride.first..stride.end],
            values: &samples.floats[stride.first..stride.end],
            from_ms: from_ms(stride),
        }
    })
}

/// The slope a second of a line through each step's samples, and its value at a time; `None` of one sample.
fn lines<const N: usize>(
    samples: &Samples,
    strides: &[Stride; N],
    from_ms: impl Fn(&Stride) -> i64,
) -> [Option<(f64, f64)>; N] {
    let ranges = ranges(samples, strides, from_ms);
    let lines = through(ranges, Lines::of(ranges.map(|range| range.values[0])));
    from_fn(|step| (ranges[step].values.len() > 1).then(|| lines[step].slope_and_start()))
}

/// `stdvar_over_time`.
pub(super) struct OfVariance<'a>(pub(super) &'a Samples);

impl Several for OfVariance<'_> {
    fn values<const N: usize>(&self, strides: &[Stride; N]) -> [f64; N] {
        // Times don't matter.
        through(ranges(self.0, strides, |_| 0), Variances::default()).map(|of| of.variance())
    }
}

/// `stddev_over_time`.
pub(super) struct OfDeviation<'a>(pub(super) &'a Samples);

impl Several for OfDeviation<'_> {
    fn values<const N: usize>(&self, strides: &[Stride; N]) -> [f64; N] {
        OfVariance(self.0).values(strides).map(f64::sqrt)
    }
}

/// `deriv`.
pub(super) struct OfSlope<'a>(pub(super) &'a Samples);

impl Several for OfSlope<'_> {
    fn values<const N: usize>(&self, strides: &[Stride; N]) -> [f64; N] {
        let lines = lines(self.0, strides, |stride| self.0.float_times[stride.first]);
        lines.map(|line| line.map_or(ABSENT, |(slope, _)| slope))
    }
}

/// `predict_linear`.
pub(super) struct OfPrediction<'a> {
    pub(super) samples: &'a Samples,
    pub(super) times: Times,
    /// How far from each step's time, in seconds.
    pub(super) ahead_s: &'a [f64],
}

impl Several for OfPrediction<'_> {
    fn values<const N: usize>(&self, strides: &[Stride; N]) -> [f64; N] {
        let lines = lines(self.samples, strides, |stride| self.times.ms(stride.step));
        from_fn(|at| {
            let ahead_s = self.ahead_s[strides[at].step];
            lines[at].map_or(ABSENT, |(slope, now)| slope * ahead_s + now)
        })
    }
}

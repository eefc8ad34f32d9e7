//! Functions that look at each sample of a range: the ranges of several steps abreast, for each waits for what it made of
//! the sample before. Each range gives bit for bit what it gives alone, but for what is in a NaN.

use std::array::from_fn;

/// Ranges that are gone through at once.
pub(super) const ABREAST: usize = 8;

/// What is made of the samples of ranges, one sample of each at a time.
pub(super) trait Abreast<const N: usize>: Sized {
    /// The same for one of the ranges.
    type One: Abreast<1>;

    /// Takes the next sample of each: its time, as the caller counts it, and its value.
    fn add(&mut self, times: [f64; N], values: [f64; N]);

    /// One of the ranges by itself.
    fn one(&self, range: usize) -> Self::One;
}

/// Sums with what rounding took from them: see [`Sum`](super::math::Sum).
#[derive(Debug, Clone, Copy)]
struct Sums<const N: usize> {
    values: [f64; N],
    lost: [f64; N],
}

impl<const N: usize> Default for Sums<N> {
    fn default() -> Self {
        Self { values: [0.0; N], lost: [0.0; N] }
    }
}

impl<const N: usize> Sums<N> {
    #[inline(always)]
    fn add(&mut self, terms: [f64; N]) {
        for ((value, lost), term) in self.values.iter_mut().zip(&mut self.lost).zip(terms) {
            let total = *value + term;
            // Without a branch, so that several are added by one instruction.
            let is_larger = value.abs() >= term.abs();
            let large = if is_larger { *value } else { term };
            let small = if is_larger { term } else { *value };
            let more = *lost + ((large - total) + small);
            *lost = if total.is_infinite() { 0.0 } else { more };
            *value = total;
        }
    }

    #[inline(always)]
    fn totals(&self) -> [f64; N] {
        from_fn(|range| self.values[range] + self.lost[range])
    }

    fn one(&self, range: usize) -> Sums<1> {
        Sums { values: [self.values[range]], lost: [self.lost[range]] }
    }
}

/// Variances (Welford).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Variances<const N: usize> {
    means: Sums<N>,
    squares: Sums<N>,
    count: f64,
}

impl<const N: usize> Abreast<N> for Variances<N> {
    type One = Variances<1>;

    #[inline(always)]
    fn add(&mut self, _times: [f64; N], values: [f64; N]) {
        self.count += 1.0;
        let before = self.means.totals();
        let deltas: [f64; N] = from_fn(|range| values[range] - before[range]);
        self.means.add(from_fn(|range| deltas[range] / self.count));
        let after = self.means.totals();
        self.squares.add(from_fn(|range| deltas[range] * (values[range] - after[range])));
    }

    fn one(&self, range: usize) -> Variances<1> {
        Variances { means: self.means.one(range), squares: self.squares.one(range), count: self.count }
    }
}

impl Variances<1> {
    /// The variance.
    pub(super) fn variance(&self) -> f64 {
        self.squares.totals()[0] / self.count
    }
}

/// Lines through samples. Times are in seconds from where their lines are to start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<const N: usize> {
    x: Sums<N>,
    y: Sums<N>,
    xy: Sums<N>,
    xx: Sums<N>,
    firsts: [f64; N],
    differ: [bool; N],
    count: f64,
}

impl<const N: usize> Lines<N> {
    /// Of ranges that begin with these values.
    pub(super) fn of(firsts: [f64; N]) -> Self {
        let (x, y, xy, xx) = Default::default();
        Self { x, y, xy, xx, firsts, differ: [false; N], count: 0.0 }
    }
}

impl<const N: usize> Abreast<N> for Lines<N> {
    type One = Lines<1>;

    #[inline(always)]
    fn add(&mut self, times: [f64; N], values: [f64; N]) {
        self.count += 1.0;
        for ((differs, first), value) in self.differ.iter_mut().zip(&self.firsts).zip(&values) {
            *differs |= value != first;
        }
        self.x.add(times);
        self.y.add(values);
        self.xy.add(from_fn(|range| times[range] * values[range]));
        self.xx.add(from_fn(|range| times[range] * times[range]));
    }

    fn one(&self, range: usize) -> Lines<1> {
        Lines {
            x: self.x.one(range),
            y: self.y.one(range),
            xy: self.xy.one(range),
            xx: self.xx.one(range),
            firsts: [self.firsts[range]],
            differ: [self.differ[range]],
            count: self.count,
        }
    }
}

impl Lines<1> {
    /// The slope a second, and the value at the time from which times are counted. Of two samples at least: NaN differs from
    /// itself here, and in Prometheus only from the second sample on.
    pub(super) fn slope_and_start(&self) -> (f64, f64) {
        let [first] = self.firsts;
        if !self.differ[0] {
            return if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) };
        }
        let (x, y) = (self.x.totals()[0], self.y.totals()[0]);
        let covariance = self.xy.totals()[0] - x * y / self.count;
        let variance = self.xx.totals()[0] - x * x / self.count;
        let slope = covariance / variance;
        (slope, y / self.count - slope * x / self.count)
    }
}

/// A range's samples, and from when its times are counted, in ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range<'a> {
    pub(super) times: &'a [i64],
    pub(super) values: &'a [f64],
    pub(super) from_ms: i64,
}

impl Range<'_> {
    #[inline(always)]
    fn time(&self, at: usize) -> f64 {
        (self.times[at] - self.from_ms) as f64 / 1e3
    }

    /// Goes on with `of` from a place to the end.
    fn go_on<A: Abreast<1>>(&self, mut of: A, from: usize) -> A {
        for at in from..self.values.len() {
            of.add([self.time(at)], [self.values[at]]);
        }
        of
    }
}

/// Goes through one range.
pub(super) fn through_one<A: Abreast<1>>(range: Range<'_>, of: A) -> A {
    range.go_on(of, 0)
}

/// Goes through ranges: abreast as far as the shortest has samples, and then one after the other.
pub(super) fn through<const N: usize, A: Abreast<N>>(ranges: [Range<'_>; N], mut of: A) -> [A::One; N] {
    let shortest = ranges.iter().map(|range| range.values.len()).min().unwrap_or_default();
    let fronts = ranges.map(|range| Range {
        times: &range.times[..shortest],
        values: &range.values[..shortest],
        ..range
    });
    for at in 0..shortest {
        of.add(from_fn(|range| fronts[range].time(at)), from_fn(|range| fronts[range].values[at]));
    }
    from_fn(|range| ranges[range].go_on(of.one(range), shortest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::math::Sum;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = f64> {
        let special = vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN, 1e-300];
        prop_oneof![8 => any::<i16>().prop_map(|value| f64::from(value) / 7.0), 1 => proptest::sample::select(special)]
    }

    /// As it is with one sum after the other.
    fn variance(values: &[f64]) -> f64 {
        let (mut mean, mut squares, mut count) = (Sum::default(), Sum::default(), 0.0);
        for value in values {
            count += 1.0;
            let delta = value - mean.total();
            mean.add(delta / count);
            squares.add(delta * (value - mean.total()));
        }
        squares.total() / count
    }

    fn line(range: Range<'_>) -> (f64, f64) {
        let [mut x_sum, mut y_sum, mut xy_sum, mut xx_sum] = [Sum::default(); 4];
        let first = range.values[0];
        for (at, y) in range.values.iter().enumerate() {
            let x = range.time(at);
            x_sum.add(x);
            y_sum.add(*y);
            xy_sum.add(x * y);
            xx_sum.add(x * x);
        }
        if range.values.iter().all(|value| *value == first) {
            return if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) };
        }
        let (x, y, count) = (x_sum.total(), y_sum.total(), range.values.len() as f64);
        let slope = (xy_sum.total() - x * y / count) / (xx_sum.total() - x * x / count);
        (slope, y / count - slope * x / count)
    }

    /// NaNs are alike, whatever is in them.
    fn bits(value: f64) -> u64 {
        if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
    }

    proptest! {
        #[test]
        fn ranges_abreast_give_what_each_gives_alone(
            values in prop::collection::vec(value(), 2..60),
            steps in prop::collection::vec((0_usize..60, 2_usize..60), ABREAST),
        ) {
            let times: Vec<i64> = (0..values.len() as i64).map(|at| 15_000 * at + at % 3).collect();
            let ranges: [Range<'_>; ABREAST] = from_fn(|step| {
                let (first, count) = steps[step];
                let first = first.min(values.len() - 2);
                let end = (first + count).min(values.len());
                Range { times: &times[first..end], values: &values[first..end], from_ms: times[first] }
            });
            let variances = through(ranges, Variances::default());
            let lines = through(ranges, Lines::of(ranges.map(|range| range.values[0])));
            for ((range, of), of_line) in ranges.iter().zip(variances).zip(lines) {
                prop_assert_eq!(bits(of.variance()), bits(variance(range.values)));
                let ((slope, start), (expected, expected_start)) = (of_line.slope_and_start(), line(*range));
                prop_assert_eq!((bits(slope), bits(start)), (bits(expected), bits(expected_start)));
            }
        }
    }
}

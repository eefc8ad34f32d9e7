//! What the caller fetches for a plan: each series' labels with its samples, compressed or not; and the samples of
//! one series, decoded.

use std::rc::Rc;

use bytes::Bytes;
use silverback_model::gorilla::read_columns;
use silverback_model::{Labels, Sample};

use crate::budget::{Held, PIECE, Pacing};
use crate::error::QueryError;
use crate::histogram::{FloatHistogram, ResetHint};

/// A sample that is decoded, in bytes: a time, and a value or where a histogram is.
pub(crate) const SAMPLE_BYTES: usize = size_of::<(i64, f64)>();

/// A series that was fetched for a selector, with the samples that the selector's range covers, and maybe more.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The label set, names ascending, the metric's name among them.
    pub labels: Rc<Labels>,
    /// Its samples in runs, by time. Where runs overlap, a later one's sample at the same time counts.
    pub runs: Vec<Run>,
}

/// Some samples of a series.
#[derive(Debug, Clone)]
pub enum Run {
    /// The bytes of an XOR chunk, its count of samples in front.
    Xor(Bytes),
    /// Samples, by time; staleness markers among them.
    Floats(Vec<Sample>),
    /// Native histograms with their times in ms, ascending.
    Histograms(Vec<(i64, Rc<FloatHistogram>)>),
}

/// The samples of one series. Times ascend within floats and within histograms, and no time is in both.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) float_times: Vec<i64>,
    pub(crate) floats: Vec<f64>,
    pub(crate) histogram_times: Vec<i64>,
    pub(crate) histograms: Vec<Rc<FloatHistogram>>,
}

impl Samples {
    /// Reads the samples after one time and up to another; what was here before is gone, and `held` is of these alone.
    pub(crate) async fn read(
        &mut self,
        fetched: &Fetched,
        after_ms: i64,
        until_ms: i64,
        held: &mut Held<'_>,
        pacing: &Pacing<'_>,
    ) -> Result<(), QueryError> {
        self.clear();
        held.release_all();
        let covers = |at_ms: i64| at_ms > after_ms && at_ms <= until_ms;
        for run in &fetched.runs {
            let before = self.len();
            match run {
                Run::Xor(chunk) => {
                    let (times, values) = (&mut self.float_times, &mut self.floats);
                    read_columns(chunk, after_ms, until_ms, times, values)
                        .map_err(|error| QueryError::Storage(error.to_string()))?;
                }
                Run::Floats(samples) => {
                    for sample in samples.iter().filter(|sample| covers(sample.timestamp_ms)) {
                        self.push_float(sample.timestamp_ms, sample.value);
                    }
                }
                Run::Histograms(histograms) => {
                    for (at_ms, histogram) in histograms.iter().filter(|(at_ms, _)| covers(*at_ms)) {
                        self.push_histogram(*at_ms, Rc::clone(histogram));
                    }
                }
            }
            held.add(0, (self.len() - before) * SAMPLE_BYTES)?;
            pacing.spent(self.len() - before).await?;
        }
        self.put_in_order();
        Ok(())
    }

    /// Gives hints to the histograms that have none: what the one before shows.
    pub(crate) fn find_resets(&mut self) {
        for at in 1..self.histograms.len() {
            let (before, histogram) = (&self.histograms[at - 1], &self.histograms[at]);
            if histogram.reset_hint != ResetHint::Unknown || before.is_stale() || histogram.is_stale() {
                continue;
            }
            let is_reset = histogram.is_reset_after(before);
            let reset_hint = if is_reset { ResetHint::Reset } else { ResetHint::NotReset };
            self.histograms[at] = Rc::new(FloatHistogram { reset_hint, ..FloatHistogram::clone(histogram) });
        }
    }

    pub(crate) fn clear(&mut self) {
        self.float_times.clear();
        self.floats.clear();
        self.histogram_times.clear();
        self.histograms.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.floats.len() + self.histograms.len()
    }

    #[inline]
    pub(crate) fn push_float(&mut self, at_ms: i64, value: f64) {
        self.float_times.push(at_ms);
        self.floats.push(value);
    }

    pub(crate) fn push_histogram(&mut self, at_ms: i64, histogram: Rc<FloatHistogram>) {
        self.histogram_times.push(at_ms);
        self.histograms.push(histogram);
    }

    /// Without staleness markers, which mean something to instant selectors alone.
    pub(crate) async fn drop_stale(&mut self, pacing: &Pacing<'_>) -> Result<(), QueryError> {
        let mut has_nan = false;
        for piece in self.floats.chunks(PIECE) {
            // Without a branch for each, which is quicker than a look that ends at the first.
            has_nan |= piece.iter().fold(false, |any, value| any | value.is_nan());
            pacing.spent(piece.len()).await?;
        }
        if has_nan && self.floats.iter().any(|value| is_stale(*value)) {
            let mut values = self.floats.iter();
            self.float_times.retain(|_| values.next().is_some_and(|value| !is_stale(*value)));
            pacing.spent(self.floats.len()).await?;
            self.floats.retain(|value| !is_stale(*value));
            pacing.spent(self.floats.len()).await?;
        }
        if self.histograms.iter().any(|histogram| histogram.is_stale()) {
            let mut values = self.histograms.iter();
            self.histogram_times.retain(|_| values.next().is_some_and(|value| !value.is_stale()));
            self.histograms.retain(|histogram| !histogram.is_stale());
        }
        Ok(())
    }

    /// Runs that overlap are rare: they are put in order here.
    fn put_in_order(&mut self) {
        if !self.float_times.is_sorted_by(|left, right| left < right) {
            let pairs = self.float_times.iter().copied().zip(self.floats.iter().copied());
            (self.float_times, self.floats) = ordered(pairs.collect());
        }
        if !self.histogram_times.is_sorted_by(|left, right| left < right) {
            let pairs = self.histogram_times.iter().copied().zip(self.histograms.iter().cloned());
            (self.histogram_times, self.histograms) = ordered(pairs.collect());
        }
    }
}

pub(crate) fn is_stale(value: f64) -> bool {
    value.to_bits() == silverback_model::STALE_NAN_BITS
}

fn ordered<T>(mut pairs: Vec<(i64, T)>) -> (Vec<i64>, Vec<T>) {
    pairs.sort_by_key(|(at_ms, _)| *at_ms);
    // Of samples at the same time, the last: the first of the reversed.
    pairs.reverse();
    pairs.dedup_by_key(|(at_ms, _)| *at_ms);
    pairs.reverse();
    pairs.into_iter().unzip()
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::budget::{Budget, NoPace};

    fn read(
        samples: &mut Samples,
        fetched: &Fetched,
        after_ms: i64,
        until_ms: i64,
    ) -> Result<(), QueryError> {
        let budget = Budget::new(usize::MAX, usize::MAX);
        block_on(samples.read(fetched, after_ms, until_ms, &mut budget.hold(), &Pacing::new(&NoPace)))
    }

    #[test]
    fn runs_that_overlap_are_one_series_and_later_runs_count() {
        let run =
            |pairs: &[(i64, f64)]| Run::Floats(pairs.iter().map(|(t, v)| Sample::new(*t, *v)).collect());
        let runs = vec![run(&[(10, 1.0), (30, 3.0)]), run(&[(20, 2.0), (30, 4.0), (99, 9.0)])];
        let fetched = Fetched { labels: Rc::default(), runs };
        let mut samples = Samples::default();
        assert_eq!(read(&mut samples, &fetched, 10, 50), Ok(()));
        assert_eq!(samples.float_times, [20, 30]);
        assert_eq!(samples.floats, [2.0, 4.0]);
    }

    #[test]
    fn a_chunk_that_is_cut_is_an_error() {
        let fetched = Fetched { labels: Rc::default(), runs: vec![Run::Xor(Bytes::from_static(&[0, 9, 1]))] };
        let read = read(&mut Samples::default(), &fetched, 0, 50);
        assert!(matches!(read, Err(QueryError::Storage(_))), "{read:?}");
    }
}

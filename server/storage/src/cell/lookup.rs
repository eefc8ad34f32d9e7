//! The chunk that was looked into last, decoded: a series' samples that are sent again decode each of its chunks
//! once, not once a sample. Knows neither where chunks are nor what is made of what is found.

use silverback_model::{Sample, SeriesRef};

/// A decoded chunk of one series. Stays true while the series only grows, for what it accepts is newer, or late and
/// kept apart; whoever takes samples out of a series, or late ones into its chunks, says [`Self::forget`].
#[derive(Debug, Default)]
pub(super) struct Lookup {
    series: Option<SeriesRef>,
    /// The series that was asked for last.
    asked: Option<SeriesRef>,
    /// All that the series has from the first of them to the last, oldest first. A chunk's samples at most.
    samples: Vec<Sample>,
    /// Chunks that were decoded.
    #[cfg(test)]
    pub(super) decoded: usize,
}

impl Lookup {
    /// Whether it knows what the series has at a time, in ms.
    pub(super) fn covers(&self, series: SeriesRef, timestamp_ms: i64) -> bool {
        let ends = self.samples.first().zip(self.samples.last());
        let is_within = |(first, last): (&Sample, &Sample)| {
            (first.timestamp_ms..=last.timestamp_ms).contains(&timestamp_ms)
        };
        self.series == Some(series) && ends.is_some_and(is_within)
    }

    /// Whether the series was asked for last, too. A chunk is worth its decoding only where more is asked of it: many
    /// series that are each asked for one sample are not.
    pub(super) fn is_asked_again(&mut self, series: SeriesRef) -> bool {
        self.asked.replace(series) == Some(series)
    }

    /// The sample at a time that it covers, in ms.
    pub(super) fn sample_at(&self, timestamp_ms: i64) -> Option<Sample> {
        let found = self.samples.binary_search_by_key(&timestamp_ms, |sample| sample.timestamp_ms);
        found.ok().map(|place| self.samples[place])
    }

    /// When the first sample after a time that it covers is, in ms.
    pub(super) fn next_after(&self, timestamp_ms: i64) -> Option<i64> {
        let next = self.samples.partition_point(|sample| sample.timestamp_ms <= timestamp_ms);
        self.samples.get(next).map(|sample| sample.timestamp_ms)
    }

    /// Takes a chunk's samples, oldest first, in the place of what it had.
    pub(super) fn decode(&mut self, series: SeriesRef, samples: impl Iterator<Item = Sample>) {
        self.series = Some(series);
        self.samples.clear();
        self.samples.extend(samples);
        #[cfg(test)]
        {
            self.decoded += 1;
        }
    }

    /// Samples of the series are gone, or the ref will name another one.
    pub(super) fn forget(&mut self, series: SeriesRef) {
        if self.series == Some(series) {
            self.series = None;
        }
    }
}

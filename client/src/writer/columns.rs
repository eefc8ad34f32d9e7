//! Samples in columns: the n-th of each belong together. Native histograms are in columns of their own, after all
//! floats.

use bytes::Bytes;

/// Which of its writer's series a sample is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesIndex(pub u32);

/// A float in memory, in bytes: its series, its time, its value.
const FLOAT_BYTES: usize = 4 + 8 + 8;
/// What a native histogram takes beside its message.
const HISTOGRAM_FRAME_BYTES: usize = size_of::<(SeriesIndex, Bytes)>();

/// Samples in the order in which they were written, floats and native histograms apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WriterColumns {
    pub series: Vec<SeriesIndex>,
    pub timestamps_ms: Vec<i64>,
    pub values: Vec<f64>,
    /// Native histograms, each as the message that is sent.
    pub histograms: Vec<(SeriesIndex, Bytes)>,
}

/// As how many floats a native histogram counts where memory is bounded: those that would take as much.
pub(crate) const fn histogram_weight(message: &Bytes) -> usize {
    (HISTOGRAM_FRAME_BYTES + message.len()).div_ceil(FLOAT_BYTES)
}

impl WriterColumns {
    /// Columns with room for so many floats.
    pub(super) fn with_capacity(samples: usize) -> Self {
        Self {
            series: Vec::with_capacity(samples),
            timestamps_ms: Vec::with_capacity(samples),
            values: Vec::with_capacity(samples),
            histograms: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, series: SeriesIndex, timestamp_ms: i64, value: f64) {
        self.series.push(series);
        self.timestamps_ms.push(timestamp_ms);
        self.values.push(value);
    }

    pub(super) fn push_histogram(&mut self, series: SeriesIndex, message: Bytes) {
        self.histograms.push((series, message));
    }

    /// Samples of both kinds.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.values.len() + self.histograms.len()
    }

    /// The same, each histogram as the floats that would take its memory.
    pub(super) fn weight(&self) -> usize {
        let of_histograms = self.histograms.iter().map(|(_, message)| histogram_weight(message));
        self.values.len() + of_histograms.sum::<usize>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn clear(&mut self) {
        self.series.clear();
        self.timestamps_ms.clear();
        self.values.clear();
        self.histograms.clear();
    }

    /// Leaves the first `samples`, floats before histograms, and gives the others.
    pub(super) fn split_off(&mut self, samples: usize) -> Self {
        let floats = samples.min(self.values.len());
        Self {
            series: self.series.split_off(floats),
            timestamps_ms: self.timestamps_ms.split_off(floats),
            values: self.values.split_off(floats),
            histograms: self.histograms.split_off(samples - floats),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_behind_floats_and_weigh_what_they_take() {
        let mut columns = WriterColumns::default();
        (0..3).for_each(|n| columns.push(SeriesIndex(n), 1, 0.5));
        for len in [100, 0] {
            columns.push_histogram(SeriesIndex(7), vec![1; len].into());
        }
        let frame = HISTOGRAM_FRAME_BYTES;
        let weights = [(100 + frame).div_ceil(20), frame.div_ceil(20)];
        assert_eq!((columns.len(), columns.weight()), (5, 3 + weights[0] + weights[1]));
        let mut rest = columns.split_off(2);
        assert_eq!(
            (columns.len(), columns.histograms.len(), rest.len(), rest.histograms.len()),
            (2, 0, 3, 2)
        );
        let last = rest.split_off(2);
        assert_eq!((rest.values.len(), rest.histograms.len()), (1, 1));
        assert_eq!((last.len(), last.weight()), (1, weights[1]));
    }
}

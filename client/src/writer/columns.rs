//! Samples in columns: the n-th of each belong together.

/// Which of its writer's series a sample is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesIndex(pub u32);

/// Samples in the order in which they were written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Columns {
    pub series: Vec<SeriesIndex>,
    pub timestamps_ms: Vec<i64>,
    pub values: Vec<f64>,
}

impl Columns {
    /// Columns with room for so many samples.
    pub fn with_capacity(samples: usize) -> Self {
        Self {
            series: Vec::with_capacity(samples),
            timestamps_ms: Vec::with_capacity(samples),
            values: Vec::with_capacity(samples),
        }
    }

    #[inline]
    pub fn push(&mut self, series: SeriesIndex, timestamp_ms: i64, value: f64) {
        self.series.push(series);
        self.timestamps_ms.push(timestamp_ms);
        self.values.push(value);
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn clear(&mut self) {
        self.series.clear();
        self.timestamps_ms.clear();
        self.values.clear();
    }

    /// Leaves the first `samples`, and gives the others.
    pub fn split_off(&mut self, samples: usize) -> Self {
        Self {
            series: self.series.split_off(samples),
            timestamps_ms: self.timestamps_ms.split_off(samples),
            values: self.values.split_off(samples),
        }
    }
}

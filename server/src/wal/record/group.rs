//! A group: what a shard changed since its last commit, staged as the records that it becomes.
use super::removed::RemovedWriter;
use super::samples::SamplesWriter;
use super::series::SeriesWriter;
use crate::model::{Sample, SeriesId, SeriesRef};
use crate::wal::{Journal, RefReuse};

/// In how many parts a group's payload comes, empty ones included.
pub const GROUP_PARTS: usize = 13;

/// The group that the next commit makes durable. Used again for the one after it.
#[derive(Debug, Default)]
pub struct Group {
    series: SeriesWriter,
    samples: SamplesWriter,
    removed: RemovedWriter,
}

impl Group {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.samples.count() == 0 && self.removed.is_empty()
    }

    /// How many samples it holds.
    pub fn samples(&self) -> usize {
        self.samples.count()
    }

    /// The exact length of its payload.
    pub fn bytes(&self) -> usize {
        self.series.bytes() + self.samples.bytes() + self.removed.bytes()
    }

    /// Its payload, to be written one part after the other. The group can still grow afterwards,
    /// and then has other parts.
    ///
    /// # Panics
    ///
    /// When a column is beyond 4 GiB: whoever fills a group commits it before it outgrows
    /// [`WAL_FRAME_PAYLOAD_MAX`](crate::limits::WAL_FRAME_PAYLOAD_MAX).
    pub fn parts(&mut self) -> [&[u8]; GROUP_PARTS] {
        self.series.finish();
        self.samples.finish();
        self.removed.finish();
        let [a, b, c, d] = self.series.parts();
        let [e, f, g, h, i, j, k] = self.samples.parts();
        let [l, m] = self.removed.parts();
        [a, b, c, d, e, f, g, h, i, j, k, l, m]
    }

    /// Forgets what it holds, and keeps the room for as much, within bounds.
    pub fn clear(&mut self) {
        self.series.clear();
        self.samples.clear();
        self.removed.clear();
    }
}

impl Journal for Group {
    fn created<'a>(
        &mut self,
        series: SeriesRef,
        id: SeriesId,
        labels: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        self.series.push(series, id, labels);
    }

    #[inline]
    fn stored(&mut self, series: SeriesRef, sample: Sample) {
        self.samples.push(series, sample);
    }

    fn removed(&mut self, series: SeriesRef, id: SeriesId) -> RefReuse {
        self.removed.push(series, id);
        RefReuse::AfterCheckpoint
    }
}

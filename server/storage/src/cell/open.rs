//! A series' open chunk as samples are appended to it one after the other. Knows neither late samples nor cut chunks.

use crate::cell::Series;
use crate::cell::blocks::ChunkBlocks;
use silverback_model::Sample;

/// A series whose samples are appended, as far as they go into its open chunk.
#[derive(Debug)]
pub(crate) struct OpenSeries<'a> {
    pub(super) series: &'a mut Series,
    pub(super) blocks: &'a mut ChunkBlocks,
}

impl OpenSeries<'_> {
    /// Takes a sample in that is newer than all that the series has and has room in its chunk; returns whether it is
    /// so.
    #[inline(always)]
    pub(crate) fn append_in_chunk(&mut self, sample: Sample) -> bool {
        let Series { chunk, words, .. } = &mut *self.series;
        if sample.timestamp_ms <= chunk.last().timestamp_ms || chunk.is_full_for(sample.timestamp_ms) {
            return false;
        }
        let written = chunk.words();
        chunk.append(sample, &mut words.sink(self.blocks, written));
        true
    }
}

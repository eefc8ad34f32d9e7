//! What a series has at a time: for samples that are sent again and for late ones. Knows one series at a time, and
//! leaves its chunks as they are but for late samples, which are folded in first.

use crate::cell::series::SeriesStore;
use silverback_model::gorilla::{ChunkError, XorIter};
use silverback_model::limits::CHUNK_SAMPLES;
use silverback_model::{Sample, SeriesRef};

/// What a chunk has at a time and after it.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// The sample at that time.
    found: Option<Sample>,
    /// When the next one is, in ms.
    pub(super) next_ms: Option<i64>,
}

impl SeriesStore {
    /// The sample of a series at a time, in ms. A series that is asked for a second one has its chunk decoded, and not
    /// again for those that are asked of it next.
    pub(crate) fn sample_at(&mut self, at: SeriesRef, timestamp_ms: i64) -> Option<Sample> {
        let newest = self.newest(at);
        if newest.timestamp_ms == timestamp_ms {
            return Some(newest);
        }
        let late = self.histories.get(at.0).late.as_ref();
        if late.is_some_and(|late| late.overlaps(timestamp_ms, timestamp_ms)) {
            if let Some(last) = self.last_late(at, timestamp_ms) {
                return Some(last);
            }
            self.fold_late(at);
        }
        if self.lookup.covers(at, timestamp_ms) {
            return self.lookup.sample_at(timestamp_ms);
        }
        if !self.lookup.is_asked_again(at) {
            return self.scan(at, timestamp_ms).found;
        }
        self.look_into(at, timestamp_ms);
        match self.lookup.covers(at, timestamp_ms) {
            true => self.lookup.sample_at(timestamp_ms),
            false => None,
        }
    }

    /// Decodes the chunk that a time lies in, in ms, if there is one.
    fn look_into(&mut self, at: SeriesRef, timestamp_ms: i64) {
        self.late_work += CHUNK_SAMPLES;
        let (mut lookup, mut open) = (std::mem::take(&mut self.lookup), std::mem::take(&mut self.scratch));
        if let Some(bytes) = self.chunk_around(at, timestamp_ms, &mut open) {
            lookup.decode(at, XorIter::new(bytes).map(own));
        }
        (self.lookup, self.scratch) = (lookup, open);
    }

    /// Reads the chunk that a time lies in, in ms, up to there.
    pub(super) fn scan(&mut self, at: SeriesRef, timestamp_ms: i64) -> Scanned {
        self.late_work += CHUNK_SAMPLES / 2;
        let mut open = std::mem::take(&mut self.scratch);
        let mut scanned = Scanned::default();
        if let Some(bytes) = self.chunk_around(at, timestamp_ms, &mut open) {
            for sample in XorIter::new(bytes).map(own).skip_while(|sample| sample.timestamp_ms < timestamp_ms)
            {
                if sample.timestamp_ms > timestamp_ms {
                    scanned.next_ms = Some(sample.timestamp_ms);
                    break;
                }
                scanned.found = Some(sample);
            }
        }
        self.scratch = open;
        scanned
    }

    /// The bytes of the chunk that a time lies in, in ms, if there is one; those of the open one in `open`.
    fn chunk_around<'a>(
        &'a self,
        at: SeriesRef,
        timestamp_ms: i64,
        open: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        if self.open_between(at, timestamp_ms, timestamp_ms).is_some() {
            open.clear();
            self.put_open_chunk(at, open);
            return Some(open);
        }
        let sealed = &self.histories.get(at.0).sealed;
        let place = sealed.partition_point(|chunk| chunk.max_timestamp_ms() < timestamp_ms);
        let chunk = sealed.get(place).filter(|chunk| chunk.overlaps(timestamp_ms, timestamp_ms))?;
        Some(chunk.bytes())
    }
}

fn own(sample: Result<Sample, ChunkError>) -> Sample {
    sample.expect("the node's own chunks decode")
}

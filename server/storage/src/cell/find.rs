//! What a series has at a time: for samples that are sent again and for late ones. Knows one series at a time, and
//! leaves its chunks as they are but for late samples, which are folded in first.

use crate::cell::blocks::{NONE, block_on, words_between};
use crate::cell::cursors::{ChunkCursors, ChunkPosition};
use crate::cell::series::{Series, SeriesStore};
use silverback_model::gorilla::{ChunkError, XorCursor, XorIter, XorPiece};
use silverback_model::limits::CHUNK_SAMPLES;
use silverback_model::{Sample, SeriesRef};

/// What it costs to find a chunk that isn't near, the open one copied, in samples that are read meanwhile.
const LOOK_WORK: usize = CHUNK_SAMPLES / 2;
/// Likewise where it goes on in an open chunk.
const RESUMED_WORK: usize = 8;
/// What is read there of the chunk: enough for one sample of any width, wherever it begins in its first word.
const PIECE_WORDS: usize = 4;
const WORD_BITS: usize = u64::BITS as usize;

/// What a chunk has at a time and after it.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// The sample at that time.
    found: Option<Sample>,
    /// When the next one is, in ms, where there is none at that time.
    pub(super) next_ms: Option<i64>,
    /// Samples that were read.
    read: usize,
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

    /// Samples of a series are gone, or are in other chunks, or its ref will name another one.
    pub(super) fn forget_found(&mut self, at: SeriesRef) {
        self.lookup.forget(at);
        self.cursors.forget(at);
    }

    /// Decodes the chunk that a time lies in, in ms, if there is one.
    fn look_into(&mut self, at: SeriesRef, timestamp_ms: i64) {
        self.extra_work += CHUNK_SAMPLES;
        let (mut lookup, mut open) = (std::mem::take(&mut self.lookup), std::mem::take(&mut self.scratch));
        if let Some(chunk) = self.chunk_around(at, timestamp_ms, &mut open) {
            lookup.decode(at, XorIter::new(chunk.bytes).map(own));
        }
        (self.lookup, self.scratch) = (lookup, open);
    }

    /// Reads the chunk that a time lies in, in ms, up to there: from where the series was found last, or from its
    /// begin.
    pub(super) fn scan(&mut self, at: SeriesRef, timestamp_ms: i64) -> Scanned {
        let mut cursors = std::mem::take(&mut self.cursors);
        let scanned = match self.scan_on(at, timestamp_ms, &mut cursors) {
            Some(scanned) => {
                self.extra_work += RESUMED_WORK + scanned.read;
                scanned
            }
            None => self.scan_chunk_around(at, timestamp_ms, &mut cursors),
        };
        self.cursors = cursors;
        scanned
    }

    /// Reads the open chunk from where the series was found last, if that is near the time.
    fn scan_on(&self, at: SeriesRef, timestamp_ms: i64, cursors: &mut ChunkCursors) -> Option<Scanned> {
        let (from_ms, _) = self.open_between(at, timestamp_ms, timestamp_ms)?;
        let ChunkPosition { cursor, block } = cursors.before(at, from_ms, timestamp_ms)?;
        if cursor.last().timestamp_ms == timestamp_ms {
            return Some(Scanned { found: Some(cursor.last()), next_ms: None, read: 0 });
        }
        let Series { chunk, words, .. } = self.series.get(at.0);
        let word = cursor.bits_read() / WORD_BITS;
        let block = if block == NONE { words.block_of(&self.blocks, word) } else { block };
        let mut bytes = [0; PIECE_WORDS * size_of::<u64>()];
        let piece = chunk.piece(word, words_between(block, &self.blocks, word, chunk.words()), &mut bytes);
        let mut samples = XorIter::resumed(piece, &cursor);
        let mut read = 0;
        // The piece may end before the time is reached.
        while let Some(Ok(sample)) = samples.next() {
            read += 1;
            if sample.timestamp_ms > timestamp_ms {
                return Some(Scanned { found: None, next_ms: Some(sample.timestamp_ms), read });
            }
            if sample.timestamp_ms == timestamp_ms {
                let cursor = samples.cursor(piece);
                let next = cursor.bits_read() / WORD_BITS;
                let is_there = next < chunk.words();
                let block = if is_there { block_on(block, &self.blocks, word, next) } else { NONE };
                cursors.keep(at, from_ms, ChunkPosition { cursor, block });
                return Some(Scanned { found: Some(sample), next_ms: None, read });
            }
        }
        None
    }

    /// Reads the chunk that a time lies in, in ms, up to there.
    fn scan_chunk_around(&mut self, at: SeriesRef, timestamp_ms: i64, cursors: &mut ChunkCursors) -> Scanned {
        let mut open = std::mem::take(&mut self.scratch);
        let mut scanned = Scanned::default();
        if let Some(chunk) = self.chunk_around(at, timestamp_ms, &mut open) {
            let resumed = cursors.before(at, chunk.from_ms, timestamp_ms).map(|found| found.cursor);
            let (found, cursor) = scan_chunk(chunk.bytes, resumed, timestamp_ms);
            if let Some(cursor) = cursor {
                cursors.keep(at, chunk.from_ms, ChunkPosition { cursor, block: NONE });
            }
            scanned = found;
        }
        self.scratch = open;
        self.extra_work += LOOK_WORK + scanned.read;
        scanned
    }

    /// The chunk that a time lies in, in ms, if there is one; the bytes of the open one in `open`.
    fn chunk_around<'a>(
        &'a self,
        at: SeriesRef,
        timestamp_ms: i64,
        open: &'a mut Vec<u8>,
    ) -> Option<ChunkBytes<'a>> {
        if let Some((from_ms, _)) = self.open_between(at, timestamp_ms, timestamp_ms) {
            open.clear();
            self.put_open_chunk(at, open);
            return Some(ChunkBytes { bytes: open, from_ms });
        }
        let sealed = &self.histories.get(at.0).sealed;
        let place = sealed.partition_point(|chunk| chunk.max_timestamp_ms() < timestamp_ms);
        let chunk = sealed.get(place).filter(|chunk| chunk.overlaps(timestamp_ms, timestamp_ms))?;
        Some(ChunkBytes { bytes: chunk.bytes(), from_ms: chunk.min_timestamp_ms() })
    }
}

/// A chunk of a series.
struct ChunkBytes<'a> {
    bytes: &'a [u8],
    /// Its first sample's time, in ms.
    from_ms: i64,
}

/// Reads a chunk up to a time, in ms; the cursor is where the sample at that time is.
fn scan_chunk(chunk: &[u8], resumed: Option<XorCursor>, timestamp_ms: i64) -> (Scanned, Option<XorCursor>) {
    if let Some(cursor) = resumed
        && cursor.last().timestamp_ms == timestamp_ms
    {
        return (Scanned { found: Some(cursor.last()), next_ms: None, read: 0 }, None);
    }
    let piece = XorPiece::whole(chunk);
    let mut samples = resumed.map_or_else(|| XorIter::new(chunk), |cursor| XorIter::resumed(piece, &cursor));
    let mut read = 0;
    while let Some(sample) = samples.next().map(own) {
        read += 1;
        if sample.timestamp_ms == timestamp_ms {
            return (Scanned { found: Some(sample), next_ms: None, read }, Some(samples.cursor(piece)));
        }
        if sample.timestamp_ms > timestamp_ms {
            return (Scanned { found: None, next_ms: Some(sample.timestamp_ms), read }, None);
        }
    }
    (Scanned { found: None, next_ms: None, read }, None)
}

fn own(sample: Result<Sample, ChunkError>) -> Sample {
    sample.expect("the node's own chunks decode")
}

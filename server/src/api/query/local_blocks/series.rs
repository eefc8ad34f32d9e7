//! Series of several blocks as one ascending sequence: a series that is in more than one of them once, with the chunks of
//! all. Chunks of different blocks that overlap are made one run in which each time is there once, as late samples are
//! when they are cut to a block; of two samples of one time that of the block stays that isn't of late samples.

use std::ops::RangeInclusive;
use std::sync::Arc;

use silverback_block::{
    ChunkPlace, Contents, CutChunk, CutError, DeletedRange, OpenBlock, SourceChunk, cut_chunks, read_samples,
};
use silverback_model::gorilla::FloatEncoding;
use silverback_storage::message::{
    ChunkOf, ExternalView, Rows, SeriesBatch, SeriesBatchBuilder, SeriesWanted,
};

use super::matching::matching;
use super::memory::TakenMemory;
use super::page::{BlockCursor, BlockRead};
use super::rows::{BlockRows, SeriesHead};
use super::threads::{BlockJob, BlockJobError, ask};

/// What a read keeps of all blocks' texts, in bytes, where that is no more than its part of the memory.
const TEXTS_BYTES_MAX: usize = 1 << 20;
/// Of what all reads of blocks may hold, texts of one of them and a batch of it take no more than this fraction.
const PART_SHARE: usize = 8;
/// Sets of series that there are at a time while matchers are applied.
const SETS_AT_ONCE: usize = 3;

/// Series that are read from blocks, in batches.
pub(crate) struct SeriesCursor {
    rows: Vec<BlockRows>,
    /// Only what is older than this is read from blocks.
    border_ms: i64,
    with_chunks: bool,
    taken: TakenMemory,
    pieces: Pieces,
}

impl BlockCursor<SeriesBatch> for SeriesCursor {
    fn open(
        job: &BlockJob,
        blocks: &[Arc<OpenBlock>],
        question: &BlockRead<SeriesBatch>,
        mut taken: TakenMemory,
    ) -> Result<Self, BlockJobError> {
        let BlockRead { selection, wanted, border_ms, .. } = question;
        let (with_chunks, view) = seen_by(wanted);
        let range = question.range();
        let texts_bytes = (taken.bytes_max() / PART_SHARE).min(TEXTS_BYTES_MAX) / blocks.len().max(1);
        let (mut rows, mut bytes) = (Vec::with_capacity(blocks.len()), 0);
        for block in blocks {
            taken.set(bytes + SETS_AT_ONCE * block.set_bytes_max())?;
            // A copy: what is left of larger sets has their room.
            let series = matching(job, block, &selection.matchers)?.clone();
            if series.is_empty() {
                continue;
            }
            let has_room = |of_block: usize| taken.set(bytes + of_block);
            let of_block = BlockRows::open(job, block, series, view.clone(), range, texts_bytes, has_room)?;
            if of_block.head.is_some() {
                rows.push(of_block);
            }
            bytes = rows.iter().map(BlockRows::bytes).sum();
        }
        Ok(Self { rows, border_ms: *border_ms, with_chunks, taken, pieces: Pieces::default() })
    }

    fn next_batch(&mut self, job: &BlockJob, bytes: usize) -> Result<(SeriesBatch, bool), BlockJobError> {
        let bytes = bytes.min(self.taken.bytes_max() / PART_SHARE);
        let mut batch = SeriesBatchBuilder::default();
        while batch.bytes() < bytes && self.add_series(job, &mut batch)? {}
        let batch = batch.finish();
        self.pieces.shrink();
        // The batch is counted until the next one comes, twice: its series may be joined with what memory has of them.
        self.taken.set(self.rows_bytes() + 2 * batch.bytes())?;
        self.rows.retain(|rows| rows.head.is_some());
        Ok((batch, !self.rows.is_empty()))
    }
}

impl SeriesCursor {
    fn rows_bytes(&self) -> usize {
        self.rows.iter().map(BlockRows::bytes).sum()
    }

    /// Adds the next series, if there is one that has anything left. False after the last.
    fn add_series(&mut self, job: &BlockJob, batch: &mut SeriesBatchBuilder) -> Result<bool, BlockJobError> {
        job.check()?;
        let heads = || self.rows.iter().filter_map(|rows| rows.head.as_ref());
        let Some(first) = heads().min_by(|left, right| left.compare(right)) else { return Ok(false) };
        batch.begin_series(|out| out.extend_from_slice(first.seen()));
        let has_it: Vec<bool> = self
            .rows
            .iter()
            .map(|rows| rows.head.as_ref().is_some_and(|head| head.compare(first).is_eq()))
            .collect();
        let having = || (0..has_it.len()).filter(|at| has_it[*at]);
        if self.with_chunks {
            let held_bytes = self.rows_bytes() + 2 * batch.bytes();
            self.pieces.clear();
            for at in having() {
                let BlockRows { block, head, .. } = &self.rows[at];
                let head = head.as_ref().expect("it has the series");
                let taken = &mut self.taken;
                self.pieces.add(job, block, head, |pieces| taken.set(held_bytes + 2 * pieces))?;
            }
            self.pieces.put(self.border_ms, batch)?;
            if !batch.has_chunk() {
                batch.drop_series();
            }
        }
        for at in having() {
            self.rows[at].advance(job)?;
        }
        Ok(true)
    }
}

/// Whether chunks are read, and how label sets are seen.
fn seen_by(wanted: &SeriesWanted) -> (bool, Option<Arc<ExternalView>>) {
    match wanted {
        SeriesWanted::Chunks => (true, None),
        SeriesWanted::LabelSets => (false, None),
        SeriesWanted::ExternalChunks(view) => (true, Some(Arc::clone(view))),
        SeriesWanted::ExternalLabelSets(view) => (false, Some(Arc::clone(view))),
        SeriesWanted::Exemplars | SeriesWanted::UncutChunks => {
            unreachable!("blocks have no exemplars and nothing that isn't cut: nobody asks them for any")
        }
    }
}

/// Chunks of one series, of all blocks.
#[derive(Debug, Default)]
struct Pieces {
    bytes: Vec<u8>,
    chunks: Vec<ChunkSlice>,
}

#[derive(Debug)]
struct ChunkSlice {
    contents: Contents,
    min_ms: i64,
    max_ms: i64,
    begin: usize,
    end: usize,
    /// Whose, and where there.
    of: (Arc<OpenBlock>, ChunkPlace),
}

/// Bytes that are kept from one series to the next.
const PIECES_KEPT: usize = 64 << 10;

impl Pieces {
    fn clear(&mut self) {
        self.bytes.clear();
        self.chunks.clear();
    }

    fn shrink(&mut self) {
        self.clear();
        self.bytes.shrink_to(PIECES_KEPT);
        self.chunks.shrink_to(PIECES_KEPT / size_of::<ChunkSlice>());
    }

    /// Reads the chunks of a block's series, without what was deleted of it there.
    fn add(
        &mut self,
        job: &BlockJob,
        block: &Arc<OpenBlock>,
        head: &SeriesHead,
        mut has_room: impl FnMut(usize) -> Result<(), BlockJobError>,
    ) -> Result<(), BlockJobError> {
        let first = self.chunks.len();
        for place in &head.chunks {
            job.check()?;
            let begin = self.bytes.len();
            let contents = ask(block, |block| block.chunk(*place, &mut self.bytes))?;
            let (ChunkPlace { min_ms, max_ms, .. }, end) = (*place, self.bytes.len());
            let of = (Arc::clone(block), *place);
            self.chunks.push(ChunkSlice { contents, min_ms, max_ms, begin, end, of });
            has_room(self.bytes.capacity() + self.chunks.capacity() * size_of::<ChunkSlice>())?;
        }
        match block.deleted(head.series) {
            [] => Ok(()),
            deleted => self.delete(first, deleted),
        }
    }

    /// Leaves out what was deleted, from a chunk on.
    fn delete(&mut self, first: usize, deleted: &[DeletedRange]) -> Result<(), BlockJobError> {
        let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
        for piece in &self.chunks[first..] {
            for kept_ms in kept(deleted) {
                let put = |chunk: CutChunk<'_>| {
                    let CutChunk { contents, min_ms, max_ms, .. } = chunk;
                    let begin = bytes.len();
                    bytes.extend_from_slice(chunk.bytes);
                    let (end, of) = (bytes.len(), piece.of.clone());
                    chunks.push(ChunkSlice { contents, min_ms, max_ms, begin, end, of });
                };
                cut([piece.source(&self.bytes)], &kept_ms, put).map_err(|()| self.damaged())?;
            }
        }
        let begin = self.chunks.get(first).map_or(0, |piece| piece.begin);
        self.bytes.truncate(begin);
        self.bytes.extend_from_slice(&bytes);
        self.chunks.truncate(first);
        self.chunks.extend(chunks.into_iter().map(|piece| ChunkSlice {
            begin: begin + piece.begin,
            end: begin + piece.end,
            ..piece
        }));
        Ok(())
    }

    /// Adds what of them is older than the border, each time once.
    fn put(&mut self, border_ms: i64, batch: &mut SeriesBatchBuilder) -> Result<(), BlockJobError> {
        // Those of one time stay in the blocks' order.
        self.chunks.sort_by_key(|piece| piece.min_ms);
        let sources = self.chunks.iter().map(|piece| piece.source(&self.bytes));
        let range_ms = i64::MIN..=border_ms - 1;
        let put = |chunk: CutChunk<'_>| {
            let of = kind_of(chunk.contents);
            batch.add_chunk_of(of, chunk.min_ms, chunk.max_ms, |out| out.extend_from_slice(chunk.bytes));
        };
        cut(sources, &range_ms, put).map_err(|()| self.damaged())
    }

    /// Of chunks of which one can't be read: that one.
    fn damaged(&self) -> BlockJobError {
        let error_of = |piece: &ChunkSlice| {
            let wrong = read_samples(&piece.source(&self.bytes)).err()?;
            let (block, place) = &piece.of;
            Some(BlockJobError::Damaged(Arc::clone(block), block.chunk_error(*place, wrong)))
        };
        self.chunks.iter().find_map(error_of).expect("a chunk that couldn't be cut can't be read")
    }
}

impl ChunkSlice {
    fn source<'a>(&self, bytes: &'a [u8]) -> SourceChunk<'a> {
        let Self { contents, min_ms, max_ms, begin, end, .. } = *self;
        SourceChunk { contents, min_ms, max_ms, bytes: &bytes[begin..end] }
    }
}

/// What is in a chunk that [`cut`] has made.
pub(super) fn kind_of(contents: Contents) -> ChunkOf {
    match contents {
        Contents::Floats(FloatEncoding::Xor) => ChunkOf::Samples,
        Contents::Floats(FloatEncoding::Xor2) => unreachable!("chunks of floats are cut as XOR chunks"),
        Contents::Histograms(kind) => ChunkOf::Histograms(kind),
    }
}

/// As [`cut_chunks`], into memory. Chunks of floats come out as memory has its own, which every reader knows. `Err`: a
/// chunk can't be read.
pub(super) fn cut<'a>(
    chunks: impl IntoIterator<Item = SourceChunk<'a>>,
    range_ms: &RangeInclusive<i64>,
    mut put: impl FnMut(CutChunk<'_>),
) -> Result<(), ()> {
    let put = |chunk: CutChunk<'_>| -> Result<(), std::convert::Infallible> {
        put(chunk);
        Ok(())
    };
    cut_chunks(chunks, range_ms, FloatEncoding::Xor, put).map_err(|error| match error {
        CutError::Floats(_) | CutError::Histograms(_) => (),
        CutError::Put(never) => match never {},
    })
}

/// The times that no deleted range holds.
fn kept(deleted: &[DeletedRange]) -> Vec<RangeInclusive<i64>> {
    let mut deleted = deleted.to_vec();
    // One that ends before it begins holds nothing.
    deleted.retain(|range| range.min_ms <= range.max_ms);
    deleted.sort_unstable_by_key(|range| range.min_ms);
    let (mut kept, mut from_ms) = (Vec::new(), Some(i64::MIN));
    for range in deleted {
        let Some(from) = from_ms else { break };
        if range.min_ms > from {
            kept.push(from..=range.min_ms - 1);
        }
        from_ms = if range.max_ms < from { Some(from) } else { range.max_ms.checked_add(1) };
    }
    kept.extend(from_ms.map(|from| from..=i64::MAX));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_lies_between_what_was_deleted() {
        let range = |min_ms, max_ms| DeletedRange { min_ms, max_ms };
        const ALL: RangeInclusive<i64> = i64::MIN..=i64::MAX;
        assert_eq!(kept(&[]), [ALL]);
        assert_eq!(kept(&[range(5, 9), range(0, 6)]), [i64::MIN..=-1, 10..=i64::MAX]);
        assert_eq!(kept(&[range(5, 9), range(6, 7), range(20, 20)]), [i64::MIN..=4, 10..=19, 21..=i64::MAX]);
        assert_eq!(kept(&[range(i64::MIN, i64::MAX), range(1, 2)]), []);
        assert_eq!(kept(&[range(i64::MIN, 4)]), [5..=i64::MAX]);
        assert_eq!(kept(&[range(9, 5)]), [ALL]);
    }
}

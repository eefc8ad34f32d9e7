//! Writes blocks again without what was deleted of them, as Prometheus' `clean_tombstones` does: the new one, of another
//! name, is there whole and durable before the old one goes. A crash between the two leaves both, of which reads find each
//! sample once; the next call removes the old one.
//!
//! Holds of a block the set of its series and one series at a time, and keeps to the pace of cuts.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;

use super::LocalBlocks;
use super::memory::TakenMemory;
use super::open::is_gone;
use super::threads::{BlockJob, BlockJobError, ask};
use crate::api::query::range_blocks::{
    RangeBlocksError, RoomCheck, UnfinishedDir, check_room, failed, finish, random,
};
use crate::blocks::{Blocks, BlocksDir};
use silverback_block::{
    BlockOrigin, BlockWriter, Contents, Cut, CutError, DeletedRange, FinishedBlock, OpenBlock, Rewritten,
    SourceChunk, Ulid, WriterMemory, cut_chunks,
};
use silverback_model::gorilla::FloatEncoding;

/// Of the memory that reads of blocks have, the writer has this fraction.
const WRITER_SHARE: usize = 4;

/// Where blocks are written again, and when.
#[derive(Debug)]
pub(crate) struct RewriteLocation {
    /// The data directory.
    pub(crate) data_dir: PathBuf,
    /// The wall clock's time.
    pub(crate) now_ms: i64,
    /// Hears that a block came or went.
    pub(crate) made: Option<Arc<Blocks>>,
}

/// Why blocks aren't written again.
#[derive(Debug)]
pub(super) enum Halt {
    /// One can't be read, or nobody waits for it.
    Read(BlockJobError),
    /// One can't be written.
    Write(RangeBlocksError),
}

impl From<BlockJobError> for Halt {
    fn from(stop: BlockJobError) -> Self {
        Self::Read(stop)
    }
}

impl<E: Into<RangeBlocksError>> From<E> for Halt {
    fn from(fault: E) -> Self {
        Self::Write(fault.into())
    }
}

/// Writes all blocks again of which anything was deleted, and returns how many these were.
pub(super) fn clean(job: &BlockJob, blocks: &LocalBlocks, place: &RewriteLocation) -> Result<usize, Halt> {
    blocks.look_at_all()?;
    let all = blocks.all();
    let parents: BTreeSet<Ulid> = all.iter().flat_map(|block| block.meta().parents()).collect();
    let mut cleaned = 0;
    for block in all.iter().filter(|block| !block.is_whole()) {
        job.check()?;
        let dir = BlocksDir::below(&place.data_dir);
        let Ok(old) = Ulid::from_string(&block.meta().ulid) else { continue };
        if dir.block(old) != block.dir() {
            continue;
        }
        if !parents.contains(&old) {
            let made = rewrite(job, blocks, block, (&dir, old), place)?;
            blocks.look_at_all()?;
            // Reads are answered from it before the other goes.
            if let Some(made) = made.filter(|made| !blocks.is_open(*made)) {
                dir.delete(made).map_err(failed(&dir.block(made)))?;
                return Err(damaged_at_once(made).into());
            }
        }
        // Retention may have been faster.
        if !is_gone(block.dir()) {
            dir.delete(old).map_err(failed(block.dir()))?;
        }
        cleaned += 1;
        blocks.count_rewritten();
        blocks.look_at_all()?;
        if let Some(made) = &place.made {
            made.changed.tell();
        }
    }
    Ok(cleaned)
}

fn damaged_at_once(ulid: Ulid) -> RangeBlocksError {
    RangeBlocksError::Disk(format!("{ulid} was damaged as soon as it was written, and was deleted again"))
}

/// Writes a block again, under another name, which is returned; one of which nothing is left not at all.
fn rewrite(
    job: &BlockJob,
    blocks: &LocalBlocks,
    block: &Arc<OpenBlock>,
    (dir, old): (&BlocksDir, Ulid),
    place: &RewriteLocation,
) -> Result<Option<Ulid>, Halt> {
    check_room(&place.data_dir)?;
    let ulid = Ulid::from_parts(place.now_ms.max(0) as u64, u128::from(random()));
    let mut taken = blocks.begin_taking();
    let memory = WriterMemory::of(taken.bytes_max() / WRITER_SHARE);
    taken.set(block.set_bytes_max() + memory.bytes())?;
    let unfinished = UnfinishedDir::new(dir.unfinished(ulid));
    let writer = BlockWriter::create(unfinished.path().to_owned(), ulid, memory)?;
    match write(job, block, writer, &mut taken, place)? {
        // It was deleted for its age meanwhile.
        Some(_) if is_gone(block.dir()) => Ok(None),
        Some(FinishedBlock { meta, bytes }) => {
            unfinished.rename(&dir.block(ulid))?;
            let samples = meta.stats.num_samples;
            tracing::info!(%old, new = %ulid, samples, bytes, "a block was written again without what was deleted of it");
            Ok(Some(ulid))
        }
        None => {
            tracing::info!(%old, "a block goes: all of it was deleted");
            Ok(None)
        }
    }
}

fn write(
    job: &BlockJob,
    block: &Arc<OpenBlock>,
    mut writer: BlockWriter,
    taken: &mut TakenMemory,
    place: &RewriteLocation,
) -> Result<Option<FinishedBlock>, Halt> {
    let meta = block.meta();
    writer.note_origin(BlockOrigin {
        is_late: meta.is_of_out_of_order(),
        // What the memory had then no longer says what is in blocks, as what was deleted of them isn't known any more:
        // it is the same as nothing that is counted.
        cut: meta.cut.clone().map(|cut| Cut { held: Vec::new(), ..cut }),
        rewritten: Some(Rewritten::of(meta)),
    });
    let (mut series, mut pace, mut read_bytes) = (Series::default(), RoomCheck::begin(), 0);
    for one in &ask(block, OpenBlock::all_series)? {
        job.check()?;
        series.read(block, one)?;
        taken.set(block.set_bytes_max() + writer.memory_bytes() + series.memory_bytes())?;
        series.put(&mut writer, block.deleted(one))?;
        // What is deleted altogether is only read.
        read_bytes += series.read_bytes();
        if pace.is_due(read_bytes + writer.written_bytes()) {
            writer.sync()?;
            pace.wait(read_bytes + writer.written_bytes());
            check_room(&place.data_dir)?;
        }
    }
    Ok(finish(&place.data_dir, writer, &|| job.check().is_ok())?)
}

/// A series of a block.
#[derive(Debug, Default)]
struct Series {
    text: String,
    /// Names and values in turn, in that.
    labels: Vec<Range<usize>>,
    bytes: Vec<u8>,
    /// In these.
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    contents: Contents,
    min_ms: i64,
    max_ms: i64,
    bytes: Range<usize>,
}

impl Series {
    fn read(&mut self, block: &Arc<OpenBlock>, series: u32) -> Result<(), BlockJobError> {
        let Self { text, labels, bytes, chunks } = self;
        text.clear();
        labels.clear();
        bytes.clear();
        chunks.clear();
        let (numbers, places) = ask(block, |block| block.series(series))?;
        for number in numbers.into_iter().flat_map(|(name, value)| [name, value]) {
            let begins = text.len();
            ask(block, |block| block.symbol(number, text))?;
            labels.push(begins..text.len());
        }
        for place in places {
            let begins = bytes.len();
            let contents = ask(block, |block| block.chunk(place, bytes))?;
            let (min_ms, max_ms) = (place.min_ms, place.max_ms);
            chunks.push(Chunk { contents, min_ms, max_ms, bytes: begins..bytes.len() });
        }
        Ok(())
    }

    fn read_bytes(&self) -> u64 {
        (self.text.len() + self.bytes.len()) as u64
    }

    fn memory_bytes(&self) -> usize {
        let Self { text, labels, bytes, chunks } = self;
        text.capacity()
            + bytes.capacity()
            + labels.capacity() * size_of::<Range<usize>>()
            + chunks.capacity() * size_of::<Chunk>()
    }

    /// Writes what of it isn't deleted.
    fn put(&self, writer: &mut BlockWriter, deleted: &[DeletedRange]) -> Result<(), RangeBlocksError> {
        let texts: Vec<&str> = self.labels.iter().map(|place| &self.text[place.clone()]).collect();
        let labels = texts.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let is_xor2 = |chunk: &Chunk| chunk.contents == Contents::Floats(FloatEncoding::Xor2);
        // As it was: chunks of the other encoding are few, and in XOR2 nothing is lost.
        let floats = if self.chunks.iter().any(is_xor2) { FloatEncoding::Xor2 } else { FloatEncoding::Xor };
        writer.add_series(labels, |out| {
            for range_ms in kept(deleted) {
                let sources = self.chunks.iter().map(|chunk| self.source(chunk));
                cut_chunks(sources, &range_ms, floats, |chunk| out.put(chunk)).map_err(
                    |error| match error {
                        CutError::Put(fault) => RangeBlocksError::from(fault),
                        error @ (CutError::Floats(_) | CutError::Histograms(_)) => {
                            RangeBlocksError::Stored(format!("a chunk of a block can't be read: {error}"))
                        }
                    },
                )?;
            }
            Ok(())
        })
    }

    fn source(&self, chunk: &Chunk) -> SourceChunk<'_> {
        let Chunk { contents, min_ms, max_ms, ref bytes } = *chunk;
        SourceChunk { contents, min_ms, max_ms, bytes: &self.bytes[bytes.clone()] }
    }
}

/// The times between deleted ones, ascending.
fn kept(deleted: &[DeletedRange]) -> Vec<RangeInclusive<i64>> {
    let mut deleted = deleted.to_vec();
    deleted.sort_unstable_by_key(|range| range.min_ms);
    let (mut kept, mut from_ms) = (Vec::new(), Some(i64::MIN));
    for DeletedRange { min_ms, max_ms } in deleted {
        let Some(begin_ms) = from_ms else { break };
        if min_ms > begin_ms {
            kept.push(begin_ms..=min_ms - 1);
        }
        from_ms = max_ms.checked_add(1).map(|after_ms| after_ms.max(begin_ms));
    }
    kept.extend(from_ms.map(|begin_ms| begin_ms..=i64::MAX));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_deleted_times_lies_what_is_kept() {
        let check = |deleted: &[(i64, i64)], expect: &[(i64, i64)]| {
            let deleted: Vec<_> = deleted
                .iter()
                .map(|(min_ms, max_ms)| DeletedRange { min_ms: *min_ms, max_ms: *max_ms })
                .collect();
            let found: Vec<_> = kept(&deleted).into_iter().map(RangeInclusive::into_inner).collect();
            assert_eq!(found, expect);
        };
        let (min, max) = (i64::MIN, i64::MAX);
        check(&[], &[(min, max)]);
        check(&[(5, 9)], &[(min, 4), (10, max)]);
        check(&[(20, 30), (5, 9)], &[(min, 4), (10, 19), (31, max)]);
        check(&[(5, 9), (7, 8), (9, 12), (13, 13)], &[(min, 4), (14, max)]);
        check(&[(min, 3)], &[(4, max)]);
        check(&[(3, max), (9, 10)], &[(min, 2)]);
        check(&[(min, max)], &[]);
    }
}

//! The thread that writes blocks of the series that it is given, at a bounded pace, and leaves room on the disk to the
//! log. What became of a block that nobody wants, or that failed, is removed.
#![expect(clippy::disallowed_methods, reason = "a thread of its own")]

use std::cell::Cell;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use futures::executor::block_on;

use super::RangeBlocksError;
use silverback_block::{
    BlockOrigin, BlockWriteError, BlockWriter, Contents, CutError, FinishedBlock, SourceChunk, WriterMemory,
    cut_chunks,
};
use silverback_host::disk::room::FileSystemRoom;
use silverback_model::gorilla::FloatEncoding;
use silverback_storage::message::{ChunkOf, ChunkView, Rows, SeriesBatch, SeriesView};

/// After so many bytes what was written is made durable, and the room that is left is checked.
const LOOK_EVERY_BYTES: u64 = 16 << 20;
/// No more is written in a second, as of checkpoints: commits share the disk with it, and their syncs wait for what it
/// was given.
const BYTES_PER_S: u64 = 32 << 20;
/// So much of a file system stays free, so that the log has room: one part in so many of it, or less.
const SPARE_SHARE: u64 = 20;
const SPARE_BYTES_MAX: u64 = 1 << 30;

/// What the writer is given, in turn: a range, its series, its end; and that there are no more ranges.
#[derive(Debug)]
pub(crate) enum WriteOrder {
    /// A block of this range begins.
    Begin(RangeInclusive<i64>),
    /// Series of it, label sets ascending, with chunks that may exceed it.
    Series(SeriesBatch),
    /// All its series were given. Answered once the block is whole.
    End(oneshot::Sender<()>),
    /// All blocks are there.
    Finish,
}

/// What begins blocks, and is given those that are whole.
pub(crate) trait BlockTarget {
    /// Makes the next one, which has so much memory.
    fn begin(&mut self, memory: WriterMemory) -> Result<BlockWriter, BlockWriteError>;

    /// Where its samples are from.
    fn origin(&self) -> BlockOrigin;

    /// Takes one that has a sample.
    fn put(&mut self, block: FinishedBlock);
}

/// The orders of one feed, what their writer may have of memory, and where the feed reads what it has.
#[derive(Debug)]
pub(crate) struct Orders {
    taken: mpsc::Receiver<WriteOrder>,
    memory: WriterMemory,
    bytes: Arc<AtomicUsize>,
    floats: FloatEncoding,
}

impl Orders {
    /// From a feed. Chunks of floats are written as `floats`.
    pub(crate) fn new(
        taken: mpsc::Receiver<WriteOrder>,
        memory: WriterMemory,
        bytes: Arc<AtomicUsize>,
        floats: FloatEncoding,
    ) -> Self {
        Self { taken, memory, bytes, floats }
    }

    /// Writes until the orders say that all is there. Where they end before that, or anything fails, who calls removes
    /// what is there.
    pub(crate) fn write(
        mut self,
        data_dir: &Path,
        target: &mut impl BlockTarget,
    ) -> Result<(), RangeBlocksError> {
        let mut block = None;
        loop {
            match block_on(self.taken.next()) {
                Some(WriteOrder::Begin(range_ms)) => {
                    let writer = target.begin(self.memory)?;
                    block = Some(RangeWriter::begin(data_dir, writer, range_ms, self.floats));
                }
                Some(WriteOrder::Series(batch)) => {
                    block.as_mut().expect("series are a block's").series(&batch)?;
                }
                Some(WriteOrder::End(done)) => {
                    let mut block = block.take().expect("an end is a block's");
                    block.writer.note_origin(target.origin());
                    if let Some(finished) = block.finish(&|| !done.is_canceled())? {
                        target.put(finished);
                    }
                    // A caller that went away meanwhile gives no more orders.
                    let _gone = done.send(());
                }
                Some(WriteOrder::Finish) => return Ok(()),
                None => return Err(RangeBlocksError::Ended),
            }
            let bytes = block.as_ref().map_or(self.memory.bytes(), RangeWriter::memory_bytes);
            self.bytes.store(bytes, Ordering::Relaxed);
        }
    }
}

/// A directory that goes with this, unless it got its name.
#[derive(Debug)]
pub(crate) struct UnfinishedDir(PathBuf);

impl UnfinishedDir {
    /// Of one that is there, or is about to be.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Gives it its name, next to it, and makes that durable.
    pub(crate) fn rename(self, named: &Path) -> Result<(), RangeBlocksError> {
        fs::rename(&self.0, named).map_err(failed(named))?;
        named.parent().map_or(Ok(()), sync_dir)
    }
}

impl Drop for UnfinishedDir {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.0) {
            Ok(()) => {}
            // It has its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, path = %self.0.display(), "unfinished blocks can't be removed: the next start tries again");
            }
        }
    }
}

/// A block of one range while it is written.
struct RangeWriter<'a> {
    data_dir: &'a Path,
    writer: BlockWriter,
    range_ms: RangeInclusive<i64>,
    floats: FloatEncoding,
    pace: RoomCheck,
}

/// What was written when it was looked for room the last time; and when that was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomCheck {
    bytes: u64,
    at: Instant,
}

impl RoomCheck {
    /// Nothing was written yet.
    pub(crate) fn begin() -> Self {
        Self { bytes: 0, at: Instant::now() }
    }

    /// Whether it is to be waited.
    pub(crate) fn is_due(&self, written_bytes: u64) -> bool {
        written_bytes - self.bytes > LOOK_EVERY_BYTES
    }

    /// Waits until so much may have been written.
    pub(crate) fn wait(&mut self, written_bytes: u64) {
        let least = Duration::from_secs_f64((written_bytes - self.bytes) as f64 / BYTES_PER_S as f64);
        thread::sleep(least.saturating_sub(self.at.elapsed()));
        *self = Self { bytes: written_bytes, at: Instant::now() };
    }
}

impl<'a> RangeWriter<'a> {
    fn begin(
        data_dir: &'a Path,
        writer: BlockWriter,
        range_ms: RangeInclusive<i64>,
        floats: FloatEncoding,
    ) -> Self {
        Self { data_dir, writer, range_ms, floats, pace: RoomCheck::begin() }
    }

    fn series(&mut self, batch: &SeriesBatch) -> Result<(), RangeBlocksError> {
        let Self { writer, range_ms, floats, .. } = self;
        for at in 0..batch.count() {
            put_series(writer, range_ms, *floats, batch.get(at))?;
        }
        if self.pace.is_due(writer.written_bytes()) {
            writer.sync()?;
            self.pace.wait(writer.written_bytes());
            check_room(self.data_dir)?;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.writer.memory_bytes()
    }

    fn finish(self, is_wanted: &dyn Fn() -> bool) -> Result<Option<FinishedBlock>, RangeBlocksError> {
        finish(self.data_dir, self.writer, is_wanted)
    }
}

/// Writes what is left of a block, at the pace of its chunks, as long as it is wanted and there is room for it.
pub(crate) fn finish(
    data_dir: &Path,
    writer: BlockWriter,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<FinishedBlock>, RangeBlocksError> {
    // The index comes on top of what it is made of, and both are there for a while.
    let (no_room, pace) = (Cell::new(None), Cell::new(RoomCheck::begin()));
    let go_on = |written_bytes| {
        let mut own = pace.get();
        if own.is_due(written_bytes) {
            own.wait(written_bytes);
            pace.set(own);
        }
        let checked = check_room(data_dir);
        let has_room = checked.is_ok();
        no_room.set(checked.err());
        has_room && is_wanted()
    };
    let finished = writer.finish(&go_on).map_err(|fault| no_room.take().unwrap_or_else(|| fault.into()))?;
    check_room(data_dir)?;
    Ok(finished)
}

fn put_series(
    writer: &mut BlockWriter,
    range_ms: &RangeInclusive<i64>,
    floats: FloatEncoding,
    series: SeriesView<'_>,
) -> Result<(), RangeBlocksError> {
    writer.add_series(series.labels.texts().collect::<Vec<_>>().into_iter(), |chunks| {
        let source = series.chunks().map(source_of);
        cut_chunks(source, range_ms, floats, |chunk| chunks.put(chunk)).map_err(|error| match error {
            CutError::Put(fault) => fault.into(),
            error @ (CutError::Floats(_) | CutError::Histograms(_)) => {
                RangeBlocksError::Stored(format!("a stored chunk can't be read: {error}"))
            }
        })
    })
}

fn source_of(chunk: ChunkView<'_>) -> SourceChunk<'_> {
    let ChunkView { min_ms, max_ms, of, bytes } = chunk;
    let contents = match of {
        ChunkOf::Samples => Contents::Floats(FloatEncoding::Xor),
        ChunkOf::Histograms(kind) => Contents::Histograms(kind),
    };
    SourceChunk { contents, min_ms, max_ms, bytes }
}

impl From<BlockWriteError> for RangeBlocksError {
    fn from(fault: BlockWriteError) -> Self {
        match fault {
            BlockWriteError::Unwanted => Self::Ended,
            fault if fault.is_full() => Self::StorageFull(fault.to_string()),
            BlockWriteError::Io { .. } | BlockWriteError::Spool(_) => Self::Disk(fault.to_string()),
            BlockWriteError::SeriesOrder(_)
            | BlockWriteError::ChunkOrder { .. }
            | BlockWriteError::TooMuch { .. } => Self::Stored(fault.to_string()),
        }
    }
}

/// The disk's fault at a path.
pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> RangeBlocksError + '_ {
    |error| BlockWriteError::Io { path: path.to_owned(), error }.into()
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), RangeBlocksError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed(dir))
}

/// Whether the log keeps its room.
pub(crate) fn check_room(data_dir: &Path) -> Result<(), RangeBlocksError> {
    let FileSystemRoom { size_bytes, free_bytes } = FileSystemRoom::of(data_dir).map_err(failed(data_dir))?;
    let spare_bytes = spare_bytes(size_bytes);
    // Some that the kernel makes up have no size.
    let has_room = size_bytes == 0 || free_bytes > spare_bytes;
    has_room.then_some(()).ok_or(RangeBlocksError::StorageNearlyFull { free_bytes, spare_bytes })
}

/// A number that nothing else has.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn spare_bytes(size_bytes: u64) -> u64 {
    (size_bytes / SPARE_SHARE).min(SPARE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_left_to_the_log() {
        assert_eq!(spare_bytes(1 << 20), (1 << 20) / 20);
        assert_eq!(spare_bytes(u64::MAX), 1 << 30);
    }
}

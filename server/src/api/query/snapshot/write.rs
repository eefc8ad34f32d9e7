//! The thread that writes a snapshot: blocks of the series that it is given, under a name that says that they aren't
//! all there, and the name that they keep once they are, and are durable.
#![expect(clippy::disallowed_methods, reason = "a thread of its own")]

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use futures::executor::block_on;

use super::{DIR, Snapshot, SnapshotFault, unfinished_dir};
use silverback_block::{BlockWriter, Contents, CutError, SourceChunk, Ulid, WriteError, cut_chunks};
use silverback_host::disk::room::FileSystemRoom;
use silverback_model::gorilla::FloatEncoding;
use silverback_storage::message::{ChunkOf, ChunkView, Rows, SeriesBatch, SeriesView};

/// After so many bytes what was written is made durable, and it is looked whether there is still room.
const LOOK_EVERY_BYTES: u64 = 16 << 20;
/// No more is written in a second, as of checkpoints: commits share the disk with it, and their syncs wait for what it
/// was given.
const BYTES_PER_S: u64 = 32 << 20;
/// So much of a file system stays free, so that the log has room: one part in so many of it, or less.
const SPARE_SHARE: u64 = 20;
const SPARE_BYTES_MAX: u64 = 1 << 30;

/// What the writer is told, in turn: a range, its series, its end; and that there are no more ranges.
pub(super) enum Order {
    /// A block of this range begins.
    Begin(RangeInclusive<i64>),
    /// Series of it, label sets ascending, with chunks that may exceed it.
    Series(SeriesBatch),
    /// All its series were given. Told back once the block is whole.
    End(oneshot::Sender<()>),
    /// All blocks are there.
    Finish,
}

/// Where the snapshot is written, and what makes its blocks' names.
pub(super) struct Place {
    pub(super) data_dir: PathBuf,
    pub(super) name: String,
    pub(super) now_ms: i64,
    pub(super) random: u64,
}

/// Writes until the orders say that all is there. Where they end before that, or anything fails, nothing is left.
/// What it holds is told in `bytes`.
pub(super) fn write(
    place: Place,
    mut orders: mpsc::Receiver<Order>,
    bytes: &AtomicUsize,
) -> Result<Snapshot, SnapshotFault> {
    let mut writing = Writing::begin(&place)?;
    loop {
        match block_on(orders.next()) {
            Some(Order::Begin(range_ms)) => writing.begin_block(range_ms)?,
            Some(Order::Series(batch)) => writing.series(&batch)?,
            Some(Order::End(done)) => {
                writing.end_block(&|| !done.is_canceled())?;
                // Who went away meanwhile gives no more orders.
                let _gone = done.send(());
            }
            Some(Order::Finish) => return writing.finish(),
            None => return Err(SnapshotFault::Ended),
        }
        bytes.store(writing.memory_bytes(), Ordering::Relaxed);
    }
}

struct Writing<'a> {
    place: &'a Place,
    dir: Unfinished,
    block: Option<(BlockWriter, RangeInclusive<i64>)>,
    snapshot: Snapshot,
    /// Of the block, when it was looked for room the last time; and when that was.
    looked_at_bytes: u64,
    looked_at: Instant,
}

/// A directory that goes with this, unless it got its name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.0) {
            Ok(()) => {}
            // It has its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, path = %self.0.display(), "an unfinished snapshot can't be removed: the next start tries again");
            }
        }
    }
}

impl<'a> Writing<'a> {
    fn begin(place: &'a Place) -> Result<Self, SnapshotFault> {
        check_room(&place.data_dir)?;
        let parent = place.data_dir.join(DIR);
        let dir = unfinished_dir(&place.data_dir, &place.name);
        if !parent.exists() {
            fs::create_dir(&parent).map_err(failed(&parent))?;
            sync_dir(&place.data_dir)?;
        }
        fs::create_dir(&dir).map_err(failed(&dir))?;
        let snapshot = Snapshot { name: place.name.clone(), blocks: 0, series: 0, samples: 0, bytes: 0 };
        Ok(Self {
            place,
            dir: Unfinished(dir),
            block: None,
            snapshot,
            looked_at_bytes: 0,
            looked_at: Instant::now(),
        })
    }

    fn begin_block(&mut self, range_ms: RangeInclusive<i64>) -> Result<(), SnapshotFault> {
        let random = u128::from(self.place.random) << 16 | self.snapshot.blocks as u128;
        let ulid = Ulid::from_parts(self.place.now_ms.max(0) as u64, random);
        let writer = BlockWriter::create(&self.dir.0, ulid).map_err(not_written)?;
        self.looked_at_bytes = 0;
        self.block = Some((writer, range_ms));
        Ok(())
    }

    fn series(&mut self, batch: &SeriesBatch) -> Result<(), SnapshotFault> {
        let (writer, range_ms) = self.block.as_mut().expect("series are a block's");
        for at in 0..batch.count() {
            put_series(writer, range_ms, batch.get(at))?;
        }
        if writer.written_bytes() - self.looked_at_bytes > LOOK_EVERY_BYTES {
            writer.sync().map_err(not_written)?;
            let written_bytes = writer.written_bytes() - self.looked_at_bytes;
            let least = Duration::from_secs_f64(written_bytes as f64 / BYTES_PER_S as f64);
            thread::sleep(least.saturating_sub(self.looked_at.elapsed()));
            (self.looked_at_bytes, self.looked_at) = (writer.written_bytes(), Instant::now());
            check_room(&self.place.data_dir)?;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |(writer, _)| writer.memory_bytes())
    }

    fn end_block(&mut self, is_wanted: &dyn Fn() -> bool) -> Result<(), SnapshotFault> {
        let (writer, _) = self.block.take().expect("an end is a block's");
        // The index comes on top of what it is made of, and both are there for a while.
        let no_room = Cell::new(None);
        let go_on = || {
            let checked = check_room(&self.place.data_dir);
            let has_room = checked.is_ok();
            no_room.set(checked.err());
            has_room && is_wanted()
        };
        let finished =
            writer.finish(&go_on).map_err(|fault| no_room.take().unwrap_or_else(|| not_written(fault)));
        let Some(finished) = finished? else { return Ok(()) };
        self.snapshot.blocks += 1;
        self.snapshot.series += finished.meta.stats.num_series;
        self.snapshot.samples += finished.meta.stats.num_samples;
        self.snapshot.bytes += finished.bytes;
        check_room(&self.place.data_dir)
    }

    fn finish(self) -> Result<Snapshot, SnapshotFault> {
        let parent = self.place.data_dir.join(DIR);
        sync_dir(&self.dir.0)?;
        let named = parent.join(&self.place.name);
        fs::rename(&self.dir.0, &named).map_err(failed(&named))?;
        sync_dir(&parent)?;
        Ok(self.snapshot)
    }
}

/// What a series' chunks meet on their way.
enum Stop {
    Fault(WriteError),
    Chunk(String),
}

impl From<WriteError> for Stop {
    fn from(fault: WriteError) -> Self {
        Self::Fault(fault)
    }
}

fn put_series(
    writer: &mut BlockWriter,
    range_ms: &RangeInclusive<i64>,
    series: SeriesView<'_>,
) -> Result<(), SnapshotFault> {
    let put = writer.add_series(series.labels.texts().collect::<Vec<_>>().into_iter(), |chunks| {
        let source = series.chunks().map(source_of);
        cut_chunks(source, range_ms, |chunk| chunks.put(chunk)).map_err(|error| match error {
            CutError::Put(fault) => Stop::Fault(fault),
            error @ (CutError::Floats(_) | CutError::Histograms(_)) => Stop::Chunk(error.to_string()),
        })
    });
    put.map_err(|stop| match stop {
        Stop::Fault(fault) => not_written(fault),
        Stop::Chunk(why) => SnapshotFault::Stored(format!("a stored chunk can't be read: {why}")),
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

fn not_written(fault: WriteError) -> SnapshotFault {
    match fault {
        WriteError::Unwanted => SnapshotFault::Ended,
        fault if fault.is_full() => SnapshotFault::Full(fault.to_string()),
        WriteError::Io { .. } | WriteError::Spool(_) => SnapshotFault::Disk(fault.to_string()),
        WriteError::SeriesOrder(_) | WriteError::ChunkOrder { .. } | WriteError::TooMuch { .. } => {
            SnapshotFault::Stored(fault.to_string())
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SnapshotFault + '_ {
    |error| not_written(WriteError::Io { path: path.to_owned(), error })
}

/// Makes the names in a directory durable.
fn sync_dir(dir: &Path) -> Result<(), SnapshotFault> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed(dir))
}

fn check_room(data_dir: &Path) -> Result<(), SnapshotFault> {
    let FileSystemRoom { size_bytes, free_bytes } = FileSystemRoom::of(data_dir).map_err(failed(data_dir))?;
    let spare_bytes = spare_bytes(size_bytes);
    // Some that the kernel makes up have no size.
    let has_room = size_bytes == 0 || free_bytes > spare_bytes;
    has_room.then_some(()).ok_or(SnapshotFault::NoRoom { free_bytes, spare_bytes })
}

fn spare_bytes(size_bytes: u64) -> u64 {
    (size_bytes / SPARE_SHARE).min(SPARE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use futures::SinkExt;
    use silverback_storage::message::SeriesBatchBuilder;
    use silverback_test_support::Scratch;

    use super::*;

    fn place(scratch: &Scratch) -> Place {
        Place { data_dir: scratch.path().to_owned(), name: "a".to_owned(), now_ms: 1, random: 7 }
    }

    fn batch(chunk: &[u8]) -> SeriesBatch {
        let mut batch = SeriesBatchBuilder::default();
        batch.begin_series(|out| silverback_model::encode_label(out, b"__name__", b"up"));
        batch.add_chunk_of(ChunkOf::Samples, 5, 5, |out| out.extend_from_slice(chunk));
        batch.finish()
    }

    /// What comes of orders that end there, and the names that are left of it.
    fn check(orders: Vec<Order>, expect: Result<usize, SnapshotFault>, names: &[&str]) {
        let scratch = Scratch::new();
        let (mut sender, taken) = mpsc::channel(orders.len() + 1);
        orders.into_iter().for_each(|order| block_on(sender.send(order)).unwrap());
        drop(sender);
        let written = write(place(&scratch), taken, &AtomicUsize::new(0));
        assert_eq!(written.map(|snapshot| snapshot.blocks), expect);
        let left = fs::read_dir(scratch.join(DIR)).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), names);
    }

    /// One sample, 1.0 at 5 ms.
    const CHUNK: [u8; 11] = [0, 1, 10, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_snapshot_has_its_name_once_all_of_it_is_there() {
        let (done, mut is_done) = oneshot::channel();
        let orders = vec![Order::Begin(0..=9), Order::Series(batch(&CHUNK)), Order::End(done), Order::Finish];
        check(orders, Ok(1), &["a"]);
        assert_eq!(is_done.try_recv(), Ok(Some(())));
    }

    #[test]
    fn orders_that_end_early_leave_nothing_behind() {
        check(vec![Order::Begin(0..=9), Order::Series(batch(&CHUNK))], Err(SnapshotFault::Ended), &[]);
        let (done, _is_done) = oneshot::channel();
        let orders = vec![Order::Begin(0..=9), Order::Series(batch(&CHUNK)), Order::End(done)];
        check(orders, Err(SnapshotFault::Ended), &[]);
    }

    #[test]
    fn a_chunk_that_is_none_leaves_nothing_behind() {
        let fault = SnapshotFault::Stored("a stored chunk can't be read: chunk without samples".to_owned());
        let orders = vec![Order::Begin(0..=9), Order::Series(batch(&[0, 0])), Order::Finish];
        check(orders, Err(fault), &[]);
    }

    #[test]
    fn room_is_left_to_the_log() {
        assert_eq!(spare_bytes(1 << 20), (1 << 20) / 20);
        assert_eq!(spare_bytes(u64::MAX), 1 << 30);
    }
}

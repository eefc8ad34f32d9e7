//! The thread that writes a snapshot: its blocks under a name that says that they aren't all there, and the name that
//! they keep once they are, and are durable.

use std::fs;
use std::path::{Path, PathBuf};

use super::{DIR, Snapshot, unfinished_dir};
use crate::api::query::range_blocks::{
    BlockTarget, Orders, RangeBlocksError, UnfinishedDir, check_room, failed, sync_dir,
};
use silverback_block::{BlockOrigin, BlockWriteError, BlockWriter, FinishedBlock, Ulid, WriterMemory};

/// Where the snapshot is written, and what makes its blocks' names.
pub(super) struct SnapshotLocation {
    pub(super) data_dir: PathBuf,
    pub(super) name: String,
    pub(super) now_ms: i64,
    pub(super) random: u64,
}

/// Writes until the orders say that all is there. Where they end before that, or anything fails, nothing is left.
pub(super) fn write(place: SnapshotLocation, orders: Orders) -> Result<Snapshot, RangeBlocksError> {
    let dir = begin(&place)?;
    let snapshot = Snapshot { name: place.name.clone(), blocks: 0, series: 0, samples: 0, bytes: 0 };
    let mut target = SnapshotTarget { place: &place, dir: dir.path(), begun: 0, snapshot };
    orders.write(&place.data_dir, &mut target)?;
    let snapshot = target.snapshot;
    sync_dir(dir.path())?;
    dir.rename(&place.data_dir.join(DIR).join(&place.name))?;
    Ok(snapshot)
}

struct SnapshotTarget<'a> {
    place: &'a SnapshotLocation,
    dir: &'a Path,
    begun: u16,
    snapshot: Snapshot,
}

impl BlockTarget for SnapshotTarget<'_> {
    fn begin(&mut self, memory: WriterMemory) -> Result<BlockWriter, BlockWriteError> {
        let random = u128::from(self.place.random) << 16 | u128::from(self.begun);
        self.begun += 1;
        let ulid = Ulid::from_parts(self.place.now_ms.max(0) as u64, random);
        BlockWriter::create(self.dir.join(ulid.to_string()), ulid, memory)
    }

    fn origin(&self) -> BlockOrigin {
        BlockOrigin::default()
    }

    fn put(&mut self, FinishedBlock { meta, bytes }: FinishedBlock) {
        self.snapshot.blocks += 1;
        self.snapshot.series += meta.stats.num_series;
        self.snapshot.samples += meta.stats.num_samples;
        self.snapshot.bytes += bytes;
    }
}

fn begin(place: &SnapshotLocation) -> Result<UnfinishedDir, RangeBlocksError> {
    check_room(&place.data_dir)?;
    let parent = place.data_dir.join(DIR);
    if !parent.exists() {
        fs::create_dir(&parent).map_err(failed(&parent))?;
        sync_dir(&place.data_dir)?;
    }
    let dir = unfinished_dir(&place.data_dir, &place.name);
    fs::create_dir(&dir).map_err(failed(&dir))?;
    Ok(UnfinishedDir::new(dir))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::SinkExt;
    use futures::channel::{mpsc, oneshot};
    use futures::executor::block_on;
    use silverback_model::gorilla::FloatEncoding;
    use silverback_storage::message::{ChunkOf, SeriesBatch, SeriesBatchBuilder};
    use silverback_test_support::Scratch;

    use super::*;
    use crate::api::query::range_blocks::WriteOrder;

    fn place(scratch: &Scratch) -> SnapshotLocation {
        SnapshotLocation { data_dir: scratch.path().to_owned(), name: "a".to_owned(), now_ms: 1, random: 7 }
    }

    fn batch(chunk: &[u8]) -> SeriesBatch {
        let mut batch = SeriesBatchBuilder::default();
        batch.begin_series(|out| silverback_model::encode_label(out, b"__name__", b"up"));
        batch.add_chunk_of(ChunkOf::Samples, 5, 5, |out| out.extend_from_slice(chunk));
        batch.finish()
    }

    /// What comes of orders that end there, and the names that are left of it.
    fn check(orders: Vec<WriteOrder>, expect: Result<usize, RangeBlocksError>, names: &[&str]) {
        let scratch = Scratch::new();
        let (mut sender, taken) = mpsc::channel(orders.len() + 1);
        orders.into_iter().for_each(|order| block_on(sender.send(order)).unwrap());
        drop(sender);
        let given = Orders::new(taken, WriterMemory::MIN, Arc::default(), FloatEncoding::Xor);
        let written = write(place(&scratch), given);
        assert_eq!(written.map(|snapshot| snapshot.blocks), expect);
        let left = fs::read_dir(scratch.join(DIR)).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), names);
    }

    /// One sample, 1.0 at 5 ms.
    const CHUNK: [u8; 11] = [0, 1, 10, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_snapshot_has_its_name_once_all_of_it_is_there() {
        let (done, mut is_done) = oneshot::channel();
        let orders = vec![
            WriteOrder::Begin(0..=9),
            WriteOrder::Series(batch(&CHUNK)),
            WriteOrder::End(done),
            WriteOrder::Finish,
        ];
        check(orders, Ok(1), &["a"]);
        assert_eq!(is_done.try_recv(), Ok(Some(())));
    }

    #[test]
    fn orders_that_end_early_leave_nothing_behind() {
        check(
            vec![WriteOrder::Begin(0..=9), WriteOrder::Series(batch(&CHUNK))],
            Err(RangeBlocksError::Ended),
            &[],
        );
        let (done, _is_done) = oneshot::channel();
        let orders = vec![WriteOrder::Begin(0..=9), WriteOrder::Series(batch(&CHUNK)), WriteOrder::End(done)];
        check(orders, Err(RangeBlocksError::Ended), &[]);
    }

    #[test]
    fn a_chunk_that_is_none_leaves_nothing_behind() {
        let fault =
            RangeBlocksError::Stored("a stored chunk can't be read: chunk without samples".to_owned());
        let orders = vec![WriteOrder::Begin(0..=9), WriteOrder::Series(batch(&[0, 0])), WriteOrder::Finish];
        check(orders, Err(fault), &[]);
    }
}

//! Rows of all shards as one ascending sequence: series by their labels, names or values by their text.
//! Each shard is asked for its next batch only when its last one is used up; so whatever a read finds,
//! it holds one batch of each shard.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::api::query::Reader;
use crate::routing::ReadLease;
use crate::routing::fanout::{FanoutError, read_all_once, retry_moved};
use silverback_model::limits::{READ_BATCH_BYTES_MIN, READ_BATCHES_BYTES};
use silverback_model::{Epoch, ShardId};
use silverback_runtime::Slice;
use silverback_storage::message::{
    Batch, CloseCursors, CursorId, FetchRows, OpenRows, Page, RowCursor, Selection, SeriesBatch, SeriesView,
    TextBatch,
};

/// What one selection finds on all shards. Dropping it closes its cursors.
pub(crate) struct RowStream<B: Batch> {
    reader: Rc<Reader>,
    lease: ReadLease,
    batch_bytes: usize,
    shards: Vec<ShardRows<B>>,
    /// Where the present row stands.
    present: Option<usize>,
}

struct ShardRows<B> {
    shard: ShardId,
    next: Option<RowCursor<B>>,
    batch: B,
    at: usize,
}

impl<B: Batch> RowStream<B> {
    /// Opens a cursor on every shard. `streams` of these are held at the same time.
    pub(crate) async fn open(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        selection: Selection,
        wanted: B::Wanted,
        streams: usize,
    ) -> Result<Self, FanoutError> {
        let question = OpenRows { selection, wanted, bytes: batch_bytes(reader, streams) };
        retry_moved(async || Self::open_once(reader, lease, &question).await).await
    }

    /// Whether there is a row on any shard, of each of which one is asked for.
    pub(crate) async fn is_any(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        selection: Selection,
        wanted: B::Wanted,
    ) -> Result<bool, FanoutError> {
        /// A batch holds a row, however large.
        const ONE_ROW_BYTES: usize = 1;

        let question = OpenRows { selection, wanted, bytes: ONE_ROW_BYTES };
        let rows = retry_moved(async || Self::open_once(reader, lease, &question).await).await?;
        Ok(rows.shards.iter().any(|shard| shard.batch.count() > 0))
    }

    /// Opens a cursor on the shard of this core alone, by an epoch that others are asked by, too.
    pub(crate) async fn open_own(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        epoch: Epoch,
        selection: Selection,
        wanted: B::Wanted,
    ) -> Result<Self, FanoutError> {
        let router = &reader.router;
        let (shard, batch_bytes) = (ShardId(router.core() as u16), batch_bytes(reader, 1));
        let question = OpenRows { selection, wanted, bytes: batch_bytes };
        let Page { batch, next } = router.ask_to_read(shard, epoch, question, lease)?.await?;
        let shards = vec![ShardRows { shard, next, batch, at: 0 }];
        Ok(Self { reader: Rc::clone(reader), lease: lease.clone(), batch_bytes, shards, present: None })
    }

    async fn open_once(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        question: &OpenRows<B>,
    ) -> Result<Self, FanoutError> {
        let replies = read_all_once(&reader.router, lease, question).await;
        // Open cursors are in the stream before an error is returned, so that its drop closes them.
        let shards = Vec::with_capacity(replies.len());
        let batch_bytes = question.bytes;
        let mut stream =
            Self { reader: Rc::clone(reader), lease: lease.clone(), batch_bytes, shards, present: None };
        let mut failed = None;
        for (shard, reply) in reader.router.shards().zip(replies) {
            match reply {
                Ok(Page { batch, next }) => stream.shards.push(ShardRows { shard, next, batch, at: 0 }),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(stream), Err)
    }

    /// Goes on to the next row, in a slice that comes with it: the one that is held, or another. `None` after the
    /// last row.
    pub(crate) async fn advance(&mut self, held: Option<Slice>) -> Result<Option<Slice>, FanoutError> {
        let mut slice = self.reader.slicer.go_on(held).await;
        self.pass();
        if self.lacks_batch() {
            drop(slice);
            self.fetch().await?;
            slice = self.reader.slicer.begin().await;
        }
        Ok(self.step().then_some(slice))
    }

    /// Whether a row stands at it.
    pub(super) fn is_at_row(&self) -> bool {
        self.present.is_some()
    }

    /// Whether a batch is used up and another one follows it.
    pub(super) fn lacks_batch(&self) -> bool {
        self.shards.iter().any(ShardRows::lacks_batch)
    }

    /// Fetches what is lacking.
    pub(super) async fn fetch(&mut self) -> Result<(), FanoutError> {
        for at in 0..self.shards.len() {
            while self.shards[at].lacks_batch() {
                self.fetch_batch(at).await?;
            }
        }
        Ok(())
    }

    /// Stands at the next row. False after the last. Nothing may be lacking.
    pub(super) fn step(&mut self) -> bool {
        self.shards.retain(|shard| shard.at < shard.batch.count());
        self.present = (0..self.shards.len()).min_by(|a, b| self.shards[*a].compare(&self.shards[*b]));
        self.present.is_some()
    }

    /// The present row: a batch, and the place in it.
    ///
    /// # Panics
    /// Where none is, before the first and after the last.
    pub(crate) fn present(&self) -> (&B, usize) {
        let present = self.present.expect("the stream was advanced to a row");
        (&self.shards[present].batch, self.shards[present].at)
    }

    /// How the present rows of two streams follow each other.
    pub(crate) fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let ((batch, at), (other, other_at)) = (self.present(), other.present());
        batch.compare(at, other, other_at)
    }

    /// Leaves the present row behind, of all shards that have it.
    pub(super) fn pass(&mut self) {
        let Some(present) = self.present.take() else { return };
        if B::REPEATS {
            for at in (0..self.shards.len()).filter(|at| *at != present) {
                if self.shards[at].compare(&self.shards[present]).is_eq() {
                    self.shards[at].at += 1;
                }
            }
        }
        self.shards[present].at += 1;
    }

    /// A shard's next batch, which may have nothing in it; none after the last.
    async fn fetch_batch(&mut self, at: usize) -> Result<(), FanoutError> {
        let ShardRows { shard, next, batch, at: row } = &mut self.shards[at];
        // Kept while it is fetched from: a read that is given up closes it.
        let Some(cursor) = next.as_ref().map(RowCursor::again) else { return Ok(()) };
        // Let go of before the next one comes.
        (*batch, *row) = (B::default(), 0);
        let fetch = FetchRows { cursor, bytes: self.batch_bytes };
        let epoch = self.reader.router.read_epoch();
        let answer = self.reader.router.ask_to_read(*shard, epoch, fetch, &self.lease)?;
        let Page { batch, next } = answer.await?;
        let rows = &mut self.shards[at];
        (rows.batch, rows.next) = (batch, next);
        Ok(())
    }

    /// Adds the cursors that are open, by their shards: closing them is the caller's from here on.
    pub(super) fn give_cursors(&mut self, to: &mut BTreeMap<ShardId, Vec<CursorId>>) {
        for ShardRows { shard, next, .. } in &mut self.shards {
            if let Some(cursor) = next.take() {
                to.entry(*shard).or_default().push(cursor.id);
            }
        }
    }
}

impl RowStream<SeriesBatch> {
    /// The present series.
    pub(crate) fn series(&self) -> SeriesView<'_> {
        let (batch, at) = self.present();
        batch.get(at)
    }
}

impl RowStream<TextBatch> {
    /// The present name or value.
    pub(crate) fn text(&self) -> &str {
        let (batch, at) = self.present();
        batch.get(at)
    }
}

impl<B: Batch> ShardRows<B> {
    fn lacks_batch(&self) -> bool {
        self.next.is_some() && self.at >= self.batch.count()
    }

    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        self.batch.compare(self.at, &other.batch, other.at)
    }
}

impl<B: Batch> Drop for RowStream<B> {
    fn drop(&mut self) {
        let mut open = BTreeMap::new();
        self.give_cursors(&mut open);
        close(&self.reader, open);
    }
}

/// Of one of all shards' batches, where so many streams are held at a time.
pub(super) fn batch_bytes(reader: &Reader, streams: usize) -> usize {
    (READ_BATCHES_BYTES / (reader.router.shards().count() * streams)).max(READ_BATCH_BYTES_MIN)
}

/// Closes cursors, with one request to each shard.
pub(super) fn close(reader: &Reader, open: BTreeMap<ShardId, Vec<CursorId>>) {
    let epoch = reader.router.read_epoch();
    for (shard, cursors) in open {
        // Refused: they are closed a little later, when the read is cancelled.
        drop(reader.router.ask_to_look(shard, epoch, CloseCursors(cursors)));
    }
}

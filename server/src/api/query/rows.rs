//! Rows of all shards, and of blocks on disk where a read goes back so far, as one ascending sequence: series by their
//! labels, names or values by their text. Each source is asked for its next batch only when its last one is used up; so
//! whatever a read finds, it holds one batch of each. A series that blocks and memory have is one row.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures::future::try_join;

use crate::api::query::Reader;
use crate::api::query::local_blocks::{BlockBatch, BlockPages, BlockRead};
use crate::routing::ReadLease;
use crate::routing::fanout::{FanoutError, read_all_once, retry_moved};
use silverback_model::limits::{READ_BATCH_BYTES_MIN, READ_BATCHES_BYTES};
use silverback_model::{Epoch, ShardId};
use silverback_runtime::Slice;
use silverback_storage::message::{
    CloseCursors, CursorId, FetchRows, OpenRows, Page, RowCursor, Selection, SeriesBatch, SeriesView,
    ShardReadError, TextBatch,
};

/// Sources that are compared between two looks at the clock, each of which costs as much as a short row. A long row fills a
/// piece of the answer, or whoever goes through it looks at the clock, too.
const COMPARED_STEP: usize = 16;

/// What one selection finds. Dropping it closes its cursors.
pub(crate) struct RowStream<B: BlockBatch> {
    reader: Rc<Reader>,
    lease: ReadLease,
    batch_bytes: usize,
    sources: Vec<SourceRows<B>>,
    /// From when on memory has to have everything, where blocks are read, too.
    floor_ms: Option<i64>,
    /// Sources that were compared since the last look at the clock.
    compared: usize,
    /// Where the present row is.
    present: Option<usize>,
    /// Where the same series is in memory, of which the present row is what blocks have; ...
    rest: Option<usize>,
    /// ... and both as one.
    joined: Option<B>,
}

struct SourceRows<B: BlockBatch> {
    next: Next<B>,
    batch: B,
    at: usize,
}

/// Where a source's next batch is.
enum Next<B: BlockBatch> {
    Shard(ShardId, Option<RowCursor<B>>),
    Blocks(BlockPages<B>),
}

impl<B: BlockBatch> RowStream<B> {
    /// Opens a cursor on every shard, and reads of blocks what is older than memory goes back. `streams` of these are held
    /// at the same time.
    pub(crate) async fn open_all(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        selection: Selection,
        wanted: B::Wanted,
        streams: usize,
    ) -> Result<Self, FanoutError> {
        match reader.node.local_blocks.question::<B>(&selection, &wanted) {
            None => Self::open(reader, lease, selection, wanted, streams).await,
            Some(question) => Self::open_with(reader, lease, selection, wanted, streams, question).await,
        }
    }

    async fn open_with(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        selection: Selection,
        wanted: B::Wanted,
        streams: usize,
        question: BlockRead<B>,
    ) -> Result<Self, FanoutError> {
        let bytes = batch_bytes(reader, streams);
        let (blocks, floor_ms) = (&reader.node.local_blocks, question.floor_ms);
        let has_memory_any = !blocks.is_dropped(selection.max_ms);
        let blocks = BlockPages::open(blocks, lease.ticket(), question, bytes);
        let memory = async {
            match has_memory_any {
                // From its begin on: what came late may lie before the border, and be in no block yet.
                true => Self::open(reader, lease, selection, wanted, streams).await,
                false => Ok(Self::of(reader, lease, bytes, Vec::new())),
            }
        };
        let ((batch, pages), mut stream) = try_join(blocks, memory).await?;
        // First, so that of two rows that are the same it is the present one.
        stream.sources.insert(0, SourceRows { next: Next::Blocks(pages), batch, at: 0 });
        stream.floor_ms = Some(floor_ms);
        stream.check_not_overtaken()?;
        Ok(stream)
    }

    fn of(reader: &Rc<Reader>, lease: &ReadLease, batch_bytes: usize, sources: Vec<SourceRows<B>>) -> Self {
        let (reader, lease) = (Rc::clone(reader), lease.clone());
        Self {
            reader,
            lease,
            batch_bytes,
            sources,
            floor_ms: None,
            compared: 0,
            present: None,
            rest: None,
            joined: None,
        }
    }

    /// Opens a cursor on every shard: what memory has, and no block. `streams` of these are held at the same time.
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
        Ok(rows.sources.iter().any(SourceRows::has_row))
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
        let sources = vec![SourceRows { next: Next::Shard(shard, next), batch, at: 0 }];
        Ok(Self::of(reader, lease, batch_bytes, sources))
    }

    async fn open_once(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        question: &OpenRows<B>,
    ) -> Result<Self, FanoutError> {
        let replies = read_all_once(&reader.router, lease, question).await;
        // Open cursors are in the stream before an error is returned, so that its drop closes them.
        let mut stream = Self::of(reader, lease, question.bytes, Vec::with_capacity(replies.len() + 1));
        let mut failed = None;
        for (shard, reply) in reader.router.shards().zip(replies) {
            match reply {
                Ok(Page { batch, next }) => {
                    stream.sources.push(SourceRows { next: Next::Shard(shard, next), batch, at: 0 });
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(stream), Err)
    }

    /// Goes on to the next row, in a slice that comes with it: the one that is held, or another. `None` after the
    /// last row.
    pub(crate) async fn advance(&mut self, held: Option<Slice>) -> Result<Option<Slice>, FanoutError> {
        let held = match held {
            Some(slice) if self.advance_now(&slice) => return Ok(Some(slice)),
            held => held,
        };
        let mut slice = self.reader.slicer.go_on(held).await;
        self.compared = 0;
        self.pass();
        if self.lacks_batch() {
            drop(slice);
            self.fetch().await?;
            slice = self.reader.slicer.begin().await;
        }
        let has_row = self.step();
        self.join(&mut slice).await;
        Ok(has_row.then_some(slice))
    }

    /// Goes on to the next row without waiting, where that row is in hand and the slice isn't spent: true. Else
    /// [`Self::advance`] goes on from here.
    fn advance_now(&mut self, slice: &Slice) -> bool {
        // Without blocks there is nothing to be joined.
        let may_join = B::JOINS && self.floor_ms.is_some();
        self.compared += self.sources.len();
        if may_join || self.compared >= COMPARED_STEP && slice.is_spent() {
            return false;
        }
        self.compared %= COMPARED_STEP;
        self.pass();
        !self.lacks_batch() && self.step()
    }

    /// Whether a row is at it.
    pub(super) fn is_at_row(&self) -> bool {
        self.present.is_some()
    }

    /// Whether a batch is used up and another one follows it.
    pub(super) fn lacks_batch(&self) -> bool {
        self.sources.iter().any(SourceRows::lacks_batch)
    }

    /// Fetches what is lacking.
    pub(super) async fn fetch(&mut self) -> Result<(), FanoutError> {
        for at in 0..self.sources.len() {
            while self.sources[at].lacks_batch() {
                self.fetch_batch(at).await?;
            }
        }
        self.check_not_overtaken()
    }

    /// What was fetched of memory is all there was since the border only where retention hasn't come so far.
    fn check_not_overtaken(&self) -> Result<(), FanoutError> {
        match self.floor_ms.is_some_and(|floor_ms| self.reader.node.local_blocks.is_dropped(floor_ms)) {
            true => Err(ShardReadError::Overtaken.into()),
            false => Ok(()),
        }
    }

    /// Goes to the next row. False after the last. Nothing may be lacking. [`Self::join`] comes next.
    pub(super) fn step(&mut self) -> bool {
        self.sources.retain(SourceRows::has_row);
        self.present = (0..self.sources.len()).min_by(|a, b| self.sources[*a].compare(&self.sources[*b]));
        self.rest = self.present.filter(|_| B::JOINS).and_then(|present| self.rest_of(present));
        self.present.is_some()
    }

    /// Where memory has more of a series that is in blocks.
    fn rest_of(&self, present: usize) -> Option<usize> {
        let source = &self.sources[present];
        let is_rest = |at: &usize| *at != present && source.compare(&self.sources[*at]).is_eq();
        match source.next {
            Next::Shard(..) => None,
            Next::Blocks(_) => (0..self.sources.len()).find(is_rest),
        }
    }

    /// Makes a series that blocks and memory have one row.
    pub(super) async fn join(&mut self, slice: &mut Slice) {
        if let (Some(present), Some(rest)) = (self.present, self.rest) {
            let [(blocks, at), (memory, of_memory)] =
                [present, rest].map(|at| (&self.sources[at].batch, self.sources[at].at));
            self.joined = Some(B::join((blocks, at), (memory, of_memory), slice).await);
        }
    }

    /// The present row: a batch, and the place in it.
    ///
    /// # Panics
    /// Where none is, before the first and after the last.
    pub(crate) fn present(&self) -> (&B, usize) {
        let present = self.present.expect("the stream was advanced to a row");
        match &self.joined {
            Some(joined) => (joined, 0),
            None => (&self.sources[present].batch, self.sources[present].at),
        }
    }

    /// How the present rows of two streams follow each other.
    pub(crate) fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let ((batch, at), (other, other_at)) = (self.present(), other.present());
        batch.compare(at, other, other_at)
    }

    /// Leaves the present row behind, of all sources that have it.
    pub(super) fn pass(&mut self) {
        let Some(present) = self.present.take() else { return };
        self.joined = None;
        if B::REPEATS {
            for at in (0..self.sources.len()).filter(|at| *at != present) {
                if self.sources[at].compare(&self.sources[present]).is_eq() {
                    self.sources[at].at += 1;
                }
            }
        } else if let Some(rest) = self.rest.take() {
            self.sources[rest].at += 1;
        }
        self.sources[present].at += 1;
    }

    /// A source's next batch, which may have nothing in it; none after the last.
    async fn fetch_batch(&mut self, at: usize) -> Result<(), FanoutError> {
        let SourceRows { next, batch, at: row } = &mut self.sources[at];
        // Freed before the next one comes.
        (*batch, *row) = (B::default(), 0);
        let (shard, next) = match next {
            Next::Blocks(pages) => {
                *batch = pages.fetch(self.batch_bytes).await?;
                return Ok(());
            }
            Next::Shard(shard, next) => (*shard, next),
        };
        // Kept while it is fetched from: a read that is given up closes it.
        let Some(cursor) = next.as_ref().map(RowCursor::again) else { return Ok(()) };
        let fetch = FetchRows { cursor, bytes: self.batch_bytes };
        let epoch = self.reader.router.read_epoch();
        let answer = self.reader.router.ask_to_read(shard, epoch, fetch, &self.lease)?;
        let page = answer.await?;
        (*batch, *next) = (page.batch, page.next);
        Ok(())
    }

    /// Adds the cursors that are open, by their shards: closing them is the caller's from here on.
    pub(super) fn give_cursors(&mut self, to: &mut BTreeMap<ShardId, Vec<CursorId>>) {
        for SourceRows { next, .. } in &mut self.sources {
            if let Next::Shard(shard, next) = next
                && let Some(cursor) = next.take()
            {
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

impl<B: BlockBatch> SourceRows<B> {
    fn has_row(&self) -> bool {
        self.at < self.batch.count()
    }

    fn lacks_batch(&self) -> bool {
        let has_more = match &self.next {
            Next::Shard(_, next) => next.is_some(),
            Next::Blocks(pages) => pages.has_more(),
        };
        has_more && !self.has_row()
    }

    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        self.batch.compare(self.at, &other.batch, other.at)
    }
}

impl<B: BlockBatch> Drop for RowStream<B> {
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

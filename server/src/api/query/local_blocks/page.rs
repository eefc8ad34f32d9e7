//! What is read from blocks, batch by batch, as a stream of rows asks for it.

use std::sync::Arc;

use super::LocalBlocks;
use super::join::joined;
use super::memory::TakenMemory;
use super::rows::ChunkRange;
use super::series::SeriesCursor;
use super::texts::TextCursor;
use super::threads::{BlockJob, BlockJobError};
use crate::routing::{FanoutError, Overloaded};
use silverback_block::OpenBlock;
use silverback_runtime::{SideThreadError, Slice};
use silverback_storage::message::{Batch, ReadTicket, Selection, SeriesBatch, ShardReadError, TextBatch};

/// Rows that blocks have.
pub(crate) trait BlockBatch: Batch + Send + 'static {
    /// What goes on with a read.
    type Cursor: BlockCursor<Self>;

    /// Whether a row of blocks and one of memory that are the same are two parts of one.
    const JOINS: bool;

    /// Both parts as one, on its own.
    async fn join(blocks: (&Self, usize), memory: (&Self, usize), slice: &mut Slice) -> Self;
}

/// A place in what is found of blocks.
pub(crate) trait BlockCursor<B: Batch>: Sized + Send + 'static {
    /// Finds what matches. `blocks` come with those of late samples last.
    fn open(
        job: &BlockJob,
        blocks: &[Arc<OpenBlock>],
        question: &BlockRead<B>,
        taken: TakenMemory,
    ) -> Result<Self, BlockJobError>;

    /// The next batch, of about so many bytes, and whether there are more.
    fn next_batch(&mut self, job: &BlockJob, bytes: usize) -> Result<(B, bool), BlockJobError>;
}

/// What is read from blocks.
#[derive(Debug)]
pub(crate) struct BlockRead<B: Batch> {
    pub(super) selection: Selection,
    pub(super) wanted: B::Wanted,
    /// What is older is read from blocks.
    pub(crate) border_ms: i64,
    /// From here on memory had everything when it was asked. Not before the border; between the two no block has anything.
    pub(crate) floor_ms: i64,
}

impl<B: Batch> BlockRead<B> {
    /// What is read from blocks: what the selection has before the border.
    pub(super) fn range(&self) -> ChunkRange {
        let Selection { min_ms, max_ms, .. } = self.selection;
        ChunkRange { min_ms, max_ms: max_ms.min(self.border_ms - 1) }
    }
}

impl BlockBatch for SeriesBatch {
    type Cursor = SeriesCursor;

    const JOINS: bool = true;

    async fn join(
        (blocks, at): (&Self, usize),
        (memory, of_memory): (&Self, usize),
        slice: &mut Slice,
    ) -> Self {
        joined(blocks.get(at), memory.get(of_memory), slice).await
    }
}

impl BlockBatch for TextBatch {
    type Cursor = TextCursor;

    const JOINS: bool = false;

    async fn join((blocks, _): (&Self, usize), _: (&Self, usize), _: &mut Slice) -> Self {
        blocks.clone()
    }
}

/// A read of blocks that goes on. Dropping it ends it, and gives back what it holds, its last batch counted.
pub(crate) struct BlockPages<B: BlockBatch> {
    blocks: Arc<LocalBlocks>,
    ticket: ReadTicket,
    /// `None` while a batch is read.
    cursor: Option<B::Cursor>,
    has_more: bool,
}

/// A batch, what goes on from there, and whether there are more.
type Read<B> = Result<(B, <B as BlockBatch>::Cursor, bool), BlockJobError>;

impl<B: BlockBatch> BlockPages<B> {
    /// Begins with the first batch.
    pub(crate) async fn open(
        blocks: &Arc<LocalBlocks>,
        ticket: &ReadTicket,
        question: BlockRead<B>,
        bytes: usize,
    ) -> Result<(B, Self), FanoutError> {
        let mut pages =
            Self { blocks: Arc::clone(blocks), ticket: ticket.clone(), cursor: None, has_more: false };
        blocks.count_read();
        let own = Arc::clone(blocks);
        let batch = pages
            .read(move |job: &BlockJob| {
                let open = own.in_range(question.range());
                next_of(B::Cursor::open(job, &open, &question, own.begin_taking())?, job, bytes)
            })
            .await?;
        Ok((batch, pages))
    }

    /// The next batch.
    pub(crate) async fn fetch(&mut self, bytes: usize) -> Result<B, FanoutError> {
        self.has_more = false;
        let Some(cursor) = self.cursor.take() else { return Ok(B::default()) };
        self.read(move |job: &BlockJob| next_of(cursor, job, bytes)).await
    }

    async fn read(
        &mut self,
        work: impl FnOnce(&BlockJob) -> Read<B> + Send + 'static,
    ) -> Result<B, FanoutError> {
        let (batch, cursor, has_more) = match self.blocks.threads().run(&self.ticket, work).await {
            Ok(Ok(read)) => read,
            Ok(Err(stop)) => return Err(self.blocks.error_of(stop).await),
            Err(SideThreadError::Busy) => return Err(Overloaded.into()),
            Err(SideThreadError::Panicked) => return Err(ShardReadError::Panicked.into()),
        };
        (self.cursor, self.has_more) = (Some(cursor), has_more);
        Ok(batch)
    }

    /// Whether there may be more.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }
}

fn next_of<B: BlockBatch>(mut cursor: B::Cursor, job: &BlockJob, bytes: usize) -> Read<B> {
    let (batch, has_more) = cursor.next_batch(job, bytes)?;
    Ok((batch, cursor, has_more))
}

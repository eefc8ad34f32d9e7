//! What reads ask of a shard, each with the type of its answer: an asker never meets another question's.
//! How a shard finds it is not known here.

use std::marker::PhantomData;

use super::call::question;
use super::{
    Call, Cardinality, CellStats, ControlRequest, CursorId, CutReply, CutStep, MetadataPage, MetadataWanted,
    Read, ReadReply, ReadRequest, ReadTicket, Rows, Selection, SeriesBatch, SeriesWanted, ShardReadError,
    ShardReply, ShardRequest, TextBatch, TextsWanted, Wanted,
};
use silverback_model::Epoch;

/// A question that reads.
pub trait ReadCall: Into<ReadRequest> {
    /// How it is answered.
    type Reply;

    /// Takes the reply out; `None`: it is another question's.
    fn reply_of(reply: ReadReply) -> Option<Self::Reply>;
}

/// Rows as a shard gives them out, in batches.
pub trait Batch: Rows {
    /// What of the series that are found makes such rows.
    type Wanted: Into<Wanted> + Clone + Send + 'static;

    /// Whether two shards may have the same row.
    const REPEATS: bool;

    /// Takes a batch out, and where to get the next one; `None`: it is another question's.
    fn of_reply(reply: ReadReply) -> Option<(Self, Option<CursorId>)>;
}

impl Batch for SeriesBatch {
    type Wanted = SeriesWanted;

    // A series is in one cell, and a cell is answered for by one shard.
    const REPEATS: bool = false;

    fn of_reply(reply: ReadReply) -> Option<(Self, Option<CursorId>)> {
        if let ReadReply::Series(batch, next) = reply { Some((batch, next)) } else { None }
    }
}

impl Batch for TextBatch {
    type Wanted = TextsWanted;

    const REPEATS: bool = true;

    fn of_reply(reply: ReadReply) -> Option<(Self, Option<CursorId>)> {
        if let ReadReply::Texts(batch, next) = reply { Some((batch, next)) } else { None }
    }
}

/// A batch, and the cursor that has more: none after the last.
#[derive(Debug)]
pub struct Page<B> {
    /// The rows.
    pub batch: B,
    /// Where the next ones are.
    pub next: Option<RowCursor<B>>,
}

impl<B: Batch> Page<B> {
    fn of_reply(reply: ReadReply) -> Option<Self> {
        let (batch, next) = B::of_reply(reply)?;
        Some(Self { batch, next: next.map(|id| RowCursor { id, rows: PhantomData }) })
    }
}

/// A cursor over such rows.
#[derive(Debug)]
pub struct RowCursor<B> {
    /// Its name on its shard.
    pub id: CursorId,
    rows: PhantomData<fn() -> B>,
}

impl<B> RowCursor<B> {
    /// The same once more: whoever fetches from it may still have to close it.
    pub fn again(&self) -> Self {
        Self { id: self.id, rows: PhantomData }
    }
}

/// Opens a cursor; answered with the first batch.
#[derive(Debug)]
pub struct OpenRows<B: Batch> {
    /// Which series.
    pub selection: Selection,
    /// What of them.
    pub wanted: B::Wanted,
    /// Of a batch. One series may exceed it.
    pub bytes: usize,
}

// Derived it would ask that rows can be cloned.
impl<B: Batch> Clone for OpenRows<B> {
    fn clone(&self) -> Self {
        Self { selection: self.selection.clone(), wanted: self.wanted.clone(), bytes: self.bytes }
    }
}

impl<B: Batch> From<OpenRows<B>> for ReadRequest {
    fn from(OpenRows { selection, wanted, bytes }: OpenRows<B>) -> Self {
        Self::Open { selection, wanted: wanted.into(), bytes }
    }
}

impl<B: Batch> ReadCall for OpenRows<B> {
    type Reply = Page<B>;

    fn reply_of(reply: ReadReply) -> Option<Page<B>> {
        Page::of_reply(reply)
    }
}

/// Asks a cursor for its next batch.
#[derive(Debug)]
pub struct FetchRows<B> {
    /// Which.
    pub cursor: RowCursor<B>,
    /// Of a batch. One series may exceed it.
    pub bytes: usize,
}

impl<B> From<FetchRows<B>> for ReadRequest {
    fn from(FetchRows { cursor, bytes }: FetchRows<B>) -> Self {
        Self::Fetch { cursor: cursor.id, bytes }
    }
}

impl<B: Batch> ReadCall for FetchRows<B> {
    type Reply = Page<B>;

    fn reply_of(reply: ReadReply) -> Option<Page<B>> {
        Page::of_reply(reply)
    }
}

/// Closes cursors that are not wanted any more.
#[derive(Debug)]
pub struct CloseCursors(pub Vec<CursorId>);

/// Asks for the labels, values and names with the most series.
#[derive(Debug, Clone, Copy)]
pub struct CardinalityRequest {
    /// Entries of each list.
    pub limit: usize,
}

/// Asks for the cells that hold a series.
#[derive(Debug, Clone, Copy)]
pub struct CellsRequest;

question!(CloseCursors: ReadCall(ReadRequest, ReadReply),
    CloseCursors(cursors) => Self::Close(cursors), ReadReply::Closed => (), ());
question!(CardinalityRequest: ReadCall(ReadRequest, ReadReply),
    CardinalityRequest { limit } => Self::Cardinality { limit }, ReadReply::Cardinality(lists) => lists, Cardinality);
question!(CutStep: ReadCall(ReadRequest, ReadReply),
    step => Self::Cut(step), ReadReply::Cut(reply) => reply, CutReply);
question!(CellsRequest: ReadCall(ReadRequest, ReadReply),
    CellsRequest => Self::Cells, ReadReply::Cells(cells) => cells, Vec<CellStats>);
question!(MetadataWanted: ReadCall(ReadRequest, ReadReply),
    wanted => Self::Metadata(wanted), ReadReply::Metadata(page) => page, MetadataPage);

/// Such a question of one read, as a shard is asked it.
#[derive(Debug)]
pub struct ReadOf<Q> {
    /// The read that this is a part of.
    pub ticket: ReadTicket,
    /// All shards are asked by the same, so that each cell is answered for by one of them.
    pub epoch: Epoch,
    /// What is asked.
    pub question: Q,
}

impl<Q: ReadCall> From<ReadOf<Q>> for ShardRequest {
    fn from(ReadOf { ticket, epoch, question }: ReadOf<Q>) -> Self {
        Self::Ask(ControlRequest::Read(Box::new(Read { ticket, epoch, request: question.into() })))
    }
}

impl<Q: ReadCall> Call for ReadOf<Q> {
    type Reply = Result<Q::Reply, ShardReadError>;

    fn reply_of(reply: ShardReply) -> Option<Self::Reply> {
        let ShardReply::Read(reply) = reply else { return None };
        match reply {
            Ok(reply) => Q::reply_of(*reply).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_takes_its_own_reply_and_no_other() {
        let texts = || ReadReply::Texts(TextBatch::default(), None);
        assert!(<OpenRows<TextBatch>>::reply_of(texts()).is_some());
        assert!(<FetchRows<SeriesBatch>>::reply_of(texts()).is_none());
        assert!(CloseCursors::reply_of(texts()).is_none());
        assert_eq!(CloseCursors::reply_of(ReadReply::Closed), Some(()));
        let refused = <ReadOf<CellsRequest>>::reply_of(ShardReply::Read(Err(ShardReadError::Moved)));
        assert_eq!(refused, Some(Err(ShardReadError::Moved)));
        assert!(<ReadOf<CellsRequest>>::reply_of(ShardReply::Routed).is_none());
    }
}

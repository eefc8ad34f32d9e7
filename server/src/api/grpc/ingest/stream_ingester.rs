//! The way of a stream's message on its acceptor: definitions, then the batch: split by owning
//! shard, sent to each. It knows no order of batches; what became of one is [`Sent`]'s to report.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::columns::{BatchError, BatchRow, Columns};
use super::flight::{BatchesInFlight, Sent};
use super::histograms;
use super::messages::{ROOM_WAIT_MAX, StreamMessage, make_room};
use super::routes::{RouteState, Routes, SeriesRoute};
use super::series::{DefinitionError, StreamSeries};
use crate::api::ingest::caller::Caller;
use crate::api::ingest::remote_write::wire::{Tag, WireReader, WireType};
use crate::api::ingest::remote_write::{MalformedError, WriteRejected};
use crate::routing::{Overloaded, Reservation, Split};
use silverback_model::limits::{DECODE_STEP_SERIES, STREAM_BATCH_SAMPLES_MAX};
use silverback_runtime::slices::SLICE;
use silverback_runtime::{now, reactor_polled, sleep};
use silverback_storage::message::{
    DefinitionBlock, PartSeries, RejectedSamples, StreamId, WriteBody, WritePart,
};

const SERIES: Tag = Tag::new(1, WireType::Len);
const BATCH: Tag = Tag::new(2, WireType::Len);
const MESSAGE_KNOWN_MAX: u32 = 2;

/// How long a batch that finds no room waits before it tries again, at first and at most.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(1);
const RETRY_AFTER_MAX: Duration = Duration::from_millis(64);

/// What the messages belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// A lone request. One that finds the shards, or the memory for requests, full is refused.
    Once,
    /// A stream with batches up to a number. A batch that finds no room is held, and its stream with
    /// it: the client's window fills.
    Stream {
        /// 0: none yet.
        last_number: u64,
    },
}

/// What a batch found no room in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// The lanes to the shards: these get on.
    Lanes,
    /// The memory for requests: who has some and waits for more may wait for one who does the same.
    Memory,
}

impl From<Full> for WriteRejected {
    fn from(full: Full) -> Self {
        match full {
            Full::Lanes => Self::Overloaded,
            Full::Memory => Self::BudgetExceeded,
        }
    }
}

/// Why nothing of a message, or only its definitions, was accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageRejected {
    /// Not a message of this kind.
    #[error(transparent)]
    Malformed(#[from] MalformedError),
    /// A definition is wrong.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The batch is wrong.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A batch is missing, or came twice.
    #[error(
        "batch {expected} was expected, and batch {number} came: each has the number after the last one's"
    )]
    WrongNumber {
        /// The number that it should have.
        expected: u64,
        /// The number that it has.
        number: u64,
    },
    /// Two batches.
    #[error("a message holds one batch at most")]
    SecondBatch,
    /// The node takes no writes now.
    #[error(transparent)]
    Write(#[from] WriteRejected),
}

impl MessageRejected {
    /// One word for it, as the reasons of samples have.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Write(rejection) => rejection.reason(),
            Self::Definition(_) => "bad_definition",
            Self::Malformed(_) | Self::Batch(_) | Self::WrongNumber { .. } | Self::SecondBatch => "malformed",
        }
    }
}

/// What a batch carries to the shards beside its samples.
struct Carried {
    body: Arc<WriteBody>,
    /// The message's room.
    of_message: Rc<Reservation>,
}

/// Takes messages in for one stream.
pub(crate) struct StreamIngester {
    caller: Caller,
    series: StreamSeries,
    call: CallKind,
    stream: Option<StreamId>,
    /// What the stream has in flight.
    flight: Rc<RefCell<BatchesInFlight>>,
}

impl StreamIngester {
    /// For a stream that has defined nothing yet.
    pub(crate) fn new(caller: Caller, call: CallKind, flight: Rc<RefCell<BatchesInFlight>>) -> Self {
        let definitions = caller.definitions.begin();
        let (series, stream) = match call {
            CallKind::Once => (StreamSeries::new(definitions), None),
            CallKind::Stream { .. } => (StreamSeries::caching_refs(definitions), Some(StreamId::issue())),
        };
        Self { caller, series, call, stream, flight }
    }

    /// Accepts a message and returns what is in flight of it.
    pub(crate) async fn take(&mut self, message: StreamMessage) -> Result<Sent, MessageRejected> {
        let began = now();
        let mut refused = RejectedSamples::default();
        let StreamMessage { bytes, room: of_message } = message;
        let batch = self.define(&bytes, &mut refused).await?;
        let Some(batch) = batch else { return Ok(Sent::definitions(refused.by_ref)) };
        let columns = Columns::read(batch)?;
        self.check_number(columns.number)?;
        if let Some(replaying) = self.caller.replaying() {
            return Err(WriteRejected::NotReady(replaying.to_string()).into());
        }
        let carried = self.carried(&columns, &bytes, of_message).await?;
        let mut room = self.caller.bodies.begin();
        let mut retry_after = RETRY_AFTER_MIN;
        loop {
            self.table_settled().await;
            match self.send(&columns, (&carried, &mut room), began, &mut refused)? {
                Ok(sent) => return Ok(sent),
                Err(full) if self.call == CallKind::Once => return Err(WriteRejected::from(full).into()),
                Err(_) if self.caller.shutdown.is_requested() => return Err(stopping().into()),
                Err(Full::Memory) if began.elapsed() >= ROOM_WAIT_MAX => {
                    return Err(WriteRejected::BudgetExceeded.into());
                }
                Err(Full::Lanes | Full::Memory) => {
                    self.caller.count(|counts| counts.stream_waits += 1);
                    sleep(retry_after).await;
                    retry_after = (2 * retry_after).min(RETRY_AFTER_MAX);
                }
            }
        }
    }

    /// What a batch carries to the shards. One without native histograms carries what its stream has defined alone,
    /// and drops the message with its columns.
    async fn carried(
        &self,
        columns: &Columns<'_>,
        message: &Bytes,
        mut of_message: Reservation,
    ) -> Result<Carried, MessageRejected> {
        let body = self.series.body();
        if columns.histograms() == 0 {
            return Ok(Carried { body: Arc::clone(body), of_message: Rc::new(of_message) });
        }
        // What came in one piece with others has its room with these.
        let missing = message.len().saturating_sub(of_message.bytes());
        let wait = if self.call == CallKind::Once { Duration::ZERO } else { ROOM_WAIT_MAX };
        make_room(&mut of_message, missing, wait).await.map_err(WriteRejected::from)?;
        let batch = message.slice_ref(columns.histogram_bytes());
        let body = WriteBody { definitions: body.definitions.clone(), batch, ..WriteBody::default() };
        Ok(Carried { body: Arc::new(body), of_message: Rc::new(of_message) })
    }

    /// Waits until nothing is in flight that was split by another table than the present one.
    async fn table_settled(&self) {
        let is_settled = || self.flight.borrow().lets_follow(self.caller.router.table().epoch());
        // No waker: what is in flight lands in the stream that polls this, and it polls on.
        poll_fn(|_| if is_settled() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn check_number(&mut self, number: u64) -> Result<(), MessageRejected> {
        match &mut self.call {
            CallKind::Stream { last_number } if *last_number + 1 != number => {
                Err(MessageRejected::WrongNumber { expected: *last_number + 1, number })
            }
            CallKind::Stream { last_number } => {
                *last_number = number;
                Ok(())
            }
            CallKind::Once => Ok(()),
        }
    }

    /// Takes the definitions in, many in slices, and finds the batch.
    async fn define<'a>(
        &mut self,
        message: &'a Bytes,
        refused: &mut RejectedSamples,
    ) -> Result<Option<WireReader<'a>>, MessageRejected> {
        let mut fields = WireReader::new(message, 0);
        let (mut batch, mut block, mut defined) = (None, DefinitionBlock::default(), 0);
        let mut began = now();
        while !fields.is_empty() {
            match fields.tag()? {
                SERIES => {
                    let refusal = self.series.define(fields.message()?, &mut block, &self.caller.hasher)?;
                    refused.by_ref.extend(refusal);
                    defined += 1;
                    if defined % DECODE_STEP_SERIES == 0 && began.elapsed() >= SLICE {
                        reactor_polled().await;
                        began = now();
                    }
                }
                BATCH if batch.is_some() => return Err(MessageRejected::SecondBatch),
                BATCH => batch = Some(fields.message()?),
                other => fields.skip_unknown(other, MESSAGE_KNOWN_MAX)?,
            }
        }
        self.series.add(block);
        self.caller.count(|counts| {
            counts.series_defined += defined as u64;
            counts.series_refused += refused.by_ref.len() as u64;
        });
        Ok(batch)
    }

    /// Sends a batch on to the shards with what it carries, all of it or nothing.
    fn send(
        &self,
        columns: &Columns,
        (carried, room): (&Carried, &mut Reservation),
        began: Instant,
        refused: &mut RejectedSamples,
    ) -> Result<Result<Sent, Full>, BatchError> {
        if !self.caller.router.has_room() {
            return Ok(Err(Full::Lanes));
        }
        let in_memory_bytes = columns.part_bytes();
        if room.grow(in_memory_bytes).is_err() {
            return Ok(Err(Full::Memory));
        }
        let table = self.caller.router.table();
        let mut split = Split::new(Rc::clone(&table), &self.caller.parts);
        let mut of_refused_series = RejectedSamples::default();
        deal_out(columns, &self.series.routes(), &mut split, &mut of_refused_series)?;
        let parts = match split.finish() {
            Ok(parts) => parts,
            Err(Overloaded) => {
                room.shrink(in_memory_bytes);
                return Ok(Err(Full::Lanes));
            }
        };
        let room = self.series.room_with(std::mem::replace(room, self.caller.bodies.begin()));
        let room = match columns.histograms() {
            0 => room,
            _some => room.with_message(Rc::clone(&carried.of_message)),
        };
        let mut answers = Vec::with_capacity(table.shards());
        for (shard, mut part) in parts {
            part.stream = self.stream;
            let write = WritePart { body: Arc::clone(&carried.body), part };
            // There was room, and nobody else asked meanwhile.
            match self.caller.router.ask_to_write(shard, write, &room) {
                Ok(answer) => answers.push(answer),
                Err(Overloaded) => return Ok(Err(Full::Lanes)),
            }
        }
        self.caller.count(|counts| counts.refused.merge(&of_refused_series.counts));
        let definitions = std::mem::take(&mut refused.by_ref);
        Ok(Ok(Sent::batch(
            (columns.number, began),
            columns.samples() + columns.histograms(),
            definitions,
            of_refused_series.by_ref,
            (table.epoch(), answers),
            (self.series.caching_routes(), room),
        )))
    }
}

/// Deals a batch's samples, floats and native histograms, out to the parts of the shards that own their series.
pub fn deal_out(
    columns: &Columns,
    routes: &Routes,
    split: &mut Split<'_>,
    refused: &mut RejectedSamples,
) -> Result<(), BatchError> {
    let (mut sample_number, mut last) = (0, None);
    columns.for_each(STREAM_BATCH_SAMPLES_MAX, |stream_ref, sample| {
        let undefined = || BatchError::UndefinedRef { row: BatchRow::Sample(sample_number), stream_ref };
        let route = routes.get(stream_ref).ok_or_else(undefined)?;
        match route.state {
            RouteState::Series if last == Some(stream_ref) => split.another_sample(sample),
            RouteState::Series => {
                let SeriesRoute { id, labels, cached, .. } = *route;
                split.series_with(PartSeries { id, labels, samples: 1, cached }, sample);
                last = Some(stream_ref);
            }
            RouteState::Refused(reason) => {
                refused.counts.add(reason, 1);
                refused.note_ref(stream_ref, reason, 1);
            }
            RouteState::Undefined => return Err(undefined()),
        }
        sample_number += 1;
        Ok(())
    })?;
    if columns.histograms() == 0 { Ok(()) } else { histograms::deal_out(columns, routes, split, refused) }
}

/// What senders get once the node is to end.
pub(crate) fn stopping() -> WriteRejected {
    WriteRejected::NotReady("the node is stopping".to_owned())
}

//! The way of a write request on its acceptor: decompress, decode, split, ask the shards, add up.

use std::sync::Arc;
use std::time::Duration;

use crate::api::ingest::Ingest;
use crate::api::ingest::remote_write::answer::WriteReport;
use crate::api::ingest::remote_write::{
    DecodeProgress, Decoding, MalformedError, SeriesSink, Version, WriteRejected, snappy,
};
use crate::routing::{
    Overloaded, ReplyFuture, Reservation, ReservationError, SharedReservation, Split, follow, take_moved,
};
use silverback_model::limits::MOVED_WAIT_MAX;
use silverback_model::{Metadata, Sample, SeriesId, ShardId};
use silverback_runtime::slices::SLICE;
use silverback_runtime::{now, reactor_polled, sleep, timeout};
use silverback_storage::message::{
    DefinitionBlock, Definitions, LabelSpan, MovedSeries, Part, PartExemplar, PartHistogram, PartMetadata,
    WriteAck, WriteBody, WritePart, WriteReply,
};

/// How long a part that is sent again waits for room before it looks again.
const ROOM_AGAIN: Duration = Duration::from_millis(1);
/// How long a request that is decoded waits for shards that have as much in flight as they may: a disk's hiccup, with
/// a thousand senders on a core. What lasts longer is its sender's to wait for.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(1);

impl SeriesSink for Split<'_> {
    #[inline(always)]
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        Split::series(self, id, labels, samples);
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        Split::sample(self, sample);
    }

    fn start_timestamp(&mut self, start_ms: i64) {
        Split::start_timestamp(self, start_ms);
    }

    fn histogram(&mut self, histogram: PartHistogram) {
        Split::histogram(self, histogram);
    }

    fn exemplar(&mut self, exemplar: PartExemplar) {
        Split::exemplar(self, exemplar);
    }

    fn metadata(&mut self, said: &Metadata<'_>, metadata: PartMetadata) {
        Split::metadata(self, said, metadata);
    }
}

/// Refuses a request before its body is read, while the node takes none.
pub(crate) fn check_ready(ingest: &Ingest) -> Result<(), WriteRejected> {
    ingest.replaying().map_or(Ok(()), |replaying| Err(WriteRejected::NotReady(replaying.to_string())))
}

/// Writes one request and waits until its samples are acknowledged. After a rejection parts of the
/// request may be stored all the same: a retry of them is accepted. `reserved` has room for the
/// compressed bytes and gets what the request needs besides.
pub fn write(
    ingest: &Ingest,
    version: Version,
    compressed: &[u8],
    mut reserved: Reservation,
) -> impl Future<Output = Result<WriteReport, WriteRejected>> {
    async move {
        let decoded_bytes = snappy::claimed_bytes(compressed, ingest.config.max_decoded_bytes)?;
        reserved.grow(decoded_bytes)?;
        let mut body = ingest.bodies.take(decoded_bytes);
        let written = write_from(ingest, version, compressed, &mut body, reserved).await;
        if written.is_err() {
            ingest.decoder.borrow_mut().forget_metadata();
        }
        ingest.bodies.give_back(body);
        written
    }
}

fn write_from(
    ingest: &Ingest,
    version: Version,
    compressed: &[u8],
    body: &mut Arc<WriteBody>,
    mut reserved: Reservation,
) -> impl Future<Output = Result<WriteReport, WriteRejected>> {
    async move {
        let fresh = Arc::get_mut(body).expect("a body from the pool is read by nobody else");
        snappy::decompress(compressed, ingest.config.max_decoded_bytes, &mut fresh.bytes)?;
        let mut split = Split::new(ingest.router.table(), &ingest.parts);
        let report = {
            let decoding = decode(
                ingest,
                || Decoding::start(version),
                fresh,
                &mut split,
                |in_memory_bytes| reserved.grow_to(compressed.len() + in_memory_bytes),
            );
            let decoding = decoding.await?;
            count(ingest, &decoding);
            WriteReport::from(decoding.tally)
        };
        send(ingest, body, split, report, reserved.into()).await
    }
}

/// Has the shards take in what was split from `body`, and adds what they made of it to `report`,
/// once all of it is acknowledged. `room` is what the request takes.
pub(crate) fn send(
    ingest: &Ingest,
    body: &Arc<WriteBody>,
    split: Split<'_>,
    mut report: WriteReport,
    room: SharedReservation,
) -> impl Future<Output = Result<WriteReport, WriteRejected>> {
    async move {
        let parts = split.finish()?;
        if !ingest.router.has_room() {
            // Large, and rare.
            Box::pin(wait_for_room(ingest)).await?;
        }
        let asked = ask(ingest, body, parts, &room);
        let mut moved = Vec::new();
        let mut failed = None;
        // One after the other: none of them needs to be asked to go on.
        for answer in asked.sent {
            let mut reply = answer.await;
            moved.extend(take_moved(&mut reply));
            match acknowledged(ingest, reply) {
                Ok(ack) => report.add(ack),
                Err(rejection) => failed = failed.or(Some(rejection)),
            }
        }
        if let Some(rejection) = failed {
            return Err(rejection);
        }
        if !moved.is_empty() {
            // Large, and rare: a cell moved while its part was on the way.
            for reply in Box::pin(follow_moved(ingest, moved, &room)).await? {
                report.add(acknowledged(ingest, reply)?);
            }
        }
        match asked.refused {
            Some(overloaded) => Err(overloaded.into()),
            None => Ok(report),
        }
    }
}

/// The same for series whose label sets the request's decoder has made, each named by its number. `beside` has the texts
/// of their exemplars and metadata, and the messages of their native histograms.
pub(crate) async fn send_defined(
    ingest: &Ingest,
    labels: DefinitionBlock,
    beside: Vec<u8>,
    split: Split<'_>,
    report: WriteReport,
    room: SharedReservation,
) -> Result<WriteReport, WriteRejected> {
    let mut definitions = Definitions::default();
    definitions.push(labels);
    let body = Arc::new(WriteBody { definitions, scratch: beside, ..WriteBody::default() });
    send(ingest, &body, split, report, room).await
}

/// Decodes the whole request before any of it is sent on: what turns out malformed stores nothing.
/// `make_room` is given what the request takes after each slice.
pub(super) async fn decode(
    ingest: &Ingest,
    // Begun here: what an async function is given by value is in its future twice.
    begin: impl FnOnce() -> Decoding,
    body: &mut WriteBody,
    split: &mut Split<'_>,
    mut make_room: impl FnMut(usize) -> Result<(), ReservationError>,
) -> Result<Decoding, WriteRejected> {
    let mut decoding = begin();
    loop {
        let slice = decode_slice(ingest, body, &mut decoding, split)?;
        make_room(body.capacity_bytes() + split.grown_bytes())?;
        match slice {
            DecodeProgress::Done => return Ok(decoding),
            DecodeProgress::More => reactor_polled().await,
        }
    }
}

fn decode_slice(
    ingest: &Ingest,
    body: &mut WriteBody,
    decoding: &mut Decoding,
    split: &mut Split<'_>,
) -> Result<DecodeProgress, MalformedError> {
    let began = now();
    let mut decoder = ingest.decoder.borrow_mut();
    decoder.forget_old_metadata(began);
    decoder.decode_while(body, decoding, &ingest.hasher, split, || began.elapsed() < SLICE)
}

/// Counts what the decoder refused.
pub(super) fn count(ingest: &Ingest, decoding: &Decoding) {
    ingest.count(|counts| {
        counts.refused.merge(&decoding.tally.refused);
        counts.series_refused += decoding.tally.series_refused;
        counts.exemplars_refused.merge(&decoding.tally.exemplars_refused);
        counts.metadata_refused.merge(&decoding.tally.metadata_refused);
    });
}

async fn wait_for_room(ingest: &Ingest) -> Result<(), Overloaded> {
    ingest.count(|counts| counts.write_waits += 1);
    timeout(ROOM_WAIT_MAX, ingest.router.room()).await.map_err(|_| Overloaded)
}

struct SentParts {
    sent: Vec<ReplyFuture<WritePart>>,
    /// A shard that had no room: the answers of the others are awaited all the same.
    refused: Option<Overloaded>,
}

fn ask(
    ingest: &Ingest,
    body: &Arc<WriteBody>,
    parts: impl Iterator<Item = (ShardId, Part)>,
    room: &SharedReservation,
) -> SentParts {
    let mut asked = SentParts { sent: Vec::new(), refused: None };
    for (shard, part) in parts {
        let write = WritePart { body: Arc::clone(body), part };
        match ingest.router.ask_to_write(shard, write, room) {
            Ok(answer) => asked.sent.push(answer),
            Err(overloaded) => asked.refused = Some(overloaded),
        }
    }
    asked
}

/// What a shard's reply to its part means.
pub(crate) fn acknowledged(ingest: &Ingest, reply: WriteReply) -> Result<WriteAck, WriteRejected> {
    match reply {
        WriteReply::Written(ack) => Ok(ack),
        WriteReply::NotDurable(error) => Err(error.into()),
        WriteReply::MemoryFull => {
            Err(WriteRejected::MemoryFull { limit_bytes: ingest.node.memory.limit_bytes })
        }
    }
}

/// Sends series on whose cells have moved, and gives their new owners' replies. `room` is what their
/// request takes.
pub(crate) async fn follow_moved(
    ingest: &Ingest,
    moved: Vec<MovedSeries>,
    room: &SharedReservation,
) -> Result<Vec<WriteReply>, WriteRejected> {
    if moved.is_empty() {
        return Ok(Vec::new());
    }
    ingest.count(|counts| counts.parts_sent_again += moved.len() as u64);
    let pause = async || sleep(ROOM_AGAIN).await;
    let replies = timeout(MOVED_WAIT_MAX, follow(&ingest.router, &ingest.parts, moved, room, pause)).await;
    replies.map_err(|_| WriteRejected::Overloaded)
}

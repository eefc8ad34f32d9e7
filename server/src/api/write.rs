//! The way of a write request on its acceptor: decompress, decode, split, ask the shards, add up.

use std::sync::Arc;

use futures::future::join_all;

use crate::api::core::Core;
use crate::api::remote_write::snappy::{self, SnappyError};
use crate::api::remote_write::{Decoding, MalformedBody, SeriesSink, Slice, Version};
use crate::limits::DECODE_SLICE_SERIES;
use crate::message::{LabelSpan, Part, Refusals, ShardReply, ShardRequest, WriteAck, WriteBody, WritePart};
use crate::model::{Sample, SeriesId, ShardId};
use crate::routing::{Answer, Overloaded, Split};
use crate::runtime::reactor_polled;
use crate::wal::LogError;

/// What became of a request that was decoded.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Written {
    /// Samples stored, as durable as the node was told to make them.
    pub samples: u64,
    /// The others.
    pub refusals: Refusals,
    /// Series that were refused whole, though some had no sample.
    pub series_refused: u64,
}

/// Why a request was refused as a whole. Parts of it may be stored all the same: a retry of them is
/// accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Not snappy, or too large.
    #[error(transparent)]
    Snappy(#[from] SnappyError),
    /// Not the protobuf that it should be.
    #[error(transparent)]
    Malformed(#[from] MalformedBody),
    /// Something is full.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// A log takes nothing.
    #[error(transparent)]
    NotDurable(#[from] LogError),
}

impl SeriesSink for Split<'_> {
    #[inline]
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        Split::series(self, id, labels, samples);
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        Split::sample(self, sample);
    }
}

/// Writes one request and waits until its samples are acknowledged.
pub async fn write(core: &Core, version: Version, compressed: &[u8]) -> Result<Written, WriteError> {
    let decoded_bytes = snappy::decompressed_len(compressed, core.config.max_decoded_bytes)?;
    let _reserved = core.bodies.reserve(decoded_bytes)?;
    let mut body = core.bodies.take();
    let result = write_body(core, version, compressed, &mut body).await;
    core.bodies.give_back(body);
    result
}

async fn write_body(
    core: &Core,
    version: Version,
    compressed: &[u8],
    body: &mut Arc<WriteBody>,
) -> Result<Written, WriteError> {
    let fresh = Arc::get_mut(body).expect("a body from the pool is read by nobody else");
    snappy::decompress(compressed, &mut fresh.bytes)?;
    let mut split = Split::new(core.router.table(), &core.parts);
    let decoding = decode(core, version, fresh, &mut split).await?;
    let answers = ask(core, body, split.finish()?);
    let mut written = begin(core, decoding);
    for reply in join_all(answers.sent).await {
        written.add(acknowledged(reply)?);
    }
    match answers.refused {
        Some(overloaded) => Err(overloaded.into()),
        None => Ok(written),
    }
}

/// Decodes the whole request before any of it is sent on: what turns out malformed stores nothing.
async fn decode(
    core: &Core,
    version: Version,
    body: &mut WriteBody,
    split: &mut Split<'_>,
) -> Result<Decoding, MalformedBody> {
    let mut decoding = Decoding::start(version);
    loop {
        let mut decoder = core.decoder.borrow_mut();
        let slice = decoder.decode(body, &mut decoding, &core.hasher, DECODE_SLICE_SERIES, split)?;
        drop(decoder);
        match slice {
            Slice::Done => return Ok(decoding),
            Slice::More => reactor_polled().await,
        }
    }
}

struct Asked {
    sent: Vec<Answer>,
    /// A shard that had no room: the answers of the others are awaited all the same.
    refused: Option<Overloaded>,
}

fn ask(core: &Core, body: &Arc<WriteBody>, parts: impl Iterator<Item = (ShardId, Part)>) -> Asked {
    let mut asked = Asked { sent: Vec::new(), refused: None };
    for (shard, part) in parts {
        let write = WritePart { body: Arc::clone(body), part };
        match core.router.ask(shard, ShardRequest::Write(write)) {
            Ok(answer) => asked.sent.push(answer),
            Err(overloaded) => asked.refused = Some(overloaded),
        }
    }
    asked
}

fn acknowledged(reply: ShardReply) -> Result<WriteAck, LogError> {
    match reply {
        ShardReply::Written(ack) => Ok(ack),
        ShardReply::NotDurable(error) => Err(error),
        ShardReply::Read(_) | ShardReply::Stats(_) => unreachable!("a write is answered as a write"),
    }
}

/// What the decoder counted, here and in the core's counters.
fn begin(core: &Core, decoding: Decoding) -> Written {
    let tally = decoding.tally;
    core.count(|counts| {
        counts.refused.merge(&tally.refused);
        counts.exemplars_ignored += tally.exemplars_ignored;
        counts.metadata_ignored += tally.metadata_ignored;
    });
    let refusals = Refusals { counts: tally.refused, example: tally.example };
    Written { samples: 0, refusals, series_refused: tally.series_refused }
}

impl Written {
    fn add(&mut self, ack: WriteAck) {
        self.samples += ack.written;
        if let Some(refusals) = ack.refusals {
            self.refusals.merge(*refusals);
        }
    }
}

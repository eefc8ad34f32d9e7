//! SAMPLES: one `ReadResponse`, written by hand in slices, with exactly the samples in the range. It
//! is in memory compressed until it is sent, within the room that reads in flight have. Where that is scarce, one
//! answer that takes much of it is made and sent at a time: several that grow together would all find it taken, and
//! none would end. One that grows while another has the turn begins again when its own comes: what it had collected,
//! here and on the shards, might be what that other one waits for.

use std::rc::Rc;

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};

use super::snappy_pieces::SnappyPieces;
use crate::api::protobuf::{Wire, put_len_head, put_varint, tag, varint_len};
use crate::api::query::Reader;
use crate::api::query::read_rejected::{ReadAnswer, ReadRejected};
use crate::api::query::rows::RowStream;
use crate::api::query::stream::streamed;
use crate::api::response::NodeResponse;
use crate::routing::{ByteBudget, LargeAnswer, ReadInFlight, ReadLease, Reservation};
use silverback_model::Sample;
use silverback_model::gorilla::ChunkError;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Histogram, HistogramChunkError, HistogramIter};
use silverback_runtime::Slice;
use silverback_storage::message::{ChunkView, Selection, SeriesBatch, SeriesView, SeriesWanted};

/// `ReadResponse.results`
const RESULTS: u8 = 1;
/// `QueryResult.timeseries`
const TIMESERIES: u8 = 1;
/// `TimeSeries.samples`
const SAMPLES: u8 = 2;
/// Of a series.
const HISTOGRAMS: u8 = 4;

/// Answers are made beside each other until they have this fraction of the room, little more than that all together:
/// the rest is for one at a time, from its making until it is sent.
const BESIDE_SHARE: usize = 4;

/// The whole answer is made before its first byte is sent, so that a fault has a status. It grows
/// beside what `room` holds already.
pub(crate) async fn respond(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    selections: Vec<Selection>,
    room: Reservation,
) -> ReadAnswer {
    let mut budget = Budget::new(reader, room);
    let pieces = loop {
        match make(reader, read.lease(), &selections, &mut budget).await {
            Ok(pieces) => break pieces,
            Err(MakeError::Failed(fault)) => return Err(fault),
            // Once: it keeps the turn.
            Err(MakeError::NeedsTurn) => {
                budget.begin_again();
                budget.turn = Some(read.lease().large_answer().await);
            }
        }
    };
    Ok(response(reader, read, pieces, budget))
}

/// Why there is no answer.
enum MakeError {
    Failed(ReadRejected),
    /// It is to begin again once it has its turn.
    NeedsTurn,
}

impl<E: Into<ReadRejected>> From<E> for MakeError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The whole answer, compressed.
async fn make(
    reader: &Rc<Reader>,
    lease: &ReadLease,
    selections: &[Selection],
    budget: &mut Budget,
) -> Result<Vec<Bytes>, MakeError> {
    let mut whole = SnappyPieces::new();
    for selection in selections {
        let result = query_result(reader, lease, selection.clone(), budget).await?;
        let mut head = Vec::new();
        put_len_head(&mut head, RESULTS, result.decompressed_bytes() as usize);
        whole.write(&head, &mut reader.slicer.begin().await, &mut budget.room).await?;
        whole.append(result, &mut budget.room)?;
    }
    whole.finish(&mut budget.room)?.ok_or(MakeError::Failed(ReadRejected::TooManySamples(budget.max)))
}

/// Samples that the answer may still hold, and the memory that it has.
struct Budget {
    left: u64,
    max: u64,
    room: Reservation,
    /// What `room` held before there was an answer.
    request_bytes: usize,
    of_all: ByteBudget,
    /// It has its turn to take more than ...
    turn: Option<LargeAnswer>,
    /// ... so many bytes, where that is scarce.
    small_bytes: usize,
}

impl Budget {
    fn new(reader: &Reader, room: Reservation) -> Self {
        let max = reader.config.max_read_samples;
        let of_all = reader.read_bytes.clone();
        let small_bytes = of_all.bytes_max() / BESIDE_SHARE / reader.reads.max();
        let request_bytes = room.bytes();
        Self { left: max, max, room, request_bytes, of_all, turn: None, small_bytes }
    }

    /// Whether it needs its turn to grow further, or to be sent as large as it is.
    fn needs_turn(&self) -> bool {
        self.turn.is_none() && self.room.bytes() > self.small_bytes && self.of_all.is_taken_to(BESIDE_SHARE)
    }

    fn take_turn_if_needed(&mut self, lease: &ReadLease) -> Result<(), MakeError> {
        if self.needs_turn() {
            self.turn = Some(lease.try_large_answer().ok_or(MakeError::NeedsTurn)?);
        }
        Ok(())
    }

    /// For the same answer, made again.
    fn begin_again(&mut self) {
        self.left = self.max;
        self.room.shrink(self.room.bytes() - self.request_bytes);
    }

    fn take(&mut self, samples: u64) -> Result<(), ReadRejected> {
        self.left = self.left.checked_sub(samples).ok_or(ReadRejected::TooManySamples(self.max))?;
        Ok(())
    }
}

/// A `QueryResult` without its head.
async fn query_result(
    reader: &Rc<Reader>,
    lease: &ReadLease,
    selection: Selection,
    budget: &mut Budget,
) -> Result<SnappyPieces, MakeError> {
    let mut result = SnappyPieces::new();
    let (min_ms, max_ms) = (selection.min_ms, selection.max_ms);
    let mut stream: RowStream<SeriesBatch> =
        RowStream::open_all(reader, lease, selection, SeriesWanted::Chunks, 1).await?;
    let mut timeseries = Vec::new();
    let mut held = None;
    while let Some(mut slice) = stream.advance(held).await? {
        let series = stream.series();
        let samples = put_timeseries(&mut timeseries, series, (min_ms, max_ms), budget, &mut slice).await?;
        if samples > 0 {
            let mut head = Vec::new();
            put_len_head(&mut head, TIMESERIES, timeseries.len());
            result.write(&head, &mut slice, &mut budget.room).await?;
            result.write(&timeseries, &mut slice, &mut budget.room).await?;
        }
        // After each, so that none is sent without its turn.
        budget.take_turn_if_needed(lease)?;
        held = Some(slice);
    }
    budget.room.shrink(timeseries.capacity());
    drop(stream);
    // What was made for queries before this one may be large.
    budget.take_turn_if_needed(lease)?;
    Ok(result)
}

/// Writes a `TimeSeries` over what `out` held, and gives the count of its samples.
async fn put_timeseries(
    out: &mut Vec<u8>,
    series: SeriesView<'_>,
    range_ms: (i64, i64),
    budget: &mut Budget,
    slice: &mut Slice,
) -> Result<u64, ReadRejected> {
    out.clear();
    let mut held_bytes = out.capacity();
    // The canonical form is the message's own: `repeated Label labels = 1`.
    out.extend_from_slice(series.labels.0);
    let mut samples = 0;
    for chunk in series.chunks() {
        let of_chunk = match chunk.histograms() {
            None => put_samples(out, chunk, range_ms)?,
            Some(histograms) => put_histograms(out, histograms, range_ms)?,
        };
        budget.take(of_chunk)?;
        samples += of_chunk;
        budget.room.grow_within(out.capacity() - held_bytes)?;
        held_bytes = out.capacity();
        slice.yield_if_needed().await;
    }
    Ok(samples)
}

fn put_samples(
    out: &mut Vec<u8>,
    chunk: ChunkView<'_>,
    (min_ms, max_ms): (i64, i64),
) -> Result<u64, ChunkError> {
    let mut samples = 0;
    for sample in chunk.samples() {
        let sample = sample?;
        if (min_ms..=max_ms).contains(&sample.timestamp_ms) {
            put_sample(out, sample);
            samples += 1;
        }
    }
    Ok(samples)
}

/// Appends the histograms of a range, and returns how many.
fn put_histograms(
    out: &mut Vec<u8>,
    mut chunk: HistogramIter<'_>,
    (min_ms, max_ms): (i64, i64),
) -> Result<u64, HistogramChunkError> {
    let (mut histogram, mut message, mut count) = (Histogram::default(), Vec::new(), 0);
    while chunk.samples_left() > 0 {
        let timestamp_ms = chunk.next_into(&mut histogram)?;
        if (min_ms..=max_ms).contains(&timestamp_ms) {
            message.clear();
            let times = HistogramTimes { timestamp_ms, ..HistogramTimes::default() };
            histogram.put_message(times, &mut message);
            put_len_head(out, HISTOGRAMS, message.len());
            out.extend_from_slice(&message);
            count += 1;
        }
    }
    Ok(count)
}

fn put_sample(out: &mut Vec<u8>, sample: Sample) {
    let timestamp = sample.timestamp_ms as u64;
    // In one piece up to the timestamp: its length is one byte.
    let mut head = [0; 12];
    head[0] = tag(SAMPLES, Wire::Len);
    head[1] = 1 + 8 + 1 + varint_len(timestamp) as u8;
    head[2] = tag(1, Wire::Fixed64);
    head[3..11].copy_from_slice(&sample.value.to_bits().to_le_bytes());
    head[11] = tag(2, Wire::Varint);
    out.extend_from_slice(&head);
    put_varint(out, timestamp);
}

fn response(reader: &Rc<Reader>, read: ReadInFlight, pieces: Vec<Bytes>, budget: Budget) -> NodeResponse {
    let Budget { mut room, turn, .. } = budget;
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        for piece in pieces {
            let bytes = piece.len();
            outgoing.send_piece(piece).await?;
            room.shrink(bytes);
        }
        drop((room, turn));
        Ok(())
    });
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("snappy"));
    response
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use silverback_proto::prometheus;

    use super::*;

    fn check(timestamp_ms: i64, value: f64) {
        let mut out = Vec::new();
        put_sample(&mut out, Sample::new(timestamp_ms, value));
        let series = prometheus::TimeSeries::decode(&out[..]).unwrap();
        let read = Sample::new(series.samples[0].timestamp, series.samples[0].value);
        assert_eq!(read, Sample::new(timestamp_ms, value));
    }

    #[test]
    fn prost_reads_samples_as_they_were_written() {
        check(1_700_000_000_000, 1.5);
        check(0, -0.0);
        check(-1, f64::from_bits(silverback_model::STALE_NAN_BITS));
        check(i64::MIN, f64::INFINITY);
        check(i64::MAX, 0.0);
    }

    #[test]
    fn a_large_answer_waits_for_its_turn_where_memory_is_scarce() {
        let of_all = ByteBudget::new(400);
        let budget = |bytes| {
            let mut room = of_all.begin();
            room.grow(bytes).unwrap();
            Budget {
                left: 0,
                max: 0,
                room,
                request_bytes: 0,
                of_all: of_all.clone(),
                turn: None,
                small_bytes: 25,
            }
        };
        let large = budget(100);
        assert!(!large.needs_turn(), "there is enough");
        let small = budget(25);
        assert!(large.needs_turn() && !small.needs_turn());
        of_all.allow(60);
        drop(large);
        assert!(!small.needs_turn() && budget(26).needs_turn());
    }

    #[test]
    fn a_budget_is_used_to_its_last_sample() {
        let of_all = ByteBudget::new(0);
        let room = of_all.begin();
        let mut budget =
            Budget { left: 3, max: 3, room, request_bytes: 0, of_all, turn: None, small_bytes: 0 };
        assert_eq!(budget.take(3), Ok(()));
        assert_eq!(budget.take(0), Ok(()));
        assert_eq!(budget.take(1), Err(ReadRejected::TooManySamples(3)));
        budget.begin_again();
        assert_eq!(budget.take(3), Ok(()), "the same answer, made again");
    }
}

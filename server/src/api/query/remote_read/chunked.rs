//! STREAMED_XOR_CHUNKS: frames of `uvarint length | CRC32C, big endian | ChunkedReadResponse`.
//!
//! A frame holds one series, or a part of one: what has more than 1 MiB of labels and chunks goes on
//! in the next frame, its labels repeated. Chunks are sent as memory holds them, so they may exceed
//! the range at both ends.

use std::rc::Rc;

use http::header::HeaderValue;
use http::{Response, header};

use crate::api::protobuf::{Wire, field_len, put_len_head, put_varint, tag, varint_len};
use crate::api::query::Reader;
use crate::api::query::frame::chunks_of_frame;
use crate::api::query::read_rejected::ReadAnswer;
use crate::api::query::rows::RowStream;
use crate::api::query::stream::{AnswerSender, StreamError, streamed};
use crate::routing::fanout::FanoutError;
use crate::routing::{ReadInFlight, ReadLease};
use silverback_model::LabelBlock;
use silverback_storage::message::{ChunkView, Selection, SeriesBatch, SeriesView, SeriesWanted};

const CONTENT_TYPE: &str = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";

/// `ChunkedReadResponse.chunked_series`
const CHUNKED_SERIES: u8 = 1;
/// `ChunkedReadResponse.query_index`
const QUERY_INDEX: u8 = 2;
/// `ChunkedSeries.chunks`
const CHUNKS: u8 = 2;

/// The first query is opened before anything is sent, so that a refusal has a status.
pub(crate) async fn respond(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    selections: Vec<Selection>,
) -> ReadAnswer {
    let mut selections = selections.into_iter();
    let first = match selections.next() {
        Some(selection) => Some(open(reader, read.lease(), selection).await?),
        None => None,
    };
    let (core_of_read, lease) = (Rc::clone(reader), read.lease().clone());
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        let Some(first) = first else { return Ok(()) };
        send_series(&core_of_read, first, 0, outgoing).await?;
        for (index, selection) in (1..).zip(selections) {
            let series = open(&core_of_read, &lease, selection).await?;
            send_series(&core_of_read, series, index, outgoing).await?;
        }
        Ok(())
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    Ok(response)
}

async fn open(
    reader: &Rc<Reader>,
    lease: &ReadLease,
    selection: Selection,
) -> Result<RowStream<SeriesBatch>, FanoutError> {
    RowStream::open_all(reader, lease, selection, SeriesWanted::Chunks, 1).await
}

async fn send_series(
    reader: &Reader,
    mut stream: RowStream<SeriesBatch>,
    query_index: u64,
    outgoing: &mut AnswerSender,
) -> Result<(), StreamError> {
    let mut held = None;
    while let Some(slice) = stream.advance(held).await? {
        held = Some(slice);
        let SeriesView { labels, .. } = stream.series();
        let mut left = stream.series().chunks();
        while left.len() > 0 {
            let mut chunk_bytes = 0;
            let count = chunks_of_frame(labels, left.clone(), |chunk| {
                let len = chunk_len(chunk);
                chunk_bytes += field_len(len);
                len
            });
            let now = left.clone().take(count);
            left.nth(count - 1);
            // A frame that isn't a series' last fills a piece, so no slice goes on from frame to frame.
            let slice = match held {
                Some(slice) => slice,
                None => reader.slicer.begin().await,
            };
            put_frame(outgoing.made(), labels, (now, chunk_bytes), query_index);
            held = outgoing.send_if_full(slice).await?;
        }
    }
    Ok(())
}

/// Appends the frame of a series with these chunks, whose fields take so many bytes together.
fn put_frame<'a>(
    out: &mut Vec<u8>,
    labels: LabelBlock<'_>,
    (chunks, chunk_bytes): (impl Iterator<Item = ChunkView<'a>>, usize),
    query_index: u64,
) {
    let series_bytes = labels.0.len() + chunk_bytes;
    // Proto 3: zero is not written.
    let index_bytes = if query_index == 0 { 0 } else { 1 + varint_len(query_index) };
    put_varint(out, (field_len(series_bytes) + index_bytes) as u64);
    let checksum_at = out.len();
    out.extend_from_slice(&[0; 4]);
    put_len_head(out, CHUNKED_SERIES, series_bytes);
    // The canonical form is the message's own: `repeated Label labels = 1`.
    out.extend_from_slice(labels.0);
    chunks.for_each(|chunk| put_chunk(out, chunk));
    if query_index > 0 {
        out.push(tag(QUERY_INDEX, Wire::Varint));
        put_varint(out, query_index);
    }
    let checksum = crc32c::crc32c(&out[checksum_at + 4..]);
    out[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_be_bytes());
}

fn put_chunk(out: &mut Vec<u8>, chunk: ChunkView<'_>) {
    let mut head = ChunkHead { bytes: [0; ChunkHead::BYTES_MAX], len: 0 };
    for (field, time_ms) in [(1, chunk.min_ms), (2, chunk.max_ms)] {
        head.put(tag(field, Wire::Varint));
        head.put_varint(time_ms as u64);
    }
    head.put(tag(3, Wire::Varint));
    head.put(chunk.of.encoding());
    head.put(tag(4, Wire::Len));
    head.put_varint(chunk.bytes.len() as u64);
    put_len_head(out, CHUNKS, head.len + chunk.bytes.len());
    out.extend_from_slice(&head.bytes[..head.len]);
    out.extend_from_slice(chunk.bytes);
}

/// What a `Chunk` message has before its data: written here and then copied at once, for there are as many as chunks.
struct ChunkHead {
    bytes: [u8; Self::BYTES_MAX],
    len: usize,
}

impl ChunkHead {
    /// Four tags, three varints of ten bytes, and an encoding.
    const BYTES_MAX: usize = 4 + 3 * 10 + 1;

    fn put(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put(value as u8 | 0x80);
            value >>= 7;
        }
        self.put(value as u8);
    }
}

/// A `Chunk` message in bytes.
fn chunk_len(chunk: ChunkView<'_>) -> usize {
    let time_len = |time_ms: i64| 1 + varint_len(time_ms as u64);
    let times = time_len(chunk.min_ms) + time_len(chunk.max_ms);
    times + 2 + field_len(chunk.bytes.len())
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use silverback_proto::prometheus::ChunkedReadResponse;
    use silverback_proto::prometheus::chunk::Encoding;
    use silverback_storage::message::ChunkOf;

    use super::*;
    use silverback_model::Labels;

    /// One sample, and so many bytes that nobody reads.
    fn chunk(timestamp_ms: i64, padding: usize) -> (i64, Vec<u8>) {
        let mut bytes = vec![0, 1];
        put_varint(&mut bytes, ((timestamp_ms << 1) ^ (timestamp_ms >> 63)) as u64);
        bytes.extend_from_slice(&1.5f64.to_be_bytes());
        bytes.resize(bytes.len() + padding, 0);
        (timestamp_ms, bytes)
    }

    fn views(chunks: &[(i64, Vec<u8>)]) -> impl ExactSizeIterator<Item = ChunkView<'_>> + Clone {
        chunks.iter().map(|(at_ms, bytes)| ChunkView {
            min_ms: *at_ms,
            max_ms: *at_ms,
            of: ChunkOf::Samples,
            bytes,
        })
    }

    fn check(chunks: &[(i64, Vec<u8>)], query_index: u64) {
        let labels = Labels::from_pairs([("__name__", "up"), ("job", "x")]).to_canonical();
        let mut out = Vec::new();
        let chunk_bytes = views(chunks).map(|chunk| field_len(chunk_len(chunk))).sum();
        put_frame(&mut out, LabelBlock(&labels), (views(chunks), chunk_bytes), query_index);
        let length = prost::decode_length_delimiter(&out[..]).unwrap();
        let message = &out[out.len() - length..];
        assert_eq!(out[out.len() - length - 4..][..4], crc32c::crc32c(message).to_be_bytes());
        assert_eq!(out.len(), varint_len(length as u64) + 4 + length);
        let response = ChunkedReadResponse::decode(message).unwrap();
        assert_eq!(response.query_index, query_index as i64);
        assert_eq!(response.encode_to_vec(), message, "prost writes the same");
        let [series] = &response.chunked_series[..] else { panic!("one series a frame") };
        assert_eq!(series.labels[1].value, "x");
        assert_eq!(series.chunks.len(), chunks.len());
        for (read, chunk) in series.chunks.iter().zip(views(chunks)) {
            assert_eq!(read.r#type(), Encoding::Xor);
            assert_eq!(read.data, chunk.bytes);
            assert_eq!((read.min_time_ms, read.max_time_ms), (chunk.min_ms, chunk.max_ms));
            assert_eq!(read.encoded_len(), chunk_len(chunk));
        }
    }

    #[test]
    fn prost_reads_frames_as_they_were_written() {
        check(&[chunk(1_700_000_000_000, 0)], 0);
        check(&[chunk(-5, 0), chunk(7, 300), chunk(1 << 40, 20_000)], 3);
        check(&[chunk(i64::MIN + 1, 0)], 200);
    }
}

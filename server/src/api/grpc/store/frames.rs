//! Responses of series, each framed as gRPC frames a message: a series or a part of one each, or a batch of these.
//!
//! Labels and chunks are written as batches of the shards hold them. What belongs into one message is the caller's.

use bytes::Bytes;
use prost::Message;

use crate::api::protobuf::{Wire, field_len, put_len_head, put_varint, tag, varint_len};
use silverback_model::LabelBlock;
use silverback_model::limits::STREAM_BUFFER_BYTES;
use silverback_storage::message::ChunkView;

/// `SeriesResponse.series`
pub(super) const STORED: u8 = 1;
/// `QueryResponse.timeseries`, and `QueryRangeResponse.timeseries`.
pub(super) const EVALUATED: u8 = 2;
/// `SeriesBatch.series`, and `TimeSeriesBatch.series`.
const SERIES: u8 = 1;
/// `SeriesResponse.batch`, and the `timeseries_batch` of the others.
const BATCH: u8 = 4;
/// `Series.chunks`
const CHUNKS: u8 = 2;
/// `AggrChunk.raw`
const RAW: u8 = 3;

/// Before a message: that it isn't compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// A batch's length is written when it ends, in as many bytes as it may take: up to 256 MiB.
const BATCH_LEN_BYTES: usize = 4;

/// Responses that are made and not sent yet.
pub(super) struct Frames {
    made: Vec<u8>,
    /// The response's field of a series that has one of its own.
    single: u8,
    batch_series_max: usize,
    open: Option<OpenBatch>,
}

/// A batch that may get more series.
struct OpenBatch {
    begin: usize,
    series: usize,
}

impl Frames {
    /// Of batches of so many series; of single ones where it is 1.
    pub(super) fn new(single: u8, batch_series_max: usize) -> Self {
        Self { made: Vec::new(), single, batch_series_max, open: None }
    }

    /// Adds a series with some of its chunks.
    pub(super) fn put_series<'a>(
        &mut self,
        labels: LabelBlock<'_>,
        chunks: impl Iterator<Item = ChunkView<'a>> + Clone,
    ) {
        let chunk_bytes: usize = chunks.clone().map(|chunk| field_len(chunk_len(chunk))).sum();
        self.put_one(labels.0.len() + chunk_bytes, |made| {
            // The canonical form is the message's own: `repeated Label labels = 1`.
            made.extend_from_slice(labels.0);
            chunks.for_each(|chunk| put_chunk(made, chunk));
        });
    }

    /// Adds a series of so many bytes, which `put` appends.
    pub(super) fn put_one(&mut self, series_bytes: usize, put: impl FnOnce(&mut Vec<u8>)) {
        let field = match self.batch_series_max {
            0 | 1 => {
                put_prefix(&mut self.made, field_len(series_bytes));
                self.single
            }
            _many => {
                self.begin_in_batch();
                SERIES
            }
        };
        put_len_head(&mut self.made, field, series_bytes);
        put(&mut self.made);
        if self.open.as_ref().is_some_and(|open| open.series == self.batch_series_max) {
            self.end_batch();
        }
    }

    /// Adds a message that isn't a series.
    pub(super) fn put_message(&mut self, message: &impl Message) {
        self.end_batch();
        put_prefix(&mut self.made, message.encoded_len());
        self.made.extend_from_slice(&message.encode_to_vec());
    }

    /// Whether there is enough to be sent.
    pub(super) fn is_full(&self) -> bool {
        self.made.len() >= STREAM_BUFFER_BYTES
    }

    /// What is made, in whole messages.
    pub(super) fn take(&mut self) -> Bytes {
        self.end_batch();
        std::mem::take(&mut self.made).into()
    }

    fn begin_in_batch(&mut self) {
        let begin = self.made.len();
        let open = self.open.get_or_insert(OpenBatch { begin, series: 0 });
        if open.series == 0 {
            self.made.extend_from_slice(&[0; PREFIX_BYTES + 1 + BATCH_LEN_BYTES]);
        }
        open.series += 1;
    }

    fn end_batch(&mut self) {
        let Some(OpenBatch { begin, .. }) = self.open.take() else { return };
        let message = begin + PREFIX_BYTES;
        let batch = message + 1 + BATCH_LEN_BYTES;
        let (message_bytes, batch_bytes) = (self.made.len() - message, self.made.len() - batch);
        assert!(batch_bytes < 1 << (7 * BATCH_LEN_BYTES), "a batch ends once there is enough to be sent");
        self.made[begin + 1..message].copy_from_slice(&(message_bytes as u32).to_be_bytes());
        self.made[message] = tag(BATCH, Wire::Len);
        for (at, byte) in self.made[message + 1..batch].iter_mut().enumerate() {
            let more = if at + 1 < BATCH_LEN_BYTES { 0x80 } else { 0 };
            *byte = (batch_bytes >> (7 * at)) as u8 & 0x7f | more;
        }
    }
}

/// Begins a message of so many bytes.
pub(super) fn put_prefix(out: &mut Vec<u8>, message_bytes: usize) {
    out.push(0);
    out.extend_from_slice(&(message_bytes as u32).to_be_bytes());
}

fn put_chunk(out: &mut Vec<u8>, chunk: ChunkView<'_>) {
    put_len_head(out, CHUNKS, chunk_len(chunk));
    put_int(out, 1, chunk.min_ms as u64);
    put_int(out, 2, chunk.max_ms as u64);
    put_len_head(out, RAW, raw_len(chunk));
    put_int(out, 1, encoding(chunk));
    put_len_head(out, 2, chunk.bytes.len());
    out.extend_from_slice(chunk.bytes);
}

/// An `AggrChunk` in bytes.
pub(super) fn chunk_len(chunk: ChunkView<'_>) -> usize {
    int_len(chunk.min_ms as u64) + int_len(chunk.max_ms as u64) + field_len(raw_len(chunk))
}

fn raw_len(chunk: ChunkView<'_>) -> usize {
    int_len(encoding(chunk)) + field_len(chunk.bytes.len())
}

/// Thanos counts Prometheus' encodings from 0.
fn encoding(chunk: ChunkView<'_>) -> u64 {
    u64::from(chunk.of.encoding()) - 1
}

/// A number; proto 3 doesn't write zero.
pub(super) fn put_int(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        out.push(tag(field, Wire::Varint));
        put_varint(out, value);
    }
}

pub(super) fn int_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + varint_len(value) }
}

#[cfg(test)]
mod tests {
    use silverback_model::Labels;
    use silverback_model::histogram::HistogramKind;
    use silverback_proto::thanos::chunk::Encoding;
    use silverback_proto::thanos::series_response::Result as Answer;
    use silverback_proto::thanos::{Series, SeriesResponse};
    use silverback_storage::message::ChunkOf;

    use super::*;

    /// The messages of a piece.
    fn messages(mut piece: &[u8]) -> Vec<SeriesResponse> {
        let mut messages = Vec::new();
        while let [0, a, b, c, d, rest @ ..] = piece {
            let (message, after) = rest.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
            messages.push(SeriesResponse::decode(message).unwrap());
            piece = after;
        }
        assert!(piece.is_empty());
        messages
    }

    fn series_of(message: SeriesResponse) -> Vec<Series> {
        match message.result.unwrap() {
            Answer::Series(series) => vec![series],
            Answer::Batch(batch) => batch.series,
            Answer::Warning(words) => panic!("{words}"),
        }
    }

    fn check(batch_series_max: usize, count: usize, expect: &[usize]) {
        let mut frames = Frames::new(STORED, batch_series_max);
        let kinds = [
            (ChunkOf::Samples, Encoding::Xor),
            (ChunkOf::Histograms(HistogramKind::Integer), Encoding::Histogram),
            (ChunkOf::Histograms(HistogramKind::Float), Encoding::FloatHistogram),
        ];
        let chunk = |at: usize| ChunkView {
            min_ms: at as i64 - 1,
            max_ms: i64::from(u32::MAX) << at,
            of: kinds[at % 3].0,
            bytes: &[7; 300][..1 + at * 100 % 300],
        };
        for at in 0..count {
            let labels = Labels::from_pairs([("__name__", "up".to_owned()), ("i", at.to_string())]);
            frames.put_series(LabelBlock(&labels.to_canonical()), (0..at % 5).map(chunk));
        }
        let messages = messages(&frames.take());
        let counts: Vec<_> = messages.iter().map(|message| series_of(message.clone()).len()).collect();
        assert_eq!(counts, expect);
        for (at, series) in messages.into_iter().flat_map(series_of).enumerate() {
            assert_eq!((&*series.labels[1].name, &*series.labels[1].value), ("i", &*at.to_string()));
            assert_eq!(series.chunks.len(), at % 5);
            for (at, read) in series.chunks.iter().enumerate() {
                let (view, raw) = (chunk(at), read.raw.as_ref().unwrap());
                assert_eq!((read.min_time, read.max_time), (view.min_ms, view.max_ms));
                assert_eq!((raw.r#type(), &*raw.data, raw.hash), (kinds[at % 3].1, view.bytes, 0));
                assert_eq!(read.encoded_len(), chunk_len(view), "prost writes the same");
            }
        }
        assert!(frames.take().is_empty());
    }

    #[test]
    fn prost_reads_responses_as_they_were_written() {
        check(1, 7, &[1; 7]);
        check(0, 2, &[1, 1]);
        check(3, 7, &[3, 3, 1]);
        check(64, 64, &[64]);
        check(64, 0, &[]);
        check(2000, 1500, &[1500]);
    }
}

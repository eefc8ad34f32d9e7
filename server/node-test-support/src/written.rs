//! Samples that a test writes, and remote read as a client speaks it.

use prost::Message;
use silverback_model::gorilla::XorIter;
use silverback_model::histogram::{Histogram, HistogramIter, HistogramKind, ResetHint};
use silverback_proto::prometheus::chunk::Encoding;
use silverback_proto::prometheus::label_matcher::Type;
use silverback_proto::prometheus::{
    ChunkedReadResponse, Label, LabelMatcher, Query, ReadRequest, ReadResponse, Sample, TimeSeries,
    WriteRequest,
};
use silverback_test_support::http::Answer;

use crate::Node;

/// The first sample's time: within retention, and aligned to nothing.
pub fn start_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_millis() as i64 - 3_600_000
}

/// A series of `(time, bits of the value)`; of a native histogram those that [`histogram_bits`] returns.
pub type Series = (Vec<(String, String)>, Vec<(i64, u64)>);

/// A series of samples, 1 s apart.
pub fn series(labels: &[(&str, &str)], start_ms: i64, values: impl IntoIterator<Item = f64>) -> Series {
    let mut labels: Vec<_> = labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    labels.sort();
    let times = (0..).map(|i| start_ms + i * 1000);
    (labels, times.zip(values).map(|(time, value)| (time, value.to_bits())).collect())
}

/// Writes by remote write 1.
pub fn write(node: &Node, written: &[Series]) {
    let answer = node.post("/api/v1/write", &[], &write_body(written));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// A write's body as it is sent.
pub fn write_body(written: &[Series]) -> Vec<u8> {
    let timeseries = written.iter().map(|(labels, samples)| TimeSeries {
        labels: labels.iter().map(|(n, v)| Label { name: n.clone(), value: v.clone() }).collect(),
        samples: samples.iter().map(|(t, v)| Sample { value: f64::from_bits(*v), timestamp: *t }).collect(),
        ..TimeSeries::default()
    });
    let request = WriteRequest { timeseries: timeseries.collect(), metadata: Vec::new() };
    compress(&request.encode_to_vec())
}

/// In snappy's block format.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

/// A query of a range.
pub fn query(matchers: &[(&str, Type, &str)], range_ms: (i64, i64)) -> Query {
    let matchers = matchers.iter().map(|(name, kind, value)| LabelMatcher {
        r#type: *kind as i32,
        name: name.to_string(),
        value: value.to_string(),
    });
    Query {
        start_timestamp_ms: range_ms.0,
        end_timestamp_ms: range_ms.1,
        matchers: matchers.collect(),
        hints: None,
    }
}

/// The headers of a read.
pub const READ_HEADERS: [(&str, &str); 2] =
    [("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];

/// Sends a read as Prometheus does.
pub fn ask(node: &Node, queries: Vec<Query>, accepted: &[i32]) -> Answer {
    node.post("/api/v1/read", &READ_HEADERS, &read_body(queries, accepted))
}

/// A read's body as it is sent.
pub fn read_body(queries: Vec<Query>, accepted: &[i32]) -> Vec<u8> {
    let request = ReadRequest { queries, accepted_response_types: accepted.to_vec() };
    compress(&request.encode_to_vec())
}

/// Reads by SAMPLES.
pub fn read_samples(node: &Node, queries: Vec<Query>) -> Vec<Vec<Series>> {
    samples_of(&ask(node, queries, &[]))
}

/// The series of an answer by SAMPLES, of each query.
pub fn samples_of(answer: &Answer) -> Vec<Vec<Series>> {
    assert_eq!((answer.status, answer.is_cut), (200, false), "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.header("content-type"), "application/x-protobuf");
    assert_eq!(answer.header("content-encoding"), "snappy");
    let body = snap::raw::Decoder::new().decompress_vec(&answer.body).unwrap();
    let response = ReadResponse::decode(&body[..]).unwrap();
    let series = |one: TimeSeries| {
        (pairs(&one.labels), one.samples.iter().map(|s| (s.timestamp, s.value.to_bits())).collect())
    };
    response.results.into_iter().map(|r| r.timeseries.into_iter().map(series).collect()).collect()
}

/// Reads by STREAMED_XOR_CHUNKS: the frames in their order.
pub fn read_frames(node: &Node, queries: Vec<Query>) -> Vec<ChunkedReadResponse> {
    frames_of(&ask(node, queries, &[1]))
}

/// The frames of an answer by STREAMED_XOR_CHUNKS.
pub fn frames_of(answer: &Answer) -> Vec<ChunkedReadResponse> {
    assert_eq!((answer.status, answer.is_cut), (200, false), "{}", String::from_utf8_lossy(&answer.body));
    let expect = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";
    assert_eq!(answer.header("content-type"), expect);
    assert_eq!(answer.header("content-encoding"), "");
    let (mut frames, mut rest) = (Vec::new(), &answer.body[..]);
    while !rest.is_empty() {
        let length = prost::decode_length_delimiter(&mut rest).unwrap();
        let (checksum, after) = rest.split_at(4);
        let (message, after) = after.split_at(length);
        assert_eq!(checksum, crc32c::crc32c(message).to_be_bytes());
        frames.push(ChunkedReadResponse::decode(message).unwrap());
        rest = after;
    }
    frames
}

/// The series in frames of one query, their samples out of all their chunks.
pub fn series_of(frames: &[ChunkedReadResponse]) -> Vec<Series> {
    let mut found: Vec<(_, Samples, Samples)> = Vec::new();
    for series in frames.iter().flat_map(|frame| &frame.chunked_series) {
        let labels = pairs(&series.labels);
        if found.last().is_none_or(|(last, ..)| *last != labels) {
            found.push((labels, Vec::new(), Vec::new()));
        }
        let (_, floats, histograms) = found.last_mut().unwrap();
        for chunk in &series.chunks {
            match chunk.r#type() {
                Encoding::Histogram => put_histograms(HistogramKind::Integer, &chunk.data, histograms),
                Encoding::FloatHistogram => put_histograms(HistogramKind::Float, &chunk.data, histograms),
                Encoding::Xor => {
                    let samples = XorIter::new(&chunk.data).map(Result::unwrap);
                    floats.extend(samples.map(|sample| (sample.timestamp_ms, sample.value.to_bits())));
                }
                other => panic!("a chunk that no reader asked for: {other:?}"),
            }
        }
    }
    let merged = found.into_iter().map(|(labels, floats, histograms)| (labels, merge(floats, histograms)));
    merged.collect()
}

/// Of `(time, bits)`.
pub(crate) type Samples = Vec<(i64, u64)>;

pub(crate) fn put_histograms(kind: HistogramKind, chunk: &[u8], out: &mut Samples) {
    let mut histograms = HistogramIter::new(kind, chunk);
    let mut histogram = Histogram::default();
    while histograms.samples_left() > 0 {
        let time_ms = histograms.next_into(&mut histogram).unwrap();
        out.push((time_ms, histogram_bits(&histogram)));
    }
}

/// What has to come back of a native histogram, as a hash: its fingerprint, and whether it is a gauge. Of other hints
/// a chunk says what it found out for itself, and of a staleness marker none.
pub fn histogram_bits(histogram: &Histogram) -> u64 {
    let is_gauge = histogram.hint == ResetHint::Gauge && !histogram.is_stale();
    histogram.fingerprint() ^ u64::from(is_gauge)
}

/// Both by time, each in the order that it has.
fn merge(floats: Samples, histograms: Samples) -> Samples {
    let mut merged = Vec::with_capacity(floats.len() + histograms.len());
    let mut histograms = histograms.into_iter().peekable();
    for float in floats {
        while let Some(before) = histograms.next_if(|(time_ms, _)| *time_ms < float.0) {
            merged.push(before);
        }
        merged.push(float);
    }
    merged.extend(histograms);
    merged
}

fn pairs(labels: &[Label]) -> Vec<(String, String)> {
    labels.iter().map(|label| (label.name.clone(), label.value.clone())).collect()
}

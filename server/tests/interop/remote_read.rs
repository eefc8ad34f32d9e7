//! Remote read by hand, so that the kind of answer is ours to choose. The messages are declared
//! here, from the specification, and not taken from what the node itself uses.

use prost::Message;
use serde_json::json;

use crate::compare::Answer;
use crate::http;

/// The two kinds of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadKind {
    /// One snappy-compressed message.
    Samples = 0,
    /// A stream of frames with chunks.
    StreamedXorChunks = 1,
}

/// Reads every series whose name matches `names` in one kind. Of chunks only their presence is
/// read: each is as one sample, its number of samples.
pub(crate) fn read(
    kind: ReadKind,
    port: u16,
    names: &str,
    start_ms: u64,
    end_ms: u64,
) -> Result<Answer, String> {
    const REGEX: i32 = 2;
    let matcher = LabelMatcher { kind: REGEX, name: "__name__".to_owned(), value: names.to_owned() };
    let query = Query { start_ms: start_ms as i64 + 1, end_ms: end_ms as i64, matchers: vec![matcher] };
    let request = ReadRequest { queries: vec![query], accepted: vec![kind as i32] };
    let body = snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).map_err(|e| e.to_string())?;
    let headers = "Content-Encoding: snappy\r\nContent-Type: application/x-protobuf\r\n\
                   X-Prometheus-Remote-Read-Version: 0.1.0\r\n";
    let answer = http::post(port, "/api/v1/read", headers, &body).map_err(|e| e.to_string())?;
    if answer.status != 200 {
        return Err(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)));
    }
    let streamed = answer.head.to_ascii_lowercase().contains("application/x-streamed-protobuf");
    match kind {
        ReadKind::Samples if !streamed => read_samples(&answer.body),
        ReadKind::StreamedXorChunks if streamed => read_frames(&answer.body),
        ReadKind::Samples | ReadKind::StreamedXorChunks => Err(format!("another kind came: {}", answer.head)),
    }
}

fn read_samples(body: &[u8]) -> Result<Answer, String> {
    let raw = snap::raw::Decoder::new().decompress_vec(body).map_err(|e| e.to_string())?;
    let response = ReadResponse::decode(raw.as_slice()).map_err(|e| e.to_string())?;
    let series = response.results.into_iter().flat_map(|result| result.series);
    Ok(series
        .map(|series| (labels_json(&series.labels), series.samples.iter().map(sample_json).collect()))
        .collect())
}

fn read_frames(mut body: &[u8]) -> Result<Answer, String> {
    let mut answer = Answer::new();
    while !body.is_empty() {
        let length = prost::decode_length_delimiter(&mut body).map_err(|e| e.to_string())?;
        let (sum, rest) = body.split_first_chunk().ok_or("a frame without its sum")?;
        let (frame, rest) = rest.split_at_checked(length).ok_or("a frame cut short")?;
        if crc32c::crc32c(frame) != u32::from_be_bytes(*sum) {
            return Err("a frame's sum is wrong".to_owned());
        }
        let frame = ChunkedReadResponse::decode(frame).map_err(|e| e.to_string())?;
        for series in frame.series {
            let chunks = series.chunks.iter().map(|chunk| chunk.samples().to_string());
            answer.entry(labels_json(&series.labels)).or_default().extend(chunks);
        }
        body = rest;
    }
    Ok(answer)
}

/// As the query API writes them.
fn labels_json(labels: &[Label]) -> String {
    let map: serde_json::Map<_, _> = labels.iter().map(|l| (l.name.clone(), json!(l.value))).collect();
    serde_json::Value::from(map).to_string()
}

/// As the query API writes it: seconds, and the value as text.
fn sample_json(sample: &Sample) -> String {
    let seconds = match sample.timestamp_ms % 1000 {
        0 => json!(sample.timestamp_ms / 1000),
        _ => json!(sample.timestamp_ms as f64 / 1000.0),
    };
    json!([seconds, value_text(sample.value)]).to_string()
}

/// The shortest text that reads back as the same float; scientific below 1e-6 and from 1e21 on.
fn value_text(value: f64) -> String {
    match value.abs() {
        infinite if infinite == f64::INFINITY => if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        magnitude if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) && !value.is_nan() => {
            let text = format!("{value:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or_default();
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => value.to_string(),
    }
}

#[derive(Message)]
struct ReadRequest {
    #[prost(message, repeated, tag = "1")]
    queries: Vec<Query>,
    #[prost(int32, repeated, tag = "2")]
    accepted: Vec<i32>,
}

#[derive(Message)]
struct Query {
    #[prost(int64, tag = "1")]
    start_ms: i64,
    #[prost(int64, tag = "2")]
    end_ms: i64,
    #[prost(message, repeated, tag = "3")]
    matchers: Vec<LabelMatcher>,
}

#[derive(Message)]
struct LabelMatcher {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    value: String,
}

#[derive(Message)]
struct ReadResponse {
    #[prost(message, repeated, tag = "1")]
    results: Vec<QueryResult>,
}

#[derive(Message)]
struct QueryResult {
    #[prost(message, repeated, tag = "1")]
    series: Vec<TimeSeries>,
}

#[derive(Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp_ms: i64,
}

#[derive(Message)]
struct ChunkedReadResponse {
    #[prost(message, repeated, tag = "1")]
    series: Vec<ChunkedSeries>,
}

#[derive(Message)]
struct ChunkedSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    chunks: Vec<Chunk>,
}

#[derive(Message)]
struct Chunk {
    #[prost(bytes = "vec", tag = "4")]
    data: Vec<u8>,
}

impl Chunk {
    /// Its number of samples, which every encoding begins with.
    fn samples(&self) -> u16 {
        self.data.first_chunk().map_or(0, |count| u16::from_be_bytes(*count))
    }
}

#[test]
fn values_are_written_as_the_query_api_writes_them() {
    for (value, text) in [
        (0.0, "0"),
        (1.5, "1.5"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "+Inf"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-07"),
        (1e21, "1e+21"),
        (123_456_789_012_345_680.0, "123456789012345680"),
    ] {
        assert_eq!(value_text(value), text);
    }
}

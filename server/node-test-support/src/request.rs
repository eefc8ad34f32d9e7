//! Remote write requests of both versions, of labels and samples that no client library would write.

use prost::Message;
use silverback::api::ingest::remote_write::Version;
use silverback_proto::{prometheus, write_v2};
use silverback_test_support::wire::{field, label, number, refs, sample, symbols};

/// Where requests go.
pub const PATH: &str = "/api/v1/write";

/// Both versions.
pub const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// The label of an exemplar that names its trace.
const TRACE_ID: &str = "trace_id";

/// One series of a request.
#[derive(Debug, Clone, Default)]
pub struct Series {
    labels: Vec<(Vec<u8>, Vec<u8>)>,
    content: Vec<u8>,
    histograms: Vec<Vec<u8>>,
    exemplars: u32,
    /// Trace id, time and value.
    traces: Vec<(String, i64, f64)>,
}

impl Series {
    /// A series with these labels, in this order.
    pub fn new<N: AsRef<[u8]>, V: AsRef<[u8]>>(labels: impl IntoIterator<Item = (N, V)>) -> Self {
        let labels = labels.into_iter().map(|(n, v)| (n.as_ref().to_vec(), v.as_ref().to_vec())).collect();
        Self { labels, ..Self::default() }
    }

    /// The series with a sample more.
    pub fn sample(mut self, timestamp_ms: i64, value: f64) -> Self {
        self.content.extend(sample(timestamp_ms, value));
        self
    }

    /// The series with a sample more that has a start timestamp, which version 1 doesn't know.
    pub fn started_sample(mut self, timestamp_ms: i64, value: f64, start_ms: i64) -> Self {
        // After the tag and the length, of a byte each.
        let inner = &sample(timestamp_ms, value)[2..];
        self.content.extend(field(2, &[inner, &number(3, start_ms as u64)].concat()));
        self
    }

    /// The series with a native histogram more, as a message.
    pub fn histogram(mut self, message: Vec<u8>) -> Self {
        self.histograms.push(message);
        self
    }

    /// The series with an exemplar of a trace more.
    pub fn trace(mut self, id: &str, timestamp_ms: i64, value: f64) -> Self {
        self.traces.push((id.to_owned(), timestamp_ms, value));
        self
    }

    /// The series with so many exemplars more.
    pub fn exemplars(mut self, count: u32) -> Self {
        self.exemplars += count;
        self
    }
}

/// The headers that a sender of a version sets.
pub fn headers(version: Version) -> [(&'static str, &'static str); 2] {
    let content_type = match version {
        Version::V1 => "application/x-protobuf",
        Version::V2 => "application/x-protobuf;proto=io.prometheus.write.v2.Request",
    };
    [("content-encoding", "snappy"), ("content-type", content_type)]
}

/// A request's body as it is sent.
pub fn body(version: Version, series: &[Series]) -> Vec<u8> {
    compress(&encode(version, series))
}

/// In snappy's block format.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

/// A request's body before compression.
pub fn encode(version: Version, series: &[Series]) -> Vec<u8> {
    match version {
        Version::V1 => series.iter().flat_map(|series| field(1, &encode_v1(series))).collect(),
        Version::V2 => encode_v2(series),
    }
}

fn encode_v1(series: &Series) -> Vec<u8> {
    let labels = series.labels.iter().flat_map(|(name, value)| label(name, value));
    let exemplar = exemplar();
    let traces = series.traces.iter().map(|(id, timestamp, value)| {
        let labels = vec![prometheus::Label { name: TRACE_ID.into(), value: id.clone() }];
        prometheus::Exemplar { labels, value: *value, timestamp: *timestamp }
    });
    labels
        .chain(series.content.iter().copied())
        .chain(series.histograms.iter().flat_map(|histogram| field(4, histogram)))
        .chain((0..series.exemplars).flat_map(|_| field(3, &exemplar)))
        .chain(traces.flat_map(|trace| field(3, &trace.encode_to_vec())))
        .collect()
}

/// Each label's name and value are symbols of their own: the table may hold one twice.
fn encode_v2(series: &[Series]) -> Vec<u8> {
    let exemplar = exemplar();
    let mut table: Vec<&[u8]> = vec![b""];
    let mut encoded = Vec::new();
    for one in series {
        let first = table.len() as u64;
        table.extend(one.labels.iter().flat_map(|(name, value)| [&name[..], value]));
        let mut message = refs(&(first..table.len() as u64).collect::<Vec<_>>());
        message.extend(&one.content);
        message.extend(one.histograms.iter().flat_map(|histogram| field(3, histogram)));
        message.extend((0..one.exemplars).flat_map(|_| field(4, &exemplar)));
        for (id, timestamp, value) in &one.traces {
            let labels_refs = vec![table.len() as u32, table.len() as u32 + 1];
            table.extend([TRACE_ID.as_bytes(), id.as_bytes()]);
            let trace = write_v2::Exemplar { labels_refs, value: *value, timestamp: *timestamp };
            message.extend(field(4, &trace.encode_to_vec()));
        }
        encoded.extend(field(5, &message));
    }
    [symbols(&table), encoded].concat()
}

/// An exemplar that can't be read.
fn exemplar() -> Vec<u8> {
    vec![0xff]
}

//! Remote write bodies, 1.0 and 2.0, as Prometheus' own sender lays them out. It knows neither
//! targets nor compression. Labels are encoded once for a series, not once for a sample.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::catalogue::Label;

/// The protocol's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum RemoteWrite {
    /// `prometheus.WriteRequest`.
    #[value(name = "1")]
    V1,
    /// `io.prometheus.write.v2.Request`.
    #[value(name = "2")]
    V2,
}

/// One sample of one series, before encoding.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Which of the encoder's series.
    pub series: usize,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The value.
    pub value: f64,
}

/// Encodes the samples of a fixed set of series.
#[derive(Debug)]
pub enum Encoder {
    /// For 1.0.
    V1(LabelsEncoder),
    /// For 2.0.
    V2(SymbolsEncoder),
}

impl Encoder {
    /// An encoder of `version`, of no series yet.
    pub fn new(version: RemoteWrite) -> Self {
        match version {
            RemoteWrite::V1 => Self::V1(LabelsEncoder::default()),
            RemoteWrite::V2 => Self::V2(SymbolsEncoder::default()),
        }
    }

    /// Adds the next series. `labels` are sorted.
    pub fn add_series(&mut self, labels: &[Label], metric_type: MetricType, help: &str) {
        match self {
            Self::V1(encoder) => encoder.add_series(labels),
            Self::V2(encoder) => encoder.add_series(labels, metric_type, help),
        }
    }

    /// Puts one request of these samples into `body`.
    pub fn encode(&mut self, samples: &[Sample], body: &mut Vec<u8>) {
        body.clear();
        match self {
            Self::V1(encoder) => encoder.encode(samples, body),
            Self::V2(encoder) => encoder.encode(samples, body),
        }
    }
}

/// What remote write 2.0 says of a series' metric, in its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows, or starts anew.
    Counter = 1,
    /// Goes both ways.
    Gauge = 2,
}

/// Remote write 1.0: every series carries its labels.
#[derive(Debug, Default)]
pub struct LabelsEncoder {
    series: Vec<Vec<u8>>,
}

impl LabelsEncoder {
    fn add_series(&mut self, labels: &[Label]) {
        let mut encoded = Vec::new();
        let mut pair = Vec::new();
        for (name, value) in labels {
            pair.clear();
            put_bytes(&mut pair, 1, name.as_bytes());
            put_bytes(&mut pair, 2, value.as_bytes());
            put_bytes(&mut encoded, 1, &pair);
        }
        self.series.push(encoded);
    }

    fn encode(&self, samples: &[Sample], body: &mut Vec<u8>) {
        let mut encoded = Vec::new();
        for sample in samples {
            let labels = &self.series[sample.series];
            put_sample(&mut encoded, sample);
            put_length(body, 1, labels.len() + bytes_len(encoded.len()));
            body.extend_from_slice(labels);
            put_bytes(body, 2, &encoded);
        }
    }
}

/// Remote write 2.0: a request has a table of symbols, and its series refer to it.
#[derive(Debug, Default)]
pub struct SymbolsEncoder {
    numbers: HashMap<String, usize>,
    strings: Vec<String>,
    series: Vec<SymbolSeries>,
    /// Each string's symbol in the request of this number.
    symbols: Vec<(u64, u64)>,
    request: u64,
    encoded_series: Vec<u8>,
}

#[derive(Debug)]
struct SymbolSeries {
    /// Numbers of the strings: name, value, name, value…
    labels: Vec<usize>,
    help: usize,
    metric_type: MetricType,
}

impl SymbolsEncoder {
    fn add_series(&mut self, labels: &[Label], metric_type: MetricType, help: &str) {
        let help = self.number(help);
        let labels =
            labels.iter().flat_map(|(name, value)| [self.number(name), self.number(value)]).collect();
        self.series.push(SymbolSeries { labels, help, metric_type });
    }

    fn number(&mut self, string: &str) -> usize {
        if let Some(&number) = self.numbers.get(string) {
            return number;
        }
        self.numbers.insert(string.to_owned(), self.strings.len());
        self.strings.push(string.to_owned());
        self.strings.len() - 1
    }

    fn encode(&mut self, samples: &[Sample], body: &mut Vec<u8>) {
        self.symbols.resize(self.strings.len(), (0, 0));
        self.request += 1;
        self.encoded_series.clear();
        // The first symbol must be the empty string.
        let mut table = SymbolTable { request: self.request, next: 1, body };
        put_bytes(table.body, 4, b"");
        let (mut references, mut encoded, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
        for sample in samples {
            let series = &self.series[sample.series];
            references.clear();
            for &string in &series.labels {
                put_varint(&mut references, table.symbol(&mut self.symbols[string], &self.strings[string]));
            }
            put_sample(&mut encoded, sample);
            metadata.clear();
            put_integer(&mut metadata, 1, series.metric_type as u64);
            put_integer(
                &mut metadata,
                3,
                table.symbol(&mut self.symbols[series.help], &self.strings[series.help]),
            );
            let length = [&references, &encoded, &metadata].iter().map(|part| bytes_len(part.len())).sum();
            put_length(&mut self.encoded_series, 5, length);
            put_bytes(&mut self.encoded_series, 1, &references);
            put_bytes(&mut self.encoded_series, 2, &encoded);
            put_bytes(&mut self.encoded_series, 5, &metadata);
        }
        body.extend_from_slice(&self.encoded_series);
    }
}

/// One request's symbols, written to the body as they first come up.
struct SymbolTable<'a> {
    request: u64,
    next: u64,
    body: &'a mut Vec<u8>,
}

impl SymbolTable<'_> {
    fn symbol(&mut self, slot: &mut (u64, u64), string: &str) -> u64 {
        if slot.0 != self.request {
            *slot = (self.request, self.next);
            self.next += 1;
            put_bytes(self.body, 4, string.as_bytes());
        }
        slot.1
    }
}

/// `Sample{value = 1, timestamp = 2}`, the same in both versions; zero fields are left out.
fn put_sample(out: &mut Vec<u8>, sample: &Sample) {
    out.clear();
    if sample.value.to_bits() != 0 {
        out.push(1 << 3 | 1);
        out.extend_from_slice(&sample.value.to_le_bytes());
    }
    put_integer(out, 2, sample.timestamp_ms.cast_unsigned());
}

fn put_integer(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field << 3);
    put_varint(out, value);
}

fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    put_length(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_length(out: &mut Vec<u8>, field: u8, length: usize) {
    out.push(field << 3 | 2);
    put_varint(out, length as u64);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How long a field of `length` bytes is with its tag and its length.
fn bytes_len(length: usize) -> usize {
    let varint_bytes = (usize::BITS - length.max(1).leading_zeros()).div_ceil(7) as usize;
    1 + varint_bytes + length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::walk::{self, Tally};

    fn check(version: RemoteWrite, samples: &[Sample], expected: &Tally) {
        let labels = [("__name__".to_owned(), "up".to_owned()), ("job".to_owned(), "node".to_owned())];
        let mut encoder = Encoder::new(version);
        encoder.add_series(&labels, MetricType::Gauge, "Whether it is up.");
        let mut body = Vec::new();
        for _ in 0..2 {
            encoder.encode(samples, &mut body);
            let mut tally = Tally::default();
            walk::walk(version, &body, &mut tally, &mut Vec::new(), |_| {}).expect("a body that can be read");
            assert_eq!(&tally, expected);
        }
    }

    #[test]
    fn both_versions_read_back() {
        let samples = [
            Sample { series: 0, timestamp_ms: 1_700_000_000_000, value: 1.5 },
            Sample { series: 0, timestamp_ms: 1_700_000_015_000, value: 0.0 },
        ];
        let label_bytes = 2 * "__name__upjobnode".len();
        let expected =
            Tally { samples: 2, labels: 4, label_bytes, value_sum: 1.5, timestamp_max_ms: 1_700_000_015_000 };
        check(RemoteWrite::V1, &samples, &expected);
        check(RemoteWrite::V2, &samples, &expected);
    }

    #[test]
    fn lengths_count_their_own_varint() {
        for length in [0, 1, 127, 128, 16_383, 16_384] {
            let mut out = Vec::new();
            put_bytes(&mut out, 1, &vec![0; length]);
            assert_eq!(out.len(), bytes_len(length));
        }
    }
}

//! Remote write bodies, 1.0 and 2.0, as Prometheus' own sender lays them out. It knows neither
//! targets nor compression. Labels are encoded once for a series, not once for a sample.

use std::collections::HashMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::catalogue::Label;
use crate::histograms::Histograms;
use crate::scrapes::DefineSeries;

/// The protocol's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemoteWrite {
    /// `prometheus.WriteRequest`.
    V1,
    /// `io.prometheus.write.v2.Request`.
    V2,
}

/// Neither `1` nor `2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("remote write has the versions 1 and 2")]
pub struct UnknownVersion;

impl FromStr for RemoteWrite {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        match text {
            "1" => Ok(Self::V1),
            "2" => Ok(Self::V2),
            _ => Err(UnknownVersion),
        }
    }
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

/// Encodes the samples of the series that were defined.
#[derive(Debug)]
pub struct Encoder {
    form: Form,
    values: Values,
}

#[derive(Debug)]
enum Form {
    V1(LabelsEncoder),
    V2(SymbolsEncoder),
}

/// What a series has at a sample's time.
#[derive(Debug)]
enum Values {
    Floats,
    Histograms(Histograms),
}

impl Encoder {
    /// An encoder of `version`, of no series yet.
    pub fn new(version: RemoteWrite) -> Self {
        let form = match version {
            RemoteWrite::V1 => Form::V1(LabelsEncoder::default()),
            RemoteWrite::V2 => Form::V2(SymbolsEncoder::default()),
        };
        Self { form, values: Values::Floats }
    }

    /// The same, which puts a native histogram of so many buckets in each sample's place; `seed` is that of their counts.
    pub fn of_histograms(version: RemoteWrite, buckets: usize, seed: u64) -> Self {
        Self { values: Values::Histograms(Histograms::new(buckets, seed)), ..Self::new(version) }
    }

    /// Puts one request of these samples into `body`.
    pub fn encode(&mut self, samples: &[Sample], body: &mut Vec<u8>) {
        body.clear();
        match &mut self.form {
            Form::V1(encoder) => encoder.encode(samples, &mut self.values, body),
            Form::V2(encoder) => encoder.encode(samples, &mut self.values, body),
        }
    }
}

impl DefineSeries for Encoder {
    fn define(&mut self, slot: usize, labels: &[Label], metric_type: MetricType, help: &str) {
        let metric_type = match &mut self.values {
            Values::Floats => metric_type,
            Values::Histograms(histograms) => {
                histograms.define(slot);
                MetricType::Histogram
            }
        };
        match &mut self.form {
            Form::V1(encoder) => encoder.define(slot, labels),
            Form::V2(encoder) => encoder.define(slot, labels, metric_type, help),
        }
    }
}

impl Values {
    /// Puts what stands for a sample, and returns the field of a series that it goes into, in either version.
    fn put(&mut self, sample: &Sample, version: RemoteWrite, out: &mut Vec<u8>) -> u8 {
        match self {
            Self::Floats => {
                put_sample(out, sample);
                2
            }
            Self::Histograms(histograms) => {
                histograms.put(sample, out);
                if version == RemoteWrite::V1 { 4 } else { 3 }
            }
        }
    }
}

/// What remote write 2.0 says of a series' metric, in its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows, or starts over.
    Counter = 1,
    /// Goes both ways.
    Gauge = 2,
    /// Counts by buckets.
    Histogram = 3,
}

/// Remote write 1.0: every series carries its labels.
#[derive(Debug, Default)]
struct LabelsEncoder {
    series: Vec<Vec<u8>>,
}

impl LabelsEncoder {
    fn define(&mut self, slot: usize, labels: &[Label]) {
        let mut encoded = Vec::new();
        let mut pair = Vec::new();
        for (name, value) in labels {
            pair.clear();
            put_bytes(&mut pair, 1, name.as_bytes());
            put_bytes(&mut pair, 2, value.as_bytes());
            put_bytes(&mut encoded, 1, &pair);
        }
        match self.series.get_mut(slot) {
            Some(old) => *old = encoded,
            None => self.series.push(encoded),
        }
    }

    fn encode(&self, samples: &[Sample], values: &mut Values, body: &mut Vec<u8>) {
        let mut encoded = Vec::new();
        for sample in samples {
            let labels = &self.series[sample.series];
            let field = values.put(sample, RemoteWrite::V1, &mut encoded);
            put_length(body, 1, labels.len() + bytes_len(encoded.len()));
            body.extend_from_slice(labels);
            put_bytes(body, field, &encoded);
        }
    }
}

/// Remote write 2.0: a request has a table of symbols, and its series refer to it.
#[derive(Debug, Default)]
struct SymbolsEncoder {
    texts: Texts,
    series: Vec<SymbolSeries>,
    /// Each text's symbol in the request of this number.
    symbols: Vec<(u64, u64)>,
    request: u64,
    encoded_series: Vec<u8>,
}

#[derive(Debug)]
struct SymbolSeries {
    /// Numbers of the texts: name, value, name, value…
    labels: Vec<usize>,
    help: usize,
    metric_type: MetricType,
}

impl SymbolsEncoder {
    fn define(&mut self, slot: usize, labels: &[Label], metric_type: MetricType, help: &str) {
        let help = self.texts.take(help);
        let texts = labels.iter().flat_map(|(name, value)| [name, value]);
        let labels = texts.map(|text| self.texts.take(text)).collect();
        let series = SymbolSeries { labels, help, metric_type };
        match self.series.get_mut(slot) {
            Some(old) => {
                let old = std::mem::replace(old, series);
                old.labels.into_iter().chain([old.help]).for_each(|number| self.texts.give_back(number));
            }
            None => self.series.push(series),
        }
    }

    fn encode(&mut self, samples: &[Sample], values: &mut Values, body: &mut Vec<u8>) {
        self.symbols.resize(self.texts.all.len(), (0, 0));
        self.request += 1;
        self.encoded_series.clear();
        // The first symbol must be the empty string.
        let mut table = SymbolTable { request: self.request, next: 1, body };
        put_bytes(table.body, 4, b"");
        let (mut references, mut encoded, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
        for sample in samples {
            let series = &self.series[sample.series];
            references.clear();
            for &number in &series.labels {
                let text = &self.texts.all[number].text;
                put_varint(&mut references, table.symbol(&mut self.symbols[number], text));
            }
            let field = values.put(sample, RemoteWrite::V2, &mut encoded);
            metadata.clear();
            put_integer(&mut metadata, 1, series.metric_type as u64);
            let help = &self.texts.all[series.help].text;
            put_integer(&mut metadata, 3, table.symbol(&mut self.symbols[series.help], help));
            let length = [&references, &encoded, &metadata].iter().map(|part| bytes_len(part.len())).sum();
            put_length(&mut self.encoded_series, 5, length);
            put_bytes(&mut self.encoded_series, 1, &references);
            put_bytes(&mut self.encoded_series, field, &encoded);
            put_bytes(&mut self.encoded_series, 5, &metadata);
        }
        body.extend_from_slice(&self.encoded_series);
    }
}

/// The texts that series are made of, each kept once and for as long as a series has it.
#[derive(Debug, Default)]
struct Texts {
    numbers: HashMap<String, usize>,
    all: Vec<Text>,
    /// Numbers that nothing uses any more.
    free: Vec<usize>,
}

#[derive(Debug, Default)]
struct Text {
    text: String,
    uses: usize,
}

impl Texts {
    fn take(&mut self, text: &str) -> usize {
        let number = self.numbers.get(text).copied().unwrap_or_else(|| self.add(text));
        self.all[number].uses += 1;
        number
    }

    fn add(&mut self, text: &str) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Text::default());
            self.all.len() - 1
        });
        self.numbers.insert(text.to_owned(), number);
        text.clone_into(&mut self.all[number].text);
        number
    }

    fn give_back(&mut self, number: usize) {
        let text = &mut self.all[number];
        text.uses -= 1;
        if text.uses == 0 {
            self.numbers.remove(&text.text);
            self.free.push(number);
        }
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

pub(crate) fn put_integer(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field << 3);
    put_varint(out, value);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    put_length(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_length(out: &mut Vec<u8>, field: u8, length: usize) {
    out.push(field << 3 | 2);
    put_varint(out, length as u64);
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
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
    use prost::Message;
    use silverback_proto::{prometheus, write_v2};

    use super::*;

    type Read = (String, i64, f64);

    fn labels(job: &str) -> Vec<Label> {
        vec![("__name__".to_owned(), "up".to_owned()), ("job".to_owned(), job.to_owned())]
    }

    fn encoder(version: RemoteWrite) -> Encoder {
        let mut encoder = Encoder::new(version);
        encoder.define(0, &labels("node"), MetricType::Counter, "Whether it is up.");
        encoder.define(1, &labels("proxy"), MetricType::Gauge, "Whether it is up.");
        encoder
    }

    fn read_v1(body: &[u8]) -> Vec<Read> {
        let request = prometheus::WriteRequest::decode(body).expect("a request of version 1");
        let text = |label: &prometheus::Label| format!("{}={}", label.name, label.value);
        let read = |series: &prometheus::TimeSeries| {
            let labels: Vec<_> = series.labels.iter().map(text).collect();
            (labels.join(","), series.samples[0].timestamp, series.samples[0].value)
        };
        request.timeseries.iter().map(read).collect()
    }

    fn read_v2(body: &[u8]) -> Vec<Read> {
        let request = write_v2::Request::decode(body).expect("a request of version 2");
        assert_eq!(request.symbols[0], "");
        let symbol = |reference: u32| request.symbols[reference as usize].as_str();
        let read = |series: &write_v2::TimeSeries| {
            let metadata = series.metadata.as_ref().expect("metadata");
            assert_eq!(symbol(metadata.help_ref), "Whether it is up.");
            let pairs = series.labels_refs.chunks(2);
            let labels: Vec<_> =
                pairs.map(|pair| format!("{}={}", symbol(pair[0]), symbol(pair[1]))).collect();
            (labels.join(","), series.samples[0].timestamp, series.samples[0].value)
        };
        request.timeseries.iter().map(read).collect()
    }

    fn check(version: RemoteWrite, read: fn(&[u8]) -> Vec<Read>) {
        let mut encoder = encoder(version);
        let samples = [
            Sample { series: 1, timestamp_ms: 1_700_000_000_000, value: 1.5 },
            Sample { series: 0, timestamp_ms: 1_700_000_015_000, value: 0.0 },
        ];
        let mut body = Vec::new();
        for other in ["node", "cache", "queue"] {
            encoder.define(0, &labels(other), MetricType::Counter, "Whether it is up.");
            encoder.encode(&samples, &mut body);
            let expected = [
                ("__name__=up,job=proxy".to_owned(), 1_700_000_000_000, 1.5),
                (format!("__name__=up,job={other}"), 1_700_000_015_000, 0.0),
            ];
            assert_eq!(read(&body), expected);
        }
    }

    #[test]
    fn both_versions_read_back_and_a_slot_can_stand_for_another_series() {
        check(RemoteWrite::V1, read_v1);
        check(RemoteWrite::V2, read_v2);
    }

    #[test]
    fn histograms_stand_in_the_place_of_samples_in_both_versions() {
        let samples = [7, 8].map(|timestamp_ms| Sample { series: 0, timestamp_ms, value: 1.0 });
        let times = |histograms: Vec<i64>| assert_eq!(histograms, [7, 8]);
        let encoded = |version| {
            let (mut encoder, mut body) = (Encoder::of_histograms(version, 40, 1), Vec::new());
            encoder.define(0, &labels("node"), MetricType::Counter, "Whether it is up.");
            encoder.encode(&samples, &mut body);
            body
        };
        let v1 = prometheus::WriteRequest::decode(encoded(RemoteWrite::V1).as_slice()).expect("version 1");
        assert!(v1.timeseries.iter().all(|series| series.samples.is_empty() && series.labels.len() == 2));
        times(v1.timeseries.iter().flat_map(|series| &series.histograms).map(|h| h.timestamp).collect());
        let v2 = write_v2::Request::decode(encoded(RemoteWrite::V2).as_slice()).expect("version 2");
        assert!(v2.timeseries.iter().all(|series| {
            let metadata = series.metadata.as_ref().expect("metadata");
            series.samples.is_empty() && metadata.r#type == MetricType::Histogram as i32
        }));
        times(v2.timeseries.iter().flat_map(|series| &series.histograms).map(|h| h.timestamp).collect());
    }

    #[test]
    fn texts_that_no_series_has_any_more_make_room_for_others() {
        let mut texts = Texts::default();
        let (kept, gone) = (texts.take("kept"), texts.take("gone"));
        assert_eq!(texts.take("kept"), kept);
        texts.give_back(kept);
        texts.give_back(gone);
        assert_eq!((texts.take("new"), texts.take("kept")), (gone, kept));
        assert_eq!((texts.all.len(), texts.numbers.len()), (2, 2));
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

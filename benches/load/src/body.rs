//! Whole remote write bodies: encoded and compressed as a receiver takes them. It knows neither
//! connections nor headers.

use crate::catalogue::Label;
use crate::encode::{Encoder, MetricType, RemoteWrite, Sample};
use crate::scrapes::DefineSeries;

/// Makes bodies, with buffers that it keeps.
#[derive(Debug)]
pub struct BodyEncoder {
    encoder: Encoder,
    raw: Vec<u8>,
    compressed: Vec<u8>,
    snappy: snap::raw::Encoder,
}

/// One body.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    /// Its length before compression.
    pub raw_bytes: usize,
    /// As it is sent.
    pub compressed: &'a [u8],
}

impl BodyEncoder {
    /// An encoder of `version`, of no series yet.
    pub fn new(version: RemoteWrite) -> Self {
        Self::of(Encoder::new(version))
    }

    /// What an encoder makes.
    pub fn of(encoder: Encoder) -> Self {
        Self { encoder, raw: Vec::new(), compressed: Vec::new(), snappy: snap::raw::Encoder::new() }
    }

    /// One request of these samples. Only a body that is too large for snappy fails.
    pub fn encode(&mut self, samples: &[Sample]) -> Result<Body<'_>, snap::Error> {
        self.encoder.encode(samples, &mut self.raw);
        self.compressed.resize(snap::raw::max_compress_len(self.raw.len()), 0);
        let length = self.snappy.compress(&self.raw, &mut self.compressed)?;
        Ok(Body { raw_bytes: self.raw.len(), compressed: &self.compressed[..length] })
    }
}

impl DefineSeries for BodyEncoder {
    fn define(&mut self, slot: usize, labels: &[Label], metric_type: MetricType, help: &str) {
        self.encoder.define(slot, labels, metric_type, help);
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use silverback_proto::prometheus::WriteRequest;

    use super::*;

    #[test]
    fn a_body_decompresses_to_what_was_encoded() {
        let mut encoder = BodyEncoder::new(RemoteWrite::V1);
        encoder.define(0, &[("__name__".to_owned(), "up".to_owned())], MetricType::Gauge, "");
        let samples = [Sample { series: 0, timestamp_ms: 7, value: 1.5 }];
        let body = encoder.encode(&samples).expect("a small body");
        let raw = snap::raw::Decoder::new().decompress_vec(body.compressed).expect("snappy's");
        assert_eq!(raw.len(), body.raw_bytes);
        let request = WriteRequest::decode(raw.as_slice()).expect("a request");
        assert_eq!(request.timeseries[0].samples[0].timestamp, 7);
    }
}

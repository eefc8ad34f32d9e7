//! The node's way from a body to the chunk, on one core, with a count that may be cloned on it. It knows
//! no threads.

use std::sync::Arc;

use prost::Message;
use serde::{Deserialize, Serialize};
use silverback::api::ingest::remote_write::{DecodeProgress, Decoder, Decoding, SeriesSink, Version, snappy};
use silverback_model::limits::DECODED_BYTES_MAX;
use silverback_model::{Sample, SeriesId, SeriesIdHasher, ShardId};
use silverback_proto::prometheus::{self, Label, TimeSeries, WriteRequest};
use silverback_storage::message::part::PartBuffer;
use silverback_storage::message::{LabelSpan, PartSeries, WriteBody};
use silverback_storage::shard::Shard;
use silverback_storage::shard::append::TimeBounds;
use silverback_storage::wal::record::Group;

use super::Side;
use crate::bench::hasher;
use crate::fleet;

/// Series between two looks at the clock, as far as a whole request.
const STEP_SERIES: usize = 1_000_000;
const FIRST_MS: i64 = 1_790_000_000_000;
const INTERVAL_MS: i64 = 15_000;

/// What a request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    /// Series.
    pub series: usize,
    /// Samples of each.
    pub samples: usize,
}

/// What all cores share: what is in it is nothing to the comparison.
#[derive(Debug, Default)]
pub(super) struct Shared;

/// Compressed remote write 1 bodies of the same series, one after the other in time.
#[derive(Debug)]
pub(super) struct Bodies(Vec<Vec<u8>>);

impl Bodies {
    /// One that makes the series, and `requests` after it.
    pub(super) fn new(shape: Shape, requests: usize) -> Result<Self, snap::Error> {
        let compress = |request| {
            let message = request_at(shape, request).encode_to_vec();
            snap::raw::Encoder::new().compress_vec(&message)
        };
        Ok(Self((0..=requests).map(compress).collect::<Result<_, _>>()?))
    }

    /// The one that makes the series.
    pub(super) fn first(&self) -> &[u8] {
        &self.0[0]
    }

    /// Those after it.
    pub(super) fn rest(&self) -> &[Vec<u8>] {
        &self.0[1..]
    }

    /// The last one, and those before it.
    pub(super) fn split_last(&self) -> (&[u8], &[Vec<u8>]) {
        self.0.split_last().map(|(last, first)| (last.as_slice(), first)).expect("there is the first")
    }
}

fn request_at(shape: Shape, request: usize) -> WriteRequest {
    let Shape { series, samples } = shape;
    let at = |n: usize| FIRST_MS + (request * samples + n) as i64 * INTERVAL_MS;
    let one = |n| TimeSeries {
        labels: fleet::labels(n).into_iter().map(|(name, value)| Label { name, value }).collect(),
        samples: (0..samples).map(|n| prometheus::Sample { value: n as f64, timestamp: at(n) }).collect(),
        ..TimeSeries::default()
    };
    WriteRequest { timeseries: (0..series).map(one).collect(), metadata: vec![] }
}

/// One core's.
pub(super) struct Path {
    decoder: Decoder,
    hasher: SeriesIdHasher,
    body: WriteBody,
    part: PartBuffer,
    shard: Shard,
    group: Group,
    shared: Arc<Shared>,
    held: Vec<Arc<Shared>>,
}

impl Path {
    /// Of a core without series.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            decoder: Decoder::default(),
            hasher: hasher(),
            body: WriteBody::default(),
            part: PartBuffer::default(),
            shard: Shard::new(ShardId(0), usize::MAX),
            group: Group::default(),
            shared: Arc::clone(shared),
            held: Vec::new(),
        }
    }

    /// Takes a body in; gives how many of its samples are stored.
    pub(super) fn take_in(&mut self, side: Side, compressed: &[u8]) -> usize {
        snappy::decompress(compressed, DECODED_BYTES_MAX, &mut self.body.bytes).expect("snappy's own");
        let Self { decoder, hasher, body, part, shared, held, .. } = self;
        match side {
            Side::EachSample => decode(decoder, hasher, body, EachSample(part, shared, held)),
            Side::EachSeries => decode(decoder, hasher, body, EachSeries(part, shared, held)),
            Side::Nothing => decode(decoder, hasher, body, Nothing(part)),
        }
        let bounds = TimeBounds { oldest_ms: 0, newest_ms: i64::MAX, late_window_ms: 0 };
        let Self { part: PartBuffer { series, samples, .. }, group, .. } = self;
        let outcome = self.shard.append(&self.body, series, samples, bounds, group);
        // What was carried along is dropped when the samples are stored.
        self.held.clear();
        series.clear();
        samples.clear();
        // As the commit does after it was written.
        group.parts();
        group.clear();
        outcome.written as usize
    }
}

fn decode(decoder: &mut Decoder, hasher: &SeriesIdHasher, body: &mut WriteBody, mut sink: impl SeriesSink) {
    let mut decoding = Decoding::start(Version::V1);
    let mut step =
        || decoder.decode(body, &mut decoding, hasher, STEP_SERIES, &mut sink).expect("well formed");
    while step() == DecodeProgress::More {}
}

/// Fills a part, as the node does.
struct Nothing<'a>(&'a mut PartBuffer);

impl SeriesSink for Nothing<'_> {
    #[inline]
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        self.0.series.push(PartSeries::new(id, labels, samples));
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        self.0.samples.push(sample);
    }
}

/// The same, and clones for each series what is shared.
struct EachSeries<'a>(&'a mut PartBuffer, &'a Arc<Shared>, &'a mut Vec<Arc<Shared>>);

impl SeriesSink for EachSeries<'_> {
    #[inline]
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        Nothing(self.0).series(id, labels, samples);
        self.2.push(Arc::clone(self.1));
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        Nothing(self.0).sample(sample);
    }
}

/// The same, for each sample.
struct EachSample<'a>(&'a mut PartBuffer, &'a Arc<Shared>, &'a mut Vec<Arc<Shared>>);

impl SeriesSink for EachSample<'_> {
    #[inline]
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        Nothing(self.0).series(id, labels, samples);
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        Nothing(self.0).sample(sample);
        self.2.push(Arc::clone(self.1));
    }
}

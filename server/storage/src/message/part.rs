//! Parts: one shard's series and samples of one request, in buffers from a bounded pool.
//!
//! A part is filled on the core that decoded the request and released on the core that owns the
//! series. The pool takes it back from any core without a lock, so neither core allocates; an empty
//! pool is back-pressure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sharded_slab::pool::OwnedRefMut;
use sharded_slab::{Clear, Config, Pool};

use crate::message::{PartExemplar, PartHistogram, PartMetadata, PartSeries, PartStart, StreamId};
use silverback_model::{Epoch, Sample};

/// What a part holds. Its capacity outlives the part.
#[derive(Debug, Default)]
pub struct PartBuffer {
    /// The series, in the order in which they arrived.
    pub series: Vec<PartSeries>,
    /// Their samples, one series after the other.
    pub samples: Vec<Sample>,
    /// The start timestamps of those samples that have one, in their order. Mostly there are none.
    pub starts: Vec<PartStart>,
    /// Native histograms, of these series or others.
    pub histograms: Vec<PartHistogram>,
    /// Exemplars, of these series and of others that the shard owns. Mostly there are none.
    pub exemplars: Vec<PartExemplar>,
    /// What is said of metrics whose names are the shard's, whatever cells it owns. Mostly nothing.
    pub metadata: Vec<PartMetadata>,
    /// Of the routing table that it was split by.
    pub epoch: Epoch,
    /// The stream that it came by, whose parts are accepted in their order. A lone request has none, and no order.
    pub stream: Option<StreamId>,
    /// What its buffers took when they came back to the pool last: the pool's, also while a part has them.
    pooled_bytes: usize,
}

/// The series of a part, with their samples and what these say of their start.
#[derive(Debug, Clone, Copy)]
pub struct PartSamples<'a> {
    /// The series.
    pub series: &'a [PartSeries],
    /// Their samples, one series after the other.
    pub samples: &'a [Sample],
    /// Start timestamps, in the order of the samples that have them.
    pub starts: &'a [PartStart],
}

impl<'a> PartSamples<'a> {
    /// Each series with its samples, and each of these with its start timestamp, in ms; 0 where it has none.
    pub fn each_series(self) -> impl Iterator<Item = (&'a PartSeries, impl Iterator<Item = (Sample, i64)>)> {
        let Self { series, samples, mut starts } = self;
        let mut at = 0;
        series.iter().map(move |series| {
            let first = at;
            at += series.samples as usize;
            let own_starts = starts.partition_point(|start| (start.sample as usize) < at);
            let mut own_starts = starts.split_off(..own_starts).unwrap_or_default().iter().peekable();
            let own = samples[first..at].iter().zip(first as u32..).map(move |(sample, place)| {
                let start = own_starts.next_if(|start| start.sample == place);
                (*sample, start.map_or(0, |start| start.start_ms))
            });
            (series, own)
        })
    }
}

impl PartBuffer {
    /// Its series with their samples.
    pub fn part_samples(&self) -> PartSamples<'_> {
        PartSamples { series: &self.series, samples: &self.samples, starts: &self.starts }
    }

    /// Notes the start timestamp of the sample that came last, in ms; 0 says nothing.
    pub fn push_start(&mut self, start_ms: i64) {
        if let Some(sample) = self.samples.len().checked_sub(1).filter(|_| start_ms != 0) {
            self.starts.push(PartStart { sample: sample as u32, start_ms });
        }
    }

    /// Drops the first series, and as many samples of theirs and of the next.
    pub(crate) fn drain_first(&mut self, series: usize, samples: usize) {
        self.series.drain(..series);
        self.samples.drain(..samples);
        let starts = self.starts.partition_point(|start| (start.sample as usize) < samples);
        self.starts.drain(..starts);
        self.starts.iter_mut().for_each(|start| start.sample -= samples as u32);
    }

    /// Adds what another one has of the same request, after its own.
    pub(crate) fn append(&mut self, other: Self) {
        let Self { series, samples, starts, histograms, exemplars, metadata, .. } = other;
        let own = self.samples.len() as u32;
        self.series.extend(series);
        self.samples.extend(samples);
        self.starts.extend(
            starts
                .into_iter()
                .map(|PartStart { sample, start_ms }| PartStart { sample: own + sample, start_ms }),
        );
        self.histograms.extend(histograms);
        self.exemplars.extend(exemplars);
        self.metadata.extend(metadata);
    }

    /// The memory that its buffers hold on to.
    pub fn capacity_bytes(&self) -> usize {
        let series = self.series.capacity() * size_of::<PartSeries>();
        let starts = self.starts.capacity() * size_of::<PartStart>();
        let histograms = self.histograms.capacity() * size_of::<PartHistogram>();
        let exemplars = self.exemplars.capacity() * size_of::<PartExemplar>();
        let metadata = self.metadata.capacity() * size_of::<PartMetadata>();
        let samples = self.samples.capacity() * size_of::<Sample>();
        series + samples + starts + histograms + exemplars + metadata
    }

    /// The same beyond what they had in the pool, which counts there.
    pub fn grown_bytes(&self) -> usize {
        self.capacity_bytes().saturating_sub(self.pooled_bytes)
    }
}

/// A buffer that grew larger than this many samples is not kept: one huge request must not hold
/// its memory forever.
const KEPT_SAMPLES_MAX: usize = 16 * 1024;

/// The same of exemplars and metadata: most requests have few.
const KEPT_BESIDE_MAX: usize = 256;

impl Clear for PartBuffer {
    fn clear(&mut self) {
        self.series.clear();
        self.series.shrink_to(KEPT_SAMPLES_MAX);
        self.samples.clear();
        self.samples.shrink_to(KEPT_SAMPLES_MAX);
        self.starts.clear();
        self.starts.shrink_to(KEPT_SAMPLES_MAX);
        self.histograms.clear();
        self.histograms.shrink_to(KEPT_SAMPLES_MAX);
        self.exemplars.clear();
        self.exemplars.shrink_to(KEPT_BESIDE_MAX);
        self.metadata.clear();
        self.metadata.shrink_to(KEPT_BESIDE_MAX);
        self.epoch = Epoch::FIRST;
        self.stream = None;
    }
}

/// How many parts one core may have in flight.
#[derive(Debug, Clone, Copy)]
struct PoolConfig;

impl Config for PoolConfig {
    const INITIAL_PAGE_SIZE: usize = 64;
    // Pages double: 64 + 128 + 256 + 512 + 1024 parts of each core.
    const MAX_PAGES: usize = 5;
}

/// The pool of one core's parts. Cheap to clone. What it counts is written by its core, and by those that give
/// its parts back.
#[derive(Debug, Clone)]
pub struct PartPool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: Arc<Pool<PartBuffer, PoolConfig>>,
    /// The memory of the buffers that are in the pool, and what those had there that parts have now.
    kept_bytes: AtomicUsize,
    kept_bytes_max: AtomicUsize,
}

impl Default for PartPool {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl PartPool {
    /// A pool whose buffers take at most `kept_bytes_max` while no part has them.
    pub fn new(kept_bytes_max: usize) -> Self {
        let pool = Arc::new(Pool::new_with_config());
        Self(Arc::new(Shared {
            pool,
            kept_bytes: AtomicUsize::new(0),
            kept_bytes_max: AtomicUsize::new(kept_bytes_max),
        }))
    }

    /// An empty part; `None` when this core has too many in flight.
    pub fn take(&self) -> Option<Part> {
        let buffer = Arc::clone(&self.0.pool).create_owned()?;
        Some(Part { buffer: Some(buffer), pool: self.clone() })
    }

    /// Lets buffers that no part has take no more than so many bytes for now: what is beyond loses its memory as it
    /// comes back.
    pub fn keep_at_most(&self, bytes: usize) {
        self.0.kept_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// What the buffers take that no part has, and took that one has now.
    pub fn kept_bytes(&self) -> usize {
        self.0.kept_bytes.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Counts a buffer that comes back, or takes its memory where there would be too much of it.
    fn keep(&self, buffer: &mut PartBuffer) {
        buffer.clear();
        let (bytes, pooled_bytes) = (buffer.capacity_bytes(), buffer.pooled_bytes);
        let others_bytes = self.kept_bytes.fetch_sub(pooled_bytes, Ordering::Relaxed) - pooled_bytes;
        if others_bytes + bytes <= self.kept_bytes_max.load(Ordering::Relaxed) {
            self.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
            buffer.pooled_bytes = bytes;
        } else {
            *buffer = PartBuffer::default();
        }
    }
}

/// A part. Dropped on whichever core, its buffer goes back to the pool.
#[derive(Debug)]
pub struct Part {
    buffer: Option<OwnedRefMut<PartBuffer, PoolConfig>>,
    pool: PartPool,
}

impl std::ops::Deref for Part {
    type Target = PartBuffer;

    fn deref(&self) -> &PartBuffer {
        self.buffer.as_ref().expect("a part has its buffer until it is dropped")
    }
}

impl std::ops::DerefMut for Part {
    fn deref_mut(&mut self) -> &mut PartBuffer {
        self.buffer.as_mut().expect("a part has its buffer until it is dropped")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(mut buffer) = self.buffer.take() {
            self.pool.0.keep(&mut buffer);
            let key = buffer.key();
            drop(buffer);
            // The guard's own drop leaves the slot taken when it happens on another thread.
            self.pool.0.pool.clear(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::LabelSpan;
    use silverback_model::SeriesId;

    #[test]
    fn an_empty_pool_is_backpressure_and_a_dropped_part_room() {
        let pool = PartPool::default();
        let mut parts: Vec<Part> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(parts.len(), 64 + 128 + 256 + 512 + 1024);
        parts.pop();
        assert!(pool.take().is_some());
    }

    #[test]
    fn a_part_released_on_another_thread_gives_its_slot_back() {
        let pool = PartPool::default();
        for _ in 0..10_000 {
            let mut part = pool.take().expect("every released slot is free again");
            part.samples.push(Sample::new(1, 1.0));
            if part.samples.capacity() % 2 == 0 {
                std::thread::scope(|s| drop(s.spawn(move || drop(part)).join()));
            }
        }
    }

    #[test]
    fn each_sample_is_met_with_its_own_start_timestamp() {
        let mut part = PartBuffer::default();
        let series = [vec![(1, 0), (2, 7)], vec![(3, 0)], vec![(4, -9), (5, 0), (6, 8)]];
        for own in &series {
            let (id, labels) = (SeriesId(own.len() as u128), LabelSpan::NOWHERE);
            part.series.push(PartSeries::new(id, labels, own.len() as u32));
            for (at_ms, start_ms) in own {
                part.samples.push(Sample::new(*at_ms, 0.0));
                part.push_start(*start_ms);
            }
        }
        let times = |samples: &mut dyn Iterator<Item = (Sample, i64)>| {
            samples.map(|(sample, start_ms)| (sample.timestamp_ms, start_ms)).collect::<Vec<_>>()
        };
        let met = part.part_samples().each_series().map(|(_, mut own)| times(&mut own));
        assert_eq!(met.collect::<Vec<_>>(), series);
        assert_eq!(part.starts.len(), 3, "what says nothing takes nothing");
        let starts_bytes = part.starts.capacity() * size_of::<PartStart>();
        let bytes = part.capacity_bytes();
        part.starts = Vec::new();
        assert_eq!(part.capacity_bytes(), bytes - starts_bytes, "they are counted in");
    }

    #[test]
    fn what_lies_in_the_pool_takes_no_more_than_it_may() {
        let pool = PartPool::new(50_000);
        let mut parts: Vec<Part> = (0..10).map(|_| pool.take().unwrap()).collect();
        parts.iter_mut().for_each(|part| part.samples.resize(1000, Sample::new(1, 1.0)));
        assert_eq!(pool.kept_bytes(), 0);
        parts.clear();
        assert_eq!(pool.kept_bytes(), 3 * 16_000);
        let mut again: Vec<Part> = (0..10).map(|_| pool.take().unwrap()).collect();
        assert_eq!(again.iter().map(|part| part.capacity_bytes()).sum::<usize>(), 3 * 16_000);
        assert_eq!(pool.kept_bytes(), 3 * 16_000, "it stays the pool's");
        again.iter_mut().for_each(|part| part.samples.resize(1000, Sample::new(1, 1.0)));
        assert_eq!(again.iter().map(|part| part.grown_bytes()).sum::<usize>(), 7 * 16_000);
        pool.keep_at_most(20_000);
        drop(again);
        assert_eq!(pool.kept_bytes(), 16_000);
    }

    #[test]
    fn a_part_comes_back_empty_with_its_capacity() {
        let pool = PartPool::default();
        let mut part = pool.take().unwrap();
        part.samples.resize(1000, Sample::new(1, 1.0));
        part.histograms.reserve(1000);
        drop(part);
        let part = pool.take().unwrap();
        assert!(part.samples.is_empty() && part.samples.capacity() >= 1000);
        assert!(part.histograms.capacity() >= 1000, "a request may have nothing else");
    }
}

//! The last histogram of a chunk, as what the next is written against: the same for writers and for readers.
use super::error::HistogramChunkError;
use super::layout::ChunkLayout;
use super::track::Track;
use crate::STALE_NAN_BITS;
use crate::gorilla::bit_writer::{BitSink, BitWriter};
use crate::gorilla::bits::BitReader;
use crate::gorilla::{prefetch, varbit};
use crate::histogram::spans::bucket_count;
use crate::histogram::value::{Histogram, HistogramKind};

#[derive(Debug, Clone)]
pub(super) struct HistogramState {
    timestamp: Track,
    pub(super) count: Track,
    pub(super) zero_count: Track,
    sum: Track,
    pub(super) positive: Vec<Track>,
    pub(super) negative: Vec<Track>,
}

/// A histogram's buckets, in the order of a chunk's layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words<'a> {
    pub(super) positive: &'a [u64],
    pub(super) negative: &'a [u64],
}

impl<'a> Words<'a> {
    pub(super) fn of(histogram: &'a Histogram) -> Self {
        Self { positive: &histogram.positive.words, negative: &histogram.negative.words }
    }
}

impl HistogramState {
    pub(super) const fn timestamp_ms(&self) -> i64 {
        self.timestamp.last as i64
    }

    pub(super) const fn sum_bits(&self) -> u64 {
        self.sum.last
    }

    pub(super) const fn is_stale(&self) -> bool {
        self.sum.last == STALE_NAN_BITS
    }

    pub(super) fn heap_bytes(&self) -> usize {
        (self.positive.capacity() + self.negative.capacity()) * size_of::<Track>()
    }

    /// Brings the buckets towards the core, of many the first.
    pub(super) fn prefetch(&self) {
        /// Lines of a side; what follows comes by itself.
        const LINES: usize = 12;
        const PER_LINE: usize = 64 / size_of::<Track>();
        for side in [&self.positive, &self.negative] {
            side.iter().step_by(PER_LINE).take(LINES).for_each(prefetch);
        }
    }

    /// Writes a chunk's first histogram, after its layout. A staleness marker has to be emptied before.
    pub(super) fn put_first(
        timestamp_ms: i64,
        histogram: &Histogram,
        words: Words,
        out: &mut BitWriter,
    ) -> Self {
        let kind = histogram.kind;
        varbit::put_int(out, timestamp_ms);
        put_first_count(kind, histogram.count, out);
        put_first_count(kind, histogram.zero_count, out);
        out.bits(histogram.sum_bits, 64);
        Self {
            timestamp: Track::integer(timestamp_ms as u64),
            count: track(kind, histogram.count),
            zero_count: track(kind, histogram.zero_count),
            sum: Track::float(histogram.sum_bits),
            positive: words.positive.iter().map(|word| put_first_bucket(kind, *word, out)).collect(),
            negative: words.negative.iter().map(|word| put_first_bucket(kind, *word, out)).collect(),
        }
    }

    /// Writes a later one.
    pub(super) fn put_next(
        &mut self,
        timestamp_ms: i64,
        histogram: &Histogram,
        words: Words,
        out: &mut BitWriter,
    ) {
        self.timestamp.put_integer(timestamp_ms as u64, out);
        if histogram.is_stale() {
            return self.put_stale(histogram.kind, out);
        }
        match histogram.kind {
            HistogramKind::Integer => {
                self.count.put_integer(histogram.count, out);
                self.zero_count.put_integer(histogram.zero_count, out);
                self.sum.put_float(histogram.sum_bits, out);
                put_integers(&mut self.positive, words.positive, out);
                put_integers(&mut self.negative, words.negative, out);
            }
            HistogramKind::Float => {
                self.count.put_float(histogram.count, out);
                self.zero_count.put_float(histogram.zero_count, out);
                self.sum.put_float(histogram.sum_bits, out);
                put_floats(&mut self.positive, words.positive, out);
                put_floats(&mut self.negative, words.negative, out);
            }
        }
    }

    /// A staleness marker has no counts, no buckets, and says so in as few bits as it can.
    fn put_stale(&mut self, kind: HistogramKind, out: &mut BitWriter) {
        match kind {
            HistogramKind::Integer => {
                for track in [&mut self.count, &mut self.zero_count] {
                    track.step_to(0);
                    varbit::put_int(out, 0);
                }
            }
            HistogramKind::Float => {
                for track in [&mut self.count, &mut self.zero_count] {
                    track.put_float(0, out);
                }
            }
        }
        self.sum.put_float(STALE_NAN_BITS, out);
    }

    /// Reads a chunk's first histogram.
    pub(super) fn read_first(
        layout: &ChunkLayout,
        reader: &mut BitReader,
    ) -> Result<Self, HistogramChunkError> {
        let kind = layout.kind;
        Ok(Self {
            timestamp: Track::integer(varbit::read_int(reader)? as u64),
            count: read_first_count(kind, reader)?,
            zero_count: read_first_count(kind, reader)?,
            sum: Track::float(reader.bits(64)?),
            positive: read_first_buckets(kind, bucket_count(&layout.positive), reader)?,
            negative: read_first_buckets(kind, bucket_count(&layout.negative), reader)?,
        })
    }

    /// Reads a later one.
    pub(super) fn read_next(
        &mut self,
        kind: HistogramKind,
        reader: &mut BitReader,
    ) -> Result<(), HistogramChunkError> {
        self.timestamp.read_integer(reader)?;
        let read = match kind {
            HistogramKind::Integer => Track::read_integer,
            HistogramKind::Float => Track::read_float,
        };
        read(&mut self.count, reader)?;
        read(&mut self.zero_count, reader)?;
        self.sum.read_float(reader)?;
        if self.is_stale() {
            return Ok(());
        }
        let mut buckets = self.positive.iter_mut().chain(&mut self.negative);
        Ok(match kind {
            HistogramKind::Integer => buckets.try_for_each(|track| track.read_integer(reader)),
            HistogramKind::Float => buckets.try_for_each(|track| track.read_float(reader)),
        }?)
    }
}

fn put_integers(tracks: &mut [Track], words: &[u64], out: &mut BitWriter) {
    out.many(|out| {
        for (track, word) in tracks.iter_mut().zip(words) {
            track.put_integer(*word, out);
        }
    });
}

fn put_floats(tracks: &mut [Track], words: &[u64], out: &mut BitWriter) {
    out.many(|out| {
        for (track, word) in tracks.iter_mut().zip(words) {
            track.put_float(*word, out);
        }
    });
}

const fn track(kind: HistogramKind, word: u64) -> Track {
    match kind {
        HistogramKind::Integer => Track::integer(word),
        HistogramKind::Float => Track::float(word),
    }
}

fn put_first_count(kind: HistogramKind, word: u64, out: &mut BitWriter) {
    match kind {
        HistogramKind::Integer => varbit::put_uint(out, word),
        HistogramKind::Float => out.bits(word, 64),
    }
}

fn put_first_bucket(kind: HistogramKind, word: u64, out: &mut BitWriter) -> Track {
    match kind {
        HistogramKind::Integer => varbit::put_int(out, word as i64),
        HistogramKind::Float => out.bits(word, 64),
    }
    track(kind, word)
}

fn read_first_count(kind: HistogramKind, reader: &mut BitReader) -> Result<Track, HistogramChunkError> {
    Ok(track(
        kind,
        match kind {
            HistogramKind::Integer => varbit::read_uint(reader)?,
            HistogramKind::Float => reader.bits(64)?,
        },
    ))
}

/// The layout's bound was checked: this many are no hostile number.
fn read_first_buckets(
    kind: HistogramKind,
    buckets: u64,
    reader: &mut BitReader,
) -> Result<Vec<Track>, HistogramChunkError> {
    let read = |reader: &mut BitReader| match kind {
        HistogramKind::Integer => varbit::read_int(reader).map(|word| word as u64),
        HistogramKind::Float => reader.bits(64),
    };
    (0..buckets).map(|_| Ok(track(kind, read(reader)?))).collect()
}

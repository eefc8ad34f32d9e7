//! A series' chunks made to fit into a block: samples of one range, chunks that don't overlap. A chunk that lies in the
//! range and overlaps no other is copied as it is; the others are decoded, merged in the order of their times, and
//! encoded again, one sample at a time. So are chunks of floats in another encoding than the one that is wanted. Of two
//! samples of one time the first chunk's stays. Start timestamps go along from XOR2 chunks to XOR2 chunks; XOR chunks have
//! no place for them.

use std::ops::RangeInclusive;

use silverback_model::Sample;
use silverback_model::gorilla::{ChunkError, FloatEncoding, FloatIter, OpenFloats};
use silverback_model::histogram::{
    Histogram, HistogramChunkError, HistogramIter, OpenHistogram, SealedHistogram,
};

use crate::chunks::Contents;

/// A chunk as its series has it.
#[derive(Debug, Clone, Copy)]
pub struct SourceChunk<'a> {
    /// What is in it.
    pub contents: Contents,
    /// Its oldest sample's time.
    pub min_ms: i64,
    /// Its newest sample's.
    pub max_ms: i64,
    /// Its bytes, the count of samples in front.
    pub bytes: &'a [u8],
}

/// A chunk of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutChunk<'a> {
    /// What is in it.
    pub contents: Contents,
    /// Its oldest sample's time.
    pub min_ms: i64,
    /// Its newest sample's.
    pub max_ms: i64,
    /// How many samples.
    pub samples: usize,
    /// Its bytes, the count of samples in front.
    pub bytes: &'a [u8],
}

/// Why chunks can't be made to fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutError<E> {
    /// A chunk of floats can't be read.
    #[error(transparent)]
    Floats(ChunkError),
    /// A chunk of histograms can't be read.
    #[error(transparent)]
    Histograms(HistogramChunkError),
    /// Whoever takes the chunks takes no more.
    #[error("{0}")]
    Put(E),
}

/// Gives what of `chunks`, which come by their oldest samples, lies in `range_ms`, times ascending; chunks of floats in the
/// encoding `floats`, whatever they were in.
pub fn cut_chunks<'a, E>(
    chunks: impl IntoIterator<Item = SourceChunk<'a>>,
    range_ms: &RangeInclusive<i64>,
    floats: FloatEncoding,
    mut put: impl FnMut(CutChunk<'_>) -> Result<(), E>,
) -> Result<(), CutError<E>> {
    let in_range = |chunk: &SourceChunk| chunk.max_ms >= *range_ms.start() && chunk.min_ms <= *range_ms.end();
    let mut chunks = chunks.into_iter().filter(in_range).peekable();
    let mut overlapping = Vec::new();
    while let Some(first) = chunks.next() {
        let mut max_ms = first.max_ms;
        overlapping.clear();
        overlapping.push(first);
        while let Some(next) = chunks.next_if(|next| next.min_ms <= max_ms) {
            max_ms = max_ms.max(next.max_ms);
            overlapping.push(next);
        }
        let is_whole = range_ms.contains(&first.min_ms) && range_ms.contains(&first.max_ms);
        match (&*overlapping, is_whole) {
            ([alone], true) if is_encoded_as(alone, floats) => {
                put(as_it_is(alone)?).map_err(CutError::Put)?;
            }
            (several, _) => merge(several, range_ms, floats, &mut put)?,
        }
    }
    Ok(())
}

fn is_encoded_as(chunk: &SourceChunk<'_>, floats: FloatEncoding) -> bool {
    match chunk.contents {
        Contents::Floats(encoding) => encoding == floats,
        Contents::Histograms(_) => true,
    }
}

fn as_it_is<'a, E>(chunk: &SourceChunk<'a>) -> Result<CutChunk<'a>, CutError<E>> {
    let SourceChunk { contents, min_ms, max_ms, bytes } = *chunk;
    match ChunkSamples::<'a>::new(chunk).left() {
        0 => Err(without_samples(contents)),
        samples => Ok(CutChunk { contents, min_ms, max_ms, samples, bytes }),
    }
}

fn without_samples<E>(contents: Contents) -> CutError<E> {
    match contents {
        Contents::Floats(_) => CutError::Floats(ChunkError::Empty),
        Contents::Histograms(_) => CutError::Histograms(ChunkError::Empty.into()),
    }
}

/// Samples of chunks that overlap, in turn. Of those alone that have begun is something held.
fn merge<E>(
    chunks: &[SourceChunk<'_>],
    range_ms: &RangeInclusive<i64>,
    floats: FloatEncoding,
    put: &mut impl FnMut(CutChunk<'_>) -> Result<(), E>,
) -> Result<(), CutError<E>> {
    let mut waiting = chunks.iter().peekable();
    let (mut begun, mut open, mut last_ms) = (Vec::<ChunkSamples>::new(), Open::Nothing, None);
    loop {
        let earliest_ms = begun.iter().map(|samples| samples.at_ms).min();
        if let Some(chunk) = waiting.next_if(|next| earliest_ms.is_none_or(|at_ms| next.min_ms <= at_ms)) {
            let mut samples = ChunkSamples::new(chunk);
            if !samples.step()? {
                return Err(without_samples(chunk.contents));
            }
            begun.push(samples);
            continue;
        }
        // The first of those of one time: chunks were begun in their order.
        let Some(next) = (0..begun.len()).min_by_key(|at| begun[*at].at_ms) else { break };
        let samples = &mut begun[next];
        if samples.at_ms > *range_ms.end() {
            break;
        }
        if range_ms.contains(&samples.at_ms) && last_ms.is_none_or(|last_ms| samples.at_ms > last_ms) {
            last_ms = Some(samples.at_ms);
            open.append(samples, floats, put)?;
        }
        if !samples.step()? {
            begun.remove(next);
        }
    }
    open.end(put)
}

/// A chunk that is read, and its present sample.
pub(crate) struct ChunkSamples<'a> {
    pub(crate) at_ms: i64,
    present: Present<'a>,
}

enum Present<'a> {
    Float(FloatIter<'a>, f64),
    Histogram(HistogramIter<'a>, Box<Histogram>),
}

impl<'a> ChunkSamples<'a> {
    pub(crate) fn new(chunk: &SourceChunk<'a>) -> Self {
        let present = match chunk.contents {
            Contents::Floats(encoding) => Present::Float(FloatIter::new(encoding, chunk.bytes), 0.0),
            Contents::Histograms(kind) => {
                Present::Histogram(HistogramIter::new(kind, chunk.bytes), Box::default())
            }
        };
        Self { at_ms: i64::MIN, present }
    }

    fn left(&self) -> usize {
        match &self.present {
            Present::Float(iter, _) => iter.samples_left(),
            Present::Histogram(iter, _) => iter.samples_left(),
        }
    }

    /// Goes on to the next sample; `false` after the last.
    pub(crate) fn step<E>(&mut self) -> Result<bool, CutError<E>> {
        match &mut self.present {
            Present::Float(iter, value) => {
                let Some(sample) = iter.next() else { return Ok(false) };
                let sample = sample.map_err(CutError::Floats)?;
                (self.at_ms, *value) = (sample.timestamp_ms, sample.value);
            }
            Present::Histogram(iter, _) if iter.samples_left() == 0 => return Ok(false),
            Present::Histogram(iter, histogram) => {
                self.at_ms = iter.next_into(histogram).map_err(CutError::Histograms)?;
            }
        }
        Ok(true)
    }
}

/// The chunk that samples are written to.
enum Open {
    Nothing,
    Floats(Box<OpenFloats>),
    Histograms(Box<OpenHistogram>),
}

impl Open {
    fn append<E>(
        &mut self,
        samples: &ChunkSamples<'_>,
        floats: FloatEncoding,
        put: &mut impl FnMut(CutChunk<'_>) -> Result<(), E>,
    ) -> Result<(), CutError<E>> {
        let at_ms = samples.at_ms;
        match (&samples.present, &mut *self) {
            (Present::Float(iter, value), Self::Floats(open)) if !open.is_full_for(at_ms) => {
                open.append(Sample::new(at_ms, *value), iter.start_timestamp_ms());
                Ok(())
            }
            (Present::Float(iter, value), _) => {
                std::mem::replace(self, Self::Nothing).end(put)?;
                let first = Sample::new(at_ms, *value);
                *self = Self::Floats(Box::new(OpenFloats::start(floats, first, iter.start_timestamp_ms())));
                Ok(())
            }
            (Present::Histogram(_, histogram), Self::Histograms(open)) => {
                match open.append(at_ms, histogram) {
                    Some(sealed) => put_histograms(&sealed, put),
                    None => Ok(()),
                }
            }
            (Present::Histogram(_, histogram), _) => {
                std::mem::replace(self, Self::Nothing).end(put)?;
                *self = Self::Histograms(Box::new(OpenHistogram::start(at_ms, histogram, None)));
                Ok(())
            }
        }
    }

    fn end<E>(self, put: &mut impl FnMut(CutChunk<'_>) -> Result<(), E>) -> Result<(), CutError<E>> {
        match self {
            Self::Nothing => Ok(()),
            Self::Floats(open) => {
                let sealed = open.seal();
                put(CutChunk {
                    contents: Contents::Floats(sealed.encoding()),
                    min_ms: sealed.min_timestamp_ms(),
                    max_ms: sealed.max_timestamp_ms(),
                    samples: sealed.count(),
                    bytes: sealed.bytes(),
                })
                .map_err(CutError::Put)
            }
            Self::Histograms(open) => put_histograms(&open.seal(), put),
        }
    }
}

fn put_histograms<E>(
    sealed: &SealedHistogram,
    put: &mut impl FnMut(CutChunk<'_>) -> Result<(), E>,
) -> Result<(), CutError<E>> {
    put(CutChunk {
        contents: Contents::Histograms(sealed.kind()),
        min_ms: sealed.min_timestamp_ms(),
        max_ms: sealed.max_timestamp_ms(),
        samples: sealed.count(),
        bytes: sealed.bytes(),
    })
    .map_err(CutError::Put)
}

#[cfg(test)]
mod tests;

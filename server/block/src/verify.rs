//! Whether a block is what it says: every checksum but those of postings, which reading doesn't need; every sample; and
//! what they must be to each other. Damage is reported where it is found, and reading goes on as far as it can.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use crate::chunks::Contents;
use crate::cut::{ChunkSamples, CutError, SourceChunk};
use crate::error::BlockError;
use crate::meta::{Meta, Stats};
use crate::reader::{Block, BlockSeries};
use crate::series::ChunkPlace;

/// What is wrong with a block.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A file can't be read, or isn't what was written.
    #[error(transparent)]
    File(#[from] BlockError),
    /// A series isn't as its index has to have it.
    #[error("series {number} {labels}: {what}")]
    Series {
        /// Counted from 1, in the order of the index.
        number: u64,
        /// Its labels, as selectors have them.
        labels: String,
        /// What is wrong.
        what: &'static str,
    },
    /// `meta.json` says another number.
    #[error("meta.json says {told} {what}, but there are {found}")]
    Stats {
        /// Of what.
        what: &'static str,
        /// As it says.
        told: u64,
        /// Those that were read.
        found: u64,
    },
}

/// What was read of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// How much.
    pub stats: Stats,
    /// Chunks in encodings that aren't decoded here; their samples aren't among those.
    pub chunks_not_decoded: u64,
}

/// Reads all of the block in `dir`, and reports each damage.
pub fn verify(dir: &Path, tell: impl FnMut(VerifyError)) -> Verified {
    let mut verifying = Verifying { tell, verified: Verified::default(), damages: 0, meta: None };
    verifying.meta = Meta::read(dir).map_err(|fault| verifying.found(fault)).ok();
    match Block::open(dir) {
        Ok(block) => verifying.read(block),
        Err(fault) => verifying.found(fault),
    }
    verifying.verified
}

struct Verifying<F> {
    tell: F,
    verified: Verified,
    damages: u64,
    meta: Option<Meta>,
}

impl<F: FnMut(VerifyError)> Verifying<F> {
    fn found(&mut self, damage: impl Into<VerifyError>) {
        self.damages += 1;
        (self.tell)(damage.into());
    }

    fn read(&mut self, mut block: Block) {
        let mut last = None::<Vec<(Arc<str>, Arc<str>)>>;
        loop {
            match block.next_series() {
                Ok(Some(series)) => {
                    self.series(&mut block, &series, last.as_deref());
                    last = Some(series.labels);
                }
                Ok(None) => break,
                // Where the next one begins isn't known: what is missing is reported already.
                Err(fault) => return self.found(fault),
            }
        }
        // Of what couldn't be read the numbers are others anyhow.
        if self.damages == 0
            && let Some(meta) = &self.meta
        {
            let (told, found) = (meta.stats, self.verified.stats);
            self.compare("series", told.num_series, found.num_series);
            self.compare("chunks", told.num_chunks, found.num_chunks);
            if self.verified.chunks_not_decoded == 0 {
                self.compare("samples", told.num_samples, found.num_samples);
            }
        }
    }

    fn compare(&mut self, what: &'static str, told: u64, found: u64) {
        if told != found {
            self.found(VerifyError::Stats { what, told, found });
        }
    }

    fn series(&mut self, block: &mut Block, series: &BlockSeries, last: Option<&[(Arc<str>, Arc<str>)]>) {
        self.verified.stats.num_series += 1;
        let number = self.verified.stats.num_series;
        let mut wrong = |what| {
            let damage = VerifyError::Series { number, labels: shown(&series.labels), what };
            self.damages += 1;
            (self.tell)(damage);
        };
        if series.labels.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            wrong("its labels aren't in the order of their names, each once");
        }
        if last.is_some_and(|last| last >= &series.labels[..]) {
            wrong("it doesn't come after the one before it");
        }
        if series.chunks.windows(2).any(|pair| pair[0].max_ms >= pair[1].min_ms) {
            wrong("its chunks overlap, or aren't in the order of their times");
        }
        let within = self.meta.as_ref().map_or(i64::MIN..i64::MAX, |meta| meta.min_ms..meta.end_ms);
        if series.chunks.iter().any(|chunk| chunk.min_ms < within.start || chunk.max_ms >= within.end) {
            wrong("it has samples outside of the times that meta.json says");
        }
        for place in &series.chunks {
            self.verified.stats.num_chunks += 1;
            match samples_of(block, *place) {
                Ok(Some((Contents::Floats(_), samples))) => self.verified.stats.num_float_samples += samples,
                Ok(Some((Contents::Histograms(_), samples))) => {
                    self.verified.stats.num_histogram_samples += samples;
                }
                Ok(None) => self.verified.chunks_not_decoded += 1,
                Err(fault) => self.found(fault),
            }
        }
        let stats = &mut self.verified.stats;
        stats.num_samples = stats.num_float_samples + stats.num_histogram_samples;
    }
}

/// What a chunk's samples are and how many; `None`: they aren't decoded here.
fn samples_of(block: &mut Block, place: ChunkPlace) -> Result<Option<(Contents, u64)>, BlockError> {
    let ChunkPlace { min_ms, max_ms, .. } = place;
    let chunk = block.chunk(place)?;
    let Some(contents) = chunk.contents else { return Ok(None) };
    match read_samples(&SourceChunk { contents, min_ms, max_ms, bytes: chunk.bytes }) {
        Ok(samples) => Ok(Some((contents, samples))),
        Err(wrong) => Err(block.chunk_error(place, wrong)),
    }
}

/// Samples that can't be read, or are others than the index says.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// They can't be decoded.
    #[error(transparent)]
    Decoding(#[from] CutError<Infallible>),
    /// One isn't later than the one before.
    #[error("times don't ascend")]
    Order,
    /// The first or the last is of another time.
    #[error("its samples begin or end at other times than the index says")]
    Times,
}

/// Reads a chunk's samples, and counts them.
pub fn read_samples(chunk: &SourceChunk<'_>) -> Result<u64, SamplesError> {
    let mut samples = ChunkSamples::new(chunk);
    let (mut count, mut times) = (0, None::<(i64, i64)>);
    while samples.step()? {
        let (first_ms, last_ms) = times.unwrap_or((samples.at_ms, i64::MIN));
        if count > 0 && samples.at_ms <= last_ms {
            return Err(SamplesError::Order);
        }
        times = Some((first_ms, samples.at_ms));
        count += 1;
    }
    if times == Some((chunk.min_ms, chunk.max_ms)) { Ok(count) } else { Err(SamplesError::Times) }
}

fn shown(labels: &[(Arc<str>, Arc<str>)]) -> String {
    let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{{{}}}", pairs.join(", "))
}

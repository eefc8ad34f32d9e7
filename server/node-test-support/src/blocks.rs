//! TSDB blocks that a node wrote, as any reader of blocks finds them.
//!
//! Panics, as a test's own lines would, where a block can't be read or says something else of itself than is in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use silverback_block::{Block, Contents, Meta, Ulid, verify};
use silverback_model::gorilla::{FloatEncoding, FloatIter};

use crate::written::{Samples, Series, put_histograms};

/// Two hours, by which blocks are aligned.
pub const RANGE_MS: i64 = 7_200_000;

/// Series by their labels, each with `(time, bits)`; of a native histogram its fingerprint.
pub type AllSamples = BTreeMap<Vec<(String, String)>, Samples>;

/// A block, read.
#[derive(Debug)]
pub struct ReadBlock {
    /// Its `meta.json`.
    pub meta: Meta,
    /// What is in it.
    pub series: AllSamples,
    /// The encoding of each chunk of floats.
    pub floats: Vec<FloatEncoding>,
}

impl ReadBlock {
    /// Reads the one in `dir`, and checks that it is whole and of one range.
    pub fn read(dir: &Path) -> Self {
        let mut damage = Vec::new();
        verify(dir, |found| damage.push(found.to_string()));
        assert!(damage.is_empty(), "{damage:?}");
        let (meta, mut block) = (Meta::read(dir).unwrap(), Block::open(dir).unwrap());
        assert_eq!(meta.min_ms.div_euclid(RANGE_MS), (meta.end_ms - 1).div_euclid(RANGE_MS), "{meta:?}");
        let (mut series, mut encodings) = (AllSamples::new(), Vec::new());
        while let Some(found) = block.next_series().unwrap() {
            let labels =
                found.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let mut samples = Samples::new();
            for place in &found.chunks {
                let chunk = block.chunk(*place).unwrap();
                match chunk.contents.expect("the node writes what it reads") {
                    Contents::Floats(encoding) => {
                        encodings.push(encoding);
                        let floats = FloatIter::new(encoding, chunk.bytes).map(Result::unwrap);
                        samples.extend(floats.map(|sample| (sample.timestamp_ms, sample.value.to_bits())));
                    }
                    Contents::Histograms(kind) => put_histograms(kind, chunk.bytes, &mut samples),
                }
            }
            assert!(samples.is_sorted_by(|one, next| one.0 < next.0), "{labels:?}");
            series.insert(labels, samples);
        }
        Self { meta, series, floats: encodings }
    }

    /// The number of its range since the Unix epoch.
    pub fn range(&self) -> i64 {
        self.meta.min_ms.div_euclid(RANGE_MS)
    }
}

/// All blocks in a directory, by their names; what isn't named as a block is passed over.
pub fn read_blocks(dir: &Path) -> BTreeMap<String, ReadBlock> {
    let names = names(dir).into_iter().filter(|name| name.parse::<Ulid>().is_ok());
    names.map(|name| (name.clone(), ReadBlock::read(&dir.join(name)))).collect()
}

/// All names in a directory, sorted; none where it isn't there.
pub fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What blocks have together: a sample that is in several counts once, and has one value.
pub fn together<'a>(blocks: impl IntoIterator<Item = &'a ReadBlock>) -> AllSamples {
    let mut all = BTreeMap::<_, BTreeMap<i64, u64>>::new();
    for (labels, samples) in blocks.into_iter().flat_map(|block| &block.series) {
        let own = all.entry(labels.clone()).or_default();
        for (at_ms, bits) in samples {
            assert_eq!(own.insert(*at_ms, *bits).unwrap_or(*bits), *bits, "{labels:?} at {at_ms}");
        }
    }
    all.into_iter().map(|(labels, samples)| (labels, samples.into_iter().collect())).collect()
}

/// Of series, what lies in these ranges, by their numbers since the Unix epoch.
pub fn within(series: &[Series], is_in: impl Fn(i64) -> bool) -> AllSamples {
    let own = |samples: &Samples| {
        samples.iter().copied().filter(|(at_ms, _)| is_in(at_ms.div_euclid(RANGE_MS))).collect::<Samples>()
    };
    let all = series.iter().map(|(labels, samples)| (labels.clone(), own(samples)));
    all.filter(|(_, samples)| !samples.is_empty()).collect()
}

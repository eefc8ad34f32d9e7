//! What the criterion benches have in common: sizes, parts that are ready to be appended, a clock.

use silverback_model::{Labels, SeriesIdHasher};
use silverback_storage::message::{LabelSource, LabelSpan, PartSeries, WriteBody};

use crate::fleet;

/// Nothing depends on it but which series comes first.
const SEED: u64 = 1;

/// Whether criterion only tries each bench once: `cargo bench -- --test`.
pub fn is_trial() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// The sizes to measure; of them the smallest alone when benches are only tried.
pub fn sizes<const N: usize>(all: [usize; N]) -> Vec<usize> {
    let least = all.iter().copied().min();
    all.into_iter().filter(|size| !is_trial() || Some(*size) == least).collect()
}

/// Hashes label sets as all benches do.
pub fn hasher() -> SeriesIdHasher {
    SeriesIdHasher::new(SEED, "")
}

/// The canonical label block of one series of the fleet.
pub fn canonical(series: usize) -> Vec<u8> {
    Labels::from_pairs(fleet::labels(series)).to_canonical()
}

/// A decoded request of one sample for each of its series, the first being number `first`.
pub fn decoded(first: usize, series: usize) -> (WriteBody, Vec<PartSeries>) {
    let (mut bytes, mut entries) = (Vec::new(), Vec::with_capacity(series));
    for block in (first..first + series).map(canonical) {
        let labels = LabelSpan::new(LabelSource::Wire, bytes.len(), block.len());
        entries.push(PartSeries::new(hasher().hash_canonical(&block), labels, 1));
        bytes.extend_from_slice(&block);
    }
    (WriteBody { bytes: bytes.into(), ..WriteBody::default() }, entries)
}

//! Late samples and the chunks that they lie among, merged. Knows chunks alone, and of a series no more than
//! their order.

use crate::cell::rest::{own, write_anew, write_in_chunks_of};
use silverback_model::Sample;
use silverback_model::gorilla::SealedChunk;
use silverback_model::limits::{CHUNK_RANGE_MS, CHUNK_SAMPLES};

/// Fewer samples than this are in each chunk that late samples were merged into.
pub(super) const MERGED_SAMPLES_MAX: usize = CHUNK_SAMPLES + CHUNK_SAMPLES / 2;

/// Chunks of all samples of `chunks`, oldest first, and of `late`. A few more than a chunk's samples stay in one:
/// otherwise each chunk that gets a late sample would leave one of a single sample behind.
pub(super) fn merge(chunks: &[SealedChunk], late: &SealedChunk) -> Vec<SealedChunk> {
    let samples = merged(chunks, late);
    let mut into = Vec::new();
    for of_range in samples.chunk_by(|a, b| range(*a) == range(*b)) {
        let pieces = (of_range.len() + CHUNK_SAMPLES / 2) / CHUNK_SAMPLES;
        write_evenly(of_range, pieces.max(1), &mut into);
    }
    into
}

/// Writes samples in so many chunks of about as many samples, or more where these have more bytes than a chunk may: else
/// the last one would be left with a few, and each late sample would leave another one of these.
fn write_evenly(samples: &[Sample], pieces: usize, into: &mut Vec<SealedChunk>) {
    let (begin, mut pieces) = (into.len(), pieces);
    loop {
        write_in_chunks_of(samples.len().div_ceil(pieces), samples.iter().copied(), into);
        let made = into.len() - begin;
        if made <= pieces {
            return;
        }
        into.truncate(begin);
        pieces = made;
    }
}

/// The same where the last of the chunks is open: cut as appends cut them, the last one to go on with.
pub(super) fn merge_into_open(
    sealed: &[SealedChunk],
    late: &SealedChunk,
    open: &SealedChunk,
) -> (Vec<SealedChunk>, SealedChunk) {
    let mut chunks = sealed.to_vec();
    chunks.push(open.clone());
    let mut into = Vec::new();
    write_anew(merged(&chunks, late).into_iter(), &mut into);
    let open = into.pop().expect("an open chunk has a sample");
    (into, open)
}

fn range(sample: Sample) -> i64 {
    sample.timestamp_ms.div_euclid(CHUNK_RANGE_MS)
}

/// All samples by time. Where two have the same, which no append leaves, the chunks' counts.
fn merged(chunks: &[SealedChunk], late: &SealedChunk) -> Vec<Sample> {
    let samples_of = |chunk: &SealedChunk| chunk.count();
    let mut merged: Vec<Sample> =
        Vec::with_capacity(chunks.iter().map(samples_of).sum::<usize>() + late.count());
    let mut late = own(late).peekable();
    for sample in chunks.iter().flat_map(own) {
        while let Some(earlier) = late.next_if(|late| late.timestamp_ms < sample.timestamp_ms) {
            merged.push(earlier);
        }
        late.next_if(|late| late.timestamp_ms == sample.timestamp_ms);
        merged.push(sample);
    }
    merged.extend(late);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_MS: i64 = 15_000;

    fn chunk(samples: impl IntoIterator<Item = i64>) -> SealedChunk {
        let mut chunks = Vec::new();
        write_in_chunks_of(usize::MAX, samples.into_iter().map(|at| Sample::new(at, at as f64)), &mut chunks);
        assert_eq!(chunks.len(), 1);
        chunks.remove(0)
    }

    fn times<'a>(chunks: impl IntoIterator<Item = &'a SealedChunk>) -> Vec<i64> {
        let samples: Vec<Sample> = chunks.into_iter().flat_map(own).collect();
        assert!(samples.iter().all(|sample| sample.value == sample.timestamp_ms as f64));
        samples.iter().map(|sample| sample.timestamp_ms).collect()
    }

    /// Scrapes and late samples are all there, ascending, in so many chunks.
    fn check(scrapes: i64, late: &[i64], expect_chunks: usize) {
        let chunks: Vec<i64> = (0..scrapes).map(|i| i * STEP_MS).collect();
        let sealed: Vec<SealedChunk> =
            chunks.chunks(CHUNK_SAMPLES).map(|part| chunk(part.iter().copied())).collect();
        let merged = merge(&sealed, &chunk(late.iter().copied()));
        let mut expect = [&chunks, late].concat();
        expect.sort_unstable();
        assert_eq!(times(&merged), expect);
        assert_eq!(merged.len(), expect_chunks);
    }

    #[test]
    fn late_samples_join_the_chunks_that_they_lie_among() {
        check(120, &[7], 1);
        check(120, &[7, STEP_MS + 1, 119 * STEP_MS + 1], 1);
        check(1, &[7], 1);
        check(240, &[7], 2);
    }

    #[test]
    fn what_is_more_than_a_chunk_and_a_half_is_cut_evenly() {
        let late: Vec<i64> = (0..60).map(|i| i * STEP_MS + 1).collect();
        check(120, &late[..59], 1);
        check(120, &late, 2);
    }

    #[test]
    fn chunks_that_outgrow_their_bytes_are_cut_evenly() {
        let noise = |at: i64| f64::from_bits((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2);
        let mut sealed = Vec::new();
        write_in_chunks_of(usize::MAX, (0..500).map(|i| Sample::new(i * STEP_MS, noise(i))), &mut sealed);
        let full = sealed.remove(0);
        let mut late = Vec::new();
        write_in_chunks_of(usize::MAX, [Sample::new(7, noise(7))].into_iter(), &mut late);
        let merged = merge(std::slice::from_ref(&full), &late.remove(0));
        let counts: Vec<usize> = merged.iter().map(SealedChunk::count).collect();
        assert_eq!(counts.iter().sum::<usize>(), full.count() + 1);
        assert!(counts.iter().all(|count| *count > full.count() / 3), "{counts:?}");
    }

    #[test]
    fn no_chunk_crosses_a_range() {
        let late = chunk([CHUNK_RANGE_MS - 10, CHUNK_RANGE_MS - 5]);
        let merged =
            merge(&[chunk([CHUNK_RANGE_MS - 20, CHUNK_RANGE_MS - 7]), chunk([CHUNK_RANGE_MS])], &late);
        assert_eq!(times(&merged[..1]), [20, 10, 7, 5].map(|before| CHUNK_RANGE_MS - before));
        assert_eq!(times(&merged[1..]), [CHUNK_RANGE_MS]);
    }

    #[test]
    fn an_open_chunk_goes_on_with_the_newest_sample() {
        let late = chunk([STEP_MS + 1, 150 * STEP_MS + 1]);
        let sealed = chunk((0..120).map(|i| i * STEP_MS));
        let (chunks, open) = merge_into_open(&[sealed], &late, &chunk((120..200).map(|i| i * STEP_MS)));
        assert_eq!(chunks.len(), 1);
        assert_eq!(open.max_timestamp_ms(), 199 * STEP_MS);
        assert_eq!(times(chunks.iter().chain([&open])).len(), 202);
    }

    #[test]
    fn of_two_samples_at_a_time_the_chunk_s_is_kept() {
        let merged = merge(&[chunk([1, 5])], &chunk([5, 6]));
        assert_eq!(times(&merged), [1, 5, 6]);
    }
}

//! What is left of a series without a range of time. Chunks outside of it stay as they are, those across its
//! ends are rewritten. Knows chunks alone, and of a series no more than their order.

use std::ops::RangeInclusive;

use silverback_model::Sample;
use silverback_model::gorilla::{OpenXor, SealedChunk};
use silverback_model::limits::CHUNK_SAMPLES;

/// A series without a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Without {
    /// It has no sample in the range.
    AsBefore,
    /// It has no sample outside.
    Nothing,
    /// It has some of both.
    Rest(Rest),
}

/// The samples of a series that lie outside of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// In chunks, oldest first.
    pub sealed: Vec<SealedChunk>,
    /// The newest of them, in a chunk to go on with.
    pub open: SealedChunk,
    /// How many samples lie inside.
    pub gone: usize,
}

/// What is left of chunks, oldest first, of which the last one is open, without a range of ms.
pub(crate) fn without(sealed: &[SealedChunk], open: &SealedChunk, range_ms: &RangeInclusive<i64>) -> Without {
    let (mut left, mut gone) = (Vec::new(), 0);
    for chunk in sealed.iter().chain(std::iter::once(open)) {
        gone += keep_outside(chunk, range_ms, &mut left);
    }
    match (gone, left.pop()) {
        (0, _) => Without::AsBefore,
        (_, None) => Without::Nothing,
        (gone, Some(last)) => {
            let open = to_go_on_with(last, &mut left);
            left.shrink_to_fit();
            Without::Rest(Rest { sealed: left, open, gone })
        }
    }
}

/// The last chunk as appends would have left it: one that late samples were merged into may have more than a chunk that
/// is open ever has.
fn to_go_on_with(last: SealedChunk, left: &mut Vec<SealedChunk>) -> SealedChunk {
    if last.count() <= CHUNK_SAMPLES {
        return last;
    }
    write_anew(own(&last), left);
    left.pop().expect("it has samples")
}

/// The samples of a chunk of the node's own.
pub(super) fn own(chunk: &SealedChunk) -> impl Iterator<Item = Sample> {
    chunk.samples().map(|sample| sample.expect("the node's own chunks decode"))
}

/// The samples of a chunk from a time on, in ms, as a chunk.
pub(crate) fn from_time(chunk: &SealedChunk, from_ms: i64) -> Option<SealedChunk> {
    let mut rest = Vec::new();
    write_in_chunks_of(usize::MAX, own(chunk).filter(|sample| sample.timestamp_ms >= from_ms), &mut rest);
    rest.pop()
}

/// Adds what lies outside of the range, and returns how many samples don't.
fn keep_outside(chunk: &SealedChunk, range_ms: &RangeInclusive<i64>, left: &mut Vec<SealedChunk>) -> usize {
    if !chunk.overlaps(*range_ms.start(), *range_ms.end()) {
        left.push(chunk.clone());
        return 0;
    }
    let has_ends = [chunk.min_timestamp_ms(), chunk.max_timestamp_ms()].map(|end| range_ms.contains(&end));
    if has_ends == [true; 2] {
        return chunk.count();
    }
    let kept = write_anew(own(chunk).filter(|sample| !range_ms.contains(&sample.timestamp_ms)), left);
    chunk.count() - kept
}

/// Writes samples as chunks, as appends would have cut them, and returns how many there are. Without those between
/// them they may take more bytes than before.
pub(crate) fn write_anew(samples: impl Iterator<Item = Sample>, into: &mut Vec<SealedChunk>) -> usize {
    write_in_chunks_of(CHUNK_SAMPLES, samples, into)
}

/// The same in chunks of so many samples at most.
pub(super) fn write_in_chunks_of(
    samples_max: usize,
    samples: impl Iterator<Item = Sample>,
    into: &mut Vec<SealedChunk>,
) -> usize {
    let (mut count, mut words, mut open) = (0, Vec::new(), None::<OpenXor>);
    for sample in samples {
        count += 1;
        match &mut open {
            Some(chunk) if !chunk.is_full_at(sample.timestamp_ms, samples_max) => {
                chunk.append(sample, &mut words)
            }
            Some(_) | None => {
                into.extend(open.map(|chunk| chunk.seal(words.drain(..))));
                open = Some(OpenXor::start(sample, &mut words));
            }
        }
    }
    into.extend(open.map(|chunk| chunk.seal(words.into_iter())));
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::merge::merge;
    use silverback_model::STALE_NAN_BITS;

    const STEP_MS: i64 = 1000;

    /// Chunks of so many samples, as appends cut them.
    fn chunks(count: i64) -> Vec<SealedChunk> {
        let value = |i: i64| match i % 5 {
            0 => f64::from_bits(STALE_NAN_BITS),
            1 => f64::from_bits(0x7ff8_dead_beef_0000 | i as u64),
            _ => i as f64 / 3.0,
        };
        let mut chunks = Vec::new();
        write_anew((0..count).map(|i| Sample::new(i * STEP_MS, value(i))), &mut chunks);
        chunks
    }

    fn bits<'a>(chunks: impl IntoIterator<Item = &'a SealedChunk>) -> Vec<(i64, u64)> {
        let samples = chunks.into_iter().flat_map(SealedChunk::samples).map(Result::unwrap);
        samples.map(|sample| (sample.timestamp_ms, sample.value.to_bits())).collect()
    }

    /// Of so many samples, what is left without a range is all that lies outside, bit for bit.
    fn check(count: i64, range_ms: RangeInclusive<i64>) -> Without {
        let all = chunks(count);
        let (open, sealed) = all.split_last().unwrap();
        let expect: Vec<_> = bits(&all).into_iter().filter(|(at, _)| !range_ms.contains(at)).collect();
        let found = without(sealed, open, &range_ms);
        match &found {
            Without::AsBefore => assert_eq!(expect.len(), count as usize, "{range_ms:?}"),
            Without::Nothing => assert!(expect.is_empty(), "{range_ms:?}"),
            Without::Rest(rest) => {
                assert_eq!(bits(rest.sealed.iter().chain([&rest.open])), expect, "{range_ms:?}");
                assert_eq!(rest.gone, count as usize - expect.len(), "{range_ms:?}");
                assert!(!expect.is_empty() && rest.gone > 0);
            }
        }
        found
    }

    #[test]
    fn all_that_lies_outside_is_left_bit_for_bit() {
        let cuts = [-1, 0, 1, 500, 119_000, 120_000, 150_500, 239_000, 240_000, 499_000, 500_000];
        for (i, from) in cuts.iter().enumerate() {
            for to in &cuts[i..] {
                check(500, *from..=*to);
            }
        }
    }

    #[test]
    fn a_chunk_of_many_late_samples_that_is_left_last_is_cut_as_appends_cut() {
        let chunk_at = |times: &mut dyn Iterator<Item = i64>| {
            let mut chunks = Vec::new();
            write_anew(times.map(|at| Sample::new(at, 7.0)), &mut chunks);
            chunks.pop().expect("one chunk")
        };
        let late = chunk_at(&mut (0..30).map(|i| i * STEP_MS));
        let merged = merge(&[chunk_at(&mut (0..120).map(|i| i * STEP_MS + 1))], &late);
        assert_eq!(merged.iter().map(SealedChunk::count).collect::<Vec<_>>(), [150]);
        let open = [chunk_at(&mut [10_000_000].into_iter())];
        let Without::Rest(rest) = without(&merged, &open[0], &(9_000_000..=i64::MAX)) else {
            panic!("much is left")
        };
        assert_eq!((rest.sealed[0].count(), rest.open.count(), rest.gone), (120, 30, 1));
        assert_eq!(bits(rest.sealed.iter().chain([&rest.open])), bits(&merged));
    }

    #[test]
    fn a_range_without_a_sample_changes_nothing() {
        assert_eq!(check(500, 150_001..=150_999), Without::AsBefore);
        assert_eq!(check(500, i64::MIN..=-1), Without::AsBefore);
        assert_eq!(check(500, 500_000..=i64::MAX), Without::AsBefore);
    }

    #[test]
    fn a_range_over_all_samples_leaves_nothing() {
        assert_eq!(check(500, 0..=499_000), Without::Nothing);
        assert_eq!(check(1, i64::MIN..=i64::MAX), Without::Nothing);
    }

    #[test]
    fn chunks_outside_stay_as_they_are_and_the_newest_one_left_goes_on() {
        let all = chunks(500);
        let from_ms = all[2].min_timestamp_ms();
        let Without::Rest(rest) = check(500, from_ms..=i64::MAX) else { panic!("two chunks are left") };
        assert_eq!((rest.sealed, rest.open), (all[..1].to_vec(), all[1].clone()));
    }
}

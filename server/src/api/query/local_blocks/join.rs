//! A series of which blocks have a part and memory has a part, as one. Before the border both have most of what memory
//! still holds there, and each has what the other lacks: memory what came late and is in no block yet, blocks what
//! memory has dropped. Each time is there once; what both have of one time is the same sample.
//!
//! Chunks that both have are mostly the same bytes, and stay as they are. Where they differ the one of the blocks and those
//! of memory that overlap it are made one run.

use std::ops::RangeInclusive;

use silverback_block::{Contents, CutChunk, SourceChunk};
use silverback_model::gorilla::FloatEncoding;
use silverback_runtime::Slice;
use silverback_storage::message::{ChunkOf, ChunkView, SeriesBatch, SeriesBatchBuilder, SeriesView};

use super::series::{cut, kind_of};

/// Both parts as one, on its own.
pub(super) async fn joined(blocks: SeriesView<'_>, memory: SeriesView<'_>, slice: &mut Slice) -> SeriesBatch {
    let mut joining = begin(blocks, memory);
    while joining.step() {
        slice.yield_if_needed().await;
    }
    joining.batch.finish()
}

/// Two parts on their way to be one.
struct Joining<'a, B> {
    /// Ascending; none overlaps another.
    blocks: B,
    /// By their oldest samples.
    memory: Vec<ChunkView<'a>>,
    /// Chunks of memory before it are in the batch.
    first: usize,
    /// What is older is in the batch.
    from_ms: i64,
    batch: SeriesBatchBuilder,
}

fn begin<'a>(
    blocks: SeriesView<'a>,
    memory: SeriesView<'a>,
) -> Joining<'a, impl Iterator<Item = ChunkView<'a>>> {
    let mut batch = SeriesBatchBuilder::default();
    batch.begin_series(|out| out.extend_from_slice(blocks.labels.0));
    let memory = memory.chunks().collect();
    Joining { blocks: blocks.chunks(), memory, first: 0, from_ms: i64::MIN, batch }
}

impl<'a, B: Iterator<Item = ChunkView<'a>>> Joining<'a, B> {
    /// Adds a chunk of the blocks with what memory has until its end, and after the last of them a chunk of memory. False
    /// after that.
    fn step(&mut self) -> bool {
        if let Some(own) = self.blocks.next() {
            if own.min_ms > self.from_ms {
                self.put_between(self.from_ms..=own.min_ms - 1);
            }
            self.put_merged(own);
            self.from_ms = own.max_ms.saturating_add(1);
            return true;
        }
        let Some(rest) = self.memory.get(self.first) else { return false };
        put_part(*rest, &(self.from_ms..=i64::MAX), &mut self.batch);
        self.first += 1;
        true
    }

    /// What of memory may have a sample in a range, from the first on that isn't all in the batch.
    fn in_range(&mut self, range_ms: &RangeInclusive<i64>) -> Vec<ChunkView<'a>> {
        let is_passed = |chunk: &&ChunkView<'_>| chunk.max_ms < *range_ms.start();
        self.first += self.memory[self.first..].iter().take_while(is_passed).count();
        let near = self.memory[self.first..].iter().take_while(|chunk| chunk.min_ms <= *range_ms.end());
        near.filter(|chunk| !is_passed(chunk)).copied().collect()
    }

    /// What memory has where no chunk of the blocks is.
    fn put_between(&mut self, range_ms: RangeInclusive<i64>) {
        for chunk in self.in_range(&range_ms) {
            put_part(chunk, &range_ms, &mut self.batch);
        }
    }

    /// A chunk of the blocks, with what memory has beside it.
    fn put_merged(&mut self, own: ChunkView<'a>) {
        let range_ms = own.min_ms..=own.max_ms;
        let mut all = vec![own];
        all.extend(self.in_range(&range_ms).into_iter().filter(|chunk| !is_same(chunk, &own)));
        if all.len() == 1 {
            return put(own, &mut self.batch);
        }
        all.sort_by_key(|chunk| chunk.min_ms);
        put_cut(&all, &range_ms, &mut self.batch);
    }
}

fn is_same(one: &ChunkView<'_>, other: &ChunkView<'_>) -> bool {
    (one.min_ms, one.max_ms, one.of, one.bytes) == (other.min_ms, other.max_ms, other.of, other.bytes)
}

fn put_part(chunk: ChunkView<'_>, range_ms: &RangeInclusive<i64>, batch: &mut SeriesBatchBuilder) {
    if range_ms.contains(&chunk.min_ms) && range_ms.contains(&chunk.max_ms) {
        put(chunk, batch);
    } else if chunk.max_ms >= *range_ms.start() {
        put_cut(&[chunk], range_ms, batch);
    }
}

fn put(chunk: ChunkView<'_>, batch: &mut SeriesBatchBuilder) {
    let ChunkView { min_ms, max_ms, of, bytes } = chunk;
    batch.add_chunk_of(of, min_ms, max_ms, |out| out.extend_from_slice(bytes));
}

/// What of chunks lies in a range. Where one can't be read they are given as they are: who reads them finds that out.
fn put_cut(chunks: &[ChunkView<'_>], range_ms: &RangeInclusive<i64>, batch: &mut SeriesBatchBuilder) {
    let mut made = Vec::new();
    let take = |chunk: CutChunk<'_>| {
        made.push((kind_of(chunk.contents), chunk.min_ms, chunk.max_ms, chunk.bytes.to_vec()));
    };
    match cut(chunks.iter().map(source_of), range_ms, take) {
        Ok(()) => {
            for (of, min_ms, max_ms, bytes) in &made {
                batch.add_chunk_of(*of, *min_ms, *max_ms, |out| out.extend_from_slice(bytes));
            }
        }
        Err(()) => chunks.iter().for_each(|chunk| put(*chunk, batch)),
    }
}

fn source_of<'a>(chunk: &ChunkView<'a>) -> SourceChunk<'a> {
    let ChunkView { min_ms, max_ms, of, bytes } = *chunk;
    let contents = match of {
        ChunkOf::Samples => Contents::Floats(FloatEncoding::Xor),
        ChunkOf::Histograms(kind) => Contents::Histograms(kind),
    };
    SourceChunk { contents, min_ms, max_ms, bytes }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use silverback_model::Sample;
    use silverback_model::gorilla::OpenXor;

    use super::*;

    /// A series of these chunks, each of samples whose values are their times.
    fn series(chunks: &[Vec<i64>]) -> SeriesBatch {
        let mut batch = SeriesBatchBuilder::default();
        batch.begin_series(|out| out.extend_from_slice(b"labels"));
        for times in chunks.iter().filter(|times| !times.is_empty()) {
            let mut words = Vec::new();
            let sample = |at_ms: i64| Sample::new(at_ms, at_ms as f64);
            let mut open = OpenXor::start(sample(times[0]), &mut words);
            times[1..].iter().for_each(|at_ms| open.append(sample(*at_ms), &mut words));
            let sealed = open.seal(words.into_iter());
            let put = |out: &mut Vec<u8>| out.extend_from_slice(sealed.bytes());
            batch.add_chunk_of(ChunkOf::Samples, sealed.min_timestamp_ms(), sealed.max_timestamp_ms(), put);
        }
        batch.finish()
    }

    fn join(blocks: &SeriesBatch, memory: &SeriesBatch) -> SeriesBatch {
        let mut joining = begin(blocks.get(0), memory.get(0));
        while joining.step() {}
        joining.batch.finish()
    }

    fn samples(batch: &SeriesBatch) -> Vec<(i64, f64)> {
        let samples = batch.get(0).chunks().flat_map(ChunkView::samples).map(Result::unwrap);
        samples.map(|sample| (sample.timestamp_ms, sample.value)).collect()
    }

    fn chunk_times(batch: &SeriesBatch) -> Vec<(i64, i64)> {
        batch.get(0).chunks().map(|chunk| (chunk.min_ms, chunk.max_ms)).collect()
    }

    #[test]
    fn what_both_have_stays_as_it_is_and_what_one_has_comes_in_its_place() {
        let blocks = series(&[vec![1, 5, 9], vec![20, 30]]);
        let joined = join(&blocks, &series(&[vec![20, 30], vec![40]]));
        assert_eq!(chunk_times(&joined), [(1, 9), (20, 30), (40, 40)]);
        assert!(joined.get(0).chunks().nth(1).unwrap().bytes == blocks.get(0).chunks().nth(1).unwrap().bytes);
        // One that came late into a chunk, and one between two.
        let joined = join(&blocks, &series(&[vec![5, 7, 9], vec![12], vec![20, 30]]));
        assert_eq!(chunk_times(&joined), [(1, 9), (12, 12), (20, 30)]);
        assert_eq!(
            samples(&joined).iter().map(|(at_ms, _)| *at_ms).collect::<Vec<_>>(),
            [1, 5, 7, 9, 12, 20, 30]
        );
        assert_eq!(samples(&join(&series(&[]), &blocks)), samples(&blocks));
        assert_eq!(samples(&join(&blocks, &series(&[]))), samples(&blocks));
    }

    #[test]
    fn chunks_that_cannot_be_read_are_given_as_they_are() {
        let mut damaged = SeriesBatchBuilder::default();
        damaged.begin_series(|out| out.extend_from_slice(b"labels"));
        damaged.add_chunk_of(ChunkOf::Samples, 4, 40, |out| out.extend_from_slice(&[0, 9, 1]));
        let joined = join(&series(&[vec![1, 5, 9]]), &damaged.finish());
        assert!(joined.get(0).chunks().flat_map(ChunkView::samples).any(|sample| sample.is_err()));
    }

    /// Times cut into chunks of one to four.
    fn chunks(times: &std::collections::BTreeSet<i64>, lengths: &[usize]) -> Vec<Vec<i64>> {
        let (mut left, mut lengths) = (times.iter().copied(), lengths.iter().cycle());
        std::iter::from_fn(|| {
            let chunk: Vec<i64> = left.by_ref().take(*lengths.next().unwrap()).collect();
            (!chunk.is_empty()).then_some(chunk)
        })
        .collect()
    }

    proptest! {
        #[test]
        fn each_time_stands_once_and_none_is_missing(
            of_blocks in prop::collection::btree_set(0_i64..60, 0..40),
            of_memory in prop::collection::btree_set(0_i64..90, 0..60),
            lengths in prop::collection::vec(1_usize..5, 1..8),
            others in prop::collection::vec(1_usize..5, 1..8),
        ) {
            let (blocks, memory) =
                (series(&chunks(&of_blocks, &lengths)), series(&chunks(&of_memory, &others)));
            let expect: Vec<_> =
                of_blocks.union(&of_memory).map(|at_ms| (*at_ms, *at_ms as f64)).collect();
            let joined = join(&blocks, &memory);
            prop_assert_eq!(samples(&joined), expect);
            prop_assert!(chunk_times(&joined).is_sorted_by(|one, next| one.1 < next.0));
        }
    }
}

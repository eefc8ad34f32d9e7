//! How much of a series goes into one frame of an answer in chunks: what is larger goes on in the next one.

use silverback_model::LabelBlock;
use silverback_model::limits::READ_FRAME_BYTES;
use silverback_storage::message::ChunkView;

/// How many of the chunks, each of so many bytes, go into one frame: one at least, where there is one, and the one that
/// fills it, as Prometheus counts.
pub(crate) fn chunks_of_frame<'a>(
    labels: LabelBlock<'_>,
    mut chunks: impl ExactSizeIterator<Item = ChunkView<'a>>,
    mut chunk_len: impl FnMut(ChunkView<'a>) -> usize,
) -> usize {
    let (mut bytes, all) = (labels.0.len(), chunks.len());
    let fills = chunks.position(|chunk| {
        bytes += chunk_len(chunk);
        bytes >= READ_FRAME_BYTES
    });
    fills.map_or(all, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_storage::message::ChunkOf;

    fn check(label_bytes: usize, chunks: &[usize], expect: usize) {
        let chunk = ChunkView { min_ms: 0, max_ms: 0, of: ChunkOf::Samples, bytes: &[] };
        let lens = std::cell::RefCell::new(chunks.iter());
        let chunk_len = |_: ChunkView<'_>| *lens.borrow_mut().next().unwrap();
        let labels = vec![0; label_bytes];
        let views = std::iter::repeat_n(chunk, chunks.len());
        assert_eq!(
            chunks_of_frame(LabelBlock(&labels), views, chunk_len),
            expect,
            "{label_bytes} {chunks:?}"
        );
    }

    #[test]
    fn a_frame_ends_with_the_chunk_that_fills_it() {
        check(100, &[], 0);
        check(100, &[10], 1);
        check(100, &[600_000, 600_000, 10], 2);
        check(100, &[READ_FRAME_BYTES, 10], 1);
        check(READ_FRAME_BYTES, &[10, 10], 1);
        check(100, &[400_000, 400_000, 100_000], 3);
    }
}

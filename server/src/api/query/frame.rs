//! How much of a series goes into one frame of an answer in chunks: what is larger goes on in the next one.

use silverback_model::LabelBlock;
use silverback_model::limits::READ_FRAME_BYTES;
use silverback_storage::message::ChunkView;

/// What a chunk has besides its bytes, at most: two times, an encoding, and lengths.
const CHUNK_HEAD_BYTES_MAX: usize = 64;

/// How many of the chunks, each of so many bytes, go into one frame: one at least, where there is one, and the one that
/// fills it, as Prometheus counts.
pub(crate) fn chunks_of_frame<'a>(
    labels: LabelBlock<'_>,
    mut chunks: impl ExactSizeIterator<Item = ChunkView<'a>> + Clone,
    chunk_len: impl Fn(ChunkView<'a>) -> usize,
) -> usize {
    let at_most: usize = chunks.clone().map(|chunk| chunk.bytes.len() + CHUNK_HEAD_BYTES_MAX).sum();
    if labels.0.len() + at_most < READ_FRAME_BYTES {
        return chunks.len();
    }
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
        let (labels, bytes) = (vec![0; label_bytes], vec![0; READ_FRAME_BYTES]);
        let views = chunks.iter().map(|len| ChunkView {
            min_ms: 0,
            max_ms: 0,
            of: ChunkOf::Samples,
            bytes: &bytes[..*len],
        });
        let count = chunks_of_frame(LabelBlock(&labels), views, |chunk| chunk.bytes.len());
        assert_eq!(count, expect, "{label_bytes} {chunks:?}");
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

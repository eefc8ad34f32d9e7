//! How many samples there are of a range of two hours, by pieces of it: by this it is seen whether a block that was
//! written of the range has them all. A chunk counts where its newest sample lies, whole: so the numbers of the younger
//! pieces stay as they are when retention drops chunks of the older ones.

use silverback_model::limits::CHUNK_RANGE_MS;

/// Pieces of a range.
pub const HELD_PIECES: usize = 8;
/// What one spans, in ms.
pub const HELD_PIECE_MS: i64 = CHUNK_RANGE_MS / HELD_PIECES as i64;

/// Samples by the pieces of their range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldSamples(pub [u64; HELD_PIECES]);

impl HeldSamples {
    /// Adds those of a chunk of the range that begins then.
    pub fn add(&mut self, begin_ms: i64, chunk_max_ms: i64, samples: u64) {
        let piece = chunk_max_ms.saturating_sub(begin_ms) / HELD_PIECE_MS;
        let piece = usize::try_from(piece).unwrap_or(0).min(HELD_PIECES - 1);
        self.0[piece] += samples;
    }

    /// Adds those of another shard.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }

    /// Whether there are more here than there, in the pieces that begin at `from_ms` or later. All of these together:
    /// chunks that are folded, or written anew, may end in another piece.
    pub fn has_more_than(&self, other: &[u64], begin_ms: i64, from_ms: i64) -> bool {
        let first = (0..)
            .take_while(|piece| begin_ms.saturating_add(piece * HELD_PIECE_MS) < from_ms)
            .take(HELD_PIECES);
        let first = first.count();
        self.0.iter().skip(first).sum::<u64>() > other.iter().skip(first).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_count_where_they_end_and_pieces_that_may_be_gone_in_part_say_nothing() {
        let begin_ms = 3 * CHUNK_RANGE_MS;
        let (mut held, mut before) = (HeldSamples::default(), HeldSamples::default());
        for (after_ms, samples) in
            [(0, 1), (HELD_PIECE_MS - 1, 2), (HELD_PIECE_MS, 4), (CHUNK_RANGE_MS - 1, 8)]
        {
            held.add(begin_ms, begin_ms + after_ms, samples);
        }
        assert_eq!(held.0, [3, 4, 0, 0, 0, 0, 0, 8]);
        assert!(!held.has_more_than(&held.0, begin_ms, i64::MIN));
        before.merge(&held);
        before.0[1] = 3;
        assert!(held.has_more_than(&before.0, begin_ms, begin_ms + HELD_PIECE_MS));
        assert!(!held.has_more_than(&before.0, begin_ms, begin_ms + HELD_PIECE_MS + 1));
        before.0[0] = 0;
        assert!(!before.has_more_than(&held.0, begin_ms, i64::MIN), "some were deleted");
        assert!(held.has_more_than(&[], begin_ms, i64::MIN));
        assert!(!held.has_more_than(&[], begin_ms, i64::MAX));
    }
}

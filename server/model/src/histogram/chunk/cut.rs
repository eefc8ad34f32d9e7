//! When a chunk of histograms is full: about [`HISTOGRAM_CHUNK_BYTES`] long, so that a range has chunks of one size.
use crate::limits::{CHUNK_RANGE_MS, HISTOGRAM_CHUNK_BYTES, HISTOGRAM_CHUNK_SAMPLES_MIN};

/// Until when a chunk is to take samples. Kept with an open chunk, so that a restart cuts it where it would have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndPlan {
    /// The first timestamp that it doesn't take any more.
    pub end_ms: i64,
    /// Whether that was reckoned from how fast it fills, and isn't its range's end alone.
    pub is_reckoned: bool,
}

/// What is known of a chunk when it is asked for one more sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    pub(super) first_timestamp_ms: i64,
    pub(super) last_timestamp_ms: i64,
    pub(super) bytes: usize,
    pub(super) samples: usize,
}

impl EndPlan {
    /// Of a chunk that begins at this time.
    pub const fn of_range(timestamp_ms: i64) -> Self {
        Self { end_ms: range_end_ms(timestamp_ms), is_reckoned: false }
    }

    /// Whether a sample at this time has to begin another chunk. When a quarter of a chunk is written this reckons
    /// how many chunks of that pace the rest of the range needs, and ends each after its part of it.
    pub(super) fn is_over(&mut self, fill: Fill, timestamp_ms: i64) -> bool {
        let range_end_ms = if self.is_reckoned { range_end_ms(fill.first_timestamp_ms) } else { self.end_ms };
        if !self.is_reckoned && fill.bytes >= HISTOGRAM_CHUNK_BYTES / 4 {
            *self = Self { end_ms: reckoned_end_ms(fill, self.end_ms), is_reckoned: true };
        }
        let is_full = timestamp_ms >= self.end_ms || fill.bytes >= 2 * HISTOGRAM_CHUNK_BYTES;
        is_full && (fill.samples >= HISTOGRAM_CHUNK_SAMPLES_MIN || timestamp_ms >= range_end_ms)
            || fill.samples >= u16::MAX as usize
    }
}

/// The end of the range that a timestamp lies in.
const fn range_end_ms(timestamp_ms: i64) -> i64 {
    timestamp_ms.saturating_add(CHUNK_RANGE_MS - timestamp_ms.rem_euclid(CHUNK_RANGE_MS))
}

fn reckoned_end_ms(fill: Fill, end_ms: i64) -> i64 {
    let left_ms = end_ms.saturating_sub(fill.first_timestamp_ms) as f64;
    let taken_ms = fill.last_timestamp_ms.saturating_sub(fill.first_timestamp_ms).saturating_add(1) as f64;
    let ratio_to_full = HISTOGRAM_CHUNK_BYTES as f64 / fill.bytes as f64;
    let chunks = left_ms / (taken_ms * ratio_to_full);
    if chunks <= 1.0 {
        return end_ms;
    }
    (fill.first_timestamp_ms as f64 + left_ms / chunks.floor()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN_MS: i64 = 100 * CHUNK_RANGE_MS;

    fn fill(bytes: usize, samples: usize) -> Fill {
        let last_timestamp_ms = BEGIN_MS + 15_000 * (samples as i64 - 1);
        Fill { first_timestamp_ms: BEGIN_MS, last_timestamp_ms, bytes, samples }
    }

    #[test]
    fn a_range_is_parted_evenly_by_the_pace_of_its_first_quarter_chunk() {
        let mut plan = EndPlan::of_range(BEGIN_MS);
        assert!(!plan.is_over(fill(255, 20), BEGIN_MS + 300_000));
        assert!(!plan.is_reckoned);
        assert!(!plan.is_over(fill(256, 20), BEGIN_MS + 300_000));
        // 285,001 ms for a quarter: six chunks for two hours.
        assert_eq!(plan, EndPlan { end_ms: BEGIN_MS + CHUNK_RANGE_MS / 6, is_reckoned: true });
        assert!(!plan.is_over(fill(1000, 80), BEGIN_MS + 1_199_999));
        assert!(plan.is_over(fill(1000, 80), BEGIN_MS + 1_200_000));
    }

    #[test]
    fn large_histograms_come_in_tens_unless_the_range_ends() {
        let mut plan = EndPlan::of_range(BEGIN_MS);
        assert!(!plan.is_over(fill(9000, 9), BEGIN_MS + 135_000));
        assert!(plan.is_over(fill(9000, 10), BEGIN_MS + 150_000));
        assert!(plan.is_over(fill(9000, 2), BEGIN_MS + CHUNK_RANGE_MS));
    }

    #[test]
    fn a_chunk_counts_no_further_than_its_header_does() {
        let mut plan = EndPlan::of_range(BEGIN_MS);
        let mut full = fill(100, 1);
        full.samples = u16::MAX as usize;
        assert!(plan.is_over(full, BEGIN_MS + 1));
    }

    #[test]
    fn no_timestamp_is_too_early_or_too_late_for_a_range() {
        for timestamp_ms in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX] {
            let plan = EndPlan::of_range(timestamp_ms);
            assert!(plan.end_ms > timestamp_ms || plan.end_ms == i64::MAX, "{timestamp_ms}");
        }
        assert_eq!(EndPlan::of_range(-1).end_ms, 0);
    }
}

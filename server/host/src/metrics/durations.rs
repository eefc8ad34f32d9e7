//! How long things took, counted by fixed buckets: an owner's plain numbers, of which a scrape makes
//! a histogram.

use super::Family;

/// The buckets' upper bounds in µs: about two for each doubling and a half, around what a disk's sync
/// takes.
const BOUNDS_US: [u64; 13] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];

/// Durations since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durations {
    /// By bucket; the last one is of what lies beyond all bounds.
    counts: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Durations {
    /// Counts one more.
    #[inline]
    pub fn add(&mut self, took_us: u64) {
        self.counts[BOUNDS_US.partition_point(|bound_us| *bound_us < took_us)] += 1;
        self.sum_us += took_us;
    }

    /// Adds what another owner counted.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.sum_us += other.sum_us;
    }

    /// The buckets' upper bounds in µs, ascending.
    pub const fn bounds_us() -> &'static [u64] {
        &BOUNDS_US
    }

    /// By bucket, not cumulative; the last one is of what lies beyond all bounds.
    pub const fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// All of them together, in µs.
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }
}

impl Family {
    /// Adds a histogram in seconds.
    pub fn push_durations<const N: usize>(
        &mut self,
        labels: [(&'static str, String); N],
        durations: &Durations,
    ) {
        let bounds_s = BOUNDS_US.map(seconds);
        self.push_histogram(labels, &bounds_s, &durations.counts, seconds(durations.sum_us));
    }
}

/// Of µs.
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricKind;

    #[test]
    fn each_duration_is_counted_below_the_bounds_that_it_does_not_exceed() {
        let mut durations = Durations::default();
        [1, 100, 101, 900_000, 1_000_001].into_iter().for_each(|us| durations.add(us));
        let mut family = Family::new("h_seconds", MetricKind::Histogram, "");
        family.push_durations([], &durations);
        let of = |name: &str| {
            let named = family.series(&[]).find(|(labels, _)| labels.to_string() == name);
            named.map(|(_, value)| value)
        };
        for (bound, below) in [("0.0001", 2.0), ("0.00025", 3.0), ("0.5", 3.0), ("1", 4.0), ("+Inf", 5.0)] {
            let name = format!(r#"{{__name__="h_seconds_bucket", le="{bound}"}}"#);
            assert_eq!(of(&name), Some(below), "{name}");
        }
        assert_eq!(of(r#"{__name__="h_seconds_sum"}"#), Some(1.900_203));
        assert_eq!((of(r#"{__name__="h_seconds_count"}"#), durations.sum_us()), (Some(5.0), 1_900_203));
    }

    #[test]
    fn the_durations_of_two_owners_add_up_by_bucket() {
        let (mut mine, mut theirs) = (Durations::default(), Durations::default());
        [50, 1_000_001].into_iter().for_each(|us| mine.add(us));
        [60, 200].into_iter().for_each(|us| theirs.add(us));
        mine.merge(&theirs);
        assert_eq!(mine.counts().len(), Durations::bounds_us().len() + 1);
        assert_eq!((mine.counts()[0], mine.counts()[1], mine.counts()[13]), (2, 1, 1));
        assert_eq!(mine.sum_us(), 1_000_311);
    }
}

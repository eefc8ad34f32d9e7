//! When each request of an open loop is due: by the samples before it alone, so that a slow answer
//! puts nothing off.

use std::time::{Duration, Instant};

/// One connection's pace.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    first: Instant,
    samples_per_s: f64,
}

impl Pace {
    /// So many samples a second, from `first` on.
    pub fn new(first: Instant, samples_per_s: f64) -> Self {
        Self { first, samples_per_s }
    }

    /// When the request is due that comes after so many samples.
    pub fn due(&self, samples_before: u64) -> Instant {
        self.first + Duration::from_secs_f64(samples_before as f64 / self.samples_per_s)
    }

    /// Samples that are due until then.
    pub fn samples_due(&self, until: Instant) -> u64 {
        (until.saturating_duration_since(self.first).as_secs_f64() * self.samples_per_s) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_by_the_samples_before_them() {
        let first = Instant::now();
        let pace = Pace::new(first, 1000.0);
        assert_eq!(pace.due(0), first);
        assert_eq!(pace.due(2500), first + Duration::from_millis(2500));
        assert_eq!(pace.samples_due(first + Duration::from_millis(2500)), 2500);
    }
}

//! How many bytes go out in a second, on the mean: a part waits until those before it have had their time.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A bound on bytes in a second.
#[derive(Debug)]
pub(crate) struct UploadPace {
    bytes_per_s: Option<NonZeroU64>,
    /// When what went out before has had its time.
    free_at: Option<Instant>,
}

impl UploadPace {
    /// `None`: as many as there may be.
    pub(crate) const fn new(bytes_per_s: Option<NonZeroU64>) -> Self {
        Self { bytes_per_s, free_at: None }
    }

    /// Waits until so many bytes may go out.
    pub(crate) async fn pass(&mut self, bytes: usize) {
        let Some(bytes_per_s) = self.bytes_per_s else { return };
        let now = Instant::now();
        let begin = self.free_at.map_or(now, |free_at| free_at.max(now));
        self.free_at = Some(begin + Duration::from_secs_f64(bytes as f64 / bytes_per_s.get() as f64));
        sleep_until(begin).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time_but_for_the_first() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let began = Instant::now();
            let mut unlimited = UploadPace::new(None);
            unlimited.pass(usize::MAX).await;
            let mut pace = UploadPace::new(NonZeroU64::new(10_000));
            pace.pass(500).await;
            pace.pass(500).await;
            pace.pass(1000).await;
            assert!(began.elapsed() >= Duration::from_millis(99), "{:?}", began.elapsed());
        });
    }
}

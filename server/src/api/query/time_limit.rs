//! The time that a read has until its answer begins: first for its body, which has words of its own when it comes too
//! late, and what is left of it for the rest. Never two timers at once: chance would choose the words.

use std::time::{Duration, Instant};

use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use silverback_runtime::{now, timeout};

/// Of one read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    began: Instant,
    limit: Duration,
}

impl TimeLimit {
    /// Begins now, with as much as a request has.
    pub(crate) fn begin(reader: &Reader) -> Self {
        Self { began: now(), limit: reader.config.request_timeout }
    }

    /// The time that it began with.
    pub(crate) fn whole(&self) -> Duration {
        self.limit
    }

    /// Gives up what isn't there at its end.
    pub(crate) async fn hold<T>(
        &self,
        reading: impl Future<Output = Result<T, ReadRejected>>,
    ) -> Result<T, ReadRejected> {
        let left = self.limit.saturating_sub(self.began.elapsed());
        timeout(left, reading).await.unwrap_or(Err(ReadRejected::TimedOut(self.limit)))
    }
}

//! What a writer may take and how long it waits; what a hook is called with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::RequestError;
use crate::refusal::SeriesRejected;

/// What a [`Writer`](crate::Writer) is made with.
///
/// ```
/// use std::time::Duration;
/// use silverback_client::{RetryPolicy, WriterOptions};
///
/// let options = WriterOptions {
///     batch_delay_max: Duration::from_millis(50),
///     retry: RetryPolicy { give_up_after: Some(Duration::from_secs(60)), ..Default::default() },
///     ..Default::default()
/// };
/// ```
#[derive(Clone)]
pub struct WriterOptions {
    /// A batch of so many samples is sent at once; 5,000. The node may want smaller ones, and gets them.
    pub batch_samples_max: usize,
    /// A batch is sent once its first sample has waited for so long; 500 ms.
    pub batch_delay_max: Duration,
    /// Samples that are held until they are acknowledged; 1,000,000, each of 20 bytes. With as many
    /// in flight, writes wait. A native histogram counts as the samples that would take its memory, here and in a
    /// batch.
    pub pending_samples_max: usize,
    /// Series that one writer may name; 5,000,000. Their labels are kept as long as the writer.
    pub series_max: usize,
    /// What is done about failures.
    pub retry: RetryPolicy,
    /// Who hears of what happens; nobody.
    pub hook: Option<Arc<dyn WriterHook>>,
}

/// How failures that may pass are met. Waits double from `backoff_min` to `backoff_max`, less up to
/// a half by chance; a node that says when to come back is waited for at least so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The first wait; 100 ms.
    pub backoff_min: Duration,
    /// The longest wait; 10 s.
    pub backoff_max: Duration,
    /// The writer fails once so much time has passed without an acknowledgement since the first
    /// failure. `None`: it goes on forever.
    pub give_up_after: Option<Duration>,
}

/// Hears what a writer does, from the task that does it: an implementation that blocks, blocks the writer.
#[allow(unused_variables, reason = "nothing is done by default")]
pub trait WriterHook: Send + Sync {
    /// A batch was handed to the connection for the first time.
    fn batch_sent(&self, samples: usize) {}

    /// A batch was handed to another connection, for on the first it was not acknowledged.
    fn batch_retried(&self, samples: usize) {}

    /// A batch was acknowledged, so long after it was last sent.
    fn batch_acknowledged(&self, samples: usize, latency: Duration) {}

    /// Samples of a series were refused.
    fn refused(&self, refusal: &SeriesRejected) {}

    /// The stream failed, or could not be opened; another try follows after the backoff.
    fn disconnected(&self, error: &RequestError, backoff: Duration) {}

    /// A stream is open again after a failure.
    fn reconnected(&self) {}
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            batch_samples_max: 5_000,
            batch_delay_max: Duration::from_millis(500),
            pending_samples_max: 1_000_000,
            series_max: 5_000_000,
            retry: RetryPolicy::default(),
            hook: None,
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            give_up_after: None,
        }
    }
}

impl fmt::Debug for WriterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterOptions")
            .field("batch_samples_max", &self.batch_samples_max)
            .field("batch_delay_max", &self.batch_delay_max)
            .field("pending_samples_max", &self.pending_samples_max)
            .field("series_max", &self.series_max)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

//! A writer of many samples over one stream: what a program sees of it.
//!
//! ```text
//! write ─▶ Queue: the batch that fills ── cut by size or time ─▶ Courier (a task) ─▶ Session (a stream)
//!            ▲                                                     │ keeps batches      │
//!            └────────── room, outcome ◀── settled, in order ◀─────┴── acknowledged ◀───┘
//! ```

mod backoff;
mod columns;
mod courier;
mod definitions;
mod error;
mod options;
mod queue;
mod registry;
mod session;
mod terms;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::task::AbortHandle;

use self::backoff::WriterBackoff;
use self::columns::SeriesIndex;
use self::courier::Courier;
pub use self::error::{SeriesError, TryWriteError, WriterError};
pub use self::options::{RetryPolicy, WriterHook, WriterOptions};
use self::queue::{Outcome, Pushed, Queue};
use self::registry::{Registry, SharedLabels};
use crate::client::Client;
use crate::histogram::{self, Histogram};
use crate::labels::{Labels, METRIC_NAME};
use crate::refusal::{Durability, SeriesRejected};

/// Writes samples over a stream; [`Client::writer`] makes one.
///
/// Samples are gathered into batches, which a background task sends and keeps until the node has
/// acknowledged them. After a failure that may pass, what wasn't acknowledged is sent again, in its
/// order: what was stored already counts as written then. Any other failure ends the writer, and is
/// returned by the next call of each kind.
///
/// Clones write over the same stream. When the last one is dropped without [`Writer::close`],
/// nothing is tried for what isn't acknowledged yet.
#[derive(Debug, Clone)]
pub struct Writer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: WriterId,
    queue: Arc<Queue>,
    registry: Arc<Registry>,
    task: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Which writer of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WriterId(u64);

impl WriterId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A series that a writer has named; it is valid for that writer alone.
#[derive(Debug, Clone)]
pub struct SeriesHandle {
    writer: WriterId,
    index: SeriesIndex,
    labels: SharedLabels,
}

impl SeriesHandle {
    /// The series' labels, names ascending.
    pub fn labels(&self) -> &[(String, String)] {
        &self.labels
    }
}

/// Handles of the same series of the same writer are equal.
impl PartialEq for SeriesHandle {
    fn eq(&self, other: &Self) -> bool {
        (self.writer, self.index) == (other.writer, other.index)
    }
}

impl Eq for SeriesHandle {}

/// What became of all samples since the flush before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flushed {
    /// Samples that are stored, native histograms and those that were stored before among them.
    pub samples_written: u64,
    /// The others: each series and reason once, ordered by labels.
    pub refusals: Vec<SeriesRejected>,
    /// What the acknowledgements meant.
    pub durability: Durability,
}

impl Writer {
    pub(crate) fn start(client: Client, options: WriterOptions) -> Self {
        let queue = Arc::new(Queue::new(&options));
        let registry = Arc::new(Registry::new(options.series_max));
        let courier = Courier {
            client,
            queue: Arc::clone(&queue),
            registry: Arc::clone(&registry),
            backoff: WriterBackoff::new(options.retry),
            hook: options.hook,
            kept: VecDeque::new(),
        };
        let task = tokio::spawn(courier.run()).abort_handle();
        Self { inner: Arc::new(Inner { id: WriterId::next(), queue, registry, task }) }
    }

    /// The series of this metric and these labels; the same one each time. Nothing is sent.
    pub fn series<N, V>(
        &self,
        metric: &str,
        labels: impl IntoIterator<Item = (N, V)>,
    ) -> Result<SeriesHandle, SeriesError>
    where
        N: Into<String>,
        V: Into<String>,
    {
        let name = (METRIC_NAME.to_owned(), metric.to_owned());
        let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.series_of(std::iter::once(name).chain(labels).collect())
    }

    /// The series of these labels, `__name__` among them; the same one each time. Nothing is sent.
    pub fn series_of(&self, labels: Labels) -> Result<SeriesHandle, SeriesError> {
        let (index, labels) = self.inner.registry.series(labels)?;
        Ok(SeriesHandle { writer: self.inner.id, index, labels })
    }

    /// Takes a sample in; waits for room only. Samples of one series have to come in the order of
    /// their times. Where the future is dropped before its end, the sample may have been accepted:
    /// to write it again does no harm.
    pub async fn write(
        &self,
        series: &SeriesHandle,
        timestamp_ms: i64,
        value: f64,
    ) -> Result<(), WriterError> {
        self.pushed(|| self.push(series, timestamp_ms, value)).await
    }

    /// The same of a native histogram. At one time a series has a sample or a histogram, and its histograms have to come
    /// in the order of their times. One that contradicts itself is refused by the node, as a sample is.
    pub async fn write_histogram(
        &self,
        series: &SeriesHandle,
        timestamp_ms: i64,
        histogram: &Histogram,
    ) -> Result<(), WriterError> {
        let message = message(timestamp_ms, histogram)?;
        self.pushed(|| self.push_histogram(series, &message)).await
    }

    /// Takes a sample in if there is room.
    pub fn try_write(
        &self,
        series: &SeriesHandle,
        timestamp_ms: i64,
        value: f64,
    ) -> Result<(), TryWriteError> {
        self.push(series, timestamp_ms, value).map(|_pushed| ())
    }

    /// Takes a native histogram in if there is room.
    pub fn try_write_histogram(
        &self,
        series: &SeriesHandle,
        timestamp_ms: i64,
        histogram: &Histogram,
    ) -> Result<(), TryWriteError> {
        self.push_histogram(series, &message(timestamp_ms, histogram)?).map(|_pushed| ())
    }

    /// Waits until everything that was written before is acknowledged, and returns what became of all
    /// since the flush before.
    pub async fn flush(&self) -> Result<Flushed, WriterError> {
        Ok(self.flushed(self.inner.queue.flushed().await?))
    }

    /// Flushes, and ends the writer with all its clones.
    pub async fn close(self) -> Result<Flushed, WriterError> {
        Ok(self.flushed(self.inner.queue.closed().await?))
    }

    #[inline]
    fn push(&self, series: &SeriesHandle, timestamp_ms: i64, value: f64) -> Result<Pushed, TryWriteError> {
        if series.writer != self.inner.id {
            return Err(WriterError::ForeignSeries.into());
        }
        self.inner.queue.push(series.index, timestamp_ms, value)
    }

    fn push_histogram(&self, series: &SeriesHandle, message: &Bytes) -> Result<Pushed, TryWriteError> {
        if series.writer != self.inner.id {
            return Err(WriterError::ForeignSeries.into());
        }
        self.inner.queue.push_histogram(series.index, message.clone())
    }

    /// Pushes as soon as there is room.
    async fn pushed(&self, push: impl Fn() -> Result<Pushed, TryWriteError>) -> Result<(), WriterError> {
        loop {
            match push() {
                Ok(Pushed::Kept) => return Ok(()),
                Ok(Pushed::Cut) => {
                    // On a runtime of one thread the task could send nothing until there is no room.
                    tokio::task::yield_now().await;
                    return Ok(());
                }
                Err(TryWriteError::Full) => self.inner.queue.room().await,
                Err(TryWriteError::Failed(error)) => return Err(error),
            }
        }
    }

    fn flushed(&self, outcome: Outcome) -> Flushed {
        let refusals = courier::refusals(&outcome, &self.inner.registry);
        Flushed { samples_written: outcome.samples_written, refusals, durability: outcome.durability }
    }
}

/// A histogram's message in bytes: what a node takes is shorter, with as many buckets, spans and bounds as may be.
const HISTOGRAM_BYTES_MAX: usize = 256 << 10;

fn message(timestamp_ms: i64, histogram: &Histogram) -> Result<Bytes, WriterError> {
    let message = histogram::message(timestamp_ms, histogram);
    if message.len() > HISTOGRAM_BYTES_MAX { Err(WriterError::HistogramTooLong) } else { Ok(message.into()) }
}

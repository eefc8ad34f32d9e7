//! Why a writer can't take a sample, name a series, or go on.

use std::time::Duration;

use crate::error::RequestError;
use crate::labels::LabelError;

/// Why a writer goes no further. What was not flushed before may or may not be stored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriterError {
    /// The writer was closed.
    #[error("the writer is closed")]
    Closed,
    /// The tokio runtime of its background task has ended.
    #[error("the writer's runtime has ended")]
    Stopped,
    /// The node refused a stream for good.
    #[error(transparent)]
    Refused(RequestError),
    /// No acknowledgement came for as long as [`RetryPolicy`](crate::RetryPolicy) allows.
    #[error("gave up after {after:?}: {last}")]
    GaveUp {
        /// Since the first failure.
        after: Duration,
        /// The last failure.
        last: RequestError,
    },
    /// A series' labels take more than the node lets a stream define, or a native histogram more than it takes in one
    /// message.
    #[error(
        "the labels of one series are more than the node lets a stream define, or a histogram more than it takes"
    )]
    SeriesTooLong,
    /// The node takes no native histograms by gRPC: it is older than this client.
    #[error(
        "the node is too old to take native histograms by gRPC: write them by remote_write::RemoteWriter, or \
         renew the node"
    )]
    NoHistograms,
    /// A native histogram has more buckets, spans or bounds than any node takes. The writer goes on without it.
    #[error("the native histogram has more buckets, spans or bounds than a node takes")]
    HistogramTooLong,
    /// The handle was made by another writer.
    #[error("the series is another writer's")]
    ForeignSeries,
}

/// Why a sample wasn't taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TryWriteError {
    /// As many samples as may be are on their way.
    #[error("as many samples as may be are in flight")]
    Full,
    /// The writer takes no more, now or later.
    #[error(transparent)]
    Failed(#[from] WriterError),
}

/// Why a series can't be named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// Its labels don't make a series.
    #[error(transparent)]
    Labels(#[from] LabelError),
    /// The writer has named as many as it may.
    #[error("the writer has named {0} series, as many as it may")]
    TooMany(usize),
}

//! Why bytes are no chunk of histograms.
use crate::gorilla::ChunkError;

/// Why bytes are no chunk of histograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HistogramChunkError {
    /// The bit stream isn't one.
    #[error(transparent)]
    Stream(#[from] ChunkError),
    /// A schema that nobody knows.
    #[error("histogram chunk of an unknown schema")]
    UnknownSchema,
    /// Spans that aren't in order, or don't fit their numbers.
    #[error("histogram chunk whose spans make no sense")]
    BadSpans,
    /// More buckets, spans or bounds than a histogram may have.
    #[error("histogram chunk with too many buckets, spans or custom bounds")]
    TooLarge,
}

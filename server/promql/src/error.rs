//! Why a query has no answer, in Prometheus' words.

/// Why an evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The expression can't be evaluated over these series; words for the one who asks.
    #[error("{0}")]
    Execution(String),
    /// The expression isn't one for these times; words for the one who asks.
    #[error("{0}")]
    BadData(String),
    /// More samples at a time than a query may hold.
    #[error("query processing would load too many samples into memory in query execution")]
    TooManySamples,
    /// More memory than a query may hold.
    #[error(
        "query processing would take more than the {bytes_max} bytes of memory that a query may have here: ask with a \
         narrower selector, over a shorter range or with fewer steps"
    )]
    TooMuchMemory {
        /// The bound.
        bytes_max: usize,
    },
    /// Others hold the memory: the same may be asked again.
    #[error("queries and reads in flight have all the memory that reads may have: try again later")]
    BudgetExceeded,
    /// The source of series has failed, and knows why.
    #[error("the series could not be fetched")]
    Source,
    /// A chunk that was fetched can't be read.
    #[error("expanding series: {0}")]
    Storage(String),
    /// Its time is over.
    #[error("query timed out in expression evaluation")]
    Timeout,
    /// Nobody waits for it any more.
    #[error("query was canceled in expression evaluation")]
    Canceled,
}

impl QueryError {
    pub(crate) fn execution(words: impl Into<String>) -> Self {
        Self::Execution(words.into())
    }
}

/// What Prometheus says where two series of a result are the same.
pub(crate) fn same_labelset() -> QueryError {
    QueryError::execution("vector cannot contain metrics with the same labelset")
}

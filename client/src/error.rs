//! Why a request failed, by cause: one place that reads gRPC statuses.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tonic::{Code, Status};

/// In the trailers of a status: when to try again.
const RETRY_AFTER: &str = "retry-after-ms";

/// Why a request was not answered, or a stream ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError {
    /// The request is wrong, and stays wrong when it is sent again.
    #[error("the node can't take the request: {0}")]
    Invalid(String),
    /// Credentials are missing, or don't allow it.
    #[error("access denied: {0}")]
    Denied(String),
    /// Too much is in flight, or memory is full.
    #[error("the node is busy: {message}")]
    Busy {
        /// The node's words.
        message: String,
        /// When it is worth another try; `None`: it isn't, because the request itself is too large.
        retry_after: Option<Duration>,
    },
    /// The node replays its log, is stopping, or can't write to its disk.
    #[error("the node is not available: {0}")]
    Unavailable(String),
    /// No answer in time.
    #[error("no answer in time: {0}")]
    TimedOut(String),
    /// The connection failed or broke.
    #[error("the connection failed: {}", innermost(&**.0))]
    Connection(Arc<dyn Error + Send + Sync>),
    /// The node has no such method: it is older than this client.
    #[error("the node doesn't know the method: {0}")]
    Unsupported(String),
    /// The node answered what the protocol doesn't allow.
    #[error("the node's answer is broken: {0}")]
    BrokenAnswer(&'static str),
    /// Any other status of the node.
    #[error("{code:?}: {message}")]
    Failed {
        /// Its gRPC code.
        code: Code,
        /// Its words.
        message: String,
    },
}

impl RequestError {
    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { retry_after, .. } => retry_after.is_some(),
            Self::Unavailable(_) | Self::TimedOut(_) | Self::Connection(_) => true,
            Self::Invalid(_) | Self::Denied(_) | Self::Unsupported(_) | Self::BrokenAnswer(_) => false,
            Self::Failed { code, .. } => *code == Code::Aborted,
        }
    }

    /// What the node asked to wait before another try; zero where it didn't.
    pub(crate) fn retry_after(&self) -> Duration {
        let Self::Busy { retry_after, .. } = self else { return Duration::ZERO };
        retry_after.unwrap_or_default()
    }
}

impl From<Status> for RequestError {
    fn from(status: Status) -> Self {
        // Only what was made on this side has a source: the node's own words have none.
        if status.source().is_some() {
            return Self::Connection(Arc::new(status));
        }
        let message = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument | Code::AlreadyExists | Code::OutOfRange => Self::Invalid(message),
            Code::Unauthenticated | Code::PermissionDenied => Self::Denied(message),
            Code::ResourceExhausted => Self::Busy { message, retry_after: retry_after(&status) },
            Code::Unavailable => Self::Unavailable(message),
            Code::DeadlineExceeded => Self::TimedOut(message),
            Code::Unimplemented => Self::Unsupported(message),
            // The transport's word for a request that its connection took along.
            Code::Cancelled => Self::Connection(Arc::new(status)),
            code => Self::Failed { code, message },
        }
    }
}

fn retry_after(status: &Status) -> Option<Duration> {
    let value = status.metadata().get(RETRY_AFTER)?.to_str().ok()?;
    value.parse().ok().map(Duration::from_millis)
}

/// The innermost cause, which says more than a transport's own words.
pub(crate) fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Status, is_retryable: bool, text: &str) {
        let error = RequestError::from(status);
        assert_eq!((error.is_retryable(), error.to_string().as_str()), (is_retryable, text));
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        check(Status::invalid_argument("x"), false, "the node can't take the request: x");
        check(Status::unauthenticated("x"), false, "access denied: x");
        check(Status::unavailable("x"), true, "the node is not available: x");
        check(Status::deadline_exceeded("x"), true, "no answer in time: x");
        check(Status::aborted("x"), true, "Aborted: x");
        check(Status::internal("x"), false, "Internal: x");
        check(Status::unimplemented("x"), false, "the node doesn't know the method: x");
    }

    #[test]
    fn a_full_node_is_tried_again_when_it_says_when() {
        let mut status = Status::resource_exhausted("x");
        check(status.clone(), false, "the node is busy: x");
        status.metadata_mut().insert(RETRY_AFTER, "1500".parse().unwrap());
        let error = RequestError::from(status);
        assert!(error.is_retryable());
        assert_eq!(error.retry_after(), Duration::from_millis(1500));
    }

    #[test]
    fn what_the_transport_tells_is_a_broken_connection() {
        let status = Status::from_error("reset".into());
        assert!(RequestError::from(status).is_retryable());
    }
}

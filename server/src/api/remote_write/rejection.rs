//! Why a request was refused as a whole: nothing of it is stored, as far as its sender is told.

use http::{HeaderName, StatusCode};

use super::{malformed::MalformedBody, snappy::SnappyError};

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Not a POST.
    #[error("remote write takes POST requests alone")]
    Method,
    /// A header that is no text, or stands twice.
    #[error("the header {0} is not text, or stands twice")]
    Header(HeaderName),
    /// Another content type.
    #[error(
        "content type {0:?} is not supported; send application/x-protobuf, with \
         proto=io.prometheus.write.v2.Request for remote write 2 or \
         proto=prometheus.WriteRequest for remote write 1"
    )]
    ContentType(String),
    /// Another compression.
    #[error("content encoding {0:?} is not supported; send snappy (block format)")]
    ContentEncoding(String),
    /// More bytes, compressed, than allowed.
    #[error("the body is larger than {limit_bytes} bytes")]
    BodyTooLarge {
        /// What is allowed.
        limit_bytes: usize,
    },
    /// It can't be decompressed.
    #[error(transparent)]
    Snappy(#[from] SnappyError),
    /// It isn't a write request.
    #[error(transparent)]
    Malformed(#[from] MalformedBody),
    /// Too much is under way.
    #[error("overloaded: too many requests are under way; send again later")]
    Overloaded,
    /// The node is starting or stopping, or a log has failed: why, in words.
    #[error("not ready: {0}")]
    NotReady(String),
}

/// A hint to a sender that may send the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RetryAfter {
    pub seconds: u32,
}

impl Rejection {
    /// How HTTP says it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Header(_) | Self::ContentType(_) | Self::ContentEncoding(_) => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Snappy(_) | Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Self::NotReady(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// When to send the same again, where that can help.
    pub(super) fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            // A queue empties within a second or not at all.
            Self::Overloaded => Some(RetryAfter { seconds: 1 }),
            Self::NotReady(_) => Some(RetryAfter { seconds: 5 }),
            Self::Method
            | Self::Header(_)
            | Self::ContentType(_)
            | Self::ContentEncoding(_)
            | Self::BodyTooLarge { .. }
            | Self::Snappy(_)
            | Self::Malformed(_) => None,
        }
    }
}

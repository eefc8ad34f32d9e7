//! Why a request was refused as a whole: nothing of it is stored, as far as its sender knows.

use std::time::Duration;

use http::HeaderName;

use super::{malformed::MalformedError, snappy::SnappyError};
use crate::{
    api::{http::request_body::BodyError, response::cause::Cause},
    routing::{BudgetExceeded, Overloaded, ReservationError},
};
use silverback_storage::wal::LogError;

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteRejected {
    /// Not a POST.
    #[error("writes take POST requests alone")]
    Method,
    /// A header that isn't text, or occurs twice.
    #[error("the header {0} is not text, or occurs twice")]
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
    /// A compression that isn't taken where gzip is.
    #[error("content encoding {0:?} is not supported; send gzip, or none")]
    NotGzip(String),
    /// Binary messages where lines of text are taken.
    #[error("content type {0:?} is not supported; send lines of text")]
    NotText(String),
    /// A parameter of the query, or a label in the path, that means nothing.
    #[error("{0}")]
    Parameter(String),
    /// More bytes, compressed, than allowed.
    #[error("the body is larger than {limit_bytes} bytes")]
    BodyTooLarge {
        /// What is allowed.
        limit_bytes: usize,
    },
    /// Its labels and samples take more memory than all requests together may.
    #[error(
        "the request takes more than {bytes_max} bytes of memory once it is decoded; send fewer series or \
         samples at a time"
    )]
    TakesTooMuch {
        /// What all of a core's requests may take.
        bytes_max: usize,
    },
    /// It did not arrive in time.
    #[error("the body did not arrive within {0:?}")]
    BodyTimedOut(Duration),
    /// The client hung up or broke the transport's rules midway.
    #[error("the body broke off: {0}")]
    BodyBrokeOff(String),
    /// It can't be decompressed.
    #[error(transparent)]
    Snappy(#[from] SnappyError),
    /// It isn't what gzip makes.
    #[error("the body is not gzip: {0}")]
    Gzip(String),
    /// It isn't a write request.
    #[error(transparent)]
    Malformed(#[from] MalformedError),
    /// A message over gRPC that isn't framed or compressed as it says.
    #[error("{0}")]
    Message(String),
    /// Samples of a tenant that isn't the node's.
    #[error(
        "the request is of the tenant {asked:?}, and this node keeps samples of {own:?} alone (--tenant): nothing of \
         it is stored"
    )]
    OtherTenant {
        /// Whose they are, or how that begins.
        asked: String,
        /// Whose the node takes.
        own: String,
    },
    /// Too much is in flight.
    #[error("overloaded: too many requests are in flight; send again later")]
    Overloaded,
    /// Requests in flight hold as much as they may.
    #[error(
        "overloaded: requests in flight have all the memory that they may have; send again later, or smaller \
         requests, or raise --memory-limit"
    )]
    BudgetExceeded,
    /// A shard holds as much as it may. What to do about it is the operator's.
    #[error(
        "memory is full: the node is near its memory limit of {} MiB (--memory-limit); send again later, \
         or raise the limit, lower --retention, or send fewer series", limit_bytes >> 20
    )]
    MemoryFull {
        /// The whole node's limit.
        limit_bytes: usize,
    },
    /// The node is starting or stopping, or a log has failed: why, in words.
    #[error("not ready: {0}")]
    NotReady(String),
}

/// As what a rejection is counted. All but the first are the node's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedAs {
    /// The sender's fault, whatever it is.
    Malformed,
    /// Too much is in flight.
    Overloaded,
    /// Memory is full.
    MemoryFull,
    /// The node starts or stops, or a log has failed.
    NotDurable,
}

impl WriteRejected {
    /// Whether the node is at fault, and not the sender: an operator wants to see it without looking for it.
    pub(crate) fn is_of_node(&self) -> bool {
        self.counted_as() != CountedAs::Malformed
    }

    /// Whether the rest of the body isn't waited for, so that nothing can follow on the connection.
    pub(in crate::api) fn leaves_body_unread(&self) -> bool {
        match self {
            Self::BodyTooLarge { .. } | Self::BodyTimedOut(_) => true,
            Self::Method
            | Self::Header(_)
            | Self::ContentType(_)
            | Self::ContentEncoding(_)
            | Self::NotGzip(_)
            | Self::NotText(_)
            | Self::Parameter(_)
            | Self::TakesTooMuch { .. }
            | Self::BodyBrokeOff(_)
            | Self::Snappy(_)
            | Self::Gzip(_)
            | Self::Malformed(_)
            | Self::Message(_)
            | Self::OtherTenant { .. }
            | Self::Overloaded
            | Self::BudgetExceeded
            | Self::MemoryFull { .. }
            | Self::NotReady(_) => false,
        }
    }

    /// One word for it, as the reasons of samples have.
    pub(crate) fn reason(&self) -> &'static str {
        self.traits().0
    }

    /// What its sender can do about it.
    pub(crate) fn cause(&self) -> Cause {
        self.traits().1
    }

    /// As what it is counted.
    pub(crate) fn counted_as(&self) -> CountedAs {
        self.traits().2
    }

    /// When to send the same again, where that can help.
    pub(in crate::api) fn retry_after(&self) -> Option<Duration> {
        self.traits().3.map(Duration::from_secs)
    }

    /// Its word, its cause, as what it is counted, and after how many seconds to send the same again.
    fn traits(&self) -> (&'static str, Cause, CountedAs, Option<u64>) {
        match self {
            Self::Method => ("method", Cause::Method, CountedAs::Malformed, None),
            Self::Header(_) => ("header", Cause::MediaType, CountedAs::Malformed, None),
            Self::ContentType(_) | Self::NotText(_) => {
                ("content_type", Cause::MediaType, CountedAs::Malformed, None)
            }
            Self::ContentEncoding(_) | Self::NotGzip(_) => {
                ("content_encoding", Cause::MediaType, CountedAs::Malformed, None)
            }
            Self::Parameter(_) => ("parameter", Cause::Invalid, CountedAs::Malformed, None),
            Self::BodyTooLarge { .. } | Self::Snappy(SnappyError::TooLarge { .. }) => {
                ("body_too_large", Cause::TooLarge, CountedAs::Malformed, None)
            }
            Self::Malformed(body) if body.cause.is_too_much() => {
                ("body_too_large", Cause::TooLarge, CountedAs::Malformed, None)
            }
            Self::TakesTooMuch { .. } => ("takes_too_much", Cause::TooLarge, CountedAs::Malformed, None),
            Self::BodyTimedOut(_) => ("body_timed_out", Cause::TimedOut, CountedAs::Malformed, Some(1)),
            Self::BodyBrokeOff(_) => ("body_broke_off", Cause::BrokeOff, CountedAs::Malformed, None),
            Self::Snappy(SnappyError::Corrupt(_)) => ("snappy", Cause::Invalid, CountedAs::Malformed, None),
            Self::Gzip(_) => ("gzip", Cause::Invalid, CountedAs::Malformed, None),
            Self::Malformed(_) => ("malformed", Cause::Invalid, CountedAs::Malformed, None),
            Self::Message(_) => ("message", Cause::Invalid, CountedAs::Malformed, None),
            Self::OtherTenant { .. } => ("other_tenant", Cause::Invalid, CountedAs::Malformed, None),
            // A queue empties within a second or not at all.
            Self::Overloaded | Self::BudgetExceeded => {
                ("overloaded", Cause::Overloaded, CountedAs::Overloaded, Some(1))
            }
            // Retention passes free memory every few minutes.
            Self::MemoryFull { .. } => ("memory_full", Cause::Overloaded, CountedAs::MemoryFull, Some(30)),
            Self::NotReady(_) => ("not_ready", Cause::NotReady, CountedAs::NotDurable, Some(5)),
        }
    }
}

impl From<Overloaded> for WriteRejected {
    fn from(_: Overloaded) -> Self {
        Self::Overloaded
    }
}

impl From<BudgetExceeded> for WriteRejected {
    fn from(_: BudgetExceeded) -> Self {
        Self::BudgetExceeded
    }
}

impl From<ReservationError> for WriteRejected {
    fn from(error: ReservationError) -> Self {
        match error {
            ReservationError::Full => Self::BudgetExceeded,
            ReservationError::TooMuch { bytes_max } => Self::TakesTooMuch { bytes_max },
        }
    }
}

impl From<LogError> for WriteRejected {
    fn from(error: LogError) -> Self {
        Self::NotReady(error.to_string())
    }
}

impl From<BodyError> for WriteRejected {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(limit_bytes) => Self::BodyTooLarge { limit_bytes },
            BodyError::TimedOut(limit) => Self::BodyTimedOut(limit),
            BodyError::BrokeOff(how) => Self::BodyBrokeOff(how),
            BodyError::BudgetExceeded => Self::BudgetExceeded,
        }
    }
}

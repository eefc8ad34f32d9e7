//! Why an OTLP request was refused as a whole, and by which cause.

use std::time::Duration;

use silverback_model::printable::Printable;
use tonic::Status;

use crate::api::grpc::status::{of_write_rejected, passing};
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::response::cause::Cause;
use silverback_model::limits::{OTLP_JSON_BYTES_MAX, OTLP_JSON_DEPTH_MAX};

/// Why nothing of a request is stored, or not all of it acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OtlpRejected {
    /// Not a POST.
    #[error("OTLP takes POST requests alone")]
    Method,
    /// Another content type.
    #[error("content type {0:?} is not supported; send application/x-protobuf or application/json")]
    ContentType(String),
    /// It isn't the message in JSON.
    #[error("the body is not an ExportMetricsServiceRequest in JSON: {}", Printable(.0))]
    Json(String),
    /// More objects and lists in each other than are read.
    #[error(
        "the body is not an ExportMetricsServiceRequest in JSON: it is nested deeper than {OTLP_JSON_DEPTH_MAX} \
         objects and lists; send attributes that are flatter"
    )]
    JsonTooDeep,
    /// A large request in the expensive form.
    #[error("a request in JSON may have {OTLP_JSON_BYTES_MAX} bytes; send fewer data points, or protobuf")]
    JsonTooLarge,
    /// What every write may be refused for.
    #[error(transparent)]
    Write(#[from] WriteRejected),
}

impl OtlpRejected {
    /// One word for it, as the reasons of samples have.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::ContentType(_) => "content_type",
            Self::Json(_) | Self::JsonTooDeep => "json",
            Self::JsonTooLarge => "body_too_large",
            Self::Write(rejection) => rejection.reason(),
        }
    }

    /// What its sender can do about it.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Method => Cause::Method,
            Self::ContentType(_) => Cause::MediaType,
            Self::Json(_) | Self::JsonTooDeep => Cause::Invalid,
            Self::JsonTooLarge => Cause::TooLarge,
            Self::Write(rejection) => rejection.cause(),
        }
    }

    /// When to send the same again, where that can help.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let Self::Write(rejection) = self else { return None };
        rejection.retry_after()
    }

    /// How gRPC says it.
    pub(crate) fn grpc_status(&self) -> Status {
        match self {
            Self::Write(rejection) => status_of(rejection),
            own => own.cause().status(own.to_string()),
        }
    }
}

/// A rejection as OTLP's senders understand it.
pub fn status_of(rejection: &WriteRejected) -> Status {
    match rejection.retry_after() {
        None => of_write_rejected(rejection),
        Some(after) => passing(Cause::passing_for_otlp(), &rejection.to_string(), after),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::StatusExt;

    use super::*;
    use crate::api::ingest::remote_write::{MalformedError, MalformedErrorKind};

    fn check(fault: OtlpRejected, http: u16, retry_after_s: Option<u64>, grpc: Code) {
        assert_eq!(fault.cause().http().as_u16(), http, "{fault}");
        let retry_after = retry_after_s.map(Duration::from_secs);
        assert_eq!(fault.retry_after(), retry_after, "{fault}");
        let status = fault.grpc_status();
        assert_eq!(status.code(), grpc, "{fault}");
        let told = status.get_details_retry_info().and_then(|info| info.retry_delay);
        assert_eq!(told, retry_after, "{fault}");
    }

    #[test]
    fn senders_try_again_when_that_can_help() {
        check(WriteRejected::Overloaded.into(), 429, Some(1), Code::Unavailable);
        check(WriteRejected::MemoryFull { limit_bytes: 1 }.into(), 429, Some(30), Code::Unavailable);
        check(WriteRejected::NotReady("x".into()).into(), 503, Some(5), Code::Unavailable);
        check(WriteRejected::BodyTimedOut(Duration::from_secs(3)).into(), 503, Some(1), Code::Unavailable);
    }

    #[test]
    fn what_stays_wrong_is_told_so() {
        let malformed = MalformedError { offset: 3, cause: MalformedErrorKind::BrokenMessage };
        check(WriteRejected::Malformed(malformed).into(), 400, None, Code::InvalidArgument);
        check(WriteRejected::BodyTooLarge { limit_bytes: 9 }.into(), 413, None, Code::ResourceExhausted);
        check(OtlpRejected::Json("x".into()), 400, None, Code::InvalidArgument);
        check(OtlpRejected::JsonTooDeep, 400, None, Code::InvalidArgument);
        check(OtlpRejected::JsonTooLarge, 413, None, Code::ResourceExhausted);
        check(OtlpRejected::ContentType("a/b".into()), 415, None, Code::InvalidArgument);
        check(OtlpRejected::Method, 405, None, Code::InvalidArgument);
    }
}

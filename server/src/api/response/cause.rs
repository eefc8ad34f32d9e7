//! How a refusal is coded: one table from what went wrong to HTTP's status, the `errorType` of Prometheus' HTTP API and
//! gRPC's code. What InfluxDB's and OTLP's senders expect otherwise is here, too.
//!
//! Which cause an error has, its words, and when to send the same again, is the error's to know.

use http::StatusCode;
use tonic::{Code, Status};

/// What went wrong, as far as a caller does something else about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It means nothing, or isn't what it says it is.
    Invalid,
    /// Another method.
    Method,
    /// A content type or encoding that isn't spoken here.
    MediaType,
    /// More bytes than a request may have.
    TooLarge,
    /// What is asked for is more than an answer may be.
    AsksTooMuch,
    /// It is well put, and has no answer over what is stored.
    Unanswerable,
    /// Too much is in flight or held: it passes.
    Overloaded,
    /// The node starts or stops, or a log accepts nothing.
    NotReady,
    /// It took the node, or a write's body, longer than it may.
    TimedOut,
    /// A read's body didn't come in time.
    LateBody,
    /// The client broke off.
    BrokeOff,
    /// Nobody knows who asks.
    Unauthenticated,
    /// The node was set up not to do such things, or not for such callers.
    NotAllowed,
    /// There is no such thing.
    NotFound,
    /// There is no such method.
    NoSuchMethod,
    /// It is so already, or something else has its place.
    Exists,
    /// Something else must be done first.
    Precondition,
    /// It met something else that goes on.
    Conflict,
    /// Somebody had it ended before its end.
    Cancelled,
    /// A fault of the node's.
    Internal,
    /// What is stored can't be read.
    DataLoss,
}

impl Cause {
    fn codes(self) -> (StatusCode, &'static str, Code) {
        match self {
            Self::Invalid => (StatusCode::BAD_REQUEST, "bad_data", Code::InvalidArgument),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "bad_data", Code::InvalidArgument),
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_data", Code::InvalidArgument),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "bad_data", Code::ResourceExhausted),
            Self::AsksTooMuch => (StatusCode::BAD_REQUEST, "execution", Code::ResourceExhausted),
            Self::Unanswerable => (StatusCode::UNPROCESSABLE_ENTITY, "execution", Code::FailedPrecondition),
            Self::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "too_many_requests", Code::ResourceExhausted),
            Self::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", Code::Unavailable),
            // Not 408 for writes: a slow network passes, and senders drop for good what any 4xx but 429 answers.
            Self::TimedOut => (StatusCode::SERVICE_UNAVAILABLE, "timeout", Code::DeadlineExceeded),
            Self::LateBody => (StatusCode::REQUEST_TIMEOUT, "bad_data", Code::DeadlineExceeded),
            Self::BrokeOff => (StatusCode::BAD_REQUEST, "bad_data", Code::Cancelled),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthorized", Code::Unauthenticated),
            // As Prometheus says it where its admin API is off.
            Self::NotAllowed => (StatusCode::FORBIDDEN, "unavailable", Code::PermissionDenied),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found", Code::NotFound),
            Self::NoSuchMethod => (StatusCode::NOT_FOUND, "not_found", Code::Unimplemented),
            Self::Exists => (StatusCode::CONFLICT, "bad_data", Code::AlreadyExists),
            Self::Precondition => (StatusCode::CONFLICT, "unavailable", Code::FailedPrecondition),
            Self::Conflict => (StatusCode::CONFLICT, "unavailable", Code::Aborted),
            // A client that is there was not closed by anybody, which is what Prometheus' 499 says.
            Self::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "canceled", Code::Cancelled),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", Code::Internal),
            Self::DataLoss => (StatusCode::INTERNAL_SERVER_ERROR, "internal", Code::DataLoss),
        }
    }

    /// The HTTP status.
    pub fn http(self) -> StatusCode {
        self.codes().0
    }

    /// The `errorType` of Prometheus' HTTP API.
    pub(crate) fn error_type(self) -> &'static str {
        self.codes().1
    }

    /// gRPC's code.
    pub(crate) fn grpc(self) -> Code {
        self.codes().2
    }

    /// gRPC's status, with words for the caller.
    pub(crate) fn status(self, words: impl Into<String>) -> Status {
        Status::new(self.grpc(), words)
    }

    /// For OTLP's senders, what passes: they try again when a node is unavailable, and take exhausted resources for
    /// good.
    pub(crate) fn passing_for_otlp() -> Self {
        Self::NotReady
    }
}

/// tonic's code as gRPC's own implementations have it: a message that is too large is out of range to tonic, to them it
/// is resources that are exhausted.
pub(crate) fn of_tonic(code: Code) -> Code {
    match code {
        Code::OutOfRange => Cause::TooLarge.grpc(),
        other => other,
    }
}

/// A write's status for the senders of InfluxDB 1: Telegraf drops what any 4xx of it answers, 429 too, so what passes
/// is 503.
pub(crate) fn for_influx_1(status: StatusCode) -> StatusCode {
    if status == Cause::Overloaded.http() { Cause::NotReady.http() } else { status }
}

/// InfluxDB 2's word for a write's status.
pub(crate) fn influx_2_word(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => "method not allowed",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::TOO_MANY_REQUESTS => "too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        _invalid => "invalid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_send_again_what_passes_and_nothing_else() {
        for (cause, passes) in [
            (Cause::Overloaded, true),
            (Cause::NotReady, true),
            (Cause::TimedOut, true),
            (Cause::Invalid, false),
            (Cause::TooLarge, false),
            (Cause::NotAllowed, false),
            (Cause::Unauthenticated, false),
        ] {
            let status = cause.http();
            // As Prometheus and vmagent take it: 5xx and 429.
            let is_sent_again = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            assert_eq!(is_sent_again, passes, "{cause:?}");
            // As Telegraf does for InfluxDB 1: 5xx alone.
            assert_eq!(for_influx_1(status).is_server_error(), passes, "{cause:?}");
        }
        assert_eq!(Cause::passing_for_otlp().grpc(), Code::Unavailable);
    }

    #[test]
    fn a_message_that_is_too_large_to_tonic_is_so_to_every_client() {
        assert_eq!(of_tonic(Code::OutOfRange), Code::ResourceExhausted);
        assert_eq!(of_tonic(Code::NotFound), Code::NotFound);
    }
}

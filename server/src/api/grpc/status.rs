//! Errors as gRPC reports them: their words, and the hint when to send again. The codes are [`Cause`]'s.

use std::time::Duration;

use silverback_model::printable::Printable;
use silverback_proto::v1;
use tonic::Status;
use tonic::metadata::MetadataValue;
use tonic_types::{ErrorDetails, StatusExt};

use super::ingest::MessageRejected;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::stream::StreamError;
use crate::api::response::cause::Cause;
use crate::api::response::reader_pace::ReaderError;
use crate::migration::{MigrationError, MigrationErrorKind};
use silverback_model::RefusedReason;
use silverback_storage::message::RejectedRef;

/// When the same may be sent again, in ms, in an error's trailers.
const RETRY_AFTER: &str = "retry-after-ms";

/// Room for definitions comes back when other streams end.
const DEFINITIONS_RETRY: Duration = Duration::from_secs(30);

/// What a method answers.
pub(in crate::api) type Replied<T> = Result<tonic::Response<T>, Status>;

/// A request that was refused as a whole.
pub(crate) fn of_write_rejected(rejection: &WriteRejected) -> Status {
    match rejection.retry_after() {
        Some(after) => passing(rejection.cause(), &rejection.to_string(), after),
        None => rejection.cause().status(rejection.to_string()),
    }
}

/// The status of what passes by itself. When to send the same again is in it as
/// `google.rpc.RetryInfo`, which stock clients look for, and in ms for those that read no details.
pub(crate) fn passing(cause: Cause, message: &str, retry_after: Duration) -> Status {
    let details = ErrorDetails::with_retry_info(Some(retry_after));
    let mut status = Status::with_error_details(cause.grpc(), message, details);
    status.metadata_mut().insert(RETRY_AFTER, MetadataValue::from(retry_after.as_millis() as u64));
    status
}

/// A message that was refused as a whole.
pub(crate) fn of_message_rejected(fault: &MessageRejected) -> Status {
    use super::ingest::DefinitionError::{Full, Malformed, Redefined, RefTooHigh, TooMuch};

    let cause = match fault {
        MessageRejected::Write(rejection) => return of_write_rejected(rejection),
        MessageRejected::Definition(Redefined(_)) => Cause::Exists,
        MessageRejected::Definition(Full) => {
            return passing(Cause::Overloaded, &fault.to_string(), DEFINITIONS_RETRY);
        }
        MessageRejected::Definition(TooMuch) => Cause::TooLarge,
        MessageRejected::Definition(Malformed(_) | RefTooHigh(_)) => Cause::Invalid,
        MessageRejected::Malformed(_)
        | MessageRejected::Batch(_)
        | MessageRejected::WrongNumber { .. }
        | MessageRejected::SecondBatch => Cause::Invalid,
    };
    cause.status(fault.to_string())
}

/// A refused series or its samples.
pub(crate) fn refusal(batch_number: u64, refused: RejectedRef) -> v1::Refusal {
    let RejectedRef { stream_ref, reason, samples } = refused;
    v1::Refusal { batch_number, r#ref: stream_ref, reason: reason_code(reason).into(), samples }
}

fn reason_code(reason: RefusedReason) -> v1::RefusalReason {
    match reason {
        RefusedReason::OutOfOrder => v1::RefusalReason::OutOfOrder,
        RefusedReason::Duplicate => v1::RefusalReason::Duplicate,
        RefusedReason::TooOld => v1::RefusalReason::TooOld,
        RefusedReason::TooFarInFuture => v1::RefusalReason::TooFarInFuture,
        RefusedReason::MissingName => v1::RefusalReason::MissingName,
        RefusedReason::EmptyLabelName => v1::RefusalReason::EmptyLabelName,
        RefusedReason::DuplicateLabel => v1::RefusalReason::DuplicateLabel,
        RefusedReason::InvalidUtf8 => v1::RefusalReason::InvalidUtf8,
        RefusedReason::TooManyLabels => v1::RefusalReason::TooManyLabels,
        RefusedReason::LabelTooLong => v1::RefusalReason::LabelTooLong,
        RefusedReason::SeriesLimit => v1::RefusalReason::SeriesLimit,
        RefusedReason::MemoryLimit => v1::RefusalReason::MemoryLimit,
        RefusedReason::MalformedHistogram => v1::RefusalReason::MalformedHistogram,
        RefusedReason::HistogramCounts => v1::RefusalReason::HistogramCounts,
        RefusedReason::HistogramSpans => v1::RefusalReason::HistogramSpans,
        RefusedReason::HistogramBounds => v1::RefusalReason::HistogramBounds,
        RefusedReason::HistogramSchema => v1::RefusalReason::HistogramSchema,
        RefusedReason::HistogramTooLarge => v1::RefusalReason::HistogramTooLarge,
        // Remote write's, OTLP's and lines of text's alone.
        RefusedReason::BadSymbolRef
        | RefusedReason::BadSeriesShape
        | RefusedReason::DeltaTemporality
        | RefusedReason::NoTemporality
        | RefusedReason::NoValue
        | RefusedReason::BadBuckets
        | RefusedReason::BadName
        | RefusedReason::MalformedLine => v1::RefusalReason::Unspecified,
    }
}

/// The status of a read that wasn't answered.
pub(crate) fn of_read_rejected(fault: &ReadRejected) -> Status {
    // What was asked for is in it.
    let words = Printable(&fault.to_string()).to_string();
    match fault.retry_after() {
        Some(after) => passing(fault.cause(), &words, after),
        None => fault.cause().status(words),
    }
}

/// The status of a stream that ends before its end.
pub(crate) fn of_stream_error(fault: &StreamError) -> Status {
    match fault {
        StreamError::Reader(ReaderError::Gone) => Cause::Cancelled.status(fault.to_string()),
        StreamError::Reader(ReaderError::TooSlow) => Cause::Conflict.status(fault.to_string()),
        StreamError::Shards(error) => of_read_rejected(&ReadRejected::Shards(error.clone())),
        StreamError::Chunk(error) => of_read_rejected(&ReadRejected::Chunk(*error)),
        StreamError::Histograms(error) => of_read_rejected(&ReadRejected::Histograms(*error)),
    }
}

/// The status of a cell that stayed where it was.
pub(crate) fn of_migration_error(fault: &MigrationError) -> Status {
    let cause = match fault.reason() {
        MigrationErrorKind::NoOp => Cause::Exists,
        MigrationErrorKind::BudgetExceeded => Cause::Overloaded,
        MigrationErrorKind::Busy | MigrationErrorKind::TimedOut | MigrationErrorKind::Protocol => {
            Cause::Conflict
        }
        MigrationErrorKind::Log | MigrationErrorKind::Stopping => Cause::NotReady,
    };
    cause.status(fault.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Code;

    use super::*;
    use crate::api::http::request_body::BodyError;
    use crate::routing::fanout::FanoutError;
    use crate::routing::{Overloaded, ReadGateRejected};
    use silverback_storage::message::ShardReadError;

    fn check(fault: ReadRejected, code: Code, words: &str) {
        let status = of_read_rejected(&fault);
        assert_eq!(status.code(), code, "{fault}");
        assert!(status.message().contains(words), "{status}");
    }

    #[test]
    fn each_fault_has_the_status_that_tells_what_to_do() {
        check(ReadRejected::BadRequest("a matcher".into()), Code::InvalidArgument, "a matcher");
        check(ReadGateRejected.into(), Code::ResourceExhausted, "later");
        check(ReadRejected::Shards(Overloaded.into()), Code::ResourceExhausted, "later");
        check(
            ReadRejected::Shards(ShardReadError::TooManyCursors.into()),
            Code::ResourceExhausted,
            "try again",
        );
        check(ReadRejected::Shards(ShardReadError::UnknownCursor.into()), Code::DeadlineExceeded, "idle");
        check(ReadRejected::TimedOut(Duration::from_secs(3)), Code::DeadlineExceeded, "3s");
        check(ReadRejected::AnswerTooLarge { bytes_max: 10 }, Code::ResourceExhausted, "10 bytes");
    }

    fn check_retry(status: &Status, expect: Option<Duration>) {
        assert_eq!(status.get_error_details().retry_info().and_then(|info| info.retry_delay), expect);
        let trailer = status.metadata().get(RETRY_AFTER).map(|value| value.to_str().unwrap());
        assert_eq!(trailer.is_some(), expect.is_some(), "{status}");
    }

    #[test]
    fn a_refusal_that_passes_says_when_to_ask_again_and_no_other_does() {
        let shards = [ShardReadError::TooManyCursors, ShardReadError::MemoryFull, ShardReadError::Moved];
        let mut passing =
            vec![ReadGateRejected.into(), ReadRejected::BudgetExceeded, FanoutError::from(Overloaded).into()];
        passing.extend(shards.map(|error| FanoutError::from(error).into()));
        passing.push(ReadRejected::Body(BodyError::BudgetExceeded));
        for fault in passing {
            let status = of_read_rejected(&fault);
            assert_eq!(status.code(), Code::ResourceExhausted, "{fault}");
            check_retry(&status, Some(Duration::from_secs(1)));
        }
        for fault in [ReadRejected::TooManySamples(1), ReadRejected::AnswerTooLarge { bytes_max: 10 }] {
            check_retry(&of_read_rejected(&fault), None);
        }
        let broken_off = of_stream_error(&StreamError::Shards(ShardReadError::Moved.into()));
        check_retry(&broken_off, Some(Duration::from_secs(1)));
    }
}

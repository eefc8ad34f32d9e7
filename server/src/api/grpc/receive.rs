//! `thanos.WriteableStore`, by which Thanos Receive's routers hand samples on: one message, and a status that a router
//! understands. What is stored, and how, is [`thanos`]'s to know.
//!
//! A router looks at two codes. `UNAVAILABLE` has it leave the node alone for a while, with all that it would send: so
//! that is said of the node alone. `ALREADY_EXISTS` is a conflict, which its sender drops; whatever else is wrong is
//! sent again.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use silverback_proto::thanos::WriteResponse;
use tonic::Status;
use tonic::server::UnaryService;

use super::codec::raw;
use super::ingest::messages::{Encoding, MessageBounds, Messages, StreamMessage};
use super::one_message::Received;
use super::status::{Replied, of_write_rejected, passing};
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::remote_write::answer::{NEW_SERIES_RETRY, WriteReport};
use crate::api::ingest::thanos;
use crate::api::ingest::write::check_ready;
use crate::api::response::cause::Cause;
use silverback_runtime::timeout;

const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// Routers' own first.
const ENCODINGS: HeaderValue = HeaderValue::from_static("snappy,gzip,zstd,identity");

/// What tonic gets to read, because the message is read here: one that is empty.
const EMPTY_MESSAGE: &[u8] = &[0; 5];

/// Answers `RemoteWrite`.
pub(super) async fn remote_write(caller: &Caller, request: Request<Received>) -> Response<tonic::body::Body> {
    let (mut head, body) = request.into_parts();
    let encoding = Encoding::take(&mut head.headers);
    let config = &caller.config;
    let bounds = MessageBounds {
        sent_bytes_max: config.max_body_bytes,
        bytes_max: config.max_decoded_bytes,
        // A router counts what waits here among what it may forward at a time.
        room_wait: Duration::ZERO,
    };
    let messages = Messages::new(body, encoding, bounds, caller.bodies.budget());
    let service = RemoteWrite { caller: caller.clone(), messages: Some(messages) };
    let request = Request::from_parts(head, Full::new(Bytes::from_static(EMPTY_MESSAGE)));
    let mut response = raw::<WriteResponse>(caller).unary(service, request).await;
    response.headers_mut().insert(ACCEPT_ENCODING, ENCODINGS);
    response
}

struct RemoteWrite {
    caller: Caller,
    /// Until it is called.
    messages: Option<Messages<Received>>,
}

impl UnaryService<Bytes> for RemoteWrite {
    type Response = WriteResponse;
    type Future = Pin<Box<dyn Future<Output = Replied<WriteResponse>>>>;

    fn call(&mut self, _empty: tonic::Request<Bytes>) -> Self::Future {
        let (caller, messages) = (self.caller.clone(), self.messages.take());
        Box::pin(async move {
            let messages = messages.ok_or_else(|| Cause::Internal.status("a call is answered once"))?;
            match store(&caller, messages).await {
                Ok(report) => {
                    caller.note_refused(&report.examples);
                    tell(&report).map(|()| tonic::Response::new(WriteResponse {}))
                }
                Err(rejection) => {
                    caller.note_rejection(&rejection);
                    Err(status_of(&rejection))
                }
            }
        })
    }
}

async fn store(ingest: &Ingest, messages: Messages<Received>) -> Result<WriteReport, WriteRejected> {
    check_takes_writes(ingest)?;
    let StreamMessage { bytes, room } = read(ingest, messages).await.inspect_err(|_| {
        ingest.count(|counts| counts.grpc_requests_unread += 1);
    })?;
    check_takes_writes(ingest)?;
    thanos::write(ingest, bytes, room).await
}

/// A node that stops says so: others have its series, where a router replicates.
fn check_takes_writes(ingest: &Ingest) -> Result<(), WriteRejected> {
    if ingest.shutdown.is_requested() {
        return Err(WriteRejected::NotReady("the node is stopping".to_owned()));
    }
    check_ready(ingest)
}

/// The one message, within its time.
async fn read(ingest: &Ingest, mut messages: Messages<Received>) -> Result<StreamMessage, WriteRejected> {
    let limit = ingest.config.request_timeout;
    timeout(limit, one_message(&mut messages))
        .await
        .unwrap_or_else(|_| Err(WriteRejected::BodyTimedOut(limit)))
}

/// The message that is all of a request.
async fn one_message(messages: &mut Messages<Received>) -> Result<StreamMessage, WriteRejected> {
    let Some(message) = messages.next().await? else {
        return Err(WriteRejected::BodyBrokeOff("there is no message in it".to_owned()));
    };
    match messages.next().await? {
        None => Ok(message),
        Some(_) => Err(WriteRejected::Message("a call takes one message, and this has more".to_owned())),
    }
}

/// What became of a request that was read: all that is good of it is stored.
fn tell(report: &WriteReport) -> Result<(), Status> {
    if report.is_whole() {
        return Ok(());
    }
    if report.lacks_room() {
        return Err(passing(Cause::Overloaded, &report.text(), NEW_SERIES_RETRY));
    }
    Err(Cause::Exists.status(report.text()))
}

/// A request that was refused as a whole.
fn status_of(rejection: &WriteRejected) -> Status {
    let status = of_write_rejected(rejection);
    // To a router anything but a conflict is worth another try, and what is too large would come again forever.
    if rejection.cause() == Cause::TooLarge { Cause::Exists.status(status.message()) } else { status }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::api::ingest::remote_write::{MalformedError, MalformedErrorKind};

    #[test]
    fn a_router_is_told_by_the_codes_that_it_knows() {
        let check = |rejection: WriteRejected, code| {
            let status = status_of(&rejection);
            assert_eq!(status.code(), code, "{rejection}");
            assert_eq!(status.message(), rejection.to_string());
        };
        let malformed = |cause| WriteRejected::Malformed(MalformedError { offset: 7, cause });
        check(WriteRejected::NotReady("replaying".into()), Code::Unavailable);
        check(WriteRejected::Overloaded, Code::ResourceExhausted);
        check(WriteRejected::BudgetExceeded, Code::ResourceExhausted);
        check(WriteRejected::MemoryFull { limit_bytes: 1 }, Code::ResourceExhausted);
        check(WriteRejected::BodyTimedOut(Duration::from_secs(1)), Code::DeadlineExceeded);
        check(WriteRejected::BodyTooLarge { limit_bytes: 1 }, Code::AlreadyExists);
        check(WriteRejected::TakesTooMuch { bytes_max: 1 }, Code::AlreadyExists);
        check(malformed(MalformedErrorKind::TooManySamples), Code::AlreadyExists);
        check(malformed(MalformedErrorKind::LabelsTooLarge), Code::AlreadyExists);
        check(malformed(MalformedErrorKind::Truncated), Code::InvalidArgument);
        check(malformed(MalformedErrorKind::NoKnownField), Code::InvalidArgument);
        check(WriteRejected::Message("not snappy".into()), Code::InvalidArgument);
        let other = WriteRejected::OtherTenant { asked: "a".into(), own: "b".into() };
        check(other, Code::InvalidArgument);
    }
}

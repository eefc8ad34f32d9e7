//! `silverback.v1.Ingest`: from gRPC messages to the shards, and back with exact acknowledgements.
//!
//! ```text
//! messages (frames, compression) → raw message → stream_ingester: definitions → routes by ref
//!                                                                 columns → parts by owning shard → shards
//! response stream ← flight: batches in the order of their numbers ← replies of the shards
//! ```
//!
//! A sample's labels are looked at once, when its series is defined; a batch is dealt out to the
//! shards by the routes of its refs, without an object for a sample. Its native histograms are copied in one piece,
//! for the shards to read and to judge.
mod columns;
mod flight;
mod histograms;
pub(super) mod messages;
mod routes;
mod series;
mod stream;
mod stream_ingester;

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;

use crate::api::response::cause::Cause;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use send_wrapper::SendWrapper;
use silverback_proto::v1;
use tonic::server::{StreamingService, UnaryService};
use tonic::{Status, Streaming};

use self::messages::{Encoding, MessageBounds, Messages, StreamMessage};
use self::stream::Responses;
use self::stream_ingester::{CallKind, StreamIngester};
use super::codec::{message_bytes_max, raw};
use super::one_message::Received;
use super::status::{Replied, of_message_rejected, of_write_rejected};
use crate::api::core::CoreContext;
use crate::api::ingest::caller::Caller;
use crate::api::ingest::remote_write::WriteRejected;
use silverback_model::limits::{
    STREAM_BATCH_SAMPLES_MAX, STREAM_BATCHES_MAX, STREAM_DEFINITION_BYTES_MAX, STREAM_REFS_MAX,
};
use silverback_storage::wal::AckMode;

pub use self::columns::{BatchError, BatchRow, Columns};
pub use self::routes::{RouteState, Routes, SeriesRoute};
pub use self::series::{DefinitionError, StreamSeries};
pub use self::stream_ingester::{MessageRejected, deal_out};

type LocalFuture<T> = Pin<Box<dyn Future<Output = Replied<T>>>>;

/// Answers `Write`.
pub async fn write<B>(caller: &Caller, request: Request<B>) -> Response<tonic::body::Body>
where
    B: Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    raw::<v1::WriteResponse>(caller).unary(Write { caller: caller.clone() }, request).await
}

/// Answers `Stream`. tonic gets a request without a body: what it reads is read here.
pub(crate) async fn stream(caller: &Caller, request: Request<Received>) -> Response<tonic::body::Body> {
    let (mut head, body) = request.into_parts();
    let encoding = Encoding::take(&mut head.headers);
    let messages = Messages::new(
        body,
        encoding,
        MessageBounds::of_stream(message_bytes_max(caller)),
        caller.bodies.budget(),
    );
    let service =
        OpenStream { caller: SendWrapper::new(caller.clone()), messages: Some(SendWrapper::new(messages)) };
    let request = Request::from_parts(head, tonic::body::Body::empty());
    raw::<v1::StreamResponse>(caller).streaming(service, request).await
}

/// What a stream is sent first.
fn terms(core: &CoreContext) -> v1::Terms {
    let durability = match core.config.ack {
        AckMode::Durable => v1::Durability::Disk,
        AckMode::Memory => v1::Durability::Memory,
    };
    v1::Terms {
        durability: durability.into(),
        batches_in_flight_max: STREAM_BATCHES_MAX as u32,
        message_bytes_max: message_bytes_max(core) as u32,
        batch_samples_max: STREAM_BATCH_SAMPLES_MAX as u32,
        refs_max: STREAM_REFS_MAX as u32,
        definition_bytes_max: STREAM_DEFINITION_BYTES_MAX as u64,
        idle_timeout_ms: core.config.stream_idle_timeout.as_millis() as u64,
        native_histograms: true,
    }
}

struct Write {
    caller: Caller,
}

impl UnaryService<Bytes> for Write {
    type Response = v1::WriteResponse;
    type Future = LocalFuture<v1::WriteResponse>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let caller = self.caller.clone();
        Box::pin(async move { write_once(caller, request.into_inner()).await.map(tonic::Response::new) })
    }
}

/// One message as a stream of its own.
async fn write_once(caller: Caller, message: Bytes) -> Result<v1::WriteResponse, Status> {
    caller.count(|counts| {
        counts.writes_grpc += 1;
        counts.write_bytes += message.len() as u64;
    });
    let refused = |rejection: WriteRejected| {
        caller.note_request(rejection.reason(), &rejection.to_string());
        of_write_rejected(&rejection)
    };
    let mut room = caller.bodies.begin();
    room.grow(message.len()).map_err(|no_room| refused(no_room.into()))?;
    let mut receiver = StreamIngester::new(caller.clone(), CallKind::Once, Rc::default());
    let message = StreamMessage { bytes: message, room };
    let mut sent = receiver.take(message).await.map_err(|fault| refuse_message(&caller, &fault))?;
    let answered = poll_fn(|context| sent.poll_answered(&caller, context)).await;
    answered.map_err(refused)?;
    let mut told = v1::StreamResponse::default();
    sent.tell(&mut told);
    Ok(v1::WriteResponse { samples_written: told.samples_written, refusals: told.refusals })
}

/// Notes a message that is refused as a whole.
fn refuse_message(caller: &Caller, fault: &MessageRejected) -> Status {
    caller.note_request(fault.reason(), &fault.to_string());
    of_message_rejected(fault)
}

struct OpenStream {
    // tonic asks for `Send`; a stream stays on its core.
    caller: SendWrapper<Caller>,
    /// Until it is called.
    messages: Option<SendWrapper<Messages<Received>>>,
}

impl StreamingService<Bytes> for OpenStream {
    type Response = v1::StreamResponse;
    type ResponseStream = SendWrapper<Responses>;
    type Future = LocalFuture<Self::ResponseStream>;

    fn call(&mut self, _bodiless: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        let (caller, messages) = (Caller::clone(&self.caller), self.messages.take());
        Box::pin(async move {
            if let Some(why) = caller.not_ready() {
                return Err(Cause::NotReady.status(why));
            }
            let messages = messages.ok_or_else(|| Cause::Internal.status("a stream is opened once"))?;
            let responses = Responses::new(caller, messages.take());
            Ok(tonic::Response::new(SendWrapper::new(responses)))
        })
    }
}

//! gRPC on the common port: which method is answered by what, and a clear refusal of every other.
//!
//! tonic's services run on the executor like any other handler; nothing here spawns.
mod admin;
pub mod codec;
pub mod deadline;
mod health;
pub mod ingest;
pub(crate) mod methods;
mod one_message;
mod otlp;
mod query;
mod receive;
mod reflection;
pub mod request_body;
pub mod status;
mod store;
mod stream;

use std::convert::Infallible;
use std::rc::Rc;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response};
use send_wrapper::SendWrapper;
use silverback_model::printable::Printable;
use silverback_runtime::WatchedBody;
use tonic::codegen::Service;
use tonic::{Code, Status};

use self::methods::{Answerer, Method};
use self::one_message::Received;
use self::request_body::{RequestBody, decoded};
use crate::api::handlers::{Handlers, RequestPeer};
use crate::api::http::request_body::BodyError;
use crate::api::ingest::Ingest;
use crate::api::ingest::otlp::status_of;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::response::body::ResponseBody;
use crate::api::response::cause::{Cause, of_tonic};
use crate::api::{ingest::timing::timed, response::NodeResponse};
use crate::routing::SharedReservation;

pub(in crate::api::grpc) const GRPC: &str = "application/grpc";
const WRITEABLE_STORE: &str = "thanos.WriteableStore";
const OTLP: &str = "opentelemetry.proto.collector.metrics.v1.MetricsService";

/// Whether a request speaks gRPC.
pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|content_type| content_type.starts_with(GRPC.as_bytes()))
}

/// Answers one gRPC request, within its client's time.
pub(crate) async fn answer(
    peer: &RequestPeer,
    method: Option<&'static Method>,
    request: Request<WatchedBody>,
) -> NodeResponse {
    let Some(method) = method else { return unimplemented(request.uri().path()) };
    let response = match deadline::of(request.headers()) {
        Ok(None) => dispatch(peer, method, request).await,
        Ok(Some(limit)) => deadline::within(limit, dispatch(peer, method, request)).await,
        Err(status) => refuse(&status),
    };
    with_grpc_s_own_codes(response)
}

fn with_grpc_s_own_codes(mut response: NodeResponse) -> NodeResponse {
    const STATUS: HeaderName = HeaderName::from_static("grpc-status");
    if let Some(told) = response.headers_mut().get_mut(&STATUS) {
        let code = of_tonic(Code::from_bytes(told.as_bytes()));
        *told = HeaderValue::from(code as i32);
    }
    response
}

async fn dispatch(peer: &RequestPeer, method: &Method, request: Request<WatchedBody>) -> NodeResponse {
    let RequestPeer { handlers: Handlers { core, ingest, reader, mover, .. }, caller, asker, .. } = peer;
    let request = received(ingest, method, request);
    if method.answerer == Answerer::Stream {
        return ingest::stream(caller, request).await.map(ResponseBody::Grpc);
    }
    if method.answerer == Answerer::Receive {
        let answering =
            async { Box::pin(receive::remote_write(caller, request)).await.map(ResponseBody::Grpc) };
        return timed(core, answering).await;
    }
    let request = decoded(request, codec::message_bytes_max(core));
    // tonic's services are large: those that come seldom have memory of their own.
    match method.answerer {
        Answerer::Stream | Answerer::Receive => unreachable!("it is answered above"),
        Answerer::Health => Box::pin(call(health::service(core), request)).await,
        Answerer::Write => {
            timed(core, async { ingest::write(caller, request).await.map(ResponseBody::Grpc) }).await
        }
        Answerer::Reflection => Box::pin(call(reflection::service(), request)).await,
        Answerer::ReflectionAlpha => Box::pin(call(reflection::service(), reflection::as_v1(request))).await,
        Answerer::Query => Box::pin(call(query::service(reader, asker), request)).await,
        Answerer::Store(method) => {
            let client = peer.client(request.headers());
            Box::pin(store::answer(reader, asker, client, method, request)).await
        }
        Answerer::Admin => Box::pin(call(admin::service(mover), request)).await,
        Answerer::Otlp => {
            timed(core, async { otlp::export(caller, request).await.map(ResponseBody::Grpc) }).await
        }
    }
}

/// The request, its body bounded by what its method takes.
fn received(ingest: &Rc<Ingest>, method: &Method, request: Request<WatchedBody>) -> Request<Received> {
    request.map(|body| match method.answerer {
        // What reads it bounds it.
        Answerer::Stream | Answerer::Receive | Answerer::Reflection | Answerer::ReflectionAlpha => {
            Received::stream(body)
        }
        Answerer::Otlp => Received::message(ingest, body, of_otlp_body),
        Answerer::Health | Answerer::Write | Answerer::Query | Answerer::Store(_) | Answerer::Admin => {
            Received::message(ingest, body, of_body)
        }
    })
}

/// A message that wasn't read.
fn of_body(error: BodyError) -> Status {
    status::of_read_rejected(&ReadRejected::Body(error))
}

/// One of OTLP's.
fn of_otlp_body(error: BodyError) -> Status {
    match error {
        BodyError::BudgetExceeded => status_of(&WriteRejected::BudgetExceeded),
        BodyError::TooLarge(_) | BodyError::TimedOut(_) | BodyError::BrokeOff(_) => of_body(error),
    }
}

/// Lets one of tonic's services answer. The room of what it answers with is held until that is sent.
async fn call<S>(mut service: S, request: Request<RequestBody>) -> NodeResponse
where
    S: Service<Request<RequestBody>, Response = Response<tonic::body::Body>, Error = Infallible>,
{
    match service.call(request).await {
        Ok(response) => with_room(response),
        Err(never) => match never {},
    }
}

/// What tonic answers with, and the room that came with it.
fn with_room(mut response: Response<tonic::body::Body>) -> NodeResponse {
    match response.extensions_mut().remove::<SendWrapper<SharedReservation>>() {
        Some(room) => response.map(|body| ResponseBody::Grpc(body).holding(room.take())),
        None => response.map(ResponseBody::Grpc),
    }
}

fn unimplemented(path: &str) -> NodeResponse {
    refuse(&Cause::NoSuchMethod.status(format!("no such method: {}", Printable(path))))
}

/// An answer of nothing but a status: in the headers, where there is no message.
pub(in crate::api) fn refuse(status: &Status) -> NodeResponse {
    let mut response = Response::new(ResponseBody::Whole(Default::default()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    if status.add_header(headers).is_err() {
        // Words that aren't a header value: the code alone says enough.
        headers.insert(HeaderName::from_static("grpc-status"), (status.code() as i32).into());
    }
    response
}

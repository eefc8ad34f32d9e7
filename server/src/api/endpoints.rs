//! Which path is answered by what. Every request goes through here: where it comes from is checked before
//! anything else, and it is logged at debug.

use std::net::IpAddr;
use std::rc::Rc;

use futures::future::Either;
use http::header::{RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request};
use hyper::service::Service;
use silverback_model::printable::Printable;
use silverback_runtime::WatchedBody;

use crate::api::core::Core;
use crate::api::grpc;
use crate::api::handlers::{Handlers, Peer};
use crate::api::http::origin;
use crate::api::ingest::lines::{self, Dialect, Import};
use crate::api::ingest::timing::{count_duration, timed};
use crate::api::ingest::{otlp, write_endpoint};
use crate::api::query::Reader;
use crate::api::query::http_api::{self, Question};
use crate::api::query::influx_query;
use crate::api::query::remote_read;
use crate::api::response::body::{Never, ResponseBody};
use crate::api::response::cause::Cause;
use crate::api::response::{NodeResponse, method_not_allowed, text};
use crate::api::status::pages;
use crate::routing::Overloaded;
use silverback_runtime as runtime;

/// The HTTP service of one core for one connection.
pub(crate) struct Endpoints {
    peer: Rc<Peer>,
}

impl Endpoints {
    /// The service of a core for one client, by its address as the socket has it.
    pub(crate) fn new(handlers: Handlers, address: Option<IpAddr>) -> Self {
        Self { peer: Rc::new(Peer::new(handlers, address)) }
    }
}

impl Service<Request<WatchedBody>> for Endpoints {
    type Response = NodeResponse;
    type Error = Never;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<NodeResponse, Never>>>>;

    fn call(&self, request: Request<WatchedBody>) -> Self::Future {
        let peer = Rc::clone(&self.peer);
        Box::pin(async move {
            let mut response = answer(&peer, request).await;
            // What a label's value looks like is nothing that a browser should take a text for.
            response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            Ok(response)
        })
    }
}

fn answer(peer: &Peer, request: Request<WatchedBody>) -> impl Future<Output = NodeResponse> {
    if tracing::enabled!(tracing::Level::DEBUG) {
        Either::Left(Box::pin(logged(peer, request)))
    } else {
        Either::Right(route(peer, request))
    }
}

async fn logged(peer: &Peer, request: Request<WatchedBody>) -> NodeResponse {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = runtime::now();
    let response = route(peer, request).await;
    let (status, took_us) = (response.status().as_u16(), began.elapsed().as_micros() as u64);
    tracing::debug!(%method, path, status, took_us, "request");
    response
}

fn route(peer: &Peer, request: Request<WatchedBody>) -> impl Future<Output = NodeResponse> {
    // A block, for an `async fn` would hold the request twice.
    async move {
        let core = &*peer.handlers.core;
        if let Err(rejected) = origin::check(&core.config.allowed_hosts, &request) {
            return origin::refuse(core, &request, &rejected);
        }
        if grpc::is_grpc(&request) {
            return Box::pin(grpc::answer(peer, request)).await;
        }
        match request.uri().path() {
            // The one that comes by the thousand: others are larger, and have memory of their own.
            "/api/v1/write" | "/api/v1/receive" | "/api/v1/push" => {
                let began = runtime::now();
                let response = write_endpoint::answer(&peer.caller, request).await;
                count_duration(core, began);
                response
            }
            _other => Box::pin(route_rarer(peer, request)).await,
        }
    }
}

async fn route_rarer(peer: &Peer, request: Request<WatchedBody>) -> NodeResponse {
    let Peer { handlers: Handlers { core, reader, .. }, caller, asker } = peer;
    match request.uri().path() {
        "/v1/metrics" | "/api/v1/otlp/v1/metrics" => timed(core, otlp::answer_http(caller, request)).await,
        "/write" => timed(core, lines::write(caller, Dialect::V1, request)).await,
        "/api/v2/write" => timed(core, lines::write(caller, Dialect::V2, request)).await,
        "/query" => influx_query::answer(reader, request).await,
        // Reads keep their own time, and say what took too long in their protocol's words.
        "/api/v1/read" => remote_read::answer(reader, asker, request).await,
        path => match (Question::of_path(path), Import::of_path(path)) {
            (Some(question), _) => http_api::answer(reader, asker, question, request).await,
            (None, Some(import)) => timed(core, lines::import(caller, &import, request)).await,
            (None, None) => with_room(reader, in_time(core, page(core, request.method(), path)).await),
        },
    }
}

/// Gives an answer up that doesn't begin within the time of a request. (A write waits for its
/// shards alone; what may take long of it, its body, has its own limit.)
async fn in_time(core: &Core, answering: impl Future<Output = NodeResponse>) -> NodeResponse {
    let limit = core.config.request_timeout;
    runtime::timeout(limit, answering).await.unwrap_or_else(|_| {
        core.count(|counts| counts.reads_failed += 1);
        text(Cause::TimedOut.http(), format!("no answer within {limit:?}: ask for less, or later\n"))
    })
}

/// Lets an answer that was made whole have its room until it is sent: a client may ask for many and take none.
/// Small ones take no more than the head of their request, which has its room.
fn with_room(reader: &Reader, response: NodeResponse) -> NodeResponse {
    const SMALL_BYTES: usize = 1 << 10;

    let bytes = match response.body() {
        ResponseBody::Whole(bytes) if bytes.is_unique() && bytes.len() > SMALL_BYTES => bytes.len(),
        // What is the same for everybody is there once.
        _shared => return response,
    };
    let mut room = reader.read_bytes.begin();
    match room.grow(bytes) {
        Ok(()) => response.map(|body| body.holding(room.into())),
        Err(Overloaded) => {
            reader.count(|counts| counts.reads_failed += 1);
            let mut refused = text(
                Cause::NotReady.http(),
                "answers that wait for their clients have all the memory that answers may have: ask again later\n",
            );
            refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            refused
        }
    }
}

async fn page(core: &Core, method: &Method, path: &str) -> NodeResponse {
    match (method, path) {
        (&Method::GET | &Method::HEAD, "/") => pages::status_page(),
        (&Method::GET, "/metrics") => pages::metrics(core).await,
        (&Method::GET, "/api/v1/status/node") => pages::node_status(core).await,
        (&Method::GET, "/api/v1/status/cells") => pages::cells_status(core).await,
        (&Method::GET, "/api/v1/status/refusals") => pages::refusals(core),
        (&Method::GET | &Method::HEAD, "/-/healthy") => pages::healthy(core),
        (&Method::GET | &Method::HEAD, "/-/ready") => pages::ready(core),
        (&Method::GET | &Method::HEAD, "/-/replayed") => pages::replayed(core),
        (method, "/ping") => lines::ping(method),
        (
            _,
            "/"
            | "/metrics"
            | "/api/v1/status/node"
            | "/api/v1/status/cells"
            | "/api/v1/status/refusals"
            | "/-/healthy"
            | "/-/ready"
            | "/-/replayed",
        ) => method_not_allowed("GET"),
        (_, path) => text(Cause::NotFound.http(), format!("no such endpoint: {}\n", Printable(path))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of what a call gives, in bytes.
    fn size_of_result<'a, A: 'a, B, R: 'a>(_: impl Fn(&'a A, B) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn a_request_takes_two_kib_until_it_is_answered() {
        let bytes = size_of_result(|peer: &Peer, request| answer(peer, request));
        assert!(bytes <= 2 << 10, "{bytes} bytes");
    }
}

//! Which path is answered by what. Every request goes through here: where it comes from and who sends it are checked
//! before anything else, and it is logged at debug.

use std::net::IpAddr;
use std::rc::Rc;

use futures::future::Either;
use http::header::{RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Version};
use hyper::service::Service;
use silverback_model::printable::Printable;
use silverback_runtime::WatchedBody;

use crate::access::scope::Scopes;
use crate::api::admission::{self, Admission, Door, RequestTarget};
use crate::api::core::CoreContext;
use crate::api::grpc;
use crate::api::grpc::methods::METHODS;
use crate::api::handlers::{Handlers, RequestPeer};
use crate::api::http::origin;
use crate::api::ingest::lines;
use crate::api::ingest::timing::{count_duration, timed};
use crate::api::ingest::{otlp, write_endpoint};
use crate::api::query::Reader;
use crate::api::query::http_api;
use crate::api::query::http_api::promql::QueryCaller;
use crate::api::query::influx_query;
use crate::api::query::remote_read;
use crate::api::query_page;
use crate::api::response::body::{Never, ResponseBody};
use crate::api::response::cause::Cause;
use crate::api::response::{NodeResponse, method_not_allowed, text, without_body};
use crate::api::routes::{ROUTES, Route, StatusPage, Target};
use crate::api::status::pages;
use crate::routing::BudgetExceeded;
use silverback_runtime as runtime;

/// A path or a method that is answered, and what it takes.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Whether gRPC asks for it.
    pub is_grpc: bool,
    /// Its path. A `*` stands for any segment.
    pub path: String,
    /// One of these scopes it takes.
    pub needs: Scopes,
}

/// All that are answered.
pub fn declared() -> impl Iterator<Item = Declared> {
    let http = ROUTES.iter().map(|route| Declared {
        is_grpc: false,
        path: route.path.to_owned(),
        needs: route.needs,
    });
    let grpc = METHODS.iter().map(|method| Declared {
        is_grpc: true,
        path: format!("/{}/{}", method.service, method.name),
        needs: method.needs,
    });
    http.chain(grpc)
}

/// The HTTP service of one core for one connection.
pub(crate) struct Endpoints {
    peer: Rc<RequestPeer>,
}

impl Endpoints {
    /// The service of a core for one client, by its address as the socket has it, and by the node's that it came to.
    pub(crate) fn new(handlers: Handlers, address: Option<IpAddr>, door: Door) -> Self {
        Self { peer: Rc::new(RequestPeer::new(handlers, address, door)) }
    }
}

impl Service<Request<WatchedBody>> for Endpoints {
    type Response = NodeResponse;
    type Error = Never;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<NodeResponse, Never>>>>;

    fn call(&self, request: Request<WatchedBody>) -> Self::Future {
        let peer = Rc::clone(&self.peer);
        // hyper sends what a handler gives to it, but for HTTP/1's.
        let is_head = request.method() == Method::HEAD && request.version() == Version::HTTP_2;
        Box::pin(async move {
            let mut response = answer(&peer, request).await;
            if is_head {
                response = without_body(response);
            }
            // What a label's value looks like is nothing that a browser should take a text for.
            response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            if let Some(gate) = &peer.handlers.gate {
                gate.for_each_header(|name, value| {
                    response.headers_mut().insert(name, value.clone());
                });
            }
            Ok(response)
        })
    }
}

fn answer(peer: &RequestPeer, request: Request<WatchedBody>) -> impl Future<Output = NodeResponse> {
    if tracing::enabled!(tracing::Level::DEBUG) {
        Either::Left(Box::pin(logged(peer, request)))
    } else {
        Either::Right(route(peer, request))
    }
}

async fn logged(peer: &RequestPeer, request: Request<WatchedBody>) -> NodeResponse {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = runtime::now();
    let response = route(peer, request).await;
    let (status, took_us) = (response.status().as_u16(), began.elapsed().as_micros() as u64);
    tracing::debug!(%method, path, status, took_us, "request");
    response
}

fn route(peer: &RequestPeer, request: Request<WatchedBody>) -> impl Future<Output = NodeResponse> {
    // A block, for an `async fn` would hold the request twice.
    async move {
        let core = &*peer.handlers.core;
        if let Err(rejected) = origin::check(&core.config.allowed_hosts, &request) {
            return origin::refuse(core, &request, &rejected);
        }
        let asked = RequestTarget::of(&request);
        let admitted = match admission::look(peer, asked, &request) {
            Admission::Decided(admitted) => admitted,
            // Seldom, so it has memory of its own.
            Admission::Unknown(check) => Box::pin(admission::verify(peer, check)).await,
        };
        if let Err(rejected) = admitted {
            return admission::refuse(peer, &request, &rejected);
        }
        admission::note_action(peer, asked, &request);
        match asked {
            RequestTarget::Grpc(method) => Box::pin(grpc::answer(peer, method, request)).await,
            // The one that comes by the thousand: others are larger, and have memory of their own.
            RequestTarget::Http(Some(Route { target: Target::Write, .. })) => {
                let began = runtime::now();
                let response = write_endpoint::answer(&peer.caller, request).await;
                count_duration(core, began);
                response
            }
            RequestTarget::Http(route) => Box::pin(route_rarer(peer, route, request)).await,
        }
    }
}

async fn route_rarer(
    peer: &RequestPeer,
    route: Option<&'static Route>,
    request: Request<WatchedBody>,
) -> NodeResponse {
    let RequestPeer { handlers: Handlers { core, reader, .. }, caller, asker, .. } = peer;
    let uri = request.uri().clone();
    let path = uri.path();
    let named = route.and_then(|route| route.named(path)).unwrap_or_default();
    match route.map(|route| route.target) {
        Some(Target::Write) => write_endpoint::answer(caller, request).await,
        Some(Target::Otlp) => timed(core, otlp::answer_http(caller, request)).await,
        Some(Target::Lines(dialect)) => timed(core, lines::write(caller, dialect, request)).await,
        Some(Target::Import(import)) => timed(core, lines::import(caller, (import, named), request)).await,
        Some(Target::InfluxQuery) if query_page::is_asked(&request) => query_page::page(request.headers()),
        Some(Target::InfluxQuery) => influx_query::answer(reader, request).await,
        Some(Target::QueryFile) => query_page::file_at(&request).unwrap_or_else(|| no_such_endpoint(path)),
        // Reads keep their own time, and say what took too long in their protocol's words.
        Some(Target::RemoteRead) => remote_read::answer(reader, asker, request).await,
        Some(Target::Question(question)) => {
            let client =
                if question.is_evaluated() { peer.client(request.headers()) } else { QueryCaller::default() };
            http_api::answer(reader, asker, client, (question, named), request).await
        }
        Some(Target::Page(asked)) => {
            with_room(reader, in_time(core, page(core, asked, request.method())).await)
        }
        None => no_such_endpoint(path),
    }
}

fn no_such_endpoint(path: &str) -> NodeResponse {
    text(Cause::NotFound.http(), format!("no such endpoint: {}\n", Printable(path)))
}

/// Gives an answer up that doesn't begin within the time of a request. (A write waits for its
/// shards alone; what may take long of it, its body, has its own limit.)
async fn in_time(core: &CoreContext, answering: impl Future<Output = NodeResponse>) -> NodeResponse {
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
        Err(BudgetExceeded) => {
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

async fn page(core: &CoreContext, page: StatusPage, method: &Method) -> NodeResponse {
    match (page, method) {
        (StatusPage::Ping, method) => lines::ping(method),
        (StatusPage::Status, &Method::GET | &Method::HEAD) => pages::status_page(),
        (StatusPage::Healthy, &Method::GET | &Method::HEAD) => pages::healthy(core),
        (StatusPage::Ready, &Method::GET | &Method::HEAD) => pages::ready(core),
        (StatusPage::Replayed, &Method::GET | &Method::HEAD) => pages::replayed(core),
        (StatusPage::Metrics, &Method::GET) => pages::metrics(core).await,
        (StatusPage::Node, &Method::GET) => pages::node_status(core).await,
        (StatusPage::Cells, &Method::GET) => pages::cells_status(core).await,
        (StatusPage::Refusals, &Method::GET) => pages::refusals(core),
        (
            StatusPage::Status
            | StatusPage::Healthy
            | StatusPage::Ready
            | StatusPage::Replayed
            | StatusPage::Metrics
            | StatusPage::Node
            | StatusPage::Cells
            | StatusPage::Refusals,
            _,
        ) => method_not_allowed("GET"),
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
        let bytes = size_of_result(|peer: &RequestPeer, request| answer(peer, request));
        assert!(bytes <= 2 << 10, "{bytes} bytes");
    }
}

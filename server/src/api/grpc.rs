//! gRPC on the common port: the standard health service, and a clear refusal of every other method.
//!
//! tonic's services run on the executor like any other handler; nothing here spawns.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures::stream::{self, Stream};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use send_wrapper::SendWrapper;
use tonic::codegen::Service;
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::api::body::ResponseBody;
use crate::api::core::Core;
use crate::api::endpoints::NodeResponse;
use crate::runtime::sleep;

const HEALTH: &str = "/grpc.health.v1.Health/";
/// How often a watched health is looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

const GRPC: &str = "application/grpc";

/// Whether a request speaks gRPC.
pub fn is_grpc<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|content_type| content_type.starts_with(GRPC.as_bytes()))
}

/// Answers one gRPC request.
pub async fn answer(core: &Rc<Core>, request: Request<Incoming>) -> NodeResponse {
    if !request.uri().path().starts_with(HEALTH) {
        return unimplemented(request.uri().path());
    }
    let mut health = HealthServer::new(NodeHealth { core: SendWrapper::new(Rc::clone(core)) });
    match health.call(request).await {
        Ok(response) => response.map(ResponseBody::Grpc),
        Err(never) => match never {},
    }
}

/// gRPC tells its own status, in headers alone where there is no message.
fn unimplemented(path: &str) -> NodeResponse {
    let status = Status::new(Code::Unimplemented, format!("no such method: {path}"));
    let mut response = Response::new(ResponseBody::Whole(Default::default()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    if status.add_header(headers).is_err() {
        // A path that is no header value: the code alone tells enough.
        headers.insert(HeaderName::from_static("grpc-status"), (Code::Unimplemented as i32).into());
    }
    response
}

/// The node's health as gRPC clients and Kubernetes' probes ask for it.
struct NodeHealth {
    // tonic asks for `Send`; a request stays on its core.
    core: SendWrapper<Rc<Core>>,
}

fn status_of(core: &Core) -> ServingStatus {
    match core.not_ready() {
        None => ServingStatus::Serving,
        Some(_) => ServingStatus::NotServing,
    }
}

/// The next status that is another one than `last`; none once the node ends and that is told.
async fn next_status(core: &Core, last: Option<ServingStatus>) -> Option<ServingStatus> {
    loop {
        let now = status_of(core);
        if Some(now) != last {
            return Some(now);
        }
        if core.shutdown.is_requested() {
            return None;
        }
        sleep(WATCH_INTERVAL).await;
    }
}

/// The node as a whole is the only service that has a health of its own.
fn check_name(request: &tonic::Request<HealthCheckRequest>) -> Result<(), Status> {
    match request.get_ref().service.as_str() {
        "" => Ok(()),
        other => Err(Status::not_found(format!("no such service: {other}"))),
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for NodeHealth {
    async fn check(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, Status> {
        check_name(&request)?;
        Ok(tonic::Response::new(response(status_of(&self.core))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// The health now, and each time that it changes, until the node ends.
    async fn watch(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, Status> {
        check_name(&request)?;
        let core = self.core.clone();
        let watched = stream::unfold(None, move |last| {
            let core = core.clone();
            SendWrapper::new(async move {
                let status = next_status(&core, last).await?;
                Some((Ok(response(status)), Some(status)))
            })
        });
        Ok(tonic::Response::new(Box::pin(watched)))
    }
}

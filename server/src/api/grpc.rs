//! gRPC on the common port: the standard health service, and a clear refusal of every other method.
//!
//! tonic's services run on the executor like any other handler; nothing here spawns.

use std::pin::Pin;

use futures::stream::{self, Stream, StreamExt};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::codegen::Service;
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::api::body::ResponseBody;
use crate::api::core::Core;
use crate::api::endpoints::NodeResponse;
use crate::runtime::Shutdown;

const HEALTH: &str = "/grpc.health.v1.Health/";
const GRPC: &str = "application/grpc";

/// Whether a request speaks gRPC.
pub fn is_grpc<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|content_type| content_type.starts_with(GRPC.as_bytes()))
}

/// Answers one gRPC request.
pub async fn answer(core: &Core, request: Request<Incoming>) -> NodeResponse {
    if !request.uri().path().starts_with(HEALTH) {
        return unimplemented(request.uri().path());
    }
    let ready = core.not_ready().is_none();
    let mut health = HealthServer::new(NodeHealth { ready, shutdown: core.shutdown.clone() });
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
    /// Whether it takes writes, when it was asked.
    ready: bool,
    shutdown: Shutdown,
}

impl NodeHealth {
    fn now(&self) -> HealthCheckResponse {
        match self.ready {
            true => response(ServingStatus::Serving),
            false => response(ServingStatus::NotServing),
        }
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
        Ok(tonic::Response::new(self.now()))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// The health now, and once more when the node is told to end.
    async fn watch(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, Status> {
        check_name(&request)?;
        let requested = self.shutdown.requested();
        let ending = stream::once(async move {
            requested.await;
            Ok(response(ServingStatus::NotServing))
        });
        let watched = stream::iter([Ok(self.now())]).chain(ending);
        Ok(tonic::Response::new(Box::pin(watched)))
    }
}

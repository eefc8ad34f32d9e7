//! The standard health service: the node's readiness, as gRPC clients and Kubernetes' probes ask for it.

use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::select;
use futures::stream::{self, Stream};
use send_wrapper::SendWrapper;
use silverback_model::printable::Quoted;
use tonic::Status;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::status::Replied;
use crate::api::core::CoreContext;
use crate::api::response::cause::Cause;

/// The health service of a core.
pub(crate) fn service(core: &Rc<CoreContext>) -> HealthServer<NodeHealth> {
    HealthServer::new(NodeHealth { core: SendWrapper::new(Rc::clone(core)) })
}

/// Answers for the node.
pub(crate) struct NodeHealth {
    // tonic asks for `Send`; a request stays on its core.
    core: SendWrapper<Rc<CoreContext>>,
}

fn status_of(core: &CoreContext) -> ServingStatus {
    match core.not_ready() {
        None => ServingStatus::Serving,
        Some(_) => ServingStatus::NotServing,
    }
}

/// The next status that is another one than `last`; none once the node ends and that was sent.
async fn next_status(core: &CoreContext, last: Option<ServingStatus>) -> Option<ServingStatus> {
    loop {
        let change = next_change(core);
        let now = status_of(core);
        if Some(now) != last {
            return Some(now);
        }
        if core.shutdown.is_requested() {
            return None;
        }
        change.await;
    }
}

/// What may change the status, from the call on: who calls this before a look at the status misses nothing after it.
fn next_change(core: &CoreContext) -> impl Future<Output = ()> {
    let replayed = match core.replaying() {
        Some(_) => core.node.restored.reached(core.node.cpus.len()).left_future(),
        None => pending().right_future(),
    };
    select(select(core.node.logs.next_change(), replayed), core.shutdown.requested()).map(drop)
}

/// The node as a whole is the only service that has a health of its own.
fn is_known(request: &HealthCheckRequest) -> bool {
    request.service.is_empty()
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for NodeHealth {
    async fn check(&self, request: tonic::Request<HealthCheckRequest>) -> Replied<HealthCheckResponse> {
        let request = request.get_ref();
        match is_known(request) {
            true => Ok(tonic::Response::new(response(status_of(&self.core)))),
            false => {
                let words = format!("no such service: {}", Quoted(&request.service));
                Err(Cause::NotFound.status(words))
            }
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// The health now, and each time that it changes, until the node ends. A watch of a service that isn't known stays open,
    /// too, as the protocol wants it: the service might come.
    async fn watch(&self, request: tonic::Request<HealthCheckRequest>) -> Replied<Self::WatchStream> {
        let (core, known) = (self.core.clone(), is_known(request.get_ref()));
        let watched = stream::unfold(None, move |last| {
            let core = core.clone();
            SendWrapper::new(async move {
                let status = match (known, last) {
                    (true, _) => next_status(&core, last).await?,
                    (false, None) => ServingStatus::ServiceUnknown,
                    (false, Some(_)) => {
                        core.shutdown.requested().await;
                        return None;
                    }
                };
                Some((Ok(response(status)), Some(status)))
            })
        });
        Ok(tonic::Response::new(Box::pin(watched)))
    }
}

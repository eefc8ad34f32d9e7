//! OTLP's `MetricsService`: the same requests as over HTTP.

use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use silverback_proto::otlp::collector::metrics::v1::ExportMetricsServiceResponse;
use tonic::Status;
use tonic::server::UnaryService;

use super::codec;
use crate::api::core::Core;
use crate::api::otlp;
use crate::api::remote_write::Rejection;
use crate::api::write::check_ready;
use crate::api::write_endpoint::count_rejection;

/// Answers `Export`.
pub async fn export<B>(core: &Rc<Core>, request: Request<B>) -> Response<tonic::body::Body>
where
    B: Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let service = Export { core: Rc::clone(core) };
    codec::raw::<ExportMetricsServiceResponse>(core).unary(service, request).await
}

struct Export {
    core: Rc<Core>,
}

impl UnaryService<Bytes> for Export {
    type Response = ExportMetricsServiceResponse;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<Self::Response>, Status>>>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let core = Rc::clone(&self.core);
        Box::pin(async move {
            let outcome = store(&core, &request.into_inner()).await.map_err(|rejection| {
                count_rejection(&core, &rejection);
                otlp::status_of(&rejection)
            })?;
            Ok(tonic::Response::new(outcome.response()))
        })
    }
}

async fn store(core: &Core, message: &Bytes) -> Result<otlp::Outcome, Rejection> {
    check_ready(core)?;
    core.count(|counts| counts.write_bytes += message.len() as u64);
    let mut reserved = core.bodies.begin();
    reserved.grow(message.len())?;
    otlp::write(core, message, reserved, message.len()).await
}

//! OTLP's `MetricsService`: the same requests as over HTTP.

use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use silverback_proto::otlp::collector::metrics::v1::ExportMetricsServiceResponse;
use tonic::server::UnaryService;

use super::codec;
use super::status::Replied;
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use crate::api::ingest::otlp;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::write::check_ready;

/// Answers `Export`.
pub(crate) async fn export<B>(caller: &Caller, request: Request<B>) -> Response<tonic::body::Body>
where
    B: Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let service = Export { caller: caller.clone() };
    codec::raw::<ExportMetricsServiceResponse>(caller).unary(service, request).await
}

struct Export {
    caller: Caller,
}

impl UnaryService<Bytes> for Export {
    type Response = ExportMetricsServiceResponse;
    type Future = Pin<Box<dyn Future<Output = Replied<Self::Response>>>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let caller = self.caller.clone();
        Box::pin(async move {
            let outcome = store(&caller, &request.into_inner()).await.map_err(|rejection| {
                caller.note_rejection(&rejection);
                otlp::status_of(&rejection)
            })?;
            caller.note_refused(outcome.examples());
            Ok(tonic::Response::new(outcome.response()))
        })
    }
}

async fn store(ingest: &Ingest, message: &Bytes) -> Result<otlp::OtlpOutcome, WriteRejected> {
    check_ready(ingest)?;
    ingest.count(|counts| counts.write_bytes += message.len() as u64);
    let mut reserved = ingest.bodies.begin();
    reserved.grow(message.len())?;
    otlp::write(ingest, message, reserved, message.len()).await
}

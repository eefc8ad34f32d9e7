//! The contender's gRPC: the node's `Ingest.Write` on tonic's generated server, to be run by any runtime.
//!
//! Messages are decoded as tonic decodes them. Streams aren't spoken.

use std::future::Future;
use std::sync::Arc;

use futures::stream::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use silverback::api::ingest::remote_write::SeriesSink;
use silverback::api::ingest::remote_write::answer::WriteReport;
use silverback_model::{Labels, Sample, SeriesId};
use silverback_proto::v1;
use silverback_proto::v1::ingest_server::{Ingest, IngestServer};
use silverback_storage::message::{LabelSource, LabelSpan};
use silverback_storage::wal::LogError;
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::Service;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::Contender;
use super::scratch::{Scratch, Split};
use super::write::add;

/// The service, on a contender that others share.
#[derive(Debug, Clone)]
pub struct Grpc(pub Arc<Contender>);

impl Grpc {
    /// Serves all connections on this runtime, until `told_to_end`.
    pub async fn serve(
        self,
        listener: TcpListener,
        told_to_end: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error> {
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let router = Server::builder().add_service(IngestServer::new(self));
        router.serve_with_incoming_shutdown(incoming, told_to_end).await
    }

    /// Serves one connection to its end.
    pub async fn serve_one(self, stream: TcpStream) -> Result<(), hyper::Error> {
        let server = IngestServer::new(self);
        let service = service_fn(move |request: http::Request<Incoming>| server.clone().call(request));
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await
    }
}

/// A series of a request: where its labels are, and which one it is.
type Defined = (SeriesId, LabelSpan);

#[tonic::async_trait]
impl Ingest for Grpc {
    async fn write(&self, request: Request<v1::WriteRequest>) -> Result<Response<v1::WriteResponse>, Status> {
        let v1::WriteRequest { series, batch } = request.into_inner();
        let batch = batch.ok_or_else(|| Status::invalid_argument("a request without a batch"))?;
        self.0.log.is_open().map_err(unavailable)?;
        let mut scratch = Scratch::take(self.0.stripes.count());
        let appended = self.0.write_columns(series, &batch, &mut scratch);
        scratch.give_back();
        let report = appended?;
        self.0.log.committed().await.map_err(unavailable)?;
        Ok(Response::new(v1::WriteResponse { samples_written: report.written, refusals: Vec::new() }))
    }

    type StreamStream = Empty<Result<v1::StreamResponse, Status>>;

    async fn stream(
        &self,
        _request: Request<Streaming<v1::StreamRequest>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        Err(Status::unimplemented("the contender takes single writes"))
    }
}

fn unavailable(error: LogError) -> Status {
    Status::unavailable(error.to_string())
}

impl Contender {
    fn write_columns(
        &self,
        series: Vec<v1::SeriesDefinition>,
        batch: &v1::Batch,
        scratch: &mut Scratch,
    ) -> Result<WriteReport, Status> {
        let Scratch { body, parts } = scratch;
        let (mut bytes, mut defined) = (Vec::new(), Vec::<Defined>::with_capacity(series.len()));
        for (place, definition) in series.into_iter().enumerate() {
            if definition.r#ref as usize != place {
                return Err(Status::invalid_argument("refs that don't count up from 0"));
            }
            let labels =
                Labels::from_pairs(definition.labels.into_iter().map(|label| (label.name, label.value)));
            let block = labels.to_canonical();
            let span = LabelSpan::new(LabelSource::Wire, bytes.len(), block.len());
            defined.push((self.hasher.hash_canonical(&block), span));
            bytes.extend_from_slice(&block);
        }
        body.bytes.prepare(bytes.len()).copy_from_slice(&bytes);
        split(batch, &defined, &mut Split::new(&self.stripes, parts))?;
        let mut report = WriteReport::default();
        self.stripes.append(body, parts, self.bounds(), |outcome| add(&mut report, outcome));
        Ok(report)
    }
}

/// Each sample as a series of its own, as it comes in the columns.
fn split(batch: &v1::Batch, defined: &[Defined], split: &mut Split<'_>) -> Result<(), Status> {
    let has_times = !batch.timestamp_deltas_ms.is_empty();
    let times_fit = !has_times || batch.timestamp_deltas_ms.len() == batch.values.len();
    if batch.ref_deltas.len() != batch.values.len() || !times_fit {
        return Err(Status::invalid_argument("columns of different lengths"));
    }
    let (mut series_ref, mut timestamp_ms) = (0_u32, batch.base_timestamp_ms);
    for (at, value) in batch.values.iter().enumerate() {
        series_ref = series_ref.wrapping_add_signed(batch.ref_deltas[at]);
        if has_times {
            timestamp_ms = timestamp_ms.wrapping_add(batch.timestamp_deltas_ms[at]);
        }
        let Some((id, labels)) = defined.get(series_ref as usize) else {
            return Err(Status::invalid_argument("a ref that was never defined"));
        };
        split.series(*id, *labels, 1);
        split.sample(Sample::new(timestamp_ms, *value));
    }
    Ok(())
}

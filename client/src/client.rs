//! The client of one node: what others are made from, and the requests that have one answer.

use std::future::Future;

use silverback_proto::v1::admin_client::AdminClient;
use silverback_proto::v1::ingest_client::IngestClient;
use silverback_proto::v1::query_client::QueryClient;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Response, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::admin::Admin;
use crate::connect::{ClientBuilder, ConnectError, Connection, Headers};
use crate::error::RequestError;
use crate::reader::Reader;
use crate::refusal::SeriesRejected;
use crate::series::Series;
use crate::unary;
use crate::writer::{Writer, WriterOptions};

/// A message of the node in bytes, decompressed: longer ones are refused.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

pub(crate) type Transport = InterceptedService<Channel, Headers>;

/// A client of one node. Cheap to clone; clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    connection: Connection,
}

/// Whether a node takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Serving,
    /// It replays its log, is stopping, or can't write to its disk.
    NotServing,
}

/// What became of one [`Client::write`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// Samples that are stored, native histograms and those that were stored before among them.
    pub samples_written: u64,
    /// The others.
    pub refusals: Vec<SeriesRejected>,
}

impl Client {
    /// Connects to `http://host:port` or `https://host:port`.
    pub async fn connect(address: impl Into<String>) -> Result<Self, ConnectError> {
        Self::builder(address).connect().await
    }

    /// A connection with options.
    pub fn builder(address: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(address.into())
    }

    pub(crate) const fn over(connection: Connection) -> Self {
        Self { connection }
    }

    /// Whether the node takes requests.
    pub async fn health(&self) -> Result<Health, RequestError> {
        let mut client = HealthClient::new(self.transport());
        let answer = self.answer(client.check(HealthCheckRequest::default())).await?;
        Ok(match answer.status() {
            ServingStatus::Serving => Health::Serving,
            ServingStatus::Unknown | ServingStatus::NotServing | ServingStatus::ServiceUnknown => {
                Health::NotServing
            }
        })
    }

    /// Writes a few series at once. Once this returns, their samples are as durable as the node makes
    /// what it acknowledges; a [`Writer`] is the way for more than a few. A node that is too old for native histograms
    /// is reported as [`RequestError::Unsupported`]: floats beside them are written or refused all the same, which
    /// isn't reported then. Histograms alone are a write of no samples to it, [`RequestError::Invalid`].
    pub async fn write(&self, series: &[Series]) -> Result<Written, RequestError> {
        if series.iter().all(|series| series.samples.is_empty() && series.histograms.is_empty()) {
            return Ok(Written::default());
        }
        let answer = self.answer(self.ingest().write(unary::request(series))).await?;
        unary::written(series, answer)
    }

    /// A writer of many samples over a stream, with default options. To be called
    /// within a tokio runtime.
    pub fn writer(&self) -> Writer {
        self.writer_with(WriterOptions::default())
    }

    /// A writer with options. To be called within a tokio runtime.
    pub fn writer_with(&self, options: WriterOptions) -> Writer {
        Writer::start(self.clone(), options)
    }

    /// Reads samples and labels.
    pub fn reader(&self) -> Reader {
        Reader::new(self.clone())
    }

    /// Looks into the node.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    pub(crate) fn ingest(&self) -> IngestClient<Transport> {
        let client = IngestClient::new(self.transport()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        match self.connection.compression {
            Some(encoding) => client.send_compressed(encoding).accept_compressed(encoding),
            None => client,
        }
    }

    pub(crate) fn query(&self) -> QueryClient<Transport> {
        let client = QueryClient::new(self.transport()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        match self.connection.compression {
            Some(encoding) => client.accept_compressed(encoding),
            None => client,
        }
    }

    pub(crate) fn node_admin(&self) -> AdminClient<Transport> {
        AdminClient::new(self.transport()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(crate) fn transport(&self) -> Transport {
        InterceptedService::new(self.connection.channel.clone(), self.connection.headers.clone())
    }

    /// The answer, or the head of a stream of them, if it comes in time.
    pub(crate) async fn answer<T>(
        &self,
        asking: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RequestError> {
        self.in_time(async { Ok(asking.await?.into_inner()) }).await
    }

    /// What the future gives, if it does so within the request timeout.
    pub(crate) async fn in_time<T>(
        &self,
        future: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        let timeout = self.connection.request_timeout;
        let late = |_elapsed| RequestError::TimedOut(format!("nothing within {timeout:?}"));
        tokio::time::timeout(timeout, future).await.map_err(late)?
    }
}

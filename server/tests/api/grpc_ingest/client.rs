//! A client that sends what it is given, right or wrong.

use std::net::SocketAddr;

use silverback_node_test_support::Node;
use silverback_proto::v1;
use silverback_proto::v1::ingest_client::IngestClient;
use silverback_test_support::TEST_TIMEOUT;
pub(super) use silverback_test_support::now_ms;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// A connection.
pub(super) async fn connect(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// A definition of `name{job="a"}`.
pub(super) fn series(stream_ref: u32, name: &str) -> v1::SeriesDefinition {
    let label = |name: &str, value: &str| v1::Label { name: name.to_owned(), value: value.to_owned() };
    v1::SeriesDefinition { labels: vec![label("job", "a"), label("__name__", name)], r#ref: stream_ref }
}

/// A batch of samples, each a ref, a time and a value.
pub(super) fn batch(number: u64, samples: &[(u32, i64, f64)]) -> v1::Batch {
    let base_timestamp_ms = samples.first().map_or(0, |sample| sample.1);
    let (mut ref_before, mut ms_before) = (0, base_timestamp_ms);
    let mut batch = v1::Batch { number, base_timestamp_ms, ..Default::default() };
    for (stream_ref, timestamp_ms, value) in samples {
        batch.ref_deltas.push(*stream_ref as i32 - ref_before);
        batch.timestamp_deltas_ms.push(timestamp_ms - ms_before);
        batch.values.push(*value);
        (ref_before, ms_before) = (*stream_ref as i32, *timestamp_ms);
    }
    batch
}

/// A message of a stream.
pub(super) fn message(series: Vec<v1::SeriesDefinition>, batch: Option<v1::Batch>) -> v1::StreamRequest {
    v1::StreamRequest { series, batch }
}

/// An open stream.
pub(super) struct OpenStream {
    requests: mpsc::Sender<v1::StreamRequest>,
    responses: Streaming<v1::StreamResponse>,
    /// What the node sent first.
    pub terms: v1::Terms,
}

impl OpenStream {
    /// Opens a stream and reads its terms.
    pub(super) async fn open(channel: &Channel) -> Self {
        let (requests, sent) = mpsc::channel(4);
        let call = IngestClient::new(channel.clone()).stream(ReceiverStream::new(sent)).await;
        let mut responses = call.unwrap().into_inner();
        let first = responses.message().await.unwrap().expect("the terms come first");
        Self { requests, responses, terms: first.terms.expect("the first response has the terms") }
    }

    /// Sends a message.
    pub(super) async fn send(&self, message: v1::StreamRequest) {
        self.requests.send(message).await.expect("the stream is open");
    }

    /// The next response.
    pub(super) async fn next(&mut self) -> Result<Option<v1::StreamResponse>, Status> {
        tokio::time::timeout(TEST_TIMEOUT, self.responses.message()).await.expect("a response comes in time")
    }

    /// Everything up to the acknowledgement of a batch, as one.
    pub(super) async fn until(&mut self, number: u64) -> v1::StreamResponse {
        let mut all = v1::StreamResponse::default();
        while all.acknowledged_number < number {
            let response = self.next().await.unwrap().expect("the stream goes on");
            assert!(response.acknowledged_number >= all.acknowledged_number, "acknowledged in order");
            all.acknowledged_number = response.acknowledged_number;
            all.samples_written += response.samples_written;
            all.refusals.extend(response.refusals);
        }
        all
    }

    /// Ends the client's half, and gives the rest up to the status.
    pub(super) async fn finish(mut self) -> Result<Vec<v1::StreamResponse>, Status> {
        drop(std::mem::replace(&mut self.requests, mpsc::channel(1).0));
        let mut rest = Vec::new();
        while let Some(response) = self.next().await? {
            rest.push(response);
        }
        Ok(rest)
    }
}

/// The samples of a series by its name, as the node exports them.
pub(super) fn stored(node: &Node, name: &str) -> Vec<(i64, f64)> {
    let answer = node.get(&format!("/api/v1/export?match[]={name}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let lines: Vec<serde_json::Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pairs = |line: &serde_json::Value| {
        let times = line["timestamps"].as_array().unwrap().iter().map(|t| t.as_i64().unwrap());
        let values = line["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
        times.zip(values).collect::<Vec<_>>()
    };
    lines.iter().flat_map(pairs).collect()
}

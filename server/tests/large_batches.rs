//! Streams of large batches that together take more than all the memory for requests. In a process of its own: what else
//! is resident counts against the limit.

use futures::future::join_all;
use silverback::config::MemoryLimit;
use silverback_model::histogram::Histogram;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::start_ms;
use silverback_proto::v1;
use silverback_proto::v1::ingest_client::IngestClient;
use silverback_test_support::wire::varint;
use tonic::transport::Endpoint;

/// Twice what fits 28 MiB, which all that are large have.
const STREAMS: usize = 16;
const HISTOGRAMS: i64 = 900;
const PADDING_BYTES: usize = 4096;

/// A field of a later version, which costs little but its room.
fn unknown_field() -> Vec<u8> {
    const TAG: u64 = 100 << 3 | 2;

    [varint(TAG), varint(PADDING_BYTES as u64), vec![0; PADDING_BYTES]].concat()
}

/// A message of 3.7 MB: a series and its histograms.
fn message(name: &str, begin_ms: i64) -> v1::StreamRequest {
    let histograms = (begin_ms..begin_ms + HISTOGRAMS).map(|timestamp_ms| {
        let mut message = unknown_field();
        Histogram::default()
            .put_message(HistogramTimes { timestamp_ms, ..HistogramTimes::default() }, &mut message);
        message.into()
    });
    let histogram_ref_deltas = vec![0; HISTOGRAMS as usize];
    let batch =
        v1::Batch { number: 1, histogram_ref_deltas, histograms: histograms.collect(), ..Default::default() };
    let label = v1::Label { name: "__name__".to_owned(), value: name.to_owned() };
    v1::StreamRequest {
        series: vec![v1::SeriesDefinition { labels: vec![label], r#ref: 0 }],
        batch: Some(batch),
    }
}

/// None waits for room for a copy of its message, or for the rest of it, while the others do the same.
#[tokio::test(flavor = "multi_thread")]
async fn batches_that_come_together_are_taken_in_one_after_the_other() {
    let node = Node::start_with(1, |config| config.memory_limit = MemoryLimit::Fixed(256 << 20));
    let begin_ms = start_ms();
    let sent = (0..STREAMS).map(|number| {
        let (address, request) = (node.address, message(&format!("large_{number}"), begin_ms));
        tokio::spawn(async move {
            let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await;
            let mut client = IngestClient::new(channel.unwrap());
            let mut answers = client.stream(tokio_stream::iter([request])).await.unwrap().into_inner();
            let mut written = 0;
            while let Some(answer) = answers.message().await.expect("no batch is refused") {
                assert_eq!(answer.refusals, []);
                written += answer.samples_written;
            }
            written
        })
    });
    for written in join_all(sent.collect::<Vec<_>>()).await {
        assert_eq!(written.unwrap(), HISTOGRAMS as u64);
    }
}

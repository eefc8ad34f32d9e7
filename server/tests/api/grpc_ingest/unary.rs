//! `Write`: one message, one answer.

use std::io::Write;
use std::net::TcpStream;

use silverback_model::limits::MemoryPlan;
use silverback_node_test_support::Node;
use silverback_node_test_support::request::PATH;
use silverback_proto::v1;
use silverback_proto::v1::ingest_client::IngestClient;
use silverback_test_support::{Binary, eventually, http};
use tonic::Code;
use tonic::codec::CompressionEncoding;

use crate::grpc_ingest::backpressure::told;
use crate::grpc_ingest::client::{self, OpenStream, batch, connect, now_ms, series, stored};

#[tokio::test(flavor = "multi_thread")]
async fn a_written_message_is_acknowledged_and_read_back() {
    let node = Node::start(2);
    let channel = connect(node.address).await;
    let now = now_ms();
    for compression in [None, Some(CompressionEncoding::Gzip), Some(CompressionEncoding::Zstd)] {
        let mut client = IngestClient::new(channel.clone());
        if let Some(compression) = compression {
            client = client.send_compressed(compression);
        }
        let name = format!("by_{compression:?}").to_lowercase().replace(['(', ')'], "_");
        let samples = [(0, now - 2, 1.5), (1, now - 2, -0.0), (0, now - 1, f64::MAX)];
        let request = v1::WriteRequest {
            series: vec![series(0, &name), series(1, "other")],
            batch: Some(batch(0, &samples)),
        };
        let answer = client.write(request).await.unwrap().into_inner();
        assert_eq!((answer.samples_written, answer.refusals), (3, vec![]));
        assert_eq!(stored(&node, &name), [(now - 2, 1.5), (now - 1, f64::MAX)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_samples_are_told_by_series_and_reason() {
    let node = Node::start(2);
    let mut client = IngestClient::new(connect(node.address).await);
    let now = now_ms();
    let nameless = v1::SeriesDefinition { labels: vec![], r#ref: 7 };
    let samples = [
        (0, now, 1.0),
        (0, now, 1.0),
        (0, now, 2.0),
        (0, now - 3_600_001, 1.0),
        (1, now + 3_600_000, 1.0),
        (7, now, 1.0),
        (7, now, 1.0),
        (1, now, 1.0),
    ];
    let request = v1::WriteRequest {
        series: vec![series(0, "a"), series(1, "b"), nameless],
        batch: Some(batch(0, &samples)),
    };
    let answer = client.write(request).await.unwrap().into_inner();
    assert_eq!(answer.samples_written, 3, "a retry of a stored sample is accepted");
    let mut told: Vec<_> = answer.refusals.iter().map(|r| (r.r#ref, r.reason(), r.samples)).collect();
    told.sort();
    use v1::RefusalReason::{Duplicate, MissingName, OutOfOrder, TooFarInFuture};
    assert_eq!(
        told,
        [
            (0, OutOfOrder, 1),
            (0, Duplicate, 1),
            (1, TooFarInFuture, 1),
            (7, MissingName, 0),
            (7, MissingName, 2)
        ]
    );
    let metrics = node.get("/metrics").text();
    for counted in ["silverback_grpc_writes_total{shard", "silverback_grpc_series_defined_total{shard"] {
        let total: f64 = metrics
            .lines()
            .filter(|line| line.starts_with(counted))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum();
        assert!(total >= 1.0, "{counted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_and_a_stream_s_batches_are_counted_as_writes_and_timed() {
    let node = Node::start(2);
    let channel = connect(node.address).await;
    let now = now_ms();
    let message = |number| v1::WriteRequest {
        series: vec![series(0, "a")],
        batch: Some(batch(number, &[(0, now + number as i64, 1.0)])),
    };
    IngestClient::new(channel.clone()).write(message(0)).await.unwrap();
    let mut stream = OpenStream::open(&channel).await;
    stream.send(client::message(vec![series(0, "a")], None)).await;
    for number in 1..=3 {
        stream.send(client::message(vec![], Some(batch(number, &[(0, now + number as i64, 1.0)])))).await;
    }
    stream.until(3).await;
    let metrics = node.get("/metrics").text();
    for counted in ["protocol=\"grpc\"} 1", "protocol=\"grpc_stream\"} 3", "protocol=\"otlp\"} 0"] {
        assert!(metrics.contains(&format!("silverback_write_requests_total{{{counted}\n")), "{counted}");
    }
    let counts =
        metrics.lines().filter_map(|line| line.strip_prefix("silverback_write_request_seconds_count{"));
    let timed: u64 = counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(timed, 4, "definitions alone are no write");
    let status = node.get("/api/v1/status/node").json();
    assert_eq!(status["writes"]["requests_total"]["grpc_stream"], 3);
    let took = status["writes"]["took_total"].as_array().unwrap().clone();
    assert_eq!(took.len(), status["writes"]["bounds_us"].as_array().unwrap().len() + 1);
    assert_eq!(took.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_message_is_told_what_fits() {
    let node = Node::start_with(1, |config| config.max_decoded_bytes = 64 << 10);
    let mut client = IngestClient::new(connect(node.address).await);
    let samples: Vec<_> = (0..9000).map(|i| (0, now_ms() + i, 0.5)).collect();
    let request = v1::WriteRequest { series: vec![series(0, "a")], batch: Some(batch(0, &samples)) };
    let status = client.write(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let mut client = client.send_compressed(CompressionEncoding::Gzip);
    let status = client.write(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "what counts is the decompressed size: {status}");
    assert!(stored(&node, "a").is_empty());
}

/// Bodies that don't end, until the memory for requests is taken: of `MemoryPlan::in_flight_bytes`, all but what is for
/// small requests.
fn take_memory(node: &Binary, in_flight_bytes: usize) -> Vec<TcpStream> {
    const BODY_BYTES: usize = 1 << 20;
    let large_bytes = in_flight_bytes - in_flight_bytes / 16;
    let begin = |_| {
        let mut stream = node.connect();
        stream.write_all(http::head("POST", PATH, &[], 2 * BODY_BYTES).as_bytes()).unwrap();
        stream.write_all(&vec![0; BODY_BYTES]).unwrap();
        stream
    };
    let held: Vec<TcpStream> = (0..large_bytes / BODY_BYTES).map(begin).collect();
    eventually("the bodies have come", || {
        told(&node.get("/metrics"), "silverback_write_in_flight_bytes") as usize >= held.len() * BODY_BYTES
    });
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_is_told_that_memory_is_what_it_lacks() {
    const LIMIT_BYTES: usize = 128 << 20;
    // A process of its own: what the tests beside this one take would count, too, and leave requests less.
    let options = ["--shards", "1", "--memory-limit", &LIMIT_BYTES.to_string()];
    let node = Binary::start(env!("CARGO_BIN_EXE_silverback"), &options);
    let in_flight_bytes = MemoryPlan::new(LIMIT_BYTES, 1).unwrap().in_flight_bytes;
    let held = take_memory(&node, in_flight_bytes);
    let mut client = IngestClient::new(connect(node.address).await);
    let long = "x".repeat(3_900_000);
    let request = v1::WriteRequest { series: vec![series(0, &long)], batch: None };
    let status = client.write(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("memory"), "{status}");
    drop(held);
}

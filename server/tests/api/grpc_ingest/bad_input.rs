//! What a client can get wrong: each a precise status, and a neighbour on the same connection that
//! notices nothing.

use prost::Message;
use silverback_node_test_support::Node;
use silverback_proto::v1;
use tonic::Code;

use crate::grpc_ingest::backpressure::told;
use crate::grpc_ingest::client::{OpenStream, batch, connect, message, now_ms, series, stored};

/// Sends messages on a stream of its own and checks its status, between two batches of a neighbour.
async fn check(messages: Vec<v1::StreamRequest>, code: Code, words: &[&str]) {
    let node = Node::start(2);
    let channel = connect(node.address).await;
    let mut neighbour = OpenStream::open(&channel).await;
    let now = now_ms();
    neighbour.send(message(vec![series(0, "neighbour")], Some(batch(1, &[(0, now, 1.0)])))).await;
    neighbour.until(1).await;
    let bad = OpenStream::open(&channel).await;
    for message in messages {
        bad.send(message).await;
    }
    let status = bad.finish().await.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(words.iter().all(|word| status.message().contains(word)), "{status}");
    neighbour.send(message(vec![], Some(batch(2, &[(0, now + 1, 1.0)])))).await;
    assert_eq!(neighbour.until(2).await.samples_written, 1, "the neighbour lives on");
    assert!(stored(&node, "bad").is_empty(), "nothing of a bad batch is stored");
}

fn defined() -> Vec<v1::SeriesDefinition> {
    vec![series(0, "bad")]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undefined_ref_is_told() {
    let now = now_ms();
    let bad = message(defined(), Some(batch(1, &[(0, now, 1.0), (3, now, 1.0)])));
    check(vec![bad], Code::InvalidArgument, &["sample 1", "ref 3", "not defined on this stream"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ref_from_before_a_reconnect_is_undefined() {
    let node = Node::start(1);
    let channel = connect(node.address).await;
    let mut first = OpenStream::open(&channel).await;
    first.send(message(defined(), Some(batch(1, &[(0, now_ms(), 1.0)])))).await;
    first.until(1).await;
    first.finish().await.unwrap();
    let second = OpenStream::open(&channel).await;
    second.send(message(vec![], Some(batch(1, &[(0, now_ms(), 1.0)])))).await;
    let status = second.finish().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("one that has ended"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ref_that_is_defined_again_is_told() {
    let again = vec![message(defined(), None), message(vec![series(0, "other")], None)];
    check(again, Code::AlreadyExists, &["ref 0", "defined already"]).await;
    let high = vec![message(vec![series(u32::MAX, "bad")], None)];
    check(high, Code::InvalidArgument, &["4294967295", "refs lie below"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_unequal_length_are_told() {
    let mut bad = batch(1, &[(0, now_ms(), 1.0); 3]);
    bad.values.pop();
    let words = ["unequal length", "3 refs", "3 timestamps", "2 values"];
    check(vec![message(defined(), Some(bad))], Code::InvalidArgument, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_samples_is_told() {
    check(vec![message(defined(), Some(batch(1, &[])))], Code::InvalidArgument, &["no samples"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_out_of_turn_is_told() {
    let bad = message(defined(), Some(batch(2, &[(0, now_ms(), 1.0)])));
    check(vec![bad], Code::InvalidArgument, &["batch 1 was expected", "batch 2 came"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_too_many_samples_is_told() {
    let samples: Vec<_> = (0..20_000).map(|i| (0, now_ms() + i, 1.0)).collect();
    let bad = message(defined(), Some(batch(1, &samples)));
    check(vec![bad], Code::InvalidArgument, &["20000 samples", "may have"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_message_is_told() {
    let mut huge = series(0, "bad");
    huge.labels[0].value = "x".repeat(5 << 20);
    assert!(huge.encoded_len() > 4 << 20);
    check(vec![message(vec![huge], None)], Code::ResourceExhausted, &["4194304"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_goes_silent_is_told() {
    // Far longer than a loaded machine keeps the busy one from its next message.
    let idle_timeout = std::time::Duration::from_secs(3);
    let node = Node::start_with(1, |config| config.stream_idle_timeout = idle_timeout);
    let channel = connect(node.address).await;
    let mut silent = OpenStream::open(&channel).await;
    let mut busy = OpenStream::open(&channel).await;
    busy.send(message(vec![series(0, "busy")], None)).await;
    for number in 1..10 {
        busy.send(message(vec![], Some(batch(number, &[(0, now_ms(), 1.0)])))).await;
        busy.until(number).await;
        tokio::time::sleep(idle_timeout / 8).await;
    }
    let status = silent.next().await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains("no message for 3s"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_leaves_nothing_behind() {
    let node = Node::start(2);
    for _ in 0..20 {
        let channel = connect(node.address).await;
        let stream = OpenStream::open(&channel).await;
        let now = now_ms();
        let samples: Vec<_> = (0..5000).map(|i| (i % 50, now + i64::from(i / 50), 1.0)).collect();
        let defined = (0..50).map(|s| series(s, &format!("s{s}"))).collect();
        stream.send(message(defined, Some(batch(1, &samples)))).await;
    }
    let told = |name: &str| told(&node.get("/metrics"), name);
    let began = std::time::Instant::now();
    while told("silverback_grpc_streams") > 0.0 || told("silverback_write_in_flight_bytes") > 0.0 {
        assert!(began.elapsed().as_secs() < 10, "open streams: {}", told("silverback_grpc_streams"));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(told("silverback_grpc_definition_bytes"), 0.0);
}

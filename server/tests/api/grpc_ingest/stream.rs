//! `Stream`: batches, acknowledgements, ends.

use silverback_node_test_support::Node;
use silverback_proto::v1;
use silverback_proto::v1::RefusalReason;
use silverback_storage::wal::AckMode;

use crate::grpc_ingest::backpressure::told;
use crate::grpc_ingest::client::{OpenStream, batch, connect, message, now_ms, series, stored};

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_acknowledged_in_order_and_read_back() {
    const SERIES: u32 = 500;
    const BATCHES: i64 = 200;

    let node = Node::start(2);
    let mut stream = OpenStream::open(&connect(node.address).await).await;
    let begin = now_ms() - BATCHES;
    for i in 0..BATCHES {
        // Some of the series are defined as late as they are needed.
        let defined =
            (0..SERIES).filter(|s| i64::from(s % 10) == i).map(|s| series(s, &format!("s{s}"))).collect();
        let samples: Vec<_> =
            (0..SERIES).filter(|s| i64::from(s % 10) <= i).map(|s| (s, begin + i, f64::from(s))).collect();
        stream.send(message(defined, Some(batch(i as u64 + 1, &samples)))).await;
    }
    let all = stream.until(BATCHES as u64).await;
    let expect: u64 = (0..u64::from(SERIES)).map(|s| BATCHES as u64 - s % 10).sum();
    assert_eq!((all.samples_written, all.refusals), (expect, vec![]));
    for s in [0, 9, 123, SERIES - 1] {
        let expect: Vec<_> = (i64::from(s % 10)..BATCHES).map(|i| (begin + i, f64::from(s))).collect();
        assert_eq!(stored(&node, &format!("s{s}")), expect);
    }
    assert!(stream.finish().await.unwrap().is_empty(), "all was acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_told_once_where_each_of_its_series_is() {
    const SERIES: u32 = 300;

    let node = Node::start(2);
    let mut stream = OpenStream::open(&connect(node.address).await).await;
    let begin = now_ms() - 10;
    for i in 0..5 {
        let defined = (0..SERIES).filter(|_| i == 0).map(|s| series(s, &format!("s{s}"))).collect();
        // Twice in a batch, one after the other and apart.
        let samples: Vec<_> =
            (0..2 * SERIES).map(|s| (s % SERIES, begin + 2 * i + i64::from(s / SERIES), 1.0)).collect();
        stream.send(message(defined, Some(batch(i as u64 + 1, &samples)))).await;
        stream.until(i as u64 + 1).await;
    }
    // Of the first batch both entries of a series.
    assert_eq!(told(&node.get("/metrics"), "silverback_grpc_stream_refs_total"), f64::from(2 * SERIES));
    assert_eq!(stored(&node, "s7").len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terms_tell_what_an_acknowledgement_means() {
    for (ack, durability) in
        [(AckMode::Durable, v1::Durability::Disk), (AckMode::Memory, v1::Durability::Memory)]
    {
        let node = Node::start_with(1, |config| config.ack = ack);
        let stream = OpenStream::open(&connect(node.address).await).await;
        assert_eq!(stream.terms.durability(), durability);
        let terms = stream.terms;
        assert!(terms.batches_in_flight_max > 0 && terms.batch_samples_max > 0 && terms.refs_max > 0);
        assert!(terms.message_bytes_max > 0 && terms.definition_bytes_max > 0 && terms.idle_timeout_ms > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_come_with_their_batch_and_the_stream_goes_on() {
    let node = Node::start(2);
    let mut stream = OpenStream::open(&connect(node.address).await).await;
    let now = now_ms();
    let twice = v1::SeriesDefinition { r#ref: 1, ..series(1, "b") };
    let twice = v1::SeriesDefinition { labels: [twice.labels.clone(), twice.labels].concat(), r#ref: 1 };
    stream.send(message(vec![series(0, "a"), twice], None)).await;
    stream.send(message(vec![], Some(batch(1, &[(0, now, 1.0)])))).await;
    stream
        .send(message(vec![], Some(batch(2, &[(0, now - 3_600_005, 1.0), (1, now, 1.0), (0, now + 1, 2.0)]))))
        .await;
    let all = stream.until(2).await;
    assert_eq!(all.samples_written, 2);
    let told: Vec<_> =
        all.refusals.iter().map(|r| (r.batch_number, r.r#ref, r.reason(), r.samples)).collect();
    assert_eq!(told[0], (0, 1, RefusalReason::DuplicateLabel, 0), "the definition first");
    assert!(told.contains(&(2, 0, RefusalReason::OutOfOrder, 1)), "{told:?}");
    assert!(told.contains(&(2, 1, RefusalReason::DuplicateLabel, 1)), "{told:?}");
    assert_eq!(told.len(), 3);
    assert_eq!(stored(&node, "a"), [(now, 1.0), (now + 1, 2.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_at_the_client_s_end_is_acknowledged() {
    let node = Node::start(2);
    let stream = OpenStream::open(&connect(node.address).await).await;
    let now = now_ms();
    stream.send(message(vec![series(0, "a")], Some(batch(1, &[(0, now, 1.0)])))).await;
    stream.send(message(vec![], Some(batch(2, &[(0, now + 1, 1.0)])))).await;
    let rest = stream.finish().await.unwrap();
    assert_eq!(rest.last().unwrap().acknowledged_number, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_node_acknowledges_what_it_has_and_says_so() {
    let node = Node::start(1);
    let mut stream = OpenStream::open(&connect(node.address).await).await;
    stream.send(message(vec![series(0, "a")], Some(batch(1, &[(0, now_ms(), 1.0)])))).await;
    stream.until(1).await;
    node.request_shutdown();
    let status = stream.next().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
    assert!(status.message().contains("stopping"), "{status}");
}

//! Native histograms among a stream's floats: each is stored or refused by its own reason, and costs no other.

use prost::Message;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, Span};
use silverback_model::limits::HISTOGRAM_BUCKETS_MAX;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{ask, query};
use silverback_proto::prometheus::ReadResponse;
use silverback_proto::v1;
use silverback_proto::v1::RefusalReason;
use silverback_proto::v1::ingest_client::IngestClient;
use silverback_proto::v1::query_client::QueryClient;
use tonic::Code;

use crate::grpc_ingest::client::{OpenStream, batch, connect, message, now_ms, series, stored};

fn valid(n: u64) -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: 0, length: 2 }], words: vec![n, 1] };
    Histogram { count: 2 * n + 1, sum_bits: (n as f64 / 3.0).to_bits(), positive, ..Histogram::default() }
}

fn histogram(timestamp_ms: i64, histogram: &Histogram) -> Vec<u8> {
    let mut message = Vec::new();
    histogram.put_message(HistogramTimes { timestamp_ms, ..HistogramTimes::default() }, &mut message);
    message
}

/// A batch of floats and of histograms, each a ref and a message.
fn both(number: u64, floats: &[(u32, i64, f64)], histograms: &[(u32, Vec<u8>)]) -> v1::Batch {
    let mut batch = batch(number, floats);
    let mut ref_before = 0;
    for (stream_ref, message) in histograms {
        batch.histogram_ref_deltas.push(*stream_ref as i32 - ref_before);
        batch.histograms.push(message.clone().into());
        ref_before = *stream_ref as i32;
    }
    batch
}

fn read(message: &[u8]) -> (i64, Histogram) {
    let mut read = Histogram::default();
    let times = read.read_message(message).unwrap();
    (times.timestamp_ms, read)
}

/// The histograms of a series, by remote read and by `Select`, which agree.
async fn histograms(node: &Node, name: &str) -> Vec<(i64, Histogram)> {
    let matchers = [("__name__", silverback_proto::prometheus::label_matcher::Type::Eq, name)];
    let answer = ask(node, vec![query(&matchers, (i64::MIN, i64::MAX))], &[]);
    let body = snap::raw::Decoder::new().decompress_vec(&answer.body).unwrap();
    let response = ReadResponse::decode(&body[..]).unwrap();
    let of_series = response.results[0].timeseries.iter().flat_map(|series| &series.histograms);
    let by_remote_read: Vec<_> = of_series.map(|histogram| read(&histogram.encode_to_vec())).collect();
    let request = v1::SelectRequest {
        matchers: vec![v1::Matcher { kind: 1, name: "__name__".to_owned(), value: name.to_owned() }],
        range: Some(v1::TimeRange { min_ms: i64::MIN, max_ms: i64::MAX }),
        encoding: 0,
    };
    let mut responses =
        QueryClient::new(connect(node.address).await).select(request).await.unwrap().into_inner();
    let mut selected = Vec::new();
    while let Some(response) = responses.message().await.unwrap() {
        let of_series = response.series.iter().flat_map(|series| &series.histograms);
        selected.extend(of_series.map(|message| read(message)));
    }
    assert_eq!(selected, by_remote_read);
    selected
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_and_histograms_come_interleaved_and_again() {
    const BATCHES: i64 = 50;

    let node = Node::start(3);
    let begin = now_ms() - 10 * BATCHES;
    let defined = || vec![series(0, "a"), series(1, "b"), series(2, "mixed")];
    let batch = |i: i64| {
        let at = begin + 10 * i;
        let floats = [(0, at, i as f64), (2, at, 0.5)];
        let histograms = [(1, at), (2, at + 1), (1, at + 2)];
        let made = histograms.map(|(stream_ref, at)| (stream_ref, histogram(at, &valid(i as u64))));
        match i % 3 {
            0 => both(i as u64 + 1, &floats, &made),
            1 => both(i as u64 + 1, &[], &made),
            _ => both(i as u64 + 1, &floats, &[]),
        }
    };
    let of_kind = |takes: fn(i64) -> bool| (0..BATCHES).filter(|i| takes(*i)).collect::<Vec<_>>();
    let (with_floats, with_histograms) = (of_kind(|i| i % 3 != 1), of_kind(|i| i % 3 != 2));
    for _time in 0..2 {
        let mut stream = OpenStream::open(&connect(node.address).await).await;
        assert!(stream.terms.native_histograms);
        stream.send(message(defined(), None)).await;
        for i in 0..BATCHES {
            stream.send(message(vec![], Some(batch(i)))).await;
        }
        let all = stream.until(BATCHES as u64).await;
        let written = 2 * with_floats.len() + 3 * with_histograms.len();
        assert_eq!((all.samples_written, all.refusals), (written as u64, vec![]));
        let floats = |value: fn(i64) -> f64| {
            with_floats.iter().map(|i| (begin + 10 * i, value(*i))).collect::<Vec<_>>()
        };
        assert_eq!(stored(&node, "a"), floats(|i| i as f64));
        assert_eq!(stored(&node, "mixed"), floats(|_| 0.5));
        let made = |i: &i64, after: i64| (begin + 10 * i + after, valid(*i as u64));
        let of_b: Vec<_> = with_histograms.iter().flat_map(|i| [made(i, 0), made(i, 2)]).collect();
        let of_mixed: Vec<_> = with_histograms.iter().map(|i| made(i, 1)).collect();
        let same = |found: Vec<(i64, Histogram)>, expect: &[(i64, Histogram)]| {
            assert_eq!(found.len(), expect.len());
            assert!(found.iter().zip(expect).all(|(a, b)| a.0 == b.0 && a.1.is_same(&b.1)), "{found:?}");
        };
        same(histograms(&node, "b").await, &of_b);
        same(histograms(&node, "mixed").await, &of_mixed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_histogram_is_refused_by_its_reason_between_good_samples() {
    let node = Node::start(2);
    let now = now_ms();
    let made = |change: fn(&mut Histogram)| {
        let mut one = valid(3);
        change(&mut one);
        histogram(now + 1, &one)
    };
    use RefusalReason::{
        Duplicate, HistogramBounds, HistogramCounts, HistogramSchema, HistogramSpans, HistogramTooLarge,
        MalformedHistogram, MissingName, TooFarInFuture, TooOld,
    };
    let bad = [
        (b"\xff".to_vec(), MalformedHistogram),
        (Vec::new(), TooOld),
        (histogram(i64::MAX, &valid(1)), TooFarInFuture),
        (histogram(now, &valid(9)), Duplicate),
        (made(|h| h.count = 4), HistogramCounts),
        (made(|h| h.positive.spans.clear()), HistogramSpans),
        (made(|h| h.bounds = vec![1.0]), HistogramBounds),
        (made(|h| h.schema = 53), HistogramSchema),
        (made(|h| h.positive.words = vec![0; HISTOGRAM_BUCKETS_MAX + 1]), HistogramTooLarge),
    ];
    let nameless = v1::SeriesDefinition { labels: vec![], r#ref: 7 };
    let mut stream = OpenStream::open(&connect(node.address).await).await;
    stream.send(message(vec![series(0, "a"), series(1, "b"), nameless], None)).await;
    stream.send(message(vec![], Some(both(1, &[], &[(1, histogram(now, &valid(1)))])))).await;
    assert_eq!(stream.until(1).await.samples_written, 1);
    let mut sent = vec![(7, histogram(now, &valid(1))), (7, histogram(now + 1, &valid(1)))];
    // Each twice, a good one around it.
    for (n, (message, _)) in (0..).zip(&bad) {
        sent.extend([(1, message.clone()), (0, histogram(now + n, &valid(n as u64))), (1, message.clone())]);
    }
    stream.send(message(vec![], Some(both(2, &[(0, now, 1.0), (1, now + 9, 2.0)], &sent)))).await;
    let all = stream.until(2).await;
    let good = bad.len() as u64;
    // Where a float is, no histogram can be: the first of them.
    assert_eq!(all.samples_written, good - 1 + 2);
    let mut expect: Vec<_> = bad.iter().map(|(_, reason)| (1, *reason, 2)).collect();
    expect.extend([(0, Duplicate, 1), (7, MissingName, 2)]);
    let mut told = std::collections::BTreeMap::new();
    for refusal in all.refusals.iter().filter(|refusal| refusal.batch_number == 2) {
        *told.entry((refusal.r#ref, refusal.reason())).or_insert(0) += refusal.samples;
    }
    let expect: std::collections::BTreeMap<_, u64> =
        expect.into_iter().map(|(stream_ref, reason, samples)| ((stream_ref, reason), samples)).collect();
    assert_eq!(told, expect);
    assert_eq!((stored(&node, "a"), stored(&node, "b")), (vec![(now, 1.0)], vec![(now + 9, 2.0)]));
    let times: Vec<_> = histograms(&node, "a").await.into_iter().map(|(at, _)| at - now).collect();
    assert_eq!(times, (1..good as i64).collect::<Vec<_>>());
    assert_eq!(histograms(&node, "b").await.len(), 1);
    let metrics = node.get("/metrics").text();
    let refused: f64 = metrics
        .lines()
        .filter(|line| line.starts_with("silverback_samples_refused_total{reason=\"malformed_histogram\""))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(refused, 2.0, "counted as any other");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_may_have_histograms_alone() {
    let node = Node::start(2);
    let now = now_ms();
    let request = v1::WriteRequest {
        series: vec![series(0, "alone")],
        batch: Some(both(0, &[], &[(0, histogram(now, &valid(1))), (0, b"\x08".to_vec())])),
    };
    let mut client = IngestClient::new(connect(node.address).await);
    let answer = client.write(request).await.unwrap().into_inner();
    assert_eq!(answer.samples_written, 1);
    let told: Vec<_> = answer.refusals.iter().map(|r| (r.r#ref, r.reason(), r.samples)).collect();
    assert_eq!(told, [(0, RefusalReason::MalformedHistogram, 1)]);
    assert_eq!(histograms(&node, "alone").await.len(), 1);
    let metrics = node.get("/metrics").text();
    let in_flight = metrics.lines().filter(|line| line.starts_with("silverback_write_in_flight_bytes{"));
    assert!(
        in_flight.clone().count() > 0 && in_flight.clone().all(|line| line.ends_with(" 0")),
        "its room is given back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_batch_stores_nothing() {
    let node = Node::start(1);
    let now = now_ms();
    let (good, float) = (histogram(now, &valid(1)), (0, now, 1.0));
    let mut uneven = both(1, &[float], &[(0, good.clone())]);
    uneven.histogram_ref_deltas.push(0);
    let many = vec![(0, Vec::new()); 20_000];
    for (bad, words) in [
        (uneven, "2 refs of native histograms, and 1 native histograms"),
        (both(1, &[float], &[(0, good.clone()), (3, good)]), "native histogram 1 of the batch has the ref 3"),
        (both(1, &[float], &many), "more than 16384 native histograms"),
    ] {
        let stream = OpenStream::open(&connect(node.address).await).await;
        stream.send(message(vec![series(0, "bad")], Some(bad))).await;
        let status = stream.finish().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(words), "{status}");
    }
    assert!(stored(&node, "bad").is_empty() && histograms(&node, "bad").await.is_empty());
}

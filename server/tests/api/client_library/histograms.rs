//! Native histograms among floats through the client and a kill: what was acknowledged is read back bit for bit, by
//! the client and by remote read.

use futures::TryStreamExt;
use prost::Message;
use silverback_client::histogram::{Buckets, Histogram, HistogramKind, Span};
use silverback_client::{Client, Matcher, RefusalReason, Series};
use silverback_node_test_support::written::{READ_HEADERS, query, read_body, start_ms};
use silverback_proto::prometheus::{ReadResponse, label_matcher::Type};

use crate::client_library::home;

const SAMPLES: i64 = 300;

fn integer(n: i64) -> Histogram {
    let words = vec![n as u64, 1, (-1_i64) as u64];
    let positive =
        Buckets { spans: vec![Span { offset: -3, length: 2 }, Span { offset: 1, length: 1 }], words };
    Histogram {
        schema: 3,
        count: 3 * n as u64 + 1,
        sum_bits: (n as f64 / 3.0).to_bits(),
        positive,
        ..Histogram::default()
    }
}

fn float(n: i64) -> Histogram {
    let bits = |count: f64| count.to_bits();
    Histogram {
        kind: HistogramKind::Float,
        schema: -53,
        count: bits(n as f64 * 1.5),
        sum_bits: 0x7ff8_0000_0000_1234,
        positive: Buckets {
            spans: vec![Span { offset: 0, length: 2 }],
            words: vec![bits(n as f64), bits(n as f64 / 2.0)],
        },
        bounds: vec![-0.25, 1.0 / 3.0],
        ..Histogram::default()
    }
}

#[track_caller]
fn check_same(found: &[(i64, Histogram)], start_ms: i64, make: fn(i64) -> Histogram) {
    assert_eq!(found.len(), SAMPLES as usize);
    for (n, (at, histogram)) in (0..).zip(found) {
        assert!(*at == start_ms + n && histogram.is_same(&make(n)), "{n}: {at} {histogram:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histograms_that_were_acknowledged_outlive_a_kill_bit_for_bit() {
    let home = home("client-histograms");
    let mut node = home.start_ready(&["--shards", "2"]);
    let start_ms = start_ms();
    let client = Client::connect(format!("http://{}", node.address())).await.unwrap();
    let writer = client.writer();
    let of = |name: &str| writer.series(name, [("job", "shop")]).unwrap();
    let (integers, floats, plain) = (of("integer"), of("float"), of("plain"));
    for n in 0..SAMPLES {
        writer.write_histogram(&integers, start_ms + n, &integer(n)).await.unwrap();
        writer.write(&plain, start_ms + n, n as f64).await.unwrap();
        writer.write_histogram(&floats, start_ms + n, &float(n)).await.unwrap();
    }
    let contradictory = Histogram { count: 1, ..Histogram::default() };
    writer.write_histogram(&plain, start_ms + SAMPLES, &contradictory).await.unwrap();
    let closed = writer.close().await.unwrap();
    assert_eq!(closed.samples_written, 3 * SAMPLES as u64);
    let [refusal] = &closed.refusals[..] else { panic!("{:?}", closed.refusals) };
    assert_eq!((refusal.reason, refusal.samples), (RefusalReason::HistogramCounts, 1));
    assert_eq!(refusal.labels[0].1, "plain");

    node.kill();
    let mut node = home.start_ready(&["--shards", "2"]);
    let client = Client::connect(format!("http://{}", node.address())).await.unwrap();
    // What is stored is accepted once more, in one message as on a stream.
    let again = Series::new("integer", [("job", "shop")]).histogram(start_ms + 5, integer(5));
    let written = client.write(&[again.sample(start_ms + SAMPLES, 0.5)]).await.unwrap();
    assert_eq!((written.samples_written, written.refusals), (2, vec![]));
    let matcher = Matcher::regex("__name__", "integer|float|plain");
    let found: Vec<_> =
        client.reader().select(&[matcher], start_ms..=i64::MAX).await.unwrap().try_collect().await.unwrap();
    assert_eq!(found.iter().map(|series| series.samples.len()).collect::<Vec<_>>(), [0, 1, 300]);
    check_same(&found[0].histograms, start_ms, float);
    check_same(&found[1].histograms, start_ms, integer);

    let body = read_body(vec![query(&[("job", Type::Eq, "shop")], (start_ms, i64::MAX))], &[]);
    let answer = node.post("/api/v1/read", &READ_HEADERS, &body);
    let bytes = snap::raw::Decoder::new().decompress_vec(&answer.body).unwrap();
    let response = ReadResponse::decode(&bytes[..]).unwrap();
    let read = |histogram: &silverback_proto::prometheus::Histogram| {
        let mut read = Histogram::default();
        let times = read.read_message(&histogram.encode_to_vec()).unwrap();
        (times.timestamp_ms, read)
    };
    let series = response.results[0].timeseries.iter();
    let found: Vec<Vec<_>> = series.map(|one| one.histograms.iter().map(read).collect()).collect();
    check_same(&found[0], start_ms, float);
    check_same(&found[1], start_ms, integer);
}

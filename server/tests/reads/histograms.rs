//! Native histograms that were written by every way in are read back by every way out, bit for bit.

use prost::Message;
use silverback::api::ingest::remote_write::Version;
use silverback_model::STALE_NAN_BITS;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, HistogramIter, HistogramKind, ResetHint, Span};
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, Series, VERSIONS, body, headers};
use silverback_node_test_support::written::{ask, frames_of, query, start_ms};
use silverback_proto::otlp::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use silverback_proto::otlp::metrics::v1::exponential_histogram_data_point::Buckets as DenseBuckets;
use silverback_proto::otlp::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use silverback_proto::prometheus::{self, ReadResponse};
use silverback_test_support::random::Random;

const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);

fn integer(n: u64) -> Histogram {
    let positive = Buckets {
        spans: vec![Span { offset: -3, length: 2 }, Span { offset: 1, length: 1 }],
        words: vec![n, 1, 0],
    };
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        zero_count: 2,
        count: 2 + n + 2 * (n + 1),
        sum_bits: (n as f64 / 3.0).to_bits(),
        positive,
        ..Histogram::default()
    }
}

fn gauge(n: u64) -> Histogram {
    let bits = |count: f64| count.to_bits();
    Histogram {
        kind: HistogramKind::Float,
        hint: ResetHint::Gauge,
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

/// 100 histograms of each, the last a staleness marker.
fn written(start_ms: i64) -> Vec<(&'static str, Vec<(i64, Histogram)>)> {
    let run = |make: fn(u64) -> Histogram, stale| {
        let mut all: Vec<_> = (0..100).map(|n| (start_ms + n as i64 * 1000, make(n))).collect();
        all[99].1 = Histogram { sum_bits: STALE_NAN_BITS, ..Histogram::stale(stale) };
        all
    };
    vec![("a", run(integer, HistogramKind::Integer)), ("b", run(gauge, HistogramKind::Float))]
}

fn message(timestamp_ms: i64, histogram: &Histogram) -> Vec<u8> {
    let mut message = Vec::new();
    histogram.put_message(HistogramTimes { timestamp_ms, ..HistogramTimes::default() }, &mut message);
    message
}

fn write(node: &Node, version: Version, all: &[(&'static str, Vec<(i64, Histogram)>)]) {
    let series = all.iter().map(|(name, own)| {
        let series = Series::new([("__name__", *name), ("job", "shop")]);
        own.iter().fold(series, |series, (at, histogram)| series.histogram(message(*at, histogram)))
    });
    let answer = node.post(PATH, &headers(version), &body(version, &series.collect::<Vec<_>>()));
    assert_eq!(answer.status, 204, "{}", answer.text());
    if version == Version::V2 {
        let told =
            |kind: &str| answer.header(&format!("x-prometheus-remote-write-{kind}-written")).to_owned();
        let expect = all.iter().map(|(_, own)| own.len()).sum::<usize>().to_string();
        assert_eq!((told("samples"), told("histograms")), ("0".to_owned(), expect));
    }
}

/// Read by SAMPLES.
fn read_histograms(node: &Node) -> Vec<(String, Vec<(i64, Histogram)>)> {
    let answer = ask(node, vec![query(&[], ALWAYS)], &[]);
    assert_eq!(answer.status, 200);
    let body = snap::raw::Decoder::new().decompress_vec(&answer.body).unwrap();
    let response = ReadResponse::decode(&body[..]).unwrap();
    let read = |histogram: &prometheus::Histogram| {
        let mut read = Histogram::default();
        let times = read.read_message(&histogram.encode_to_vec()).unwrap();
        (times.timestamp_ms, read)
    };
    let series = response.results[0].timeseries.iter();
    series.map(|one| (one.labels[0].value.clone(), one.histograms.iter().map(read).collect())).collect()
}

/// Out of the chunks of a stream.
fn read_chunks(node: &Node) -> Vec<(String, Vec<(i64, Histogram)>)> {
    let frames = frames_of(&ask(node, vec![query(&[], ALWAYS)], &[1]));
    let series = frames.iter().flat_map(|frame| &frame.chunked_series);
    let read = |chunk: &prometheus::Chunk| {
        let kind = HistogramKind::of_chunk_encoding(chunk.r#type as u8).expect("a chunk of histograms");
        let mut iter = HistogramIter::new(kind, &chunk.data);
        let mut all = Vec::new();
        while iter.samples_left() > 0 {
            let mut histogram = Histogram::default();
            all.push((iter.next_into(&mut histogram).unwrap(), histogram));
        }
        all
    };
    series.map(|one| (one.labels[0].value.clone(), one.chunks.iter().flat_map(read).collect())).collect()
}

#[track_caller]
fn check_same(found: &[(String, Vec<(i64, Histogram)>)], expect: &[(&'static str, Vec<(i64, Histogram)>)]) {
    assert_eq!(
        found.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        expect.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    for ((_, found), (_, expect)) in found.iter().zip(expect) {
        assert_eq!(found.len(), expect.len());
        let same = |((at, found), (expect_at, expect)): (&(i64, Histogram), &(i64, Histogram))| {
            at == expect_at
                && found.is_same(expect)
                && (found.hint == ResetHint::Gauge) == (expect.hint == ResetHint::Gauge)
        };
        assert!(found.iter().zip(expect).all(same), "{found:?}\n{expect:?}");
    }
}

#[test]
fn both_versions_of_remote_write_are_read_back_in_samples_and_in_chunks() {
    for (version, shards) in VERSIONS.into_iter().zip([1, 3]) {
        let (node, written) = (Node::start(shards), written(start_ms()));
        write(&node, version, &written);
        check_same(&read_histograms(&node), &written);
        check_same(&read_chunks(&node), &written);
        // A sender that sends it again gets the same answer.
        write(&node, version, &written);
        check_same(&read_histograms(&node), &written);
    }
}

/// Sends all of them in pieces, in an order of their own.
fn write_shuffled(node: &Node, version: Version, all: &[(&'static str, Vec<(i64, Histogram)>)], seed: u64) {
    let mut random = Random::new(seed);
    let pieces = |(name, own): &(&'static str, Vec<(i64, Histogram)>)| {
        own.chunks(3).map(|piece| vec![(*name, piece.to_vec())]).collect::<Vec<_>>()
    };
    let mut pieces: Vec<_> = all.iter().flat_map(pieces).collect();
    while !pieces.is_empty() {
        let place = random.below(pieces.len() as u64) as usize;
        write(node, version, &pieces.swap_remove(place));
        if random.once_in(10) {
            // A read among them changes nothing.
            read_chunks(node);
        }
    }
}

#[test]
fn those_that_come_late_are_read_in_their_place_by_every_way() {
    for (version, shards) in VERSIONS.into_iter().zip([1, 3]) {
        let (node, start) = (Node::start(shards), start_ms());
        let written = written(start);
        write_shuffled(&node, version, &written, 7);
        check_same(&read_histograms(&node), &written);
        check_same(&read_chunks(&node), &written);
        let line = node.get("/api/v1/export?match[]=a").text();
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        let times = parsed["histograms"].as_array().unwrap().iter().map(|pair| pair[0].as_i64().unwrap());
        assert!(times.eq((0..100).map(|n| start + n * 1000)), "{line}");
        let asked = format!("query=histogram_count(increase(a[20s]))&time={}", start as f64 / 1000.0 + 50.0);
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let answer = node.post("/api/v1/query", &form, asked.as_bytes()).json();
        assert_eq!(answer["data"]["result"][0]["value"][1], "60");
        let late = || {
            let metrics = node.get("/metrics").text();
            let own =
                metrics.lines().filter(|line| line.starts_with("silverback_out_of_order_samples_total{"));
            own.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>()
        };
        let told = late();
        assert!((100.0..200.0).contains(&told), "{told} were late");
        // All of it once more, in another order, is all stored already.
        write_shuffled(&node, version, &written, 8);
        check_same(&read_histograms(&node), &written);
        assert_eq!(late(), told);
    }
}

#[test]
fn expressions_are_evaluated_over_histograms() {
    let (node, start) = (Node::start(2), start_ms());
    write(&node, Version::V2, &written(start));
    let at = |second: i64| (start + second * 1000) as f64 / 1000.0;
    let ask = |expression: &str, second| {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let answer =
            node.post("/api/v1/query", &form, format!("query={expression}&time={}", at(second)).as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["data"]["result"][0].clone()
    };
    // Of the nth, 3n + 4 observations.
    assert_eq!(ask("histogram_count(a)", 50)["value"][1], "154");
    assert_eq!(ask("histogram_count(increase(a[20s]))", 50)["value"][1], "60");
    assert_eq!(ask("a", 7)["histogram"][1]["count"], "25");
    assert_eq!(ask("histogram_avg(b)", 4)["value"][1], "NaN");
    assert!(ask("a", 99).is_null(), "the last one is a staleness marker");
}

#[test]
fn floats_and_histograms_of_one_label_set_live_side_by_side() {
    let (node, start) = (Node::start(2), start_ms());
    let own = start + 1;
    let both = Series::new([("__name__", "a")]).sample(start, 1.5).histogram(message(own, &integer(1)));
    let stale = both.sample(start + 9, f64::from_bits(STALE_NAN_BITS));
    let answer = node.post(PATH, &headers(Version::V1), &body(Version::V1, &[stale]));
    assert_eq!(answer.status, 204, "{}", answer.text());
    check_same(&read_histograms(&node), &[("a", vec![(own, integer(1))])]);
    let frames = frames_of(&ask(&node, vec![query(&[], ALWAYS)], &[1]));
    let kinds: Vec<i32> = frames[0].chunked_series[0].chunks.iter().map(|chunk| chunk.r#type).collect();
    assert_eq!(kinds, [1, 2]);
    let line = node.get("/api/v1/export?match[]=a").text();
    let pair = format!("\"histograms\":[[{own},{{\"count\":\"7\",");
    assert!(line.contains("\"values\":[1.5,\"StaleNaN\"]") && line.contains(&pair), "{line}");
    let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
    let buckets = &parsed["histograms"][0][1]["buckets"];
    assert_eq!(buckets.as_array().unwrap().len(), 4, "{buckets}");
    assert_eq!(buckets[0], serde_json::json!([3, "-0.001", "0.001", "2"]));
}

#[test]
fn exponential_histograms_of_opentelemetry_are_stored_as_native_ones() {
    let (node, start) = (Node::start(2), start_ms());
    let point = |temporality: AggregationTemporality, count: u64, bucket_counts: Vec<u64>| {
        let point = ExponentialHistogramDataPoint {
            time_unix_nano: start as u64 * 1_000_000,
            scale: 9,
            count,
            sum: Some(7.5),
            zero_count: 1,
            positive: Some(DenseBuckets { offset: 0, bucket_counts }),
            ..ExponentialHistogramDataPoint::default()
        };
        let data =
            ExponentialHistogram { data_points: vec![point], aggregation_temporality: temporality as i32 };
        let metric = Metric {
            name: "took".into(),
            data: Some(metric::Data::ExponentialHistogram(data)),
            ..Metric::default()
        };
        let scope = ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![resource] };
        node.post(
            "/api/v1/otlp/v1/metrics",
            &[("content-type", "application/x-protobuf")],
            &request.encode_to_vec(),
        )
    };
    let answer = point(AggregationTemporality::Cumulative, 7, vec![1, 2, 3]);
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{}", answer.text());
    let found = read_histograms(&node);
    let (at, histogram) = &found[0].1[0];
    assert_eq!((found[0].0.as_str(), *at, histogram.schema, histogram.count), ("took", start, 8, 7));
    assert_eq!((histogram.sum(), histogram.zero_threshold), (7.5, 1e-128));
    let counts: Vec<_> = histogram.positive.counts(HistogramKind::Integer).collect();
    assert_eq!(counts, [(1, 3), (2, 3)]);
    for (temporality, count) in [(AggregationTemporality::Delta, 7), (AggregationTemporality::Cumulative, 6)]
    {
        let answer = point(temporality, count, vec![1, 2, 3]);
        assert_eq!(answer.status, 200);
        assert!(!answer.body.is_empty(), "it says that a point was refused");
    }
    assert_eq!(read_histograms(&node)[0].1.len(), 1);
    check_a_gauge_of_the_same_time_is_refused(&node, start);
}

/// Of two gauges the one whose name and time a histogram has is refused, and the answer names one point.
fn check_a_gauge_of_the_same_time_is_refused(node: &Node, start: i64) {
    let gauge = |name: &str| {
        let value = Some(number_data_point::Value::AsDouble(1.0));
        let time_unix_nano = start as u64 * 1_000_000;
        let point = NumberDataPoint { time_unix_nano, value, ..NumberDataPoint::default() };
        let data = Some(metric::Data::Gauge(Gauge { data_points: vec![point] }));
        Metric { name: name.into(), data, ..Metric::default() }
    };
    let scope = ScopeMetrics { metrics: vec![gauge("took"), gauge("taken")], ..ScopeMetrics::default() };
    let resource = ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
    let request = ExportMetricsServiceRequest { resource_metrics: vec![resource] };
    let headers = [("content-type", "application/x-protobuf")];
    let answer = node.post("/api/v1/otlp/v1/metrics", &headers, &request.encode_to_vec());
    let partial = ExportMetricsServiceResponse::decode(&answer.body[..]).unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected_data_points, 1, "{}", partial.error_message);
    let lines = node.get("/api/v1/export?match[]=%7B__name__=~%22took%7Ctaken%22%7D").text();
    assert_eq!(lines.matches("\"values\":[1]").count(), 1, "{lines}");
}

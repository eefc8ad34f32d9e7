//! Requests and what they become: numbers of data points, refusals, pauses, cuts.

use futures::executor::block_on;
use silverback_proto::otlp::collector::metrics::v1::ExportMetricsServiceRequest;
use silverback_proto::otlp::metrics::v1::number_data_point::Value;
use silverback_proto::otlp::metrics::v1::{
    Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric,
};

use super::*;

/// Counts what it gets.
#[derive(Default)]
struct Counts {
    series: usize,
    samples: usize,
    histograms: usize,
    refs: Vec<Option<u32>>,
    deltas: Vec<bool>,
    /// Each with how many samples came before.
    starts: Vec<(usize, i64)>,
}

impl SeriesSink for Counts {
    fn series(&mut self, _id: SeriesId, labels: LabelSpan, _samples: u32) {
        self.series += 1;
        self.refs.push(labels.stream_ref());
        self.deltas.push(labels.is_deltas());
    }

    fn sample(&mut self, _sample: Sample) {
        self.samples += 1;
    }

    fn start_timestamp(&mut self, start_ms: i64) {
        self.starts.push((self.samples, start_ms));
    }

    fn histogram(&mut self, _histogram: PartHistogram) {
        self.histograms += 1;
    }
}

fn run(bytes: &[u8]) -> (Result<Translation, WriteRejected>, Counts, usize) {
    run_with(CLASSIC, bytes)
}

const CLASSIC: Modes = Modes { delta: OtlpDelta::Cumulative, histograms: OtlpHistograms::Classic };

fn run_with(modes: Modes, bytes: &[u8]) -> (Result<Translation, WriteRejected>, Counts, usize) {
    let (mut sink, mut pauses) = (Counts::default(), 0);
    let pause = async |_: &Counts, _| {
        pauses += 1;
        Ok(())
    };
    let translation =
        block_on(translate(bytes, modes, &SeriesIdHasher::new(1, ""), &mut sink, &RefCell::default(), pause));
    (translation, sink, pauses)
}

fn points(count: i64) -> Vec<NumberDataPoint> {
    let point = |i| NumberDataPoint { value: Some(Value::AsInt(i)), time_unix_nano: 1, ..Default::default() };
    (0..count).map(point).collect()
}

fn request(data: Vec<metric::Data>) -> Vec<u8> {
    let metric = |data| Metric { name: "m".into(), data: Some(data), ..Metric::default() };
    let scope = ScopeMetrics { metrics: data.into_iter().map(metric).collect(), ..Default::default() };
    let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![resource] }.encode_to_vec()
}

#[test]
fn data_points_are_numbered_and_refused_ones_too() {
    let delta = Sum { data_points: points(2), aggregation_temporality: 1, is_monotonic: true };
    let gauge = || metric::Data::Gauge(Gauge { data_points: points(2) });
    let body = request(vec![gauge(), metric::Data::Sum(delta), gauge()]);
    let (_, sink, _) = run(&body);
    assert_eq!(sink.deltas, [false, false, true, true, false, false]);
    let (translation, sink, _) = run_with(Modes { delta: OtlpDelta::Refuse, ..CLASSIC }, &body);
    let translation = translation.unwrap();
    assert_eq!((translation.points, translation.refused.counts.total()), (6, 2));
    assert_eq!(sink.refs, [0, 1, 4, 5].map(Some));
    assert_eq!((sink.series, sink.samples, translation.labels.len()), (4, 4, 4));
}

#[test]
fn histograms_with_explicit_bounds_become_classic_or_native_ones() {
    let histogram = |aggregation_temporality| {
        let point = HistogramDataPoint {
            explicit_bounds: vec![1.0],
            bucket_counts: vec![1, 2],
            count: 3,
            sum: Some(4.0),
            ..HistogramDataPoint::default()
        };
        metric::Data::Histogram(Histogram { data_points: vec![point], aggregation_temporality })
    };
    let body = request(vec![histogram(1), histogram(2)]);
    let run = |histograms| {
        let (translation, sink, _) = run_with(Modes { histograms, ..CLASSIC }, &body);
        let refused = translation.unwrap().refused.counts.get(RefusedReason::DeltaTemporality);
        (sink.samples, sink.histograms, refused)
    };
    // The buckets' series, and those of sum and count; deltas are added up in them alone.
    assert_eq!(run(OtlpHistograms::Classic), (8, 0, 0));
    assert_eq!(run(OtlpHistograms::Custom), (0, 1, 1));
}

#[test]
fn samples_of_what_is_no_delta_say_since_when_they_count() {
    let since = |point: NumberDataPoint| NumberDataPoint { start_time_unix_nano: 5_000_000, ..point };
    let sum = |temporality| {
        let data_points = points(1).into_iter().map(since).collect();
        metric::Data::Sum(Sum { data_points, aggregation_temporality: temporality, is_monotonic: true })
    };
    let point = HistogramDataPoint { start_time_unix_nano: 6_000_000, sum: Some(1.0), ..Default::default() };
    let histogram =
        metric::Data::Histogram(Histogram { data_points: vec![point], aggregation_temporality: 2 });
    let gauge = metric::Data::Gauge(Gauge { data_points: points(1).into_iter().map(since).collect() });
    let (_, sink, _) = run(&request(vec![gauge, sum(2), sum(1), histogram]));
    assert_eq!(sink.samples, 1 + 1 + 1 + 3);
    assert_eq!(sink.starts, [(1, 5), (2, 5), (4, 6), (5, 6), (6, 6)], "not of deltas");
}

#[test]
fn a_long_request_is_put_down_now_and_then() {
    let (translation, _, pauses) =
        run(&request(vec![metric::Data::Gauge(Gauge { data_points: points(5000) })]));
    assert_eq!(translation.unwrap().points, 5000);
    assert!(pauses > 5000 * 2 / SLICE_STEPS - 2, "{pauses}");
}

#[test]
fn what_is_empty_is_put_down_as_often() {
    const COUNT: usize = 20_000;
    let resource = ResourceMetrics { scope_metrics: Vec::new(), ..Default::default() };
    let resources = ExportMetricsServiceRequest { resource_metrics: vec![resource; COUNT] };
    let empty = metric::Data::Gauge(Gauge::default());
    // Fields that nobody knows, and data without data points, in one metric.
    let mut metric = Metric { name: "m".into(), data: Some(empty), ..Metric::default() }.encode_to_vec();
    (0..COUNT).for_each(|_| metric.extend([0x7a, 0]));
    (0..COUNT).for_each(|_| metric.extend([0x2a, 0]));
    let framed = |message: &[u8]| {
        let mut field = vec![0x12];
        prost::encode_length_delimiter(message.len(), &mut field).unwrap();
        [&field, message].concat()
    };
    let mut request = framed(&framed(&framed(&metric)));
    request[0] = 0x0a;
    for (bytes, steps) in [(resources.encode_to_vec(), COUNT), (request, 3 * COUNT / STEP_FIELDS)] {
        let (translation, sink, pauses) = run(&bytes);
        assert_eq!((translation.unwrap().points, sink.series), (0, 0));
        assert!(pauses >= steps / SLICE_STEPS, "{pauses} of {steps} steps");
    }
}

#[test]
fn a_name_that_is_far_too_long_is_refused_unmade_and_shown_in_part() {
    let name = "é".repeat(NAME_BYTES_MAX);
    let data = Some(metric::Data::Gauge(Gauge { data_points: points(1) }));
    let scope =
        ScopeMetrics { metrics: vec![Metric { name, data, ..Metric::default() }], ..Default::default() };
    let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
    let (translation, ..) =
        run(&ExportMetricsServiceRequest { resource_metrics: vec![resource] }.encode_to_vec());
    let refused = translation.unwrap().refused;
    assert_eq!(refused.counts.get(RefusedReason::LabelTooLong), 1);
    let shown = &refused.examples.first().unwrap().words;
    assert!(shown.len() < 2 * EXCERPT_BYTES + 128, "{shown}");
}

#[test]
fn every_cut_of_a_request_is_malformed_or_a_request() {
    let whole = request(vec![metric::Data::Gauge(Gauge { data_points: points(3) })]);
    for end in 0..whole.len() {
        let (translation, _, _) = run(&whole[..end]);
        match translation {
            Ok(translation) => assert_eq!((end, translation.points), (0, 0)),
            Err(WriteRejected::Malformed(malformed)) => assert!(malformed.offset <= end),
            Err(other) => panic!("{other}"),
        }
    }
}

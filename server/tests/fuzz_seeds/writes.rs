//! Requests: usual ones, odd ones that are good all the same, and bad ones.

use prost::Message;
use silverback_proto::otlp::collector::metrics::v1::ExportMetricsServiceRequest;
use silverback_proto::otlp::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value};
use silverback_proto::otlp::metrics::v1::metric::Data;
use silverback_proto::otlp::metrics::v1::number_data_point::Value as Number;
use silverback_proto::otlp::metrics::v1::summary_data_point::ValueAtQuantile;
use silverback_proto::otlp::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary,
    SummaryDataPoint,
};
use silverback_proto::otlp::resource::v1::Resource;
use silverback_proto::v1;
use silverback_test_support::wire::{field, label, number, refs, sample, series_v1, series_v2, symbols};

use crate::{START_MS, Seeds};

/// An exemplar with these labels.
fn exemplar(labels: &[u8]) -> Vec<u8> {
    let value = [&[2 << 3 | 1][..], &0.5_f64.to_le_bytes()].concat();
    [labels, &value, &number(3, START_MS as u64)].concat()
}

/// Remote write 1.
pub(crate) fn remote_write_v1() -> Seeds {
    let labels = [label(b"__name__", b"up"), label(b"instance", b"a:9100"), label(b"job", b"node")].concat();
    let usual = series_v1(&[labels, sample(START_MS, 1.5)]).repeat(2);
    let odd = [
        // A sample before its labels, these in another order, and one without a value.
        series_v1(&[
            sample(START_MS, 1.0),
            label(b"job", b"x"),
            label(b"__name__", b"up"),
            label(b"a", b""),
            sample(START_MS + 1, 2.0),
        ]),
        // Metadata, an exemplar and a native histogram.
        field(3, &[number(1, 1), field(2, b"up"), field(4, b"Whether."), field(5, b"s")].concat()),
        series_v1(&[
            label(b"__name__", b"h"),
            field(3, &exemplar(&label(b"id", b"x"))),
            field(4, &number(3, 1)),
        ]),
    ]
    .concat();
    let bad = [
        series_v1(&[label(b"", b"x"), sample(0, 0.0)]),
        series_v1(&[
            label(b"Zone", b"x"),
            label(b"__name__", b"up"),
            label(b"__name__", b"up"),
            sample(-1, 0.0),
        ]),
        series_v1(&[label(b"__name__", b"\xff"), sample(i64::MAX, f64::NAN)]),
    ]
    .concat();
    vec![("bad", bad), ("odd", odd), ("usual", usual)]
}

/// Remote write 2.
pub(crate) fn remote_write_v2() -> Seeds {
    let table = symbols(&[b"", b"__name__", b"up", b"job", b"a"]);
    let said = [number(1, 1), number(3, 4), number(4, 3)].concat();
    let beside = [field(4, &exemplar(&refs(&[3, 4]))), field(5, &said)].concat();
    let series = series_v2(&[refs(&[1, 2, 3, 4]), sample(START_MS, 1.5), beside]);
    let usual = [table.clone(), series.repeat(2)].concat();
    // The table after the series, references not packed, a time of creation.
    let unpacked = [number(1, 3), number(1, 4), refs(&[1, 2])].concat();
    let odd = [series_v2(&[unpacked, sample(START_MS, 1.0), number(6, 5)]), table.clone()].concat();
    let bad = [
        table,
        series_v2(&[refs(&[1, 2, 3]), sample(START_MS, 1.0)]),
        series_v2(&[refs(&[1, 2, 3, 9]), field(3, &[])]),
        series_v2(&[refs(&[1, 2]), sample(1, 1.0), field(3, &[])]),
    ]
    .concat();
    vec![("bad", bad), ("odd", odd), ("usual", usual)]
}

/// Requests of Thanos' routers: of one tenant, of several, both, and what is refused.
pub(crate) fn thanos() -> Seeds {
    let [bad, odd, usual] =
        remote_write_v1().try_into().map(|seeds: [_; 3]| seeds.map(|(_, bytes)| bytes)).expect("three");
    let tenant = field(2, b"default-tenant");
    let part = |bytes: &[u8]| field(4, &[bytes, &tenant].concat());
    let one = [&usual[..], &tenant, &number(3, 1)].concat();
    let both = [&bad[..], &part(&usual), &number(3, 2)].concat();
    // A part whose fields of tomorrow stand among its series.
    let parts = [part(&usual), part(&odd), part(&[field(6, b"x"), bad.clone()].concat())].concat();
    let foreign = [part(&usual), field(4, &[&usual[..], &field(2, b"other")].concat())].concat();
    vec![("both", both), ("foreign", foreign), ("one", one), ("parts", parts), ("tomorrow", field(5, &usual))]
}

/// Snappy's block format: a literal, copies, and a length that isn't there.
pub(crate) fn snappy() -> Seeds {
    let compress = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
    let request = remote_write_v1().pop().expect("the usual one").1;
    let compressed = compress(&request.repeat(20));
    let cut = compressed[..compressed.len() / 2].to_vec();
    vec![
        ("copies", compressed),
        ("cut", cut),
        ("empty", compress(b"")),
        ("literal", compress(b"hello")),
        ("too-large", vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
    ]
}

/// A float of the first ref at the first time.
fn at_once_value() -> Vec<u8> {
    [number(2, 0), field(5, &1f64.to_le_bytes())].concat()
}

/// Batches and definitions: the target reads all bytes as either.
pub(crate) fn grpc_ingest() -> Seeds {
    let batch = v1::Batch {
        number: 1,
        base_timestamp_ms: START_MS,
        ref_deltas: vec![0, 1, 1, -2],
        timestamp_deltas_ms: vec![0, 0, 15_000, 1],
        values: vec![1.0, -0.5, f64::INFINITY, 1e300],
        ..v1::Batch::default()
    };
    let histograms = vec![&[8, 3, 0x30, 3][..], &[], &[0xff]];
    let both = v1::Batch {
        histogram_ref_deltas: vec![3, 0, -2],
        histograms: histograms.into_iter().map(|message| message.to_vec().into()).collect(),
        ..batch.clone()
    };
    let alone = v1::Batch { ref_deltas: vec![], timestamp_deltas_ms: vec![], values: vec![], ..both.clone() };
    let uneven = v1::Batch { histogram_ref_deltas: vec![1], ..both.clone() };
    // Refs one by one, between the histograms.
    let scattered = [number(6, 2), field(7, b"h"), at_once_value(), number(6, 1), field(7, b"")].concat();
    let at_once = v1::Batch { timestamp_deltas_ms: Vec::new(), ..batch.clone() };
    let below_zero = v1::Batch { ref_deltas: vec![-1, 1, 1, 1], ..batch.clone() };
    let named = |labels: &[(&str, &str)]| {
        let label = |(name, value): &(&str, &str)| v1::Label { name: (*name).into(), value: (*value).into() };
        v1::SeriesDefinition { r#ref: 7, labels: labels.iter().map(label).collect() }.encode_to_vec()
    };
    let definition = named(&[("__name__", "up"), ("job", "node")]);
    // Of a name that stands twice the last counts.
    let name_twice = [&definition[..], b"\x0a\x0f\x0a\x02\xff\xfe\x0a\x04zone\x12\x03eu1"].concat();
    vec![
        ("at-once", at_once.encode_to_vec()),
        ("batch", batch.encode_to_vec()),
        ("histograms", both.encode_to_vec()),
        ("histograms-alone", alone.encode_to_vec()),
        ("histograms-scattered", scattered),
        ("histograms-uneven", uneven.encode_to_vec()),
        ("below-zero", below_zero.encode_to_vec()),
        ("definition", definition),
        ("name-twice", name_twice),
        ("disordered", named(&[("job", "node"), ("empty", ""), ("__name__", "up"), ("höhe", "日本")])),
        // A ref's delta of more than 32 bits, which are cut off before it gets its sign.
        ("long-delta", [field(2, &[0x8a, 0x80, 0x80, 0x80, 0x10]), field(5, &1f64.to_le_bytes())].concat()),
    ]
}

/// OTLP: a metric of each kind, of a resource and a scope with attributes.
pub(crate) fn otlp() -> Seeds {
    let request = |metrics: Vec<Metric>| {
        let text = |text: &str| AnyValue { value: Some(Value::StringValue(text.into())) };
        let attribute = |key: &str, value: &str| KeyValue { key: key.into(), value: Some(text(value)) };
        let resource = Resource {
            attributes: vec![attribute("service.name", "shop"), attribute("host.name", "a")],
            ..Resource::default()
        };
        let scope = InstrumentationScope { name: "library".into(), ..InstrumentationScope::default() };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource_metrics =
            vec![ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() }];
        ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
    };
    let metric = |name: &str, unit: &str, data: Data| Metric {
        name: name.into(),
        unit: unit.into(),
        data: Some(data),
        ..Metric::default()
    };
    let cumulative = AggregationTemporality::Cumulative as i32;
    let time = START_MS as u64 * 1_000_000;
    let point =
        |value| NumberDataPoint { time_unix_nano: time, value: Some(value), ..NumberDataPoint::default() };
    let sum = |temporality| Sum {
        data_points: vec![point(Number::AsInt(7)), point(Number::AsDouble(1.5))],
        aggregation_temporality: temporality,
        is_monotonic: true,
    };
    let numbers = request(vec![
        metric(
            "room.temperature",
            "Cel",
            Data::Gauge(Gauge { data_points: vec![point(Number::AsDouble(21.5))] }),
        ),
        metric("http.requests", "1", Data::Sum(sum(cumulative))),
    ]);
    let histogram = HistogramDataPoint {
        time_unix_nano: time,
        count: 3,
        sum: Some(4.5),
        explicit_bounds: vec![1.0, 2.0],
        bucket_counts: vec![1, 1, 1],
        ..HistogramDataPoint::default()
    };
    let quantile = ValueAtQuantile { quantile: 0.99, value: 2.0 };
    let summary = SummaryDataPoint {
        time_unix_nano: time,
        count: 3,
        sum: 4.5,
        quantile_values: vec![quantile],
        ..Default::default()
    };
    let histograms = request(vec![
        metric(
            "http.duration",
            "s",
            Data::Histogram(Histogram {
                data_points: vec![histogram.clone()],
                aggregation_temporality: cumulative,
            }),
        ),
        metric("rpc.duration", "ms", Data::Summary(Summary { data_points: vec![summary] })),
    ]);
    let bad_buckets = HistogramDataPoint { bucket_counts: vec![1], ..histogram };
    let exponential = ExponentialHistogram {
        data_points: vec![ExponentialHistogramDataPoint::default()],
        aggregation_temporality: cumulative,
    };
    let refused = request(vec![
        metric("delta", "", Data::Sum(sum(AggregationTemporality::Delta as i32))),
        metric("!", "", Data::Gauge(Gauge { data_points: vec![NumberDataPoint::default()] })),
        metric("e", "", Data::ExponentialHistogram(exponential)),
        metric(
            "b",
            "",
            Data::Histogram(Histogram {
                data_points: vec![bad_buckets],
                aggregation_temporality: cumulative,
            }),
        ),
    ]);
    vec![("histograms", histograms), ("numbers", numbers), ("refused", refused)]
}

#[test]
fn usual_requests_are_what_they_are_called() {
    let of = |seeds: Seeds, name: &str| seeds.into_iter().find(|(own, _)| *own == name).expect("a seed").1;
    let request =
        silverback_proto::prometheus::WriteRequest::decode(&of(remote_write_v1(), "usual")[..]).unwrap();
    assert_eq!((request.timeseries.len(), request.timeseries[0].samples.len()), (2, 1));
    let request = silverback_proto::write_v2::Request::decode(&of(remote_write_v2(), "usual")[..]).unwrap();
    assert_eq!((request.timeseries.len(), request.symbols.len()), (2, 5));
    assert_eq!(v1::Batch::decode(&of(grpc_ingest(), "batch")[..]).unwrap().values.len(), 4);
    let batch = v1::Batch::decode(&of(grpc_ingest(), "histograms-scattered")[..]).unwrap();
    assert_eq!((batch.histogram_ref_deltas, batch.histograms.len(), batch.values.len()), (vec![1, -1], 2, 1));
    let request = ExportMetricsServiceRequest::decode(&of(otlp(), "numbers")[..]).unwrap();
    assert_eq!(request.resource_metrics[0].scope_metrics[0].metrics.len(), 2);
}

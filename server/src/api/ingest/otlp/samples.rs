//! What a data point becomes: one sample, or those of a histogram's or a summary's series. Knows
//! nothing of names but their suffixes.

use prost::{DecodeError, Message};
use silverback_proto::otlp::common::v1::KeyValue;
use silverback_proto::otlp::metrics::v1::number_data_point::Value;
use silverback_proto::otlp::metrics::v1::{
    DataPointFlags, Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint,
    SummaryDataPoint, exemplar, exponential_histogram_data_point,
};

use super::attributes::text;
use silverback_model::histogram::explicit::ExplicitPoint;
use silverback_model::histogram::exponential::{DenseBuckets, ExponentialPoint};
use silverback_model::histogram::{Histogram, HistogramError};
use silverback_model::limits::EXEMPLAR_LABEL_CHARS_MAX;
use silverback_model::{RefusedReason, STALE_NAN_BITS};

/// A data point as far as it is stored.
#[derive(Debug)]
pub(crate) struct Point {
    /// Its labels to be.
    pub attributes: Vec<KeyValue>,
    /// When.
    pub timestamp_ms: i64,
    /// Since when it counts; 0: it isn't given.
    pub start_ms: i64,
    /// A sample for each of its series, those with a label of their own first.
    pub samples: Vec<PointSample>,
    /// Its native histogram, of an exponential one. Its owner judges it.
    pub histogram: Option<Histogram>,
    /// Those of its exemplars that Prometheus keeps, of sums and histograms, in the order of their samples.
    pub exemplars: Vec<PointExemplar>,
}

/// The sample of one of a data point's series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointSample {
    /// What is added to the metric's name.
    pub suffix: &'static str,
    /// The label that tells it from the point's other series.
    pub label: Option<(&'static str, String)>,
    /// Its value.
    pub value: f64,
}

/// An exemplar of a data point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointExemplar {
    /// Of which of the point's samples.
    pub sample: usize,
    /// When; 0: it isn't given.
    pub timestamp_ms: i64,
    /// What was observed; none: it says none.
    pub value: Option<f64>,
    /// The trace, and what else fits: as Prometheus' receiver has them.
    pub labels: Vec<(String, String)>,
}

/// A data point that is read; or why it can't be stored.
type Read = Result<Result<Point, RefusedReason>, DecodeError>;

/// Reads a data point of a gauge or a sum.
pub(crate) fn read_number(bytes: &[u8]) -> Read {
    let point = NumberDataPoint::decode(bytes)?;
    let value = match point.value {
        _ if is_stale(point.flags) => f64::from_bits(STALE_NAN_BITS),
        Some(Value::AsDouble(value)) => value,
        Some(Value::AsInt(value)) => value as f64,
        None => return Ok(Err(RefusedReason::NoValue)),
    };
    Ok(Ok(Point {
        attributes: point.attributes,
        timestamp_ms: to_ms(point.time_unix_nano),
        start_ms: to_ms(point.start_time_unix_nano),
        samples: vec![PointSample { suffix: "", label: None, value }],
        histogram: None,
        exemplars: point.exemplars.iter().map(|one| exemplar(one, 0)).collect(),
    }))
}

/// Reads a data point of a histogram with explicit bounds.
pub(crate) fn read_histogram(bytes: &[u8]) -> Read {
    let point = HistogramDataPoint::decode(bytes)?;
    if !has_sound_buckets(&point) {
        return Ok(Err(RefusedReason::BadBuckets));
    }
    let value_of = value_or_stale(point.flags);
    let bucket = |bound: String, value| PointSample {
        suffix: "_bucket",
        label: Some(("le", bound)),
        value: value_of(value),
    };
    let mut samples = Vec::with_capacity(point.explicit_bounds.len() + 3);
    let mut up_to_bound = 0u64;
    for (bound, count) in point.explicit_bounds.iter().zip(&point.bucket_counts) {
        up_to_bound = up_to_bound.saturating_add(*count);
        samples.push(bucket(bound.to_string(), up_to_bound as f64));
    }
    let exemplars = in_buckets(&point);
    samples.push(bucket("+Inf".to_owned(), point.count as f64));
    samples.extend(point.sum.map(|sum| total("_sum", value_of(sum))));
    samples.push(total("_count", value_of(point.count as f64)));
    Ok(Ok(Point {
        attributes: point.attributes,
        timestamp_ms: to_ms(point.time_unix_nano),
        start_ms: to_ms(point.start_time_unix_nano),
        samples,
        histogram: None,
        exemplars,
    }))
}

/// Reads a data point of a histogram with explicit bounds, to become a native one.
pub(crate) fn read_custom(bytes: &[u8]) -> Read {
    let point = HistogramDataPoint::decode(bytes)?;
    if !has_sound_buckets(&point) {
        return Ok(Err(RefusedReason::BadBuckets));
    }
    let mut histogram = Histogram::default();
    let read = histogram.read_explicit(&ExplicitPoint {
        bounds: &point.explicit_bounds,
        counts: &point.bucket_counts,
        count: point.count,
        sum: point.sum.unwrap_or(0.0),
        is_stale: is_stale(point.flags),
    });
    let times = [point.start_time_unix_nano, point.time_unix_nano];
    Ok(of_native(read, histogram, point.attributes, times, &point.exemplars))
}

/// A data point's native histogram, once it was read, if it is a valid one.
fn of_native(
    read: Result<(), HistogramError>,
    histogram: Histogram,
    attributes: Vec<KeyValue>,
    [start_unix_nano, unix_nano]: [u64; 2],
    exemplars: &[Exemplar],
) -> Result<Point, RefusedReason> {
    read.and_then(|()| histogram.validate())?;
    Ok(Point {
        attributes,
        timestamp_ms: to_ms(unix_nano),
        start_ms: to_ms(start_unix_nano),
        samples: Vec::new(),
        histogram: Some(histogram),
        exemplars: exemplars.iter().map(|one| exemplar(one, 0)).collect(),
    })
}

/// Reads a data point of an exponential histogram.
pub(crate) fn read_exponential(bytes: &[u8]) -> Read {
    let point = ExponentialHistogramDataPoint::decode(bytes)?;
    let side = |buckets: &Option<exponential_histogram_data_point::Buckets>| {
        buckets.clone().map_or((0, Vec::new()), |buckets| (buckets.offset, buckets.bucket_counts))
    };
    let (positive, negative) = (side(&point.positive), side(&point.negative));
    let mut histogram = Histogram::default();
    let read = histogram.read_exponential(&ExponentialPoint {
        scale: point.scale,
        count: point.count,
        sum: point.sum.unwrap_or(0.0),
        zero_count: point.zero_count,
        positive: DenseBuckets { offset: positive.0, counts: &positive.1 },
        negative: DenseBuckets { offset: negative.0, counts: &negative.1 },
        is_delta: false,
        is_stale: is_stale(point.flags),
    });
    let times = [point.start_time_unix_nano, point.time_unix_nano];
    Ok(of_native(read, histogram, point.attributes, times, &point.exemplars))
}

/// Reads a data point of a summary.
pub(crate) fn read_summary(bytes: &[u8]) -> Read {
    let point = SummaryDataPoint::decode(bytes)?;
    let value_of = value_or_stale(point.flags);
    let quantiles = point.quantile_values.iter().map(|at| PointSample {
        suffix: "",
        label: Some(("quantile", at.quantile.to_string())),
        value: value_of(at.value),
    });
    let totals = [("_sum", point.sum), ("_count", point.count as f64)];
    let totals = totals.map(|(suffix, value)| total(suffix, value_of(value)));
    Ok(Ok(Point {
        samples: quantiles.chain(totals).collect(),
        attributes: point.attributes,
        timestamp_ms: to_ms(point.time_unix_nano),
        start_ms: to_ms(point.start_time_unix_nano),
        histogram: None,
        exemplars: Vec::new(),
    }))
}

/// Each exemplar with the bucket that it was counted in, which the bounds say: exemplars may come in any order.
fn in_buckets(point: &HistogramDataPoint) -> Vec<PointExemplar> {
    let bounds = &point.explicit_bounds;
    let bucket_of = |value: f64| bounds.partition_point(|bound| value > *bound);
    let of = |one: &Exemplar| {
        let exemplar = exemplar(one, 0);
        // What is no number is in the last one.
        let sample = exemplar.value.filter(|value| !value.is_nan()).map_or(bounds.len(), bucket_of);
        PointExemplar { sample, ..exemplar }
    };
    let mut exemplars: Vec<PointExemplar> = point.exemplars.iter().map(of).collect();
    exemplars.sort_by_key(|exemplar| exemplar.sample);
    exemplars
}

fn exemplar(one: &Exemplar, sample: usize) -> PointExemplar {
    let value = one.value.map(|value| match value {
        exemplar::Value::AsDouble(value) => value,
        exemplar::Value::AsInt(value) => value as f64,
    });
    PointExemplar { sample, timestamp_ms: to_ms(one.time_unix_nano), value, labels: exemplar_labels(one) }
}

/// The trace's and the span's ids; and all attributes, if they are not too long together.
fn exemplar_labels(one: &Exemplar) -> Vec<(String, String)> {
    let ids = [("trace_id", &one.trace_id), ("span_id", &one.span_id)];
    let ids = ids.into_iter().filter(|(_, id)| id.iter().any(|byte| *byte != 0));
    let mut labels: Vec<(String, String)> = ids.map(|(name, id)| (name.to_owned(), hex(id))).collect();
    let ids_count = labels.len();
    let attributes = one.filtered_attributes.iter().take(EXEMPLAR_LABEL_CHARS_MAX + 1);
    labels.extend(attributes.map(|attribute| (attribute.key.clone(), text(attribute.value.as_ref()))));
    let chars = |(name, value): &(String, String)| name.chars().count() + value.chars().count();
    if labels.iter().map(chars).sum::<usize>() > EXEMPLAR_LABEL_CHARS_MAX {
        labels.truncate(ids_count);
    }
    labels
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn total(suffix: &'static str, value: f64) -> PointSample {
    PointSample { suffix, label: None, value }
}

/// Either no buckets at all, or one more than bounds, which ascend.
fn has_sound_buckets(point: &HistogramDataPoint) -> bool {
    let (bounds, buckets) = (&point.explicit_bounds, point.bucket_counts.len());
    let fit = if buckets == 0 { bounds.is_empty() } else { buckets == bounds.len() + 1 };
    fit && bounds.iter().all(|bound| bound.is_finite()) && bounds.is_sorted_by(|a, b| a < b)
}

fn is_stale(flags: u32) -> bool {
    flags & DataPointFlags::NoRecordedValueMask as u32 != 0
}

fn value_or_stale(flags: u32) -> impl Fn(f64) -> f64 {
    move |value| if is_stale(flags) { f64::from_bits(STALE_NAN_BITS) } else { value }
}

fn to_ms(unix_nano: u64) -> i64 {
    (unix_nano / 1_000_000) as i64
}

#[cfg(test)]
mod tests {
    use silverback_proto::otlp::metrics::v1::summary_data_point::ValueAtQuantile;

    use super::*;

    const STALE: u32 = 1;

    /// `suffix{label}=value`, the value in its bits where it isn't a number.
    fn told(read: Read) -> Result<Vec<String>, RefusedReason> {
        let tell = |sample: PointSample| {
            let label = sample.label.map_or(String::new(), |(name, value)| format!("{{{name}={value}}}"));
            let value = match sample.value.to_bits() {
                STALE_NAN_BITS => "stale".to_owned(),
                _number => sample.value.to_string(),
            };
            format!("{}{label} {value}", sample.suffix)
        };
        Ok(read.unwrap()?.samples.into_iter().map(tell).collect())
    }

    fn check(read: Read, expect: &[&str]) {
        assert_eq!(told(read).unwrap(), expect);
    }

    fn number(value: Option<Value>, flags: u32) -> Read {
        read_number(&NumberDataPoint { value, flags, ..NumberDataPoint::default() }.encode_to_vec())
    }

    #[test]
    fn numbers_become_floats_and_their_absence_the_staleness_marker() {
        check(number(Some(Value::AsDouble(1.5)), 0), &[" 1.5"]);
        check(number(Some(Value::AsInt(-3)), 0), &[" -3"]);
        check(number(None, STALE), &[" stale"]);
        check(number(Some(Value::AsInt(1)), STALE), &[" stale"]);
        assert_eq!(told(number(None, 0)), Err(RefusedReason::NoValue));
    }

    fn histogram(bounds: &[f64], buckets: &[u64], flags: u32) -> Read {
        let point = HistogramDataPoint {
            count: buckets.iter().sum(),
            sum: Some(2.5),
            explicit_bounds: bounds.to_vec(),
            bucket_counts: buckets.to_vec(),
            flags,
            ..HistogramDataPoint::default()
        };
        read_histogram(&point.encode_to_vec())
    }

    #[test]
    fn a_histogram_counts_up_over_its_buckets() {
        let expect = ["_bucket{le=0.5} 1", "_bucket{le=10} 3", "_bucket{le=+Inf} 6", "_sum 2.5", "_count 6"];
        check(histogram(&[0.5, 10.0], &[1, 2, 3], 0), &expect);
        check(histogram(&[], &[], 0), &["_bucket{le=+Inf} 0", "_sum 2.5", "_count 0"]);
        let stale = ["_bucket{le=1} stale", "_bucket{le=+Inf} stale", "_sum stale", "_count stale"];
        check(histogram(&[1.0], &[0, 0], STALE), &stale);
        let without_sum = HistogramDataPoint { count: 3, ..HistogramDataPoint::default() };
        check(read_histogram(&without_sum.encode_to_vec()), &["_bucket{le=+Inf} 3", "_count 3"]);
    }

    #[test]
    fn buckets_that_contradict_each_other_are_refused() {
        let contradictions: [(&[f64], &[u64]); 5] = [
            (&[1.0], &[]),
            (&[1.0], &[1]),
            (&[2.0, 1.0], &[1, 1, 1]),
            (&[f64::NAN], &[1, 1]),
            (&[f64::INFINITY], &[1, 1]),
        ];
        for (bounds, buckets) in contradictions {
            assert_eq!(told(histogram(bounds, buckets, 0)), Err(RefusedReason::BadBuckets), "{bounds:?}");
        }
    }

    #[test]
    fn a_summary_has_a_series_for_each_quantile() {
        let quantile_values = vec![ValueAtQuantile { quantile: 0.99, value: 7.0 }];
        let point = SummaryDataPoint { count: 4, sum: 9.5, quantile_values, ..SummaryDataPoint::default() };
        check(read_summary(&point.encode_to_vec()), &["{quantile=0.99} 7", "_sum 9.5", "_count 4"]);
    }

    #[test]
    fn times_are_cut_to_milliseconds() {
        let point =
            NumberDataPoint { time_unix_nano: 1_999_999, value: Some(Value::AsInt(1)), ..Default::default() };
        assert_eq!(read_number(&point.encode_to_vec()).unwrap().unwrap().timestamp_ms, 1);
    }

    #[test]
    fn every_kind_of_data_point_tells_since_when_it_counts() {
        const TIMES: (u64, u64) = (7_999_999, 9_000_000);
        let (start_time_unix_nano, time_unix_nano) = TIMES;
        let value = Some(Value::AsInt(1));
        let number = NumberDataPoint { start_time_unix_nano, time_unix_nano, value, ..Default::default() };
        let explicit = HistogramDataPoint { start_time_unix_nano, time_unix_nano, ..Default::default() };
        let exponential =
            ExponentialHistogramDataPoint { start_time_unix_nano, time_unix_nano, ..Default::default() };
        let summary = SummaryDataPoint { start_time_unix_nano, time_unix_nano, ..Default::default() };
        let points = [
            read_number(&number.encode_to_vec()),
            read_histogram(&explicit.encode_to_vec()),
            read_custom(&explicit.encode_to_vec()),
            read_exponential(&exponential.encode_to_vec()),
            read_summary(&summary.encode_to_vec()),
        ];
        for point in points {
            let point = point.unwrap().unwrap();
            assert_eq!((point.start_ms, point.timestamp_ms), (7, 9));
        }
    }
}

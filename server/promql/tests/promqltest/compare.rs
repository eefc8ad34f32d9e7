//! Whether an answer is what a script says.

use silverback_model::Labels;
use silverback_promql::histogram::FloatHistogram;
use silverback_promql::{MatrixSeries, SampleValue, Value, VectorSample};

use crate::script::Eval;
use crate::series::Item;

/// Relative differences below this don't count.
const EPSILON: f64 = 1e-6;

pub(crate) fn compare(eval: &Eval, value: &Value) -> Result<(), String> {
    match value {
        Value::Scalar { value, .. } => scalar(eval, *value),
        Value::Text { text, .. } => match &eval.string {
            Some(wanted) if wanted == text => Ok(()),
            wanted => Err(format!("text {text:?}, wanted {wanted:?}")),
        },
        Value::Vector(samples) => vector(eval, samples),
        Value::Matrix(series) => matrix(eval, series),
    }
}

/// The answer's second step of three.
pub(crate) fn compare_middle(eval: &Eval, value: &Value) -> Result<(), String> {
    let Value::Matrix(series) = value else { return Err("no matrix".to_owned()) };
    let at_ms = eval.start_ms;
    let mut samples = Vec::new();
    for one in series {
        let float =
            one.floats.iter().find(|(time, _)| *time == at_ms).map(|(_, value)| SampleValue::Float(*value));
        let histogram = one.histograms.iter().find(|(time, _)| *time == at_ms);
        let histogram = histogram.map(|(_, value)| SampleValue::Histogram(value.clone()));
        if let Some(value) = float.or(histogram) {
            samples.push(VectorSample { labels: one.labels.clone(), at_ms, value });
        }
    }
    match (eval.scalar, &samples[..]) {
        (Some(_), [VectorSample { value: SampleValue::Float(value), .. }]) => scalar(eval, *value),
        (Some(_), _) => Err("no scalar".to_owned()),
        (None, samples) => vector(eval, samples),
    }
}

fn scalar(eval: &Eval, value: f64) -> Result<(), String> {
    match eval.scalar {
        Some(wanted) if is_almost(wanted, value) => Ok(()),
        wanted => Err(format!("scalar {value}, wanted {wanted:?}")),
    }
}

fn vector(eval: &Eval, samples: &[VectorSample]) -> Result<(), String> {
    if eval.scalar.is_some() {
        return Err("a vector, wanted a scalar".to_owned());
    }
    for (place, sample) in samples.iter().enumerate() {
        let labels = &sample.labels;
        let found = eval.series.iter().position(|(wanted, _)| wanted == &**labels);
        let found = found.ok_or_else(|| format!("{labels} isn't wanted, has {:?}", sample.value))?;
        if eval.is_ordered && found != place {
            return Err(format!("{labels} is at {place}, wanted at {found}"));
        }
        let wanted = eval.series[found].1.first().ok_or("no value is wanted")?;
        if !is_wanted(&sample.value, wanted) {
            return Err(format!("{labels} has {}, wanted {wanted:?}", shown(&sample.value)));
        }
    }
    missing(eval, |labels| samples.iter().any(|sample| *sample.labels == *labels))
}

fn missing(eval: &Eval, has: impl Fn(&Labels) -> bool) -> Result<(), String> {
    match eval.series.iter().find(|(labels, _)| !has(labels)) {
        Some((labels, items)) => Err(format!("{labels} is missing, wanted {items:?}")),
        None => Ok(()),
    }
}

fn matrix(eval: &Eval, series: &[MatrixSeries]) -> Result<(), String> {
    if !series.is_sorted_by(|left, right| left.labels <= right.labels) {
        return Err("series aren't sorted".to_owned());
    }
    let (start_ms, end_ms, step_ms) = eval.range_vector.unwrap_or((eval.start_ms, eval.end_ms, eval.step_ms));
    for one in series {
        let found = eval.series.iter().find(|(labels, _)| *labels == *one.labels);
        let (labels, items) =
            found.ok_or_else(|| format!("{} isn't wanted, has {:?}", one.labels, one.floats))?;
        let mut points: Vec<(i64, SampleValue)> = one
            .floats
            .iter()
            .map(|(at_ms, value)| (*at_ms, SampleValue::Float(*value)))
            .chain(
                one.histograms.iter().map(|(at_ms, value)| (*at_ms, SampleValue::Histogram(value.clone()))),
            )
            .collect();
        points.sort_by_key(|(at_ms, _)| *at_ms);
        let wanted: Vec<_> = items
            .iter()
            .enumerate()
            .filter(|(_, item)| !matches!(item, Item::Omitted))
            .map(|(i, item)| (start_ms + i as i64 * step_ms, item))
            .collect();
        if wanted.iter().any(|(at_ms, _)| *at_ms > end_ms) {
            return Err("more values are wanted than there are steps".to_owned());
        }
        let is_same = points.len() == wanted.len()
            && points.iter().zip(&wanted).all(|(have, want)| have.0 == want.0 && is_wanted(&have.1, want.1));
        if !is_same {
            let have: Vec<_> =
                points.iter().map(|(at_ms, value)| format!("{}@{at_ms}", shown(value))).collect();
            return Err(format!("{labels} has {have:?}, wanted {wanted:?}"));
        }
    }
    missing(eval, |labels| series.iter().any(|one| *one.labels == *labels))
}

fn shown(value: &SampleValue) -> String {
    match value {
        SampleValue::Float(value) => value.to_string(),
        SampleValue::Histogram(histogram) => format!("{histogram:?}"),
    }
}

fn is_wanted(value: &SampleValue, wanted: &Item) -> bool {
    match (value, wanted) {
        (SampleValue::Float(value), Item::Float(wanted)) => is_almost(*wanted, *value),
        (SampleValue::Histogram(value), Item::Histogram(wanted, is_hinted)) => {
            is_same_histogram(wanted, value) && (!is_hinted || wanted.reset_hint == value.reset_hint)
        }
        _ => false,
    }
}

fn is_same_histogram(wanted: &FloatHistogram, found: &FloatHistogram) -> bool {
    let same_buckets = |wanted: &[(i32, f64)], found: &[(i32, f64)]| {
        let present = |buckets: &[(i32, f64)]| -> Vec<(i32, f64)> {
            buckets.iter().copied().filter(|(_, count)| *count != 0.0).collect()
        };
        let (wanted, found) = (present(wanted), present(found));
        wanted.len() == found.len()
            && wanted.iter().zip(&found).all(|(want, have)| want.0 == have.0 && is_almost(want.1, have.1))
    };
    wanted.schema == found.schema
        && is_almost(wanted.count, found.count)
        && is_almost(wanted.sum, found.sum)
        && is_almost(wanted.zero_count, found.zero_count)
        && wanted.zero_threshold == found.zero_threshold
        && wanted.custom_bounds == found.custom_bounds
        && same_buckets(&wanted.positive, &found.positive)
        && same_buckets(&wanted.negative, &found.negative)
}

fn is_almost(left: f64, right: f64) -> bool {
    if left == right || (left.is_nan() && right.is_nan()) {
        return true;
    }
    let (sum, difference) = (left.abs() + right.abs(), (left - right).abs());
    if left == 0.0 || right == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < EPSILON * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < EPSILON
}

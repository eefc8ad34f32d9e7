//! `histogram_quantile` and `histogram_fraction`, over classic histograms' buckets and over native histograms.

use std::rc::Rc;

use hashbrown::HashMap;
use silverback_model::Labels;

use super::buckets::{self, Bound, ClassicBuckets};
use super::calls::text;
use super::labels::{kept, metric_name, set};
use super::series::{ABSENT, EvalSeries, Merged, SeriesColumn, Sink, is_absent};
use super::{Collected, Evaluator};
use crate::error::QueryError;
use crate::functions::Function;
use crate::histogram::{FloatHistogram, NanEffect};
use crate::notes::{Monotonicity, Note};
use crate::number::{format_float, format_general};
use crate::plan::{Calling, Times};
use crate::span::TextSpan;

const BUCKET_LABEL: &str = "le";

/// What is asked of a histogram at each step.
enum HistogramQuery {
    /// A quantile; the label's value that names it.
    Quantile(Vec<f64>, Option<String>),
    Fraction(Vec<f64>, Vec<f64>),
}

/// Series of one histogram: its buckets' places with their bounds, and the native one's.
struct Group {
    labels: Rc<Labels>,
    drop_name: bool,
    bounds: Vec<(f64, usize)>,
    native: Option<usize>,
}

impl Evaluator<'_> {
    pub(super) async fn classic(
        &self,
        call: &Calling,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let vector = match call.function {
            Function::HistogramQuantiles => 0,
            Function::HistogramQuantile => 1,
            _fraction => 2,
        };
        let asked = self.asked(call, times).await?;
        let span = call.spans[vector];
        let collected = self.collect(&call.arguments[vector], times).await?;
        let groups = self.groups(&collected, span);
        let mut merged = Merged::new(self.budget);
        for asked in &asked {
            for group in &groups {
                let values = self.histogram_steps(group, &collected, asked, span, times).await?;
                if values.is_empty() {
                    continue;
                }
                let mut series =
                    EvalSeries { labels: Rc::clone(&group.labels), drop_name: group.drop_name, values };
                series.lose_name(self.is_delayed());
                if let (HistogramQuery::Quantile(_, Some(q)), Some(label)) =
                    (asked, call.arguments.get(1).and_then(text))
                {
                    let mut labels = (*series.labels).clone();
                    set(&mut labels, label, q);
                    series.labels = Rc::new(labels);
                }
                merged.push(series)?;
            }
        }
        self.pour(merged.into_series(), sink).await
    }

    async fn asked(&self, call: &Calling, times: Times) -> Result<Vec<HistogramQuery>, QueryError> {
        let mut asked = Vec::new();
        match call.function {
            Function::HistogramFraction => {
                let lower = self.scalar(&call.arguments[0], times).await?;
                asked.push(HistogramQuery::Fraction(lower, self.scalar(&call.arguments[1], times).await?));
            }
            Function::HistogramQuantile => {
                let quantiles = self.scalar(&call.arguments[0], times).await?;
                self.note_quantiles(&quantiles, call.spans[0]);
                asked.push(HistogramQuery::Quantile(quantiles, None));
            }
            _several => {
                for (at, argument) in call.arguments.iter().enumerate().skip(2) {
                    let quantiles = self.scalar(argument, times).await?;
                    self.note_quantiles(&quantiles, call.spans[at]);
                    let name = quantiles.first().map(|q| open_metrics_float(*q));
                    asked.push(HistogramQuery::Quantile(quantiles, name));
                }
            }
        }
        Ok(asked)
    }

    fn note_quantiles(&self, quantiles: &[f64], span: TextSpan) {
        for q in quantiles.iter().filter(|q| !(0.0..=1.0).contains(*q)) {
            self.notes.add(Note::InvalidQuantile(*q), span);
        }
    }

    fn groups(&self, collected: &Collected<'_>, span: TextSpan) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places = HashMap::new();
        for (at, series) in collected.series.iter().enumerate() {
            let has_floats = series.values.floats.iter().any(|value| !is_absent(*value));
            let labels = Rc::clone(&series.labels);
            if series.values.histograms.is_some() {
                let place = group_at(&mut groups, &mut places, labels, series.drop_name);
                groups[place].native = Some(at);
            }
            if !has_floats {
                continue;
            }
            let bound = series.labels.get(BUCKET_LABEL).unwrap_or_default();
            let Some(upper) = parse_bound(bound) else {
                let metric = if self.is_delayed() { metric_name(&series.labels) } else { "" };
                let note = Note::BadBucketLabel { metric: metric.to_owned(), value: bound.to_owned() };
                self.notes.add(note, span);
                continue;
            };
            let labels = Rc::new(kept(&series.labels, |name| name != BUCKET_LABEL));
            let place = group_at(&mut groups, &mut places, labels, series.drop_name);
            groups[place].bounds.push((upper, at));
        }
        groups.iter_mut().for_each(|group| group.bounds.sort_by(|left, right| left.0.total_cmp(&right.0)));
        groups
    }

    async fn histogram_steps(
        &self,
        group: &Group,
        collected: &Collected<'_>,
        asked: &HistogramQuery,
        span: TextSpan,
        times: Times,
    ) -> Result<SeriesColumn, QueryError> {
        let mut values = SeriesColumn::absent(times.count);
        let mut bounds: Vec<Bound> = Vec::with_capacity(group.bounds.len());
        let metric = metric_name(&group.labels);
        for (step, at_ms) in times.all().enumerate() {
            bounds.clear();
            for (upper, at) in &group.bounds {
                let count = collected.series[*at].values.floats[step];
                if !is_absent(count) {
                    bounds.push(Bound { upper: *upper, count });
                }
            }
            let native = group.native.and_then(|at| collected.series[at].values.histogram(step));
            values.floats[step] = match (native, bounds.is_empty()) {
                (None, true) => ABSENT,
                (Some(_), false) => {
                    let metric = if self.is_delayed() { metric } else { "" };
                    self.notes.add(Note::MixedClassicNative(metric.to_owned()), span);
                    ABSENT
                }
                (Some(native), true) => self.of_native(native, asked, step, metric, span),
                (None, false) => {
                    self.of_buckets(ClassicBuckets::new(&mut bounds), asked, step, at_ms, metric, span)
                }
            };
            self.pacing.spent(group.bounds.len() + 1).await?;
        }
        Ok(values)
    }

    fn of_native(
        &self,
        native: &FloatHistogram,
        asked: &HistogramQuery,
        step: usize,
        metric: &str,
        span: TextSpan,
    ) -> f64 {
        let shown = if self.is_delayed() { metric } else { "" };
        match asked {
            HistogramQuery::Quantile(quantiles, _) => {
                let (value, effect) = native.quantile(quantiles[step]);
                match effect {
                    NanEffect::None => {}
                    NanEffect::Result => self.notes.add(Note::QuantileOfNan(shown.to_owned()), span),
                    NanEffect::Skew => self.notes.add(Note::QuantileSkewedByNan(shown.to_owned()), span),
                }
                value
            }
            HistogramQuery::Fraction(lower, upper) => {
                let (value, has_nan) = native.fraction(lower[step], upper[step]);
                if has_nan {
                    self.notes.add(Note::FractionOfNan(shown.to_owned()), span);
                }
                value
            }
        }
    }

    fn of_buckets(
        &self,
        mut buckets: ClassicBuckets<'_>,
        asked: &HistogramQuery,
        step: usize,
        at_ms: i64,
        metric: &str,
        span: TextSpan,
    ) -> f64 {
        let quantiles = match asked {
            HistogramQuery::Quantile(quantiles, _) => quantiles,
            HistogramQuery::Fraction(lower, upper) => return buckets.fraction(lower[step], upper[step]),
        };
        let (value, fixed) = buckets.quantile(quantiles[step]);
        if let Some(buckets::Fixed { lowest, highest, difference }) = fixed {
            let metric = if self.is_delayed() { metric.to_owned() } else { String::new() };
            let monotonicity =
                Monotonicity { first_ms: at_ms, last_ms: at_ms, lowest, highest, difference, samples: 1 };
            self.notes.add(Note::ForcedMonotonicity { metric, monotonicity }, span);
        }
        value
    }
}

fn group_at(
    groups: &mut Vec<Group>,
    places: &mut HashMap<Rc<Labels>, usize>,
    labels: Rc<Labels>,
    drop_name: bool,
) -> usize {
    *places.entry(labels).or_insert_with_key(|labels| {
        groups.push(Group { labels: Rc::clone(labels), drop_name, bounds: Vec::new(), native: None });
        groups.len() - 1
    })
}

/// A bucket's bound as Go reads a float.
fn parse_bound(text: &str) -> Option<f64> {
    let plain = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    let is_number = plain == "inf"
        || plain == "infinity"
        || plain == "nan"
        || plain.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if is_number { text.parse().ok() } else { None }
}

/// As OpenMetrics writes a bound: with a point where it is whole.
fn open_metrics_float(value: f64) -> String {
    let text = if value.is_finite() { format_general(value) } else { format_float(value) };
    match value.is_finite() && !text.contains(['.', 'e']) {
        true => format!("{text}.0"),
        false => text,
    }
}

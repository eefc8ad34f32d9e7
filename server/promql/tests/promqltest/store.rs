//! Series in memory, as a script loads them.

use std::collections::BTreeMap;
use std::rc::Rc;

use silverback_model::{Labels, Sample};
use silverback_promql::histogram::{CUSTOM_BUCKETS_SCHEMA, FloatHistogram, ResetHint};
use silverback_promql::{Fetched, Run, Select};

use crate::series::Item;

#[derive(Debug, Default)]
pub(crate) struct Store {
    series: BTreeMap<Labels, Points>,
}

#[derive(Debug, Default)]
struct Points {
    floats: BTreeMap<i64, f64>,
    histograms: BTreeMap<i64, Rc<FloatHistogram>>,
}

impl Store {
    /// Adds values from the time 0 on.
    pub(crate) fn load(&mut self, labels: Labels, items: &[Item], step_ms: i64) {
        let points = self.series.entry(labels).or_default();
        for (i, item) in items.iter().enumerate() {
            let at_ms = i as i64 * step_ms;
            match item {
                Item::Omitted => {}
                Item::Float(value) => {
                    points.floats.insert(at_ms, *value);
                }
                Item::Histogram(histogram, _) => {
                    points.histograms.insert(at_ms, Rc::new((**histogram).clone()));
                }
            }
        }
    }

    /// Native histograms with custom bounds of the classic histograms among these series.
    pub(crate) fn load_custom(&mut self, loaded: &[(Labels, Vec<Item>)], step_ms: i64) {
        let mut classics: BTreeMap<(Labels, i64), Classic> = BTreeMap::new();
        for (labels, items) in loaded {
            let name = labels.get("__name__").unwrap_or_default();
            let Some((base, kind)) = ["_bucket", "_count", "_sum"]
                .into_iter()
                .find_map(|suffix| name.strip_suffix(suffix).map(|base| (base.to_owned(), suffix)))
            else {
                continue;
            };
            let upper = labels.get("le").and_then(|le| crate::series::number(le).ok());
            let pairs = labels.0.iter().filter(|(name, _)| &**name != "le" && &**name != "__name__").cloned();
            let target = Labels::from_pairs(pairs.chain([("__name__".into(), base.into())]));
            for (i, item) in items.iter().enumerate() {
                let Item::Float(value) = item else { continue };
                let classic = classics.entry((target.clone(), i as i64 * step_ms)).or_default();
                match (kind, upper) {
                    ("_bucket", Some(upper)) => classic.bounds.push((upper, *value)),
                    ("_count", _) => classic.count = Some(*value),
                    ("_sum", _) => classic.sum = *value,
                    _ => {}
                }
            }
        }
        for ((labels, at_ms), classic) in classics {
            let histogram = Rc::new(classic.into_histogram());
            self.series.entry(labels).or_default().histograms.insert(at_ms, histogram);
        }
    }

    pub(crate) fn fetch(&self, select: &Select) -> Vec<Fetched> {
        let matches = |labels: &Labels| {
            select.matchers.iter().all(|matcher| {
                let mut searching = matcher.searching();
                searching.matches(labels.get(&matcher.name).unwrap_or_default(), || false) == Some(true)
            })
        };
        let found = self.series.iter().filter(|(labels, _)| matches(labels));
        found.map(|(labels, points)| points.fetched(labels)).collect()
    }
}

impl Points {
    /// With the hints that Prometheus' storage gives: what it knows of each sample from the one before it.
    fn hinted(&self) -> Vec<(i64, Rc<FloatHistogram>)> {
        let mut before: Option<(i64, &FloatHistogram)> = None;
        let mut hinted = Vec::new();
        for (at_ms, histogram) in &self.histograms {
            let follows = before.filter(|(time, previous)| {
                !previous.is_stale() && self.floats.range(*time..*at_ms).next().is_none()
            });
            let plain = FloatHistogram { reset_hint: ResetHint::Unknown, ..(**histogram).clone() };
            let hint = match (histogram.reset_hint, follows) {
                (ResetHint::Gauge, _) => ResetHint::Gauge,
                (ResetHint::Reset, _) => ResetHint::Reset,
                (_, Some((_, previous))) if previous.reset_hint == ResetHint::Gauge => ResetHint::Unknown,
                // That it sees a reset itself isn't said.
                (_, Some((_, previous))) if plain.is_reset_after(previous) => ResetHint::Unknown,
                (_, Some(_)) => ResetHint::NotReset,
                (_, None) => ResetHint::Unknown,
            };
            before = Some((*at_ms, histogram));
            hinted.push((*at_ms, Rc::new(FloatHistogram { reset_hint: hint, ..plain })));
        }
        hinted
    }

    fn fetched(&self, labels: &Labels) -> Fetched {
        let floats = self.floats.iter().map(|(at_ms, value)| Sample::new(*at_ms, *value)).collect();
        let histograms = self.hinted();
        Fetched {
            labels: Rc::new(labels.clone()),
            runs: vec![Run::Floats(floats), Run::Histograms(histograms)],
        }
    }
}

#[derive(Debug, Default)]
struct Classic {
    bounds: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

impl Classic {
    fn into_histogram(mut self) -> FloatHistogram {
        self.bounds.sort_by(|left, right| left.0.total_cmp(&right.0));
        let total = self.count.or(self.bounds.last().map(|(_, count)| *count)).unwrap_or_default();
        if self.bounds.last().is_none_or(|(upper, _)| upper.is_finite()) {
            self.bounds.push((f64::INFINITY, total));
        }
        let mut before = 0.0;
        let mut positive = Vec::new();
        for (index, (_, count)) in self.bounds.iter().enumerate() {
            positive.push((index as i32, count - before));
            before = *count;
        }
        positive.retain(|(_, count)| *count != 0.0);
        let custom_bounds =
            self.bounds.iter().map(|(upper, _)| *upper).filter(|upper| upper.is_finite()).collect();
        FloatHistogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            count: total,
            sum: self.sum,
            positive,
            custom_bounds,
            ..FloatHistogram::default()
        }
    }
}

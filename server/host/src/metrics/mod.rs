//! The node's own metrics: families of samples, rendered for a scrape or stored by the node itself.
//!
//! Knows Prometheus' data model and its text format. Doesn't know what is counted, or where: each
//! part of the node makes its own families from plain numbers that it owns.
mod counters;
mod durations;
mod process;
mod text;

pub use counters::{Metric, MetricReading, families};
pub use durations::Durations;
pub use process::{PROC, process_families, resident_bytes};
pub use text::{CONTENT_TYPE, render};

use silverback_model::Labels;

/// What the numbers of a family mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, and begins at zero with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
}

/// All samples of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The metric's name.
    pub name: &'static str,
    /// What its numbers mean.
    pub kind: MetricKind,
    /// What it counts or measures, in a sentence.
    pub help: &'static str,
    /// The samples, in the order that they were added in.
    pub samples: Vec<FamilySample>,
}

/// One number of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilySample {
    /// What follows the family's name: `_bucket`, `_sum`, `_count` or nothing.
    pub suffix: &'static str,
    /// Label names and values, without the metric's name.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl Family {
    /// A family without samples.
    pub fn new(name: &'static str, kind: MetricKind, help: &'static str) -> Self {
        Self { name, kind, help, samples: Vec::new() }
    }

    /// A family of one sample without labels.
    pub fn single(name: &'static str, kind: MetricKind, help: &'static str, value: f64) -> Self {
        let mut family = Self::new(name, kind, help);
        family.push([], value);
        family
    }

    /// A family with a number for each value of one label.
    pub fn by(
        label: &'static str,
        name: &'static str,
        kind: MetricKind,
        help: &'static str,
        numbers: impl IntoIterator<Item = (impl ToString, f64)>,
    ) -> Self {
        let mut family = Self::new(name, kind, help);
        numbers.into_iter().for_each(|(value, number)| family.push([(label, value.to_string())], number));
        family
    }

    /// Adds a sample of a counter or a gauge.
    pub fn push<const N: usize>(&mut self, labels: [(&'static str, String); N], value: f64) {
        self.samples.push(FamilySample { suffix: "", labels: labels.to_vec(), value });
    }

    /// Adds a histogram: `counts` of what fell into each bucket, not cumulative, one for each of
    /// the ascending `upper_bounds` and one for what lies beyond.
    pub(crate) fn push_histogram<const N: usize>(
        &mut self,
        labels: [(&'static str, String); N],
        upper_bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        assert_eq!(counts.len(), upper_bounds.len() + 1, "one count for each bucket and one beyond");
        let mut cumulative = 0;
        for (bound, count) in upper_bounds.iter().chain([&f64::INFINITY]).zip(counts) {
            cumulative += count;
            let mut labels = labels.to_vec();
            labels.push(("le", text::number(*bound)));
            self.samples.push(FamilySample { suffix: "_bucket", labels, value: cumulative as f64 });
        }
        self.samples.push(FamilySample { suffix: "_sum", labels: labels.to_vec(), value: sum });
        self.samples.push(FamilySample {
            suffix: "_count",
            labels: labels.to_vec(),
            value: cumulative as f64,
        });
    }

    /// The samples as series, each with `target` labels (`job`, `instance`) that a scrape would add.
    pub fn series<'a>(
        &'a self,
        target: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = (Labels, f64)> + 'a {
        self.samples.iter().map(move |sample| {
            let name = format!("{}{}", self.name, sample.suffix);
            let own = sample.labels.iter().map(|(name, value)| (*name, value.as_str()));
            let pairs = own.chain(target.iter().copied()).chain([("__name__", name.as_str())]);
            // A label without a value isn't a label.
            (Labels::from_pairs(pairs.filter(|(_, value)| !value.is_empty())), sample.value)
        })
    }
}

/// What is running: always 1, the version in a label.
pub fn build_info() -> Family {
    let mut family = Family::new("silverback_build_info", MetricKind::Gauge, "The version that is running.");
    family.push([("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0);
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_series(family: &Family, target: &[(&str, &str)], expect: &[(&str, f64)]) {
        let series: Vec<_> =
            family.series(target).map(|(labels, value)| (labels.to_string(), value)).collect();
        let expect: Vec<_> = expect.iter().map(|(labels, value)| ((*labels).to_owned(), *value)).collect();
        assert_eq!(series, expect);
    }

    #[test]
    fn a_family_becomes_series_with_its_target_s_labels() {
        let mut family = Family::new("silverback_refused_samples_total", MetricKind::Counter, "");
        family.push([("reason", "too_old".to_owned())], 3.0);
        family.push([("reason", String::new())], 4.0);
        let target = [("job", "silverback"), ("instance", "a:9009")];
        let name = r#"{__name__="silverback_refused_samples_total", instance="a:9009", job="silverback""#;
        check_series(
            &family,
            &target,
            &[(&format!(r#"{name}, reason="too_old"}}"#), 3.0), (&format!("{name}}}"), 4.0)],
        );
    }

    #[test]
    fn a_histogram_becomes_cumulative_buckets_a_sum_and_a_count() {
        let mut family = Family::new("h", MetricKind::Histogram, "");
        family.push_histogram([], &[0.5, 2.0], &[1, 2, 3], 10.5);
        check_series(
            &family,
            &[],
            &[
                (r#"{__name__="h_bucket", le="0.5"}"#, 1.0),
                (r#"{__name__="h_bucket", le="2"}"#, 3.0),
                (r#"{__name__="h_bucket", le="+Inf"}"#, 6.0),
                (r#"{__name__="h_sum"}"#, 10.5),
                (r#"{__name__="h_count"}"#, 6.0),
            ],
        );
    }
}

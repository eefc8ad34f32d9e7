//! What a request must come to, by the plainest code from prost's reading of it.

use std::collections::BTreeMap;

use silverback::api::ingest::remote_write::RequestTally;
use silverback_model::{
    RefusedCounts, RefusedReason, Sample,
    limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX},
};
use silverback_proto::prometheus::{TimeSeries, WriteRequest};
use silverback_proto::{thanos, write_v2};

/// Labels and samples of one series.
pub(crate) type Series = (Vec<(String, String)>, Vec<Sample>);

/// What a request comes to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The good series that have samples, in order.
    pub series: Vec<Series>,
    /// Native histograms of good series.
    pub histograms: u64,
    /// Refused samples.
    pub refused: RefusedCounts,
    /// Series refused whole.
    pub series_refused: u64,
    /// Exemplars of good series.
    pub exemplars: u64,
    /// Metadata entries.
    pub metadata: u64,
}

impl Outcome {
    /// What the decoder made of it, to compare.
    pub(crate) fn of_decoder(series: Vec<Series>, tally: &RequestTally) -> Self {
        Self {
            series,
            histograms: tally.histograms,
            refused: tally.refused,
            series_refused: tally.series_refused,
            exemplars: tally.exemplars,
            metadata: tally.metadata,
        }
    }

    fn refuse(&mut self, reason: RefusedReason, samples: usize) {
        self.refused.add(reason, samples as u64);
        self.series_refused += 1;
    }

    fn keep(&mut self, labels: Vec<(String, String)>, samples: Vec<Sample>) {
        if !samples.is_empty() {
            self.series.push((labels, samples));
        }
    }
}

/// What a remote write 1 request comes to.
pub(crate) fn outcome_v1(request: &WriteRequest) -> Outcome {
    Outcome { metadata: request.metadata.len() as u64, ..outcome_of(&request.timeseries) }
}

/// What a Thanos router's request comes to; `None`: it is another tenant's than `own`.
pub(crate) fn outcome_thanos(request: &thanos::WriteRequest, own: &str) -> Option<Outcome> {
    let is_own = |tenant: &str| tenant.is_empty() || tenant == own;
    let parts = &request.timeseries_tenant_data;
    if parts.is_empty() {
        return is_own(&request.tenant).then(|| outcome_of(&request.timeseries));
    }
    parts
        .iter()
        .all(|part| is_own(&part.tenant))
        .then(|| outcome_of(parts.iter().flat_map(|part| &part.timeseries)))
}

fn outcome_of<'a>(series: impl IntoIterator<Item = &'a TimeSeries>) -> Outcome {
    let mut outcome = Outcome::default();
    for series in series {
        let labels = series.labels.iter().map(|l| (l.name.clone(), l.value.clone()));
        match check_labels(labels) {
            Err(reason) => outcome.refuse(reason, series.samples.len() + series.histograms.len()),
            Ok(labels) => {
                outcome.histograms += series.histograms.len() as u64;
                outcome.exemplars += series.exemplars.len() as u64;
                let samples = series.samples.iter().map(|s| Sample::new(s.timestamp, s.value));
                outcome.keep(labels, samples.collect());
            }
        }
    }
    outcome
}

/// What a remote write 2 request comes to.
pub(crate) fn outcome_v2(request: &write_v2::Request) -> Outcome {
    let mut outcome = Outcome::default();
    for series in &request.timeseries {
        let all = series.samples.len() + series.histograms.len();
        let labels = match resolve(&request.symbols, &series.labels_refs).and_then(check_labels) {
            Ok(labels) => labels,
            Err(reason) => {
                outcome.refuse(reason, all);
                continue;
            }
        };
        let has_samples =
            !series.samples.is_empty() || series.histograms.is_empty() && !series.exemplars.is_empty();
        if has_samples != series.histograms.is_empty() {
            outcome.refuse(RefusedReason::BadSeriesShape, all);
            continue;
        }
        outcome.histograms += series.histograms.len() as u64;
        outcome.exemplars += series.exemplars.len() as u64;
        outcome.metadata += u64::from(series.metadata.is_some());
        outcome.keep(labels, series.samples.iter().map(|s| Sample::new(s.timestamp, s.value)).collect());
    }
    outcome
}

/// The start timestamps of the good series' samples, 0 where one has none.
pub(crate) fn starts_v2(request: &write_v2::Request) -> Vec<Vec<i64>> {
    let alone = |series: &write_v2::TimeSeries| {
        let symbols = request.symbols.clone();
        outcome_v2(&write_v2::Request { symbols, timeseries: vec![series.clone()] })
    };
    let good = request.timeseries.iter().filter(|series| !alone(series).series.is_empty());
    good.map(|series| series.samples.iter().map(|sample| sample.start_timestamp).collect()).collect()
}

fn resolve(symbols: &[String], refs: &[u32]) -> Result<Vec<(String, String)>, RefusedReason> {
    if !refs.len().is_multiple_of(2) || refs.iter().any(|&r| r as usize >= symbols.len()) {
        return Err(RefusedReason::BadSymbolRef);
    }
    Ok(refs.chunks(2).map(|r| (symbols[r[0] as usize].clone(), symbols[r[1] as usize].clone())).collect())
}

fn check_labels(
    labels: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<(String, String)>, RefusedReason> {
    let labels: Vec<_> = labels.into_iter().collect();
    // More than these aren't looked at.
    for (name, value) in labels.iter().take(2 * LABELS_MAX) {
        if name.is_empty() {
            return Err(RefusedReason::EmptyLabelName);
        }
        if name.len() > LABEL_NAME_BYTES_MAX || value.len() > LABEL_VALUE_BYTES_MAX {
            return Err(RefusedReason::LabelTooLong);
        }
    }
    let with_value: Vec<_> = labels.iter().filter(|(_, value)| !value.is_empty()).cloned().collect();
    if with_value.len() > LABELS_MAX || labels.len() > 2 * LABELS_MAX {
        return Err(RefusedReason::TooManyLabels);
    }
    let by_name: BTreeMap<_, _> = with_value.iter().cloned().collect();
    if by_name.len() < with_value.len() {
        return Err(RefusedReason::DuplicateLabel);
    }
    if !by_name.contains_key("__name__") {
        return Err(RefusedReason::MissingName);
    }
    Ok(by_name.into_iter().collect())
}

//! A fleet's scrapes as remote write requests, one connection after another. It knows no files and
//! no sockets; the same options and start give the same bytes.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::body::BodyEncoder;
use crate::catalogue::Label;
use crate::encode::{Encoder, MetricType, RemoteWrite};
use crate::fleet::{Fleet, FleetError, FleetOptions};
use crate::label_order::LabelOrder;
use crate::replay::arrival::Arrival;
use crate::scrapes::{DefineSeries, Scrapes};
use serde::{Deserialize, Serialize};

/// What to generate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct GenerateOptions {
    /// Targets of the fleet
    #[arg(long, default_value_t = 200)]
    pub targets: usize,
    /// Series that each target exposes
    #[arg(long, default_value_t = 500)]
    pub series: usize,
    /// Scrapes of each target
    #[arg(long, default_value_t = 60)]
    pub rounds: u32,
    /// Time between two scrapes of a target
    #[arg(long, default_value_t = 15_000)]
    pub interval_ms: u32,
    /// First timestamp, ms since 1970; without it the last scrape was a minute ago
    #[arg(long)]
    pub start_ms: Option<i64>,
    /// Samples in a request, at most
    #[arg(long, default_value_t = 2000)]
    pub batch: usize,
    /// Connections that the targets are spread over
    #[arg(long, default_value_t = 8)]
    pub connections: usize,
    /// Version of remote write
    #[arg(long, default_value = "1")]
    pub remote_write: RemoteWrite,
    /// Seed of all values and offsets
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of the first target: another number makes other series
    #[arg(long, default_value_t = 0)]
    pub first_target: usize,
    /// The part of the targets, and so of the series, that is replaced by new ones in a minute of the
    /// samples' time: 0.1
    #[arg(long, default_value_t = 0.0)]
    #[serde(default)]
    pub churn: f64,
    /// Zipf's exponent: the n-th target is scraped in one of n^skew rounds, and targets are dealt out to the
    /// connections one by one, so that no connection has all that are scraped often
    #[arg(long, default_value_t = 0.0)]
    #[serde(default)]
    pub skew: f64,
    /// A further label of every series; may be given more than once
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    #[serde(default)]
    pub labels: Vec<Label>,
    /// In which order each series' labels are sent
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub label_order: LabelOrder,
    /// In which order the rounds arrive
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub arrival: Arrival,
    /// A native histogram of so many buckets in the place of each float; 0: floats
    #[arg(long, value_name = "BUCKETS", default_value_t = 0)]
    #[serde(default)]
    pub histograms: usize,
}

fn label(text: &str) -> Result<Label, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text}: not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// One request, ready to send.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Which connection sends it.
    pub connection: usize,
    /// The round that it is sent in: where these arrive by their time, the newest scrape round of its samples.
    pub round: u32,
    /// Its samples.
    pub samples: usize,
    /// The body's length before compression.
    pub raw_bytes: usize,
    /// The compressed body.
    pub body: &'a [u8],
}

/// Why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// Options that no fleet has.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// Requests without samples.
    #[error("batch must be at least 1")]
    EmptyBatch,
    /// A body too large for snappy.
    #[error("a request can't be compressed")]
    Compress(#[from] snap::Error),
    /// The receiver of the requests failed.
    #[error(transparent)]
    Write(#[from] std::io::Error),
}

/// What a command has that says nothing.
impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            targets: 200,
            series: 500,
            rounds: 60,
            interval_ms: 15_000,
            start_ms: None,
            batch: 2000,
            connections: 8,
            remote_write: RemoteWrite::V1,
            seed: 1,
            first_target: 0,
            churn: 0.0,
            skew: 0.0,
            labels: Vec::new(),
            label_order: LabelOrder::Sorted,
            arrival: Arrival::InOrder,
            histograms: 0,
        }
    }
}

impl GenerateOptions {
    /// Series of all targets.
    pub fn total_series(&self) -> usize {
        self.targets * self.series
    }

    /// Rounds that are sent.
    pub fn rounds_sent(&self) -> u32 {
        self.arrival.rounds_sent(self.rounds)
    }

    /// Fixes the start, so that the options alone give the bytes.
    pub fn with_fixed_start(mut self) -> Self {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let span_ms = i64::from(self.rounds) * i64::from(self.interval_ms);
        self.start_ms.get_or_insert(now_ms - span_ms - 60_000);
        self
    }

    fn share(&self, fleet: &Arc<Fleet>, connection: usize) -> Result<Scrapes, FleetError> {
        let share = if self.skew > 0.0 { Scrapes::dealt } else { Scrapes::new };
        share(Arc::clone(fleet), connection, self.connections)
    }

    fn fleet(&self) -> FleetOptions {
        FleetOptions {
            targets: self.targets,
            series_per_target: self.series,
            first_target: self.first_target,
            rounds: self.rounds,
            interval_ms: self.interval_ms,
            start_ms: self.start_ms.unwrap_or_default(),
            seed: self.seed,
            churn_per_minute: self.churn,
            skew: self.skew,
            labels: self.labels.clone(),
        }
    }
}

/// Generates every request, in the order in which its connection sends it. `emit` takes each.
pub fn generate<F>(options: &GenerateOptions, mut emit: F) -> Result<(), GenerateError>
where
    F: FnMut(Request<'_>) -> std::io::Result<()>,
{
    if options.batch == 0 {
        return Err(GenerateError::EmptyBatch);
    }
    let fleet = Arc::new(Fleet::new(options.fleet())?);
    // Nothing is emitted if some connection would be idle, or if there is none.
    options.share(&fleet, 0)?;
    for connection in 0..options.connections {
        let mut scrapes = options.share(&fleet, connection)?;
        let mut series = Series::new(options, connection);
        let mut samples = Vec::with_capacity(options.batch);
        let mut kept = Vec::new();
        while let Some(round) = scrapes.next_batch(options.batch, &mut samples, &mut series) {
            let body = series.encoder.encode(&samples)?;
            let (raw_bytes, body) = (body.raw_bytes, body.compressed);
            match options.arrival {
                Arrival::InOrder => {
                    emit(Request { connection, round, samples: samples.len(), raw_bytes, body })?;
                }
                Arrival::Backlog | Arrival::Twice => {
                    kept.push((round, (samples.len(), raw_bytes, body.to_vec())));
                }
            }
        }
        for (round, (samples, raw_bytes, body)) in options.arrival.arrange(options.rounds, kept) {
            emit(Request { connection, round, samples, raw_bytes, body: &body })?;
        }
    }
    Ok(())
}

/// The encoder of a connection's series, and what becomes of their labels' order before.
struct Series {
    encoder: BodyEncoder,
    order: LabelOrder,
    defined: usize,
}

impl Series {
    fn new(options: &GenerateOptions, connection: usize) -> Self {
        let GenerateOptions { remote_write, label_order, histograms, seed, .. } = *options;
        let encoder = match histograms {
            0 => BodyEncoder::new(remote_write),
            buckets => {
                let seed = seed.wrapping_add(connection as u64);
                BodyEncoder::of(Encoder::of_histograms(remote_write, buckets, seed))
            }
        };
        Self { encoder, order: label_order, defined: 0 }
    }
}

impl DefineSeries for Series {
    fn define(&mut self, slot: usize, labels: &[Label], metric_type: MetricType, help: &str) {
        let mut labels = labels.to_vec();
        self.order.arrange(&mut labels, self.defined);
        self.defined += 1;
        self.encoder.define(slot, &labels, metric_type, help);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::{Args, Command, FromArgMatches};
    use prost::Message;
    use silverback_proto::prometheus::WriteRequest;

    use super::*;

    pub(crate) fn small(remote_write: RemoteWrite) -> GenerateOptions {
        GenerateOptions {
            targets: 6,
            series: 50,
            rounds: 3,
            start_ms: Some(1_700_000_000_000),
            batch: 40,
            connections: 3,
            remote_write,
            ..GenerateOptions::default()
        }
    }

    #[test]
    fn the_defaults_are_those_of_a_command_that_says_nothing() {
        let command = GenerateOptions::augment_args(Command::new("generate"));
        let said = GenerateOptions::from_arg_matches(&command.get_matches_from(["generate"]));
        assert_eq!(said.expect("nothing is required"), GenerateOptions::default());
    }

    /// The label names of each series of each request.
    fn label_names(options: &GenerateOptions) -> Vec<Vec<String>> {
        let all = collect(options);
        let decoded = all.iter().map(|(.., body)| {
            let raw = snap::raw::Decoder::new().decompress_vec(body).expect("snappy's");
            WriteRequest::decode(raw.as_slice()).expect("a request")
        });
        let names =
            |labels: &[silverback_proto::prometheus::Label]| labels.iter().map(|l| l.name.clone()).collect();
        decoded.flat_map(|request| request.timeseries).map(|series| names(&series.labels)).collect()
    }

    #[test]
    fn labels_lose_their_order_and_none_is_lost() {
        let sorted = small(RemoteWrite::V1);
        let of_sorted = label_names(&sorted);
        assert!(of_sorted.iter().all(|names| names.is_sorted()));
        for label_order in [LabelOrder::AsScraped, LabelOrder::Shuffled] {
            let mut unsorted = label_names(&GenerateOptions { label_order, ..sorted.clone() });
            assert!(unsorted.iter().filter(|names| !names.is_sorted()).count() > unsorted.len() / 2);
            unsorted.iter_mut().for_each(|names| names.sort());
            assert_eq!(of_sorted, unsorted);
        }
    }

    #[test]
    fn every_series_has_the_further_labels() {
        let labels = vec![label("zzz=long=er").expect("a label")];
        let names = label_names(&GenerateOptions { labels, ..small(RemoteWrite::V1) });
        assert!(names.iter().all(|names| names.last().is_some_and(|last| last == "zzz")));
        assert!(label("zzz").is_err());
    }

    #[test]
    fn histograms_come_as_often_as_floats_and_make_larger_bodies() {
        let floats = small(RemoteWrite::V2);
        let histograms = GenerateOptions { histograms: 40, ..floats.clone() };
        let (of_floats, of_histograms) = (collect(&floats), collect(&histograms));
        let samples = |all: &[(usize, u32, usize, Vec<u8>)]| all.iter().map(|r| r.2).sum::<usize>();
        let bytes = |all: &[(usize, u32, usize, Vec<u8>)]| all.iter().map(|r| r.3.len()).sum::<usize>();
        assert_eq!(samples(&of_floats), samples(&of_histograms));
        assert!(bytes(&of_histograms) > bytes(&of_floats));
        assert_eq!(of_histograms, collect(&histograms));
    }

    #[test]
    fn churn_makes_other_bodies() {
        let still = small(RemoteWrite::V1);
        let churned = GenerateOptions { churn: 4.0, ..still.clone() };
        assert_ne!(collect(&still), collect(&churned));
    }

    #[test]
    fn a_skewed_fleet_s_first_targets_are_sent_more_often_and_not_over_one_connection() {
        let skewed = GenerateOptions { skew: 1.0, rounds: 60, ..small(RemoteWrite::V1) };
        let samples = |connection| -> usize {
            collect(&skewed).iter().filter(|request| request.0 == connection).map(|request| request.2).sum()
        };
        // Three connections have targets 1 and 4, 2 and 5, 3 and 6.
        for (connection, expected) in [(0, 50 * (60 + 15)), (1, 50 * (30 + 12)), (2, 50 * (20 + 10))] {
            let samples = samples(connection);
            assert!(samples.abs_diff(expected) <= 100, "{connection}: {samples}, not {expected}");
        }
    }

    fn collect(options: &GenerateOptions) -> Vec<(usize, u32, usize, Vec<u8>)> {
        let mut all = Vec::new();
        generate(options, |request| {
            all.push((request.connection, request.round, request.samples, request.body.to_vec()));
            Ok(())
        })
        .expect("options that can be met");
        all
    }

    #[test]
    fn every_series_is_sent_once_a_round() {
        for connections in [1, 3, 6, 7, 300] {
            let options = GenerateOptions { connections, ..small(RemoteWrite::V1) };
            let requests = collect(&options);
            assert_eq!(requests.iter().map(|r| r.2).sum::<usize>(), 6 * 50 * 3);
            assert_eq!(requests.last().map(|r| r.0), Some(connections - 1));
            assert!(requests.iter().all(|r| r.2 <= 40));
        }
    }

    #[test]
    fn the_same_options_give_the_same_bytes() {
        for version in [RemoteWrite::V1, RemoteWrite::V2] {
            let options = small(version);
            assert_eq!(collect(&options), collect(&options));
            assert_ne!(collect(&options), collect(&GenerateOptions { seed: 2, ..options.clone() }));
            assert_ne!(collect(&options), collect(&GenerateOptions { first_target: 6, ..options.clone() }));
        }
    }

    #[test]
    fn rounds_come_in_order_on_each_connection() {
        let requests = collect(&small(RemoteWrite::V2));
        assert!(requests.is_sorted_by_key(|r| (r.0, r.1)));
    }

    #[test]
    fn options_that_cannot_be_met_are_refused() {
        let refused = |options: GenerateOptions| generate(&options, |_| Ok(())).is_err();
        assert!(refused(GenerateOptions { series: 100_000, ..small(RemoteWrite::V1) }));
        assert!(refused(GenerateOptions { connections: 301, ..small(RemoteWrite::V1) }));
        assert!(refused(GenerateOptions { batch: 0, ..small(RemoteWrite::V1) }));
        assert!(refused(GenerateOptions { skew: 1.0, connections: 7, ..small(RemoteWrite::V1) }));
        assert!(refused(GenerateOptions { connections: 0, ..small(RemoteWrite::V1) }));
    }
}

//! A fleet's scrapes as remote write requests, one connection after another. It knows no files and
//! no sockets; the same options and start give the same bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::catalogue::{self, SeriesTemplate};
use super::encode::{Encoder, MetricType, RemoteWrite, Sample};
use super::fleet::{series_labels, target_labels};
use super::random::SplitMix;
use super::values::ValueStream;

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
    #[arg(long, value_enum, default_value = "1")]
    pub remote_write: RemoteWrite,
    /// Seed of all values and offsets
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of the first target: another number makes other series
    #[arg(long, default_value_t = 0)]
    pub first_target: usize,
}

/// One request, ready to send.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Which connection sends it.
    pub connection: usize,
    /// The newest scrape round of its samples.
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
    /// More series than the catalogue has.
    #[error("a target has at most {most} series; take more targets instead")]
    SeriesPerTarget {
        /// What it has.
        most: usize,
    },
    /// An option is zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// Some connection would have nothing to send.
    #[error("{connections} connections for {series} series")]
    IdleConnections {
        /// Wanted connections.
        connections: usize,
        /// Series of all targets.
        series: usize,
    },
    /// A body too large for snappy.
    #[error("a request can't be compressed")]
    Compress(#[from] snap::Error),
    /// The receiver of the requests failed.
    #[error(transparent)]
    Write(#[from] std::io::Error),
}

impl GenerateOptions {
    /// Series of all targets.
    pub fn total_series(&self) -> usize {
        self.targets * self.series
    }

    /// Fixes the start, so that the options alone give the bytes.
    pub fn with_fixed_start(mut self) -> Self {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let span_ms = i64::from(self.rounds) * i64::from(self.interval_ms);
        self.start_ms.get_or_insert(now_ms - span_ms - 60_000);
        self
    }

    fn check(&self) -> Result<(), GenerateError> {
        let counts = [
            ("targets", self.targets),
            ("series", self.series),
            ("rounds", self.rounds as usize),
            ("interval-ms", self.interval_ms as usize),
            ("batch", self.batch),
            ("connections", self.connections),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(GenerateError::Zero(name));
        }
        let series = self.total_series();
        if self.connections > series {
            return Err(GenerateError::IdleConnections { connections: self.connections, series });
        }
        Ok(())
    }

    /// The series of one connection: whole targets, or a part of one where there are more
    /// connections than targets. So a series' samples stay in order.
    fn series_of(&self, connection: usize) -> std::ops::Range<usize> {
        let (count, unit) = if self.targets >= self.connections {
            (self.targets, self.series)
        } else {
            (self.total_series(), 1)
        };
        let bound = |connection| count * connection / self.connections * unit;
        bound(connection)..bound(connection + 1)
    }
}

/// Generates every request, in the order in which its connection sends it. `emit` takes each.
pub fn generate<F>(options: &GenerateOptions, mut emit: F) -> Result<(), GenerateError>
where
    F: FnMut(Request<'_>) -> std::io::Result<()>,
{
    options.check()?;
    let most = catalogue::all_templates().len();
    let templates = catalogue::templates(options.series).ok_or(GenerateError::SeriesPerTarget { most })?;
    for connection in 0..options.connections {
        Sender::new(options, &templates, connection).send_all(&mut emit)?;
    }
    Ok(())
}

/// One connection's series and the request that it fills.
struct Sender<'a> {
    options: &'a GenerateOptions,
    connection: usize,
    encoder: Encoder,
    values: Vec<ValueStream>,
    /// In the order of their offsets, as they are scraped one after another.
    targets: Vec<ScrapedTarget>,
    pending: Vec<Sample>,
    raw: Vec<u8>,
    compressed: Vec<u8>,
    snappy: snap::raw::Encoder,
}

struct ScrapedTarget {
    series: std::ops::Range<usize>,
    offset_ms: i64,
}

impl<'a> Sender<'a> {
    fn new(options: &'a GenerateOptions, templates: &[SeriesTemplate], connection: usize) -> Self {
        let mut sender = Sender {
            options,
            connection,
            encoder: Encoder::new(options.remote_write),
            values: Vec::new(),
            targets: Vec::new(),
            pending: Vec::with_capacity(options.batch),
            raw: Vec::new(),
            compressed: Vec::new(),
            snappy: snap::raw::Encoder::new(),
        };
        let mut series = options.series_of(connection);
        while !series.is_empty() {
            let target = series.start / options.series;
            let end = series.end.min((target + 1) * options.series);
            sender.add_target(
                options.first_target + target,
                series.start % options.series,
                templates,
                end - series.start,
            );
            series.start = end;
        }
        sender.targets.sort_by_key(|target| target.offset_ms);
        sender
    }

    fn add_target(&mut self, target: usize, first: usize, templates: &[SeriesTemplate], count: usize) {
        let labels = target_labels(target);
        let start = self.values.len();
        for (place, template) in templates.iter().enumerate().skip(first).take(count) {
            let metric_type = if template.is_counter() { MetricType::Counter } else { MetricType::Gauge };
            let help = format!("The metric {} as the exporter collects it.", template.metric);
            self.encoder.add_series(&series_labels(template, &labels), metric_type, &help);
            let random = SplitMix::new(self.options.seed, (target * self.options.series + place) as u64);
            self.values.push(ValueStream::new(template.kind, template.base, random));
        }
        let offset =
            SplitMix::new(!self.options.seed, target as u64).next_u64() % u64::from(self.options.interval_ms);
        self.targets.push(ScrapedTarget { series: start..self.values.len(), offset_ms: offset as i64 });
    }

    fn send_all<F>(mut self, emit: &mut F) -> Result<(), GenerateError>
    where
        F: FnMut(Request<'_>) -> std::io::Result<()>,
    {
        let targets = std::mem::take(&mut self.targets);
        for round in 0..self.options.rounds {
            let round_ms = self.options.start_ms.unwrap_or_default()
                + i64::from(round) * i64::from(self.options.interval_ms);
            for target in &targets {
                for series in target.series.clone() {
                    let value = self.values[series].advance();
                    self.pending.push(Sample { series, timestamp_ms: round_ms + target.offset_ms, value });
                    if self.pending.len() == self.options.batch {
                        self.flush(round, emit)?;
                    }
                }
            }
            // A sender with less than a batch sends what a round gave it, as a deadline would make it.
            if self.values.len() <= self.options.batch || round + 1 == self.options.rounds {
                self.flush(round, emit)?;
            }
        }
        Ok(())
    }

    fn flush<F>(&mut self, round: u32, emit: &mut F) -> Result<(), GenerateError>
    where
        F: FnMut(Request<'_>) -> std::io::Result<()>,
    {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.encoder.encode(&self.pending, &mut self.raw);
        self.compressed.resize(snap::raw::max_compress_len(self.raw.len()), 0);
        let length = self.snappy.compress(&self.raw, &mut self.compressed)?;
        emit(Request {
            connection: self.connection,
            round,
            samples: self.pending.len(),
            raw_bytes: self.raw.len(),
            body: &self.compressed[..length],
        })?;
        self.pending.clear();
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn small(remote_write: RemoteWrite) -> GenerateOptions {
        GenerateOptions {
            targets: 6,
            series: 50,
            rounds: 3,
            interval_ms: 15_000,
            start_ms: Some(1_700_000_000_000),
            batch: 40,
            connections: 3,
            remote_write,
            seed: 1,
            first_target: 0,
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
    }
}

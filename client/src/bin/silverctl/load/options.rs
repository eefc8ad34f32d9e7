//! What a load is asked to be, from the command line to a plan. It sends nothing.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use silverback_load::fleet::{Fleet, FleetOptions};

use crate::connection::{ConnectionArgs, check_address};
use crate::error::{CommandError, Done};
use crate::time_text::{TimeArg, now_ms, parse_duration, parse_time};

/// Beyond this a thread for each connection is no good way to encode.
const CONNECTIONS_MAX: usize = 4096;
const BATCH_MAX: usize = 1 << 20;
const DURATION_DEFAULT: Duration = Duration::from_secs(60);
/// A day has a line for each second in the report.
const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long ago the first sample is where nobody knows how far the timestamps will come.
const CLOSED_SPAN: Duration = Duration::from_secs(12 * 60 * 60);

/// What is sent, how fast and for how long.
#[derive(Debug, Clone, Args)]
pub(super) struct LoadOptions {
    /// How samples are sent.
    #[arg(long, value_enum, default_value_t = Protocol::Rw2)]
    pub protocol: Protocol,
    /// Where remote write goes [default: /api/v1/write of --address].
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Targets of the fleet.
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    pub targets: usize,
    /// Series that each target exposes.
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    pub series_per_target: usize,
    /// Number of the first target: another number makes other series.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub first_target: usize,
    /// Time between two scrapes of a target: how far timestamps go on in each round.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    pub interval: Duration,
    /// When the first round begins [default: so that the last is about now, or 12h ago with --closed and
    /// without --rounds; and not before the node's samples of these series end, unless --url is given].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_time)]
    pub start: Option<TimeArg>,
    /// Open loop: samples a second over all connections, however long answers take. Latencies count
    /// from when a request was due [default: each target once in --interval].
    #[arg(long, value_name = "SAMPLES/S", conflicts_with = "closed")]
    pub rate: Option<f64>,
    /// Closed loop: each connection sends as fast as it is answered, and what is refused with 429 or
    /// 503 again.
    #[arg(long)]
    pub closed: bool,
    /// Connections that the targets are spread over.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub connections: usize,
    /// Samples of a request.
    #[arg(long, value_name = "SAMPLES", default_value_t = 2000)]
    pub batch: usize,
    /// How long to send, the warm-up not counted [default: 1m, or until --rounds are over].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Rounds to send, warm-up included.
    #[arg(long, value_name = "COUNT")]
    pub rounds: Option<u32>,
    /// How long to send before anything is measured.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    pub warmup: Duration,
    /// The part of the targets, and so of the series, that is replaced by new ones in a minute of the
    /// samples' time: 0.1 or 10%.
    #[arg(long, value_name = "PART", default_value = "0", value_parser = parse_part)]
    pub churn: f64,
    /// Zipf's exponent over the targets: the n-th is scraped in one of n^SKEW rounds.
    #[arg(long, value_name = "SKEW", default_value_t = 0.0)]
    pub skew: f64,
    /// The part of the series that are native histograms in place of floats, of 16 buckets each: 0.1 or 10%. With
    /// --protocol grpc alone.
    #[arg(long, value_name = "PART", default_value = "0", value_parser = parse_part)]
    pub histograms: f64,
    /// A further label of every series; may be given more than once.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// Seed of all values, offsets and replacements.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Where the report goes, as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The server's process, to report its CPU time and memory.
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,
}

/// How samples are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Protocol {
    /// Prometheus remote write 1.
    Rw1,
    /// Prometheus remote write 2.
    Rw2,
    /// Silverback's `Ingest.Stream`.
    Grpc,
}

/// When the next request goes out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Loop {
    /// When it is due.
    Open {
        /// Over all connections.
        samples_per_s: f64,
    },
    /// When the one before was answered.
    Closed,
}

/// What all of a run follows from, for the report too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LoadPlan {
    /// How samples are sent.
    pub protocol: Protocol,
    /// Where they go.
    pub url: String,
    /// When they are.
    pub pacing: Loop,
    /// Targets at a time.
    pub targets: usize,
    /// Series of each.
    pub series_per_target: usize,
    /// The first target's number.
    pub first_target: usize,
    /// From scrape to scrape.
    pub interval_ms: u32,
    /// The first round, ms since 1970.
    pub start_ms: i64,
    /// Over which targets are spread.
    pub connections: usize,
    /// Samples of a request.
    pub batch: usize,
    /// How long is measured at most.
    pub duration_s: f64,
    /// Rounds at most.
    pub rounds: Option<u32>,
    /// Before anything is measured.
    pub warmup_s: f64,
    /// Replaced in a minute.
    pub churn_per_minute: f64,
    /// Zipf's exponent.
    pub skew: f64,
    /// Of the series, how many are native histograms.
    #[serde(default)]
    pub histograms: f64,
    /// Of every series.
    pub labels: Vec<(String, String)>,
    /// Of all that is random.
    pub seed: u64,
}

impl LoadOptions {
    /// Whether the start is where the node's series end: not where it is given, and not with a receiver that may
    /// be no node.
    pub(super) fn begins_where_series_end(&self) -> bool {
        self.start.is_none() && self.url.is_none()
    }

    /// The plan, with what follows from other options filled in.
    pub(super) fn plan(&self, connection: &ConnectionArgs) -> Done<LoadPlan> {
        self.check()?;
        self.check_receiver(connection)?;
        let duration = self.duration.unwrap_or(match self.rounds {
            Some(_) => DURATION_MAX,
            None => DURATION_DEFAULT,
        });
        let mut plan = LoadPlan {
            protocol: self.protocol,
            url: self.url(connection),
            pacing: Loop::Closed,
            targets: self.targets,
            series_per_target: self.series_per_target,
            first_target: self.first_target,
            interval_ms: self.interval_ms()?,
            start_ms: 0,
            connections: self.connections,
            batch: self.batch,
            duration_s: duration.as_secs_f64(),
            rounds: self.rounds,
            warmup_s: self.warmup.as_secs_f64(),
            churn_per_minute: self.churn,
            skew: self.skew,
            histograms: self.histograms,
            labels: self.labels.clone(),
            seed: self.seed,
        };
        let round_samples = round_samples(&plan.fleet()?);
        let interval_s = self.interval.as_secs_f64();
        if !self.closed {
            plan.pacing = Loop::Open { samples_per_s: self.rate.unwrap_or(round_samples / interval_s) };
        }
        plan.start_ms = match self.start {
            Some(start) => start.resolve_ms(now_ms()),
            None => now_ms() - plan.span_before_now(round_samples).as_millis() as i64,
        };
        Ok(plan)
    }

    fn check(&self) -> Done {
        let wrong = |words: String| Err(CommandError::Usage(words));
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return wrong(format!("--connections must be 1 to {CONNECTIONS_MAX}"));
        }
        if !(1..=BATCH_MAX).contains(&self.batch) {
            return wrong(format!("--batch must be 1 to {BATCH_MAX}"));
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return wrong("--rate must be above 0".to_owned());
        }
        if self.duration.is_some_and(|duration| duration.is_zero() || duration > DURATION_MAX) {
            return wrong("--duration must be above 0 and at most 1d".to_owned());
        }
        if !(0.0..=1.0).contains(&self.histograms) {
            return wrong("--histograms must be 0 to 1, or 0% to 100%".to_owned());
        }
        if self.histograms > 0.0 && self.protocol != Protocol::Grpc {
            return wrong("--histograms takes --protocol grpc".to_owned());
        }
        if self.protocol == Protocol::Grpc && self.url.is_some() {
            return wrong("--url is for remote write; gRPC goes to --address".to_owned());
        }
        Ok(())
    }

    fn check_receiver(&self, connection: &ConnectionArgs) -> Done {
        let of_node = ("--address", &connection.address);
        let (option, address) = self.url.as_ref().map_or(of_node, |url| ("--url", url));
        check_address(option, address)?;
        if self.protocol != Protocol::Grpc && !address.starts_with("http://") {
            let words = "remote write is sent over http:// alone here; --protocol grpc speaks TLS";
            return Err(CommandError::Usage(format!("{option} is {address:?}: {words}")));
        }
        Ok(())
    }

    fn url(&self, connection: &ConnectionArgs) -> String {
        let address = connection.address.trim_end_matches('/');
        match self.protocol {
            Protocol::Rw1 | Protocol::Rw2 => {
                self.url.clone().unwrap_or_else(|| format!("{address}/api/v1/write"))
            }
            Protocol::Grpc => address.to_owned(),
        }
    }

    fn interval_ms(&self) -> Done<u32> {
        let too_long = |_| CommandError::Usage("--interval must be below 49 days".to_owned());
        u32::try_from(self.interval.as_millis()).map_err(too_long)
    }
}

/// Samples that a round has on average.
fn round_samples(fleet: &Fleet) -> f64 {
    let options = fleet.options();
    let weights: f64 = (0..options.targets).map(|place| fleet.weight(place)).sum();
    weights * options.series_per_target as f64
}

impl LoadPlan {
    /// The fleet that is scraped.
    pub(super) fn fleet(&self) -> Done<Fleet> {
        let options = FleetOptions {
            targets: self.targets,
            series_per_target: self.series_per_target,
            first_target: self.first_target,
            rounds: self.rounds.unwrap_or(u32::MAX),
            interval_ms: self.interval_ms,
            start_ms: self.start_ms,
            seed: self.seed,
            churn_per_minute: self.churn_per_minute,
            skew: self.skew,
            labels: self.labels.clone(),
        };
        Fleet::new(options).map_err(|error| CommandError::Usage(error.to_string()))
    }

    /// How far before now the timestamps have to begin, so that they end about when the run does.
    fn span_before_now(&self, round_samples: f64) -> Duration {
        let interval_s = f64::from(self.interval_ms) / 1e3;
        let rounds_s = self.rounds.map(|rounds| f64::from(rounds) * interval_s);
        let ahead_s = match self.pacing {
            Loop::Open { samples_per_s } => {
                // How many times as fast as clocks the timestamps go.
                let speed = samples_per_s * interval_s / round_samples;
                let span_s = (self.warmup_s + self.duration_s) * speed;
                let span_s = rounds_s.map_or(span_s, |rounds_s| rounds_s.min(span_s));
                span_s - span_s / speed
            }
            Loop::Closed => rounds_s.unwrap_or(CLOSED_SPAN.as_secs_f64()),
        };
        Duration::try_from_secs_f64(ahead_s).unwrap_or_default()
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a label is written NAME=VALUE")?;
    if name.is_empty() {
        Err("a label has a name".to_owned())
    } else {
        Ok((name.to_owned(), value.to_owned()))
    }
}

fn parse_part(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let part: f64 = number.trim().parse().map_err(|_| format!("{text:?} isn't a part like 0.1 or 10%"))?;
    Ok(part / whole)
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        connection: ConnectionArgs,
        #[command(flatten)]
        options: LoadOptions,
    }

    /// The plan of a command line.
    pub(crate) fn plan(words: &[&str]) -> Done<LoadPlan> {
        let line = Line::parse_from(["load"].iter().chain(words));
        line.options.plan(&line.connection)
    }

    fn begins_s_ago(words: &[&str]) -> f64 {
        (now_ms() - plan(words).expect("a plan").start_ms) as f64 / 1e3
    }

    #[test]
    fn without_a_rate_each_target_is_scraped_once_in_an_interval() {
        let planned =
            plan(&["--targets", "10", "--series-per-target", "30", "--interval", "10s"]).expect("a plan");
        assert_eq!(planned.pacing, Loop::Open { samples_per_s: 30.0 });
        assert_eq!((planned.duration_s, planned.url.as_str()), (60.0, "http://127.0.0.1:9009/api/v1/write"));
    }

    #[test]
    fn timestamps_begin_so_that_they_end_with_the_run() {
        let check = |words: &[&str], expected_s: f64| {
            let ago_s = begins_s_ago(words);
            assert!((ago_s - expected_s).abs() < 5.0, "{words:?}: {ago_s} s ago");
        };
        // 200 × 500 series every 15 s are 6,667 a second.
        check(&[], 0.0);
        check(&["--rate", "100", "--duration", "10m"], 0.0);
        check(&["--rate", "66667", "--duration", "1m"], 540.0);
        check(&["--rate", "66667", "--rounds", "4"], 54.0);
        check(&["--closed", "--rounds", "100"], 1500.0);
        check(&["--closed"], 12.0 * 3600.0);
        check(&["--closed", "--start", "-1h"], 3600.0);
    }

    #[test]
    fn options_that_cannot_be_met_are_told() {
        for words in [
            ["--connections", "0"],
            ["--batch", "0"],
            ["--rate", "0"],
            ["--rate", "NaN"],
            ["--duration", "0s"],
            ["--targets", "0"],
            ["--skew", "9"],
            ["--churn", "500%"],
            ["--histograms", "10%"],
            ["--url", "node:9009"],
            ["--url", "https://node/api/v1/write"],
        ] {
            assert!(matches!(plan(&words), Err(CommandError::Usage(_))), "{words:?}");
        }
    }

    #[test]
    fn a_part_of_the_series_are_histograms_over_grpc_alone() {
        let of = |part: &str, protocol: &str| plan(&["--histograms", part, "--protocol", protocol]);
        assert_eq!(of("25%", "grpc").map(|plan| plan.histograms).ok(), Some(0.25));
        for (part, protocol) in [("25%", "rw2"), ("101%", "grpc"), ("NaN", "grpc")] {
            assert!(matches!(of(part, protocol), Err(CommandError::Usage(_))), "{part} {protocol}");
        }
    }

    #[test]
    fn parts_are_numbers_or_percent() {
        assert_eq!((parse_part("0.1"), parse_part("10%")), (Ok(0.1), Ok(0.1)));
        assert!(parse_part("x%").is_err());
    }
}

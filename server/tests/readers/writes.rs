//! Paced writes of known series, each timed and each stored.

use std::fmt;
use std::time::{Duration, Instant};

use prost::Message;
use silverback_model::limits::LABEL_VALUE_BYTES_MAX;
use silverback_proto::prometheus::{Label, Sample, TimeSeries, WriteRequest};
use silverback_test_support::Binary;
use silverback_test_support::http::Kept;
pub(crate) use silverback_test_support::now_ms;

/// Known series that are written all the time.
const KNOWN: usize = 400;
const INTERVAL: Duration = Duration::from_millis(20);
/// How long a disk may hang that other processes write to.
const DISK_TIMEOUT: Duration = Duration::from_secs(60);
/// Series of one request while they are new.
const LOT: usize = 5000;

/// Of series by their pods, and a note where it isn't empty.
fn body(series: impl Iterator<Item = (String, String)>, timestamp_ms: i64) -> Vec<u8> {
    let label = |name: &str, value: &str| Label { name: name.to_owned(), value: value.to_owned() };
    let timeseries = series.map(|(pod, note)| TimeSeries {
        labels: [
            label("__name__", "container_cpu_usage_seconds_total"),
            label("namespace", "production"),
            label("note", &note),
            label("pod", &pod),
        ]
        .into_iter()
        .filter(|label| !label.value.is_empty())
        .collect(),
        samples: vec![Sample { value: 1.5, timestamp: timestamp_ms }],
        ..TimeSeries::default()
    });
    let request = WriteRequest { timeseries: timeseries.collect(), metadata: Vec::new() };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
}

/// Writes, and says whether the disk answered: what others do to a disk that all share is none of reads'.
fn write(connection: &mut Kept, body: &[u8]) -> bool {
    let (began, mut waited_for_disk) = (Instant::now(), false);
    loop {
        let answer = connection.ask("POST", "/api/v1/write", &[], body);
        let (status, text) = (answer.status, answer.text());
        if status == 204 {
            return !waited_for_disk;
        }
        waited_for_disk = status == 503 && text.contains("the disk");
        assert!(waited_for_disk && began.elapsed() < DISK_TIMEOUT, "{status}: {text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Writes one sample of each of so many series, and of some with a note as long as one may be.
pub(crate) fn preload(node: &Binary, series: usize, noted: usize) {
    let (mut connection, at_ms) = (node.keep(), now_ms());
    let pod = |i: usize| format!("checkout-service-7d9f8c6b5-{i:06}");
    for lot in (0..series).step_by(LOT) {
        let pods = (lot..series.min(lot + LOT)).map(|i| (pod(i), String::new()));
        write(&mut connection, &body(pods, at_ms));
    }
    let long = "ab".repeat(LABEL_VALUE_BYTES_MAX / 2 - 4);
    for lot in (0..noted).step_by(LOT / 50) {
        let pods = (lot..noted.min(lot + LOT / 50)).map(|i| (pod(series + i), format!("{long}{i:06}")));
        write(&mut connection, &body(pods, at_ms));
    }
}

/// A sender of known series.
pub(crate) struct Writer {
    connection: Kept,
    last_ms: i64,
}

impl Writer {
    /// Of a node.
    pub(crate) fn new(node: &Binary) -> Self {
        Self { connection: node.keep(), last_ms: now_ms() }
    }

    /// Writes at a fixed pace; a write's time counts from when it was due.
    pub(crate) fn write_for(&mut self, time: Duration) -> Latencies {
        let (began, mut latencies) = (Instant::now(), Vec::new());
        for number in 0.. {
            let due = began + number * INTERVAL;
            if due > began + time {
                break;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.last_ms = now_ms().max(self.last_ms + 1);
            let known = body((0..KNOWN).map(|i| (format!("known-{i}"), String::new())), self.last_ms);
            if write(&mut self.connection, &known) {
                latencies.push(due.elapsed());
            }
        }
        Latencies::of(latencies)
    }
}

/// How long writes took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latencies {
    /// Half took less.
    pub p50: Duration,
    /// One in a hundred took longer.
    pub p99: Duration,
}

impl Latencies {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
        Self { p50: at(50), p99: at(99) }
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.1?}, p99 {:.1?}", self.p50, self.p99)
    }
}

//! What a load comes to in figures: latencies' quantiles, and what the server spent. It knows neither
//! how they were measured nor how they are shown.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// A distribution of latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl Quantiles {
    /// Of a histogram of microseconds, in milliseconds.
    pub fn of_micros(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean: histogram.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        }
    }
}

/// What the server spent on a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// User and system time.
    pub cpu_s: f64,
    /// The system's share of it.
    pub system_cpu_s: f64,
    /// Acknowledged samples for each second of CPU time.
    pub samples_per_cpu_s: f64,
    /// Cores kept busy.
    pub cores: f64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
    /// The most resident memory since the server started.
    pub resident_peak_bytes: u64,
    /// Bytes written to disk.
    pub disk_write_bytes: u64,
}

impl ServerReport {
    /// The difference between two readings.
    pub fn between(before: &Usage, after: &Usage, wall_s: f64, samples_acked: u64) -> Self {
        let cpu_s = after.cpu_s - before.cpu_s;
        Self {
            cpu_s,
            system_cpu_s: after.system_s - before.system_s,
            samples_per_cpu_s: samples_acked as f64 / cpu_s.max(f64::MIN_POSITIVE),
            cores: cpu_s / wall_s.max(f64::MIN_POSITIVE),
            resident_bytes: after.resident_bytes,
            resident_peak_bytes: after.resident_peak_bytes,
            disk_write_bytes: after.disk_write_bytes.saturating_sub(before.disk_write_bytes),
        }
    }
}

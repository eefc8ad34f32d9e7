//! What a replay found, as JSON: the one shape that `run` writes and `table` reads.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::figures::{Quantiles, ServerReport};

use super::generate::GenerateOptions;

/// One whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunReport {
    /// Who received, for the table.
    pub contestant: String,
    /// The load's name, for the table.
    pub load: String,
    /// Where the requests went.
    pub url: String,
    /// Samples a second that were intended; none in a closed loop.
    pub rate: Option<f64>,
    /// What was sent.
    pub dataset: GenerateOptions,
    /// The first rounds, apart from the rest.
    pub warmup: Option<PhaseReport>,
    /// The measured rounds.
    pub main: PhaseReport,
    /// The server after the last acknowledgement and the settling.
    pub settled: Option<SettledReport>,
}

impl RunReport {
    /// Acknowledged samples for each second of the server's CPU time, with the work that was put
    /// off, where the run waited for it.
    pub fn samples_per_cpu_s(&self) -> f64 {
        match (&self.settled, &self.main.server) {
            (Some(settled), _) => settled.samples_per_cpu_s,
            (None, Some(server)) => server.samples_per_cpu_s,
            (None, None) => 0.0,
        }
    }

    /// The server's resident memory at the end.
    pub fn resident_bytes(&self) -> f64 {
        match (&self.settled, &self.main.server) {
            (Some(settled), _) => settled.resident_bytes as f64,
            (None, Some(server)) => server.resident_bytes as f64,
            (None, None) => 0.0,
        }
    }

    /// The most that it was.
    pub fn resident_peak_bytes(&self) -> f64 {
        match (&self.settled, &self.main.server) {
            (Some(settled), _) => settled.resident_peak_bytes as f64,
            (None, Some(server)) => server.resident_peak_bytes as f64,
            (None, None) => 0.0,
        }
    }
}

/// One stretch of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Requests, each counted once however often it was sent.
    pub requests: u64,
    /// Samples in them.
    pub samples_sent: u64,
    /// Samples in those that were answered with success.
    pub samples_acked: u64,
    /// Answers by status; `broken` where none came.
    pub answers: BTreeMap<String, u64>,
    /// Requests sent again.
    pub retries: u64,
    /// Requests that had a connection of their own, and on it the session of the one before.
    #[serde(default)]
    pub resumed: u64,
    /// A few of the refusals' texts.
    pub refusals: Vec<String>,
    /// From the start to the last answer.
    pub wall_s: f64,
    /// Acknowledged samples a second.
    pub samples_per_s: f64,
    /// From the intended start of a request to its acknowledgement, retries included.
    pub latency_ms: Quantiles,
    /// How late a request began at most, in an open loop.
    pub late_start_max_ms: f64,
    /// CPU time of the loader.
    pub loader_cpu_s: f64,
    /// The server's share.
    pub server: Option<ServerReport>,
    /// Every request's latency, where a mark was watched.
    #[serde(default)]
    pub marked: Option<MarkedLatencies>,
}

/// Latencies by whether the mark was set while the request was in flight, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MarkedLatencies {
    /// It was.
    pub set_ms: Vec<f64>,
    /// It was not.
    pub unset_ms: Vec<f64>,
}

impl MarkedLatencies {
    /// Adds a request.
    pub fn push(&mut self, latency: Duration, is_set: bool) {
        let of_its_kind = if is_set { &mut self.set_ms } else { &mut self.unset_ms };
        of_its_kind.push(latency.as_secs_f64() * 1e3);
    }

    /// Adds another connection's requests.
    pub fn add(&mut self, other: Self) {
        self.set_ms.extend(other.set_ms);
        self.unset_ms.extend(other.unset_ms);
    }
}

/// Work that the server put off until after the last acknowledgement counts too.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct SettledReport {
    /// How long it was let alone.
    pub settle_s: f64,
    /// What it used meanwhile.
    pub cpu_s: f64,
    /// Acknowledged samples of the main phase for each second of its CPU time and this.
    pub samples_per_cpu_s: f64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
    /// The most resident memory since the server started.
    pub resident_peak_bytes: u64,
}

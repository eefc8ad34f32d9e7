//! The same write over gRPC by a thread for each connection, by tokio with tonic, and by the node, over one,
//! 64 and 1,000 connections: requests for each CPU second of the server.
//!
//! All of them acknowledge what is in memory. The clients are the same: the client library, on a CPU that
//! the server doesn't have where there are two.

mod client;
mod serve;

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::meter::Figures;
use super::results::{Column, Comparison, Results, Row};
use super::{Job, OURS, Size};
use crate::rebalance::verdict::{Bound, Kind};

pub use serve::Serving;

/// One row's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    side: Side,
    cores: usize,
    connections: usize,
    seconds: f64,
}

/// Who serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    /// A thread for each connection; series behind locks.
    Threads,
    /// Tokio's multi-thread runtime and tonic; series behind locks.
    Tonic,
    /// The node.
    Node,
}

impl Side {
    const ALL: [Self; 3] = [Self::Threads, Self::Tonic, Self::Node];

    fn name(self) -> &'static str {
        match self {
            Self::Threads => "a thread for each connection",
            Self::Tonic => TONIC,
            Self::Node => OURS,
        }
    }
}

/// Requests for each second of the server's CPU time.
pub const PER_CPU_S: &str = "per_cpu_s";
/// The side whose ratio to ours is bounded.
pub const TONIC: &str = "tokio and tonic";
const RATIO_MIN: f64 = 1.5;

/// The comparison.
pub fn comparison(size: Size, cores: usize) -> Comparison {
    let row = |connections: usize, side: Side| Row {
        setting: setting(connections),
        side: side.name().to_owned(),
        job: Job::Connections(Work { side, cores, connections, seconds: size.pick(5.0, 0.3) }),
    };
    let column = |figure, head, unit, digits| Column { figure, head, unit, digits };
    Comparison {
        name: "connections",
        title: "The same write RPC of ten samples",
        rows: counts(size).into_iter().flat_map(|count| Side::ALL.map(|side| row(count, side))).collect(),
        columns: vec![
            column(PER_CPU_S, "k requests a server CPU second", 1e3, 1),
            column("per_s", "k requests/s", 1e3, 1),
            column("cores", "CPUs busy", 1.0, 2),
            column("p50", "p50 ms", 1.0, 2),
            column("p99", "p99 ms", 1.0, 2),
        ],
        plotted: 0,
        counts_events: false,
        judge,
    }
}

fn counts(size: Size) -> [usize; 3] {
    size.pick([1, 64, 1000], [1, 8, 64])
}

fn setting(connections: usize) -> String {
    match connections {
        1 => "1 connection".to_owned(),
        more => format!("{more} connections"),
    }
}

fn judge(results: &Results) -> Vec<Bound> {
    let most = results.rows.last().map_or("", |row| &row.setting);
    let per_cpu_s = |side: Side| results.median(most, side.name(), PER_CPU_S);
    let ratio = per_cpu_s(Side::Node) / per_cpu_s(Side::Tonic);
    let words = format!(
        "over {most} the node's requests a CPU second are {ratio:.2} times tonic's (at least {RATIO_MIN})"
    );
    vec![Bound::new(Kind::Speed, ratio >= RATIO_MIN, words)]
}

impl Work {
    /// Does it.
    pub fn run(&self) -> Result<Figures, Box<dyn Error>> {
        self.start()?.send()
    }

    /// Starts the server.
    pub fn start(&self) -> Result<Started, Box<dyn Error>> {
        let (server, clients) = self.cpus()?;
        let server = serve::Server::start(&Serving { side: self.side, cpus: server })?;
        Ok(Started { server, clients, work: self.clone() })
    }

    /// The server's CPUs and the clients': the last is theirs, where there are two.
    fn cpus(&self) -> std::io::Result<(Vec<usize>, usize)> {
        let mut cpus = super::cpus(self.cores)?;
        let last = cpus[cpus.len() - 1];
        if cpus.len() > 1 {
            cpus.pop();
        }
        Ok((cpus, last))
    }
}

/// A server, and who is to ask it. It ends with this.
#[derive(Debug)]
pub struct Started {
    server: serve::Server,
    /// The CPU that the clients are to have.
    pub clients: usize,
    work: Work,
}

impl Started {
    /// The server's id.
    pub fn pid(&self) -> i32 {
        self.server.pid()
    }

    /// Sends, and gives what the server spent. This thread keeps to the clients' CPU from now on.
    pub fn send(&self) -> Result<Figures, Box<dyn Error>> {
        let Work { connections, seconds, .. } = self.work;
        client::run(&self.server, self.clients, connections, Duration::from_secs_f64(seconds))
    }
}

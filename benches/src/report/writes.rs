//! One run of a load that writes: a server on an empty directory, the loader beside it, and what both say. Nothing is
//! reported of samples that weren't stored.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use silverback_load::figures::{Quantiles, ServerReport};
use silverback_load::replay::floor::WHOLE;
use silverback_load::replay::generate::GenerateOptions;
use silverback_load::replay::report::RunReport;

use super::backed_memory;
use super::failure::RunError;
use super::loads::{Place, Replay, Streams};
use super::process::{command_after, run_to_end};
use super::reconnects::{self, Beside};
use super::rounds::{Ground, Subject};
use super::server::Server;
use crate::founding::meter::Figures;

/// What is reported of a run.
pub mod figure {
    /// Acknowledged samples for each second of the server's CPU time.
    pub const PER_CPU_S: &str = "samples_per_cpu_s";
    /// Acknowledged samples a second.
    pub const PER_S: &str = "samples_per_s";
    /// Half of the requests are answered within.
    pub const P50_MS: &str = "p50_ms";
    /// How long an answer took on average, in ms. In a closed loop that is the connections by the answers a ms.
    pub const MEAN_MS: &str = "mean_ms";
    /// All but a hundredth of the requests are answered within.
    pub const P99_MS: &str = "p99_ms";
    /// Resident memory afterwards.
    pub const RESIDENT: &str = "resident_bytes";
    /// The most resident memory.
    pub const RESIDENT_PEAK: &str = "resident_peak_bytes";
    /// Cells that went to another shard, the warm-up's among them.
    pub const CELLS_MOVED: &str = "cells_moved";
    /// CPU time that was measured.
    pub const CPU_S: &str = "cpu_s";
    /// Connections that came and went meanwhile, a second.
    pub const RECONNECTS_PER_S: &str = "reconnects_per_s";
    /// All but a hundredth of them are through with their handshake and their request within.
    pub const RECONNECT_P99_MS: &str = "reconnect_p99_ms";
}

/// CPU time for each part of the floor.
const FLOOR_S: f64 = 1.0;
/// No run of a load takes longer.
pub(super) const RUN_MAX: Duration = Duration::from_secs(180);

/// Sends what lies in `file` to a server that is started for it.
pub fn replay(
    ground: &Ground,
    subject: &Subject<'_>,
    replay: &Replay,
    file: &Path,
) -> Result<Figures, RunError> {
    let run = Run::start(ground, subject, replay)?;
    let beside =
        replay.beside.as_ref().map(|senders| Beside::begin(ground, &run.server, senders)).transpose()?;
    let measured = run.send(file)?;
    let beside = beside.map(Beside::end).transpose()?;
    let mut figures = run.end(&measured, beside.as_ref())?;
    if let Some(report) = &beside {
        figures.insert(figure::RECONNECTS_PER_S.to_owned(), reconnects::per_s(report));
        figures.insert(figure::RECONNECT_P99_MS.to_owned(), report.main.latency_ms.p99);
    }
    Ok(figures)
}

/// A server that was started for a load, and how that is sent to it.
#[derive(Debug)]
pub struct Run<'a> {
    ground: &'a Ground,
    replay: &'a Replay,
    /// Who gets it.
    pub server: Server,
    /// The loader's.
    arguments: Vec<String>,
    loader_cpus: Vec<usize>,
    first: &'a [String],
}

impl<'a> Run<'a> {
    /// Starts the server.
    pub fn start(ground: &'a Ground, subject: &Subject<'_>, replay: &'a Replay) -> Result<Self, RunError> {
        let (cpus, of_server, pin) = placed(ground, subject, replay.place);
        let first = if replay.rate.is_some() { ground.ahead.as_slice() } else { &[] };
        let (server, _) = ground.start(subject, &cpus, &of_server, first)?;
        let mut arguments = vec![
            format!("--warmup={}", replay.warmup),
            format!("--limit={}", replay.rounds_for(subject.side)),
            format!("--settle={}", replay.settle_s),
            "--pause=0.5".to_owned(),
        ];
        arguments.extend(replay.rate.map(|rate| format!("--rate={rate}")));
        arguments.extend(pin.map(|pin| format!("--pin={pin}")));
        let loader_cpus =
            if replay.place == Place::Apart { ground.loader_cpus() } else { ground.cpus.clone() };
        Ok(Self { ground, replay, server, arguments, loader_cpus, first })
    }

    /// Sends what lies in `file`, and lets the server settle.
    pub fn send(&self, file: &Path) -> Result<RunReport, RunError> {
        send(self.ground, &self.server, file, &self.arguments, &self.loader_cpus, self.first)
    }

    /// Checks that all is there that was sent, by what is measured and by others beside it, and ends the server.
    pub fn end(self, measured: &RunReport, beside: Option<&RunReport>) -> Result<Figures, RunError> {
        check_stored(&self.server, [measured].into_iter().chain(beside))?;
        let mut figures = figures(measured);
        if let (Place::Shards(_), Some(moved)) = (self.replay.place, self.server.cells_moved()?) {
            figures.insert(figure::CELLS_MOVED.to_owned(), moved as f64);
        }
        self.server.stop()?;
        Ok(figures)
    }
}

/// The server's CPUs, what tells it so, and the loader's CPUs one after the other where it has more than one.
fn placed(ground: &Ground, subject: &Subject<'_>, place: Place) -> (Vec<usize>, Vec<String>, Option<String>) {
    match place {
        Place::Apart => (ground.server_cpus(), Vec::new(), None),
        Place::Shards(shards) => {
            let cpus = ground.cpus.iter().copied().take(shards).collect();
            let pin = ground.cpus.iter().take(2).map(usize::to_string).collect::<Vec<_>>().join(",");
            // The contender has as many threads as CPUs by itself.
            let arguments =
                if subject.side.is_own() { vec![format!("--shards={shards}")] } else { Vec::new() };
            (cpus, arguments, Some(pin))
        }
    }
}

/// Sends a file's requests and reads the loader's report.
pub fn send(
    ground: &Ground,
    server: &Server,
    file: &Path,
    arguments: &[String],
    cpus: &[usize],
    first: &[String],
) -> Result<RunReport, RunError> {
    // Since the start some of it was taken back, it may be.
    backed_memory::back(ground)?;
    let mut command = loader(ground, server, file, first);
    command.arg(format!("--pid={}", server.pid())).args(arguments);
    let printed = run_to_end("the loader", &mut command, cpus, &ground.scratch, RUN_MAX)?;
    Ok(serde_json::from_slice(&printed)?)
}

/// The loader of a file's requests.
pub fn loader(ground: &Ground, server: &Server, file: &Path, first: &[String]) -> Command {
    let mut command = command_after(first, &ground.own);
    command.args(["replay", "run"]).arg(file).arg(format!("--url={}", server.url("/api/v1/write")));
    command.args(server.ca_argument());
    command
}

/// Whether all that was sent was acknowledged, and all that was acknowledged is there.
pub fn check_stored<'a>(
    server: &Server,
    reports: impl IntoIterator<Item = &'a RunReport>,
) -> Result<(), RunError> {
    let (mut sent, mut acknowledged) = (0, 0);
    for phase in reports.into_iter().flat_map(|report| report.warmup.iter().chain([&report.main])) {
        sent += phase.samples_sent;
        acknowledged += phase.samples_acked;
    }
    compared(sent, acknowledged, server.stored()?)
}

fn compared(sent: u64, acknowledged: u64, stored: u64) -> Result<(), RunError> {
    let is_all = sent > 0 && sent == acknowledged && acknowledged == stored;
    if is_all { Ok(()) } else { Err(RunError::NotStored { sent, acknowledged, stored }) }
}

fn figures(report: &RunReport) -> Figures {
    let main = &report.main;
    let cpu_s = main.samples_acked as f64 / report.samples_per_cpu_s();
    [
        (figure::PER_CPU_S, report.samples_per_cpu_s()),
        (figure::PER_S, main.samples_per_s),
        (figure::MEAN_MS, main.latency_ms.mean),
        (figure::P50_MS, main.latency_ms.p50),
        (figure::P99_MS, main.latency_ms.p99),
        (figure::RESIDENT, report.resident_bytes()),
        (figure::RESIDENT_PEAK, report.resident_peak_bytes()),
        (figure::CPU_S, cpu_s),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// What is read of `replay floor`'s report.
#[derive(Debug, Deserialize)]
struct FloorReport {
    part: String,
    samples_per_cpu_s: f64,
}

/// What any receiver of a file's requests spends at least, where a server would run.
pub fn floor(ground: &Ground, file: &Path) -> Result<Figures, RunError> {
    backed_memory::back(ground)?;
    let mut command = Command::new(&ground.own);
    command.args(["replay", "floor"]).arg(file).arg(format!("--seconds={FLOOR_S}"));
    let printed = run_to_end("the floor", &mut command, &ground.server_cpus(), &ground.scratch, RUN_MAX)?;
    let parts: Vec<FloorReport> = serde_json::from_slice(&printed)?;
    let wrong = || RunError::Answer { question: format!("the floor, {WHOLE}"), answer: format!("{parts:?}") };
    let whole = parts.iter().find(|floor| floor.part == WHOLE).ok_or_else(wrong)?;
    Ok(Figures::from([(figure::PER_CPU_S.to_owned(), whole.samples_per_cpu_s)]))
}

/// Makes a load's requests, so that the last sample is about a minute old.
pub fn prepare(options: &GenerateOptions, file: &Path) -> Result<(), RunError> {
    Ok(silverback_load::replay::dataset::write(file, &options.clone().with_fixed_start())?)
}

/// What is read of `silverctl load`'s report.
#[derive(Debug, Deserialize)]
struct LoadReport {
    wall_s: f64,
    totals: Totals,
    latency_ms: Quantiles,
    server: Option<ServerReport>,
}

#[derive(Debug, Deserialize)]
struct Totals {
    samples_sent: u64,
    samples_written: u64,
}

/// Has `silverctl load` send to a server that is started for it.
pub fn streams(ground: &Ground, subject: &Subject<'_>, streams: &Streams) -> Result<Figures, RunError> {
    let (server, _) = ground.start(subject, &ground.server_cpus(), &[], &[])?;
    backed_memory::back(ground)?;
    let report = ground.scratch.join("streams.json");
    let Streams { protocol, targets, connections, batch, seconds } = streams;
    let mut command = Command::new(&ground.silverctl);
    command.arg(format!("--address={}", server.url(""))).args(server.ca_argument());
    command.args(["load", "--closed", "--warmup=1s"]).arg(format!("--protocol={protocol}"));
    command.args([format!("--targets={targets}"), format!("--series-per-target={}", 100_000 / targets)]);
    command.args([format!("--connections={connections}"), format!("--batch={batch}")]);
    command.args([format!("--duration={seconds}s"), format!("--pid={}", server.pid())]);
    command.arg("--report").arg(&report);
    run_to_end("silverctl load", &mut command, &ground.loader_cpus(), &ground.scratch, RUN_MAX)?;
    let report: LoadReport = serde_json::from_slice(&fs::read(&report)?)?;
    let Totals { samples_sent, samples_written } = report.totals;
    // Those of the warm-up aren't counted, and they are stored, too.
    compared(samples_sent, samples_written, server.stored()?.min(samples_written))?;
    server.stop()?;
    let spent = report.server.unwrap_or_default();
    let per_s = samples_written as f64 / report.wall_s.max(f64::MIN_POSITIVE);
    Ok([
        (figure::PER_CPU_S, spent.samples_per_cpu_s),
        (figure::PER_S, per_s),
        (figure::MEAN_MS, report.latency_ms.mean),
        (figure::P50_MS, report.latency_ms.p50),
        (figure::P99_MS, report.latency_ms.p99),
        (figure::RESIDENT, spent.resident_bytes as f64),
        (figure::RESIDENT_PEAK, spent.resident_peak_bytes as f64),
        (figure::CPU_S, spent.cpu_s),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_of_samples_that_are_not_there() {
        assert!(compared(5, 5, 5).is_ok());
        for (sent, acknowledged, stored) in [(5, 5, 4), (5, 4, 4), (5, 5, 6), (0, 0, 0)] {
            let error = compared(sent, acknowledged, stored).expect_err("samples are missing").to_string();
            assert!(error.contains(&format!("stored {stored}")), "{error}");
        }
    }
}

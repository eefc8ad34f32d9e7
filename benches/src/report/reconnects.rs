//! Senders that connect again for each request, beside a load that is measured: a second loader. It knows no ratio.

use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use silverback_load::replay::report::RunReport;
use silverback_load::wire::Handshake;

use super::failure::RunError;
use super::loads::Reconnects;
use super::process::Running;
use super::rounds::Ground;
use super::server::Server;
use super::writes::{RUN_MAX, loader, prepare};

/// From their start to that of what is measured: they come at their rate by then.
const AHEAD: Duration = Duration::from_millis(500);
/// Of those that should come, or be resumed, as many at least.
const PART_MIN: f64 = 0.95;

/// Some that come and go. They end with this.
#[derive(Debug)]
pub struct Beside<'a> {
    running: Running,
    senders: &'a Reconnects,
}

impl<'a> Beside<'a> {
    /// Has them begin.
    pub fn begin(ground: &Ground, server: &Server, senders: &'a Reconnects) -> Result<Self, RunError> {
        let file = ground.scratch.join("reconnects");
        prepare(&senders.options, &file)?;
        let mut command = loader(ground, server, &file, &[]);
        let samples = senders.options.batch as f64;
        command.arg(format!("--rate={}", senders.per_s * samples));
        command.arg(format!("--reconnect={}", name(senders.handshake)));
        let cpus = ground.loader_cpus();
        let running = Running::start("the loader that reconnects", &mut command, &cpus, &ground.scratch)?;
        thread::sleep(AHEAD);
        Ok(Self { running, senders })
    }

    /// Waits for their end, which has to come after that of what was measured.
    pub fn end(mut self) -> Result<RunReport, RunError> {
        let came_throughout = !self.running.has_ended()?;
        let report: RunReport = serde_json::from_slice(&self.running.end(RUN_MAX)?)?;
        let wrong = if came_throughout { fault(self.senders, &report) } else { Some(ENDED.to_owned()) };
        match wrong {
            Some(answer) => Err(RunError::Answer { question: "reconnects".to_owned(), answer }),
            None => Ok(report),
        }
    }
}

const ENDED: &str = "they ended before what was measured";

/// How many came a second.
pub fn per_s(report: &RunReport) -> f64 {
    report.main.requests as f64 / report.main.wall_s.max(f64::MIN_POSITIVE)
}

/// What isn't as it was to be.
fn fault(senders: &Reconnects, report: &RunReport) -> Option<String> {
    let (came, asked) = (per_s(report), senders.per_s);
    if came < asked * PART_MIN {
        return Some(format!("{came:.0} a second, {asked:.0} were asked for"));
    }
    // Nobody has a ticket the first time.
    let again = report.main.requests.saturating_sub(senders.options.connections as u64);
    let resumed = report.main.resumed;
    let are_as_asked = match senders.handshake {
        Handshake::Resumed => resumed as f64 >= again as f64 * PART_MIN,
        Handshake::Full => resumed == 0,
    };
    (!are_as_asked).then(|| format!("{resumed} of {again} were resumed"))
}

fn name(handshake: Handshake) -> String {
    handshake.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::loads::{Size, Work, all};
    use super::*;
    use crate::durability::verdict::tests::run;

    fn check(load: &str, per_s: u64, resumed_percent: u64, wrong: &str) {
        let load = all(Size::Full).into_iter().find(|other| other.name == load).expect("a load");
        let Work::Replay(replay) = load.work else { panic!("no replay") };
        let mut report = run("load", "silverback", 1.0, 1.0);
        (report.main.wall_s, report.main.requests) = (10.0, per_s * 10);
        report.main.resumed = report.main.requests * resumed_percent / 100;
        let fault = fault(&replay.beside.expect("some that reconnect"), &report);
        assert_eq!(fault.unwrap_or_default(), wrong);
    }

    #[test]
    fn those_that_are_too_few_or_known_in_another_way_are_no_figure() {
        check("stay-beside-resumed", 1000, 99, "");
        check("stay-beside-full", 1000, 0, "");
        check("stay-beside-full", 900, 0, "900 a second, 1000 were asked for");
        check("stay-beside-resumed", 1000, 50, "5000 of 9968 were resumed");
        check("stay-beside-full", 1000, 1, "100 of 9968 were resumed");
    }
}

//! All runs in turn: each load of a round goes to each side, and the next round begins again, so that what the machine
//! does meanwhile meets them all. It knows who comes when, not what a run does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use silverback_runtime::cpus::affinity_mask;

use super::failure::RunError;
use super::loads::{Load, Place, Replay, Work};
use super::measurements::{Failure, Measurements};
use super::process::ahead_of_daemons;
use super::server::{Server, Start};
use super::side::{Program, Programs, Side};
use super::{backed_memory, reads, restart, writes};
use crate::durability::restart::RestartReport;

/// Where everything runs.
#[derive(Debug)]
pub struct Ground {
    /// This program: the loader.
    pub own: PathBuf,
    /// The other loader.
    pub silverctl: PathBuf,
    /// For all that is written; it goes with this.
    pub scratch: PathBuf,
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// What runs a command ahead of daemons.
    pub ahead: Vec<String>,
}

impl Ground {
    /// A directory of its own below `disk`; `node` says where the node's programs are.
    pub fn prepare(own: &Path, node: &Path, disk: &Path) -> io::Result<Self> {
        let scratch = disk.join(format!("report-{}", std::process::id()));
        fs::create_dir_all(&scratch)?;
        Ok(Self {
            own: own.to_owned(),
            silverctl: node.with_file_name("silverctl"),
            scratch: scratch.canonicalize()?,
            cpus: affinity_mask()?.into_iter().collect(),
            ahead: ahead_of_daemons(),
        })
    }

    /// The CPU of a server, where the loader has another one.
    pub fn server_cpus(&self) -> Vec<usize> {
        self.cpus[..1].to_vec()
    }

    /// The loader's; the same where there is only one.
    pub fn loader_cpus(&self) -> Vec<usize> {
        self.cpus[self.cpus.len().min(2) - 1..][..1].to_vec()
    }

    /// Starts a side on what is in its directory, memory being [backed](backed_memory).
    pub fn start(
        &self,
        subject: &Subject<'_>,
        cpus: &[usize],
        arguments: &[String],
        first: &[String],
    ) -> Result<(Server, RestartReport), RunError> {
        let directory = self.directory(subject.side);
        let Subject { side, program } = *subject;
        backed_memory::back(self)?;
        Server::start(&Start { side, program, directory: &directory, cpus, arguments, first })
    }

    /// What a side keeps.
    pub fn directory(&self, side: Side) -> PathBuf {
        self.scratch.join(side.name())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What is left there is in a directory of its own, and named after this process.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Whom a run is about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Who.
    pub side: Side,
    /// Its program.
    pub program: &'a Program,
}

/// For how long rounds are begun.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// As many at most.
    pub count: usize,
    /// The first of them has this number.
    pub first: usize,
    /// As many are run whatever they take; ...
    pub least: usize,
    /// ... beyond these none is begun that would, by those before, end later.
    pub limit: Duration,
}

/// Runs every load on every side that is here, round after round.
pub fn run(ground: &Ground, programs: &Programs, loads: &[Load], rounds: Rounds) -> Measurements {
    let (began, mut all) = (Instant::now(), Measurements::default());
    for round in rounds.first..rounds.first + rounds.count {
        let done = (round - rounds.first) as u32;
        let may_end = done > 0 && done as usize >= rounds.least;
        if may_end && began.elapsed() * (done + 1) / done > rounds.limit {
            eprintln!("no further round: {done} took {:.0} minutes", began.elapsed().as_secs_f64() / 60.0);
            break;
        }
        for load in loads {
            let name = load.name;
            eprintln!(
                "{:5.0} s, round {} of {}: {name}",
                began.elapsed().as_secs_f64(),
                done + 1,
                rounds.count
            );
            run_load(ground, programs, load, round, &mut all);
        }
    }
    all
}

/// One load on every side, each as often before as after another.
fn run_load(ground: &Ground, programs: &Programs, load: &Load, round: usize, all: &mut Measurements) {
    let file = ground.scratch.join("requests");
    if let Some(Err(error)) = requests_of(&load.work).map(|options| writes::prepare(options, &file)) {
        let why = error.to_string();
        return all.failures.push(Failure { load: load.name, side: Side::Node, why });
    }
    for side in order(&load.sides, round) {
        let Some(program) = programs.get(side).filter(|program| load.is_for(side, program)) else { continue };
        match one(ground, &Subject { side, program }, load, &file) {
            Ok(rows) => {
                rows.into_iter().for_each(|(setting, figures)| all.add(round, &setting, side, figures))
            }
            Err(error) => {
                eprintln!("{side} failed {}: {error}", load.name);
                all.failures.push(Failure { load: load.name, side, why: first_line(&error.to_string()) });
            }
        }
        // Gone already, or gone with the scratch directory.
        let _ = fs::remove_dir_all(ground.directory(side));
    }
    let _ = fs::remove_file(&file);
}

fn requests_of(work: &Work) -> Option<&silverback_load::replay::generate::GenerateOptions> {
    match work {
        Work::Replay(replay) => Some(&replay.options),
        Work::Floor(options) | Work::Restart(options) | Work::Reads(options) => Some(options),
        Work::Streams(_) => None,
    }
}

fn order(sides: &[Side], round: usize) -> Vec<Side> {
    let sides = sides.iter().copied();
    if round.is_multiple_of(2) { sides.collect() } else { sides.rev().collect() }
}

type RowsOfRun = Vec<(String, crate::founding::meter::Figures)>;

fn one(ground: &Ground, subject: &Subject<'_>, load: &Load, file: &Path) -> Result<RowsOfRun, RunError> {
    let named = |figures| vec![(load.name.to_owned(), figures)];
    match &load.work {
        Work::Replay(replay) => writes::replay(ground, subject, replay, file).map(named),
        Work::Floor(_) => writes::floor(ground, file).map(named),
        Work::Streams(streams) => writes::streams(ground, subject, streams).map(named),
        Work::Restart(_) => restart::restart(ground, subject, file).map(named),
        Work::Reads(_) => reads::reads(ground, subject, file),
    }
}

/// Loads that this machine has CPUs for.
pub fn possible(loads: Vec<Load>, cpus: usize) -> (Vec<Load>, Vec<&'static str>) {
    let needed = |load: &Load| match &load.work {
        Work::Replay(Replay { place: Place::Shards(shards), .. }) => *shards,
        Work::Replay(_) | Work::Floor(_) | Work::Streams(_) | Work::Restart(_) | Work::Reads(_) => 1,
    };
    let (possible, not): (Vec<_>, Vec<_>) = loads.into_iter().partition(|load| needed(load) <= cpus);
    (possible, not.iter().map(|load| load.name).collect())
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use silverback_test_support::Scratch;

    use super::super::loads::{Size, all};
    use super::*;

    #[test]
    fn each_side_comes_as_often_before_another_as_after_it() {
        let sides = [Side::Node, Side::Contender, Side::Prometheus];
        assert_eq!(order(&sides, 0), sides);
        assert_eq!(order(&sides, 1), [Side::Prometheus, Side::Contender, Side::Node]);
    }

    fn loads_of(section: &str) -> impl Iterator<Item = &'static str> {
        all(Size::Full).into_iter().filter(move |load| load.section == section).map(|load| load.name)
    }

    #[test]
    fn two_shards_take_two_cpus() {
        let (loads, not) = possible(all(Size::Full), 1);
        let two = loads_of("scale").filter(|name| *name != "one-shard");
        assert_eq!(not, two.collect::<Vec<_>>());
        assert!(loads.iter().any(|load| load.name == "one-shard"));
        assert!(possible(all(Size::Full), 2).1.is_empty());
    }

    #[test]
    fn a_side_that_can_t_be_started_is_a_failure_and_the_run_goes_on() {
        let scratch = Scratch::new();
        let own = std::env::current_exe().expect("this program");
        let ground = Ground::prepare(&own, &own, scratch.path()).expect("a directory");
        let loads: Vec<Load> = all(Size::Small).into_iter().filter(|load| load.name == "steady-1").collect();
        // Exits at once: it isn't a server.
        let paths = super::super::side::Paths { node: Some("/bin/true".into()), ..Default::default() };
        let programs = Programs::find(&paths, &own).expect("a program").only(&[Side::Node, Side::NodeMemory]);
        let rounds = Rounds { count: 1, first: 0, least: 1, limit: Duration::from_secs(60) };
        let all = run(&ground, &programs, &loads, rounds);
        let failed: Vec<_> = all.failures.iter().map(|failure| (failure.load, failure.side)).collect();
        assert_eq!(failed, [("steady-1", Side::Node), ("steady-1", Side::NodeMemory)]);
        assert_eq!(all.rounds(), 0);
    }
}

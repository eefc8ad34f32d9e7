//! Every load of the report: what is sent, to whom, and on which CPUs. It sends nothing.

mod former;
mod others;
mod scale;
mod writes;

use silverback_load::encode::RemoteWrite;
use silverback_load::replay::generate::GenerateOptions;
use silverback_load::wire::Handshake;

use super::side::{Kind, Program, Side};

/// How much of it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Enough for the document.
    Full,
    /// Enough for ratios beside the contender, a second for each run.
    Short,
    /// Shows that all works, measures nothing.
    Small,
}

impl Size {
    /// What is its own.
    pub fn pick<T>(self, full: T, short: T, small: T) -> T {
        match self {
            Self::Full => full,
            Self::Short => short,
            Self::Small => small,
        }
    }
}

/// One load.
#[derive(Debug, Clone)]
pub struct Load {
    /// As it is asked for and as the tables have it.
    pub name: &'static str,
    /// The part of the document that it belongs to.
    pub section: &'static str,
    /// What it is, for the document.
    pub what: &'static str,
    /// Who gets it, as far as they are here.
    pub sides: Vec<Side>,
    /// What is done.
    pub work: Work,
}

/// What is done to a server that was started on an empty directory.
#[derive(Debug, Clone)]
pub enum Work {
    /// Requests that were made ahead.
    Replay(Replay),
    /// The least that their receiver has to do, without a server.
    Floor(GenerateOptions),
    /// Streams of samples, and remote write by the same loader.
    Streams(Streams),
    /// It is filled, killed and started again.
    Restart(GenerateOptions),
    /// It is filled and asked.
    Reads(GenerateOptions),
}

/// Requests that were made ahead.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The requests.
    pub options: GenerateOptions,
    /// Rounds of them that aren't measured.
    pub warmup: u32,
    /// Samples a second; as fast as they are answered where there is none.
    pub rate: Option<f64>,
    /// How long the server is let alone afterwards: what it puts off counts.
    pub settle_s: f64,
    /// Where both run.
    pub place: Place,
    /// Who comes and goes meanwhile.
    pub beside: Option<Reconnects>,
}

/// Senders each of whose requests has a connection of its own, beside what is measured and not counted there.
#[derive(Debug, Clone)]
pub struct Reconnects {
    /// The requests.
    pub options: GenerateOptions,
    /// As many a second.
    pub per_s: f64,
    /// How each is known again.
    pub handshake: Handshake,
}

/// What `silverctl load` sends.
#[derive(Debug, Clone)]
pub struct Streams {
    /// Its `--protocol`.
    pub protocol: &'static str,
    /// Its targets, each of the same share of 100,000 series.
    pub targets: usize,
    /// Connections.
    pub connections: usize,
    /// Samples in a batch.
    pub batch: usize,
    /// Seconds that are measured.
    pub seconds: u32,
}

/// Which CPUs a server has, and which the loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// One each.
    Apart,
    /// As many as shards for the server, of which only the node has some; the loader's connections keep to the first two by halves.
    Shards(usize),
}

impl Load {
    /// Whether this program can take it.
    pub fn is_for(&self, side: Side, program: &Program) -> bool {
        let is_version_2 = match &self.work {
            Work::Replay(replay) => replay.options.remote_write == RemoteWrite::V2,
            Work::Floor(_) | Work::Streams(_) | Work::Restart(_) | Work::Reads(_) => false,
        };
        self.sides.contains(&side) && (!is_version_2 || program.speaks_remote_write_2(side))
    }
}

impl Replay {
    /// How many rounds a side gets. A peer that takes several times as long gets fewer of the same.
    pub fn rounds_for(&self, side: Side) -> u32 {
        let divisor = match (side.kind(), self.rate) {
            (_, Some(_)) | (Kind::Node | Kind::Contender, None) => 1,
            (Kind::VictoriaMetrics, None) => 3,
            (Kind::Prometheus, None) => 10,
        };
        let all = self.options.rounds_sent();
        // What is made new for a run is another load in its first rounds than in the later ones.
        if self.warmup == 0 { all } else { all.min(self.warmup + ((all - self.warmup) / divisor).max(3)) }
    }
}

use Side::{
    Contender, ContenderMemory, Node, NodeMemory, Prometheus, PrometheusCurrent, VictoriaMetrics,
    VictoriaMetricsCurrent,
};

/// All whose connections aren't encrypted.
const EVERYONE: [Side; 8] = [
    Node,
    NodeMemory,
    Contender,
    ContenderMemory,
    VictoriaMetrics,
    VictoriaMetricsCurrent,
    Prometheus,
    PrometheusCurrent,
];
const OURS: [Side; 4] = [Node, NodeMemory, Contender, ContenderMemory];
const PEERS: [Side; 2] = [VictoriaMetrics, VictoriaMetricsCurrent];

/// All loads, in the document's order.
pub fn all(size: Size) -> Vec<Load> {
    let parts = [writes::all, scale::all, others::all, former::all];
    parts.map(|part| part(size)).concat()
}

/// The loads of the short form.
pub const SHORT: [&str; 4] = ["steady-1", "new-series", "batch-100", "connections-64"];

/// The load that the others differ from by one thing each; its own number of rounds where it is 0.
fn steady(size: Size, rounds: u32) -> Replay {
    let options = GenerateOptions {
        targets: size.pick(200, 100, 10),
        series: 500,
        rounds: if rounds == 0 { size.pick(90, 40, 6) } else { rounds },
        ..GenerateOptions::default()
    };
    Replay {
        options,
        warmup: size.pick(2, 2, 1),
        rate: None,
        settle_s: size.pick(1.0, 0.0, 0.0),
        place: Place::Apart,
        beside: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;

    use silverback_load::replay::generate::generate;

    use super::*;

    #[test]
    fn each_load_has_a_name_of_its_own_and_the_short_form_s_are_among_them() {
        for size in [Size::Full, Size::Short, Size::Small] {
            let names: HashSet<_> = all(size).iter().map(|load| load.name).collect();
            assert_eq!(names.len(), all(size).len());
            assert!(SHORT.iter().all(|name| names.contains(name)));
        }
    }

    #[test]
    fn every_load_s_requests_can_be_made() {
        for load in all(Size::Small) {
            let options = match load.work {
                Work::Replay(replay) => replay.options,
                Work::Floor(options) | Work::Restart(options) | Work::Reads(options) => options,
                Work::Streams(_) => continue,
            };
            let mut samples = 0;
            let options = options.with_fixed_start();
            generate(&options, |request| {
                samples += request.samples;
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", load.name));
            let of_all = options.total_series() * options.rounds_sent() as usize;
            match options.skew > 0.0 {
                false => assert_eq!(samples, of_all, "{}", load.name),
                true => assert!((of_all / 5..of_all / 2).contains(&samples), "{}: {samples}", load.name),
            }
        }
    }

    #[test]
    fn another_build_gets_the_same_loads_as_the_peers() {
        let loads = all(Size::Full);
        let former: Vec<&Load> = loads.iter().filter(|load| load.section == "former").collect();
        assert!(!former.is_empty());
        for load in former {
            let same = loads.iter().find(|other| Some(other.name) == load.name.strip_prefix("former-"));
            assert_eq!(same.map(|same| same.what), Some(load.what), "{}", load.name);
            assert_eq!(load.sides, [Side::Node, Side::NodeFormer]);
        }
    }

    #[test]
    fn slow_peers_get_fewer_rounds_of_what_is_steady_and_all_of_what_is_new() {
        let loads = all(Size::Full);
        let rounds = |name: &str, side| {
            let load = loads.iter().find(|load| load.name == name).expect("a load");
            let Work::Replay(replay) = &load.work else { panic!("{name} is no replay") };
            replay.rounds_for(side)
        };
        assert_eq!(rounds("steady-1", Side::Node), 90);
        assert_eq!(rounds("steady-1", Side::Prometheus), 2 + 8);
        assert_eq!(rounds("new-series", Side::VictoriaMetrics), 3);
        assert_eq!(rounds("paced", Side::Prometheus), 9);
    }

    #[test]
    fn remote_write_2_is_kept_from_who_does_not_speak_it() {
        let load = all(Size::Full).into_iter().find(|load| load.name == "steady-2").expect("a load");
        let program = |version: &str| Program { path: PathBuf::new(), version: version.to_owned() };
        assert!(load.is_for(Side::Node, &program("")));
        assert!(!load.is_for(Side::Prometheus, &program("2.42.0 (Debian)")));
    }
}

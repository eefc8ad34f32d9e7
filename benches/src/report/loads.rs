//! Every load of the report: what is sent, to whom, and on which CPUs. It sends nothing.

use silverback_load::encode::RemoteWrite;
use silverback_load::label_order::LabelOrder;
use silverback_load::replay::arrival::Arrival;
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
            Work::Streams(_) | Work::Restart(_) | Work::Reads(_) => false,
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

/// What every series has besides, in the load of long labels.
const LONG_LABELS: usize = 8;
const LONG_LABEL_BYTES: usize = 120;
/// Senders that reconnect begin before what is measured beside them, and end after it.
const RECONNECTS_LONGER_S: f64 = 5.0;

use Side::{
    Contender, ContenderMemory, Node, NodeFormer, NodeMemory, NodeTls, Prometheus, PrometheusCurrent,
    VictoriaMetrics, VictoriaMetricsCurrent,
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
/// Those that acknowledge what they have on disk, and VictoriaMetrics.
const FEW: [Side; 4] = [Node, Contender, VictoriaMetrics, VictoriaMetricsCurrent];
const OURS: [Side; 4] = [Node, NodeMemory, Contender, ContenderMemory];
const READERS: [Side; 5] = [Node, VictoriaMetrics, VictoriaMetricsCurrent, Prometheus, PrometheusCurrent];

/// All loads, in the document's order.
pub fn all(size: Size) -> Vec<Load> {
    let parts = [writes, requests, connections, labels, others, reconnects, former];
    parts.map(|part| part(size)).concat()
}

/// The loads of the short form.
pub const SHORT: [&str; 4] = ["steady-1", "new-series", "batch-100", "connections-64"];

fn writes(size: Size) -> Vec<Load> {
    let two = |work: Replay| Replay {
        options: GenerateOptions { remote_write: RemoteWrite::V2, ..work.options },
        ..work
    };
    let mut new_series = steady(size, 3);
    new_series.options.targets = size.pick(800, 300, 10);
    new_series.warmup = 0;
    let mut churn = steady(size, size.pick(60, 20, 6));
    churn.options.churn = 0.1;
    // An hour of scrapes, but for the one that came already.
    let mut backlog = steady(size, size.pick(240, 60, 6));
    backlog.options.targets = size.pick(100, 50, 10);
    backlog.options.arrival = Arrival::Backlog;
    backlog.warmup = 1;
    let mut again = backlog.clone();
    again.options.arrival = Arrival::Twice;
    again.warmup = again.options.rounds;
    vec![
        write(
            "steady-1",
            "100 k series, 2,000 samples a request, 8 connections, remote write 1",
            &EVERYONE,
            steady(size, 0),
        ),
        write("steady-2", "the same over remote write 2", &EVERYONE, two(steady(size, 0))),
        write("new-series", "400 k series that nobody knows, three scrapes", &EVERYONE, new_series),
        write("churn", "100 k series, a tenth of them replaced in a minute of their time", &FEW, churn),
        write("backlog", "50 k series, an hour of scrapes that come after the newest", &FEW, backlog),
        write("again", "the same hour in order, and then measured as it is sent once more", &FEW, again),
    ]
}

fn requests(size: Size) -> Vec<Load> {
    let batch = |batch, rounds| {
        let mut work = steady(size, rounds);
        work.options.batch = batch;
        work
    };
    let both = [&OURS[..], &[VictoriaMetrics, VictoriaMetricsCurrent]].concat();
    vec![
        write(
            "batch-10",
            "100 k series, 10 samples a request, 8 connections",
            &FEW,
            batch(10, size.pick(14, 6, 4)),
        ),
        write(
            "batch-100",
            "100 k series, 100 samples a request, 8 connections",
            &both,
            batch(100, size.pick(60, 20, 6)),
        ),
    ]
}

fn connections(size: Size) -> Vec<Load> {
    let over = |connections: usize| {
        let mut work = steady(size, size.pick(60, 30, 6));
        work.options.connections = connections;
        work
    };
    let mut many = over(size.pick(1000, 200, 20));
    many.options.targets = many.options.connections;
    many.options.series = 100;
    many.options.batch = 100;
    let both = [&OURS[..], &[VictoriaMetrics, VictoriaMetricsCurrent]].concat();
    vec![
        write("connections-1", "100 k series, 2,000 samples a request, one connection", &FEW, over(1)),
        write("connections-64", "the same over 64 connections", &FEW, over(64)),
        write("connections-1000", "100 k series over 1,000 connections, 100 samples a request", &both, many),
    ]
}

fn labels(size: Size) -> Vec<Load> {
    let rounds = size.pick(60, 20, 6);
    // The table of known labels has grown by then to what unsorted ones need.
    let warmup = size.pick(20, 8, 1);
    let in_order = |label_order| {
        let mut work = Replay { warmup, ..steady(size, rounds) };
        work.options.label_order = label_order;
        work
    };
    let mut long = steady(size, rounds);
    long.options.labels = long_labels();
    vec![
        write("sorted", "100 k series, remote write 1", &[Node, Contender], in_order(LabelOrder::Sorted)),
        write(
            "unsorted",
            "the same with labels as scraped, which is vmagent's default",
            &[Node, Contender, VictoriaMetrics],
            in_order(LabelOrder::AsScraped),
        ),
        write(
            "shuffled",
            "the same with each series' labels in an order of its own",
            &[Node, Contender],
            in_order(LabelOrder::Shuffled),
        ),
        write("long-labels", "the same with eight more labels of 120 bytes", &FEW, long),
    ]
}

fn others(size: Size) -> Vec<Load> {
    let paced = Replay {
        rate: Some(size.pick(100_000.0, 50_000.0, 5_000.0)),
        settle_s: 0.0,
        ..steady(size, size.pick(12, 6, 5))
    };
    let shards = |shards: usize| {
        let mut work = steady(size, 0);
        work.options.connections = 16 * shards.min(work.options.targets / 2);
        Replay { place: Place::Shards(shards), settle_s: 0.0, ..work }
    };
    // Longer than others: cells move once loads have been uneven for three seconds.
    let mut skewed =
        Replay { place: Place::Shards(2), settle_s: 0.0, ..steady(size, size.pick(12_000, 2_000, 12)) };
    skewed.options.skew = 1.0;
    skewed.options.interval_ms = 250;
    skewed.options.connections = size.pick(32, 32, 4);
    skewed.warmup = size.pick(2_000, 200, 4);
    let load =
        |name, section, what, sides: &[Side], work| Load { name, section, what, sides: sides.to_vec(), work };
    let streams = |protocol, targets, connections, batch| {
        Work::Streams(Streams { protocol, targets, connections, batch, seconds: size.pick(4, 1, 1) })
    };
    let fleet = |targets, rounds| GenerateOptions { targets, rounds, ..steady(size, 0).options };
    vec![
        load("paced", "latency", "100 k samples a second, 2,000 a request", &EVERYONE, Work::Replay(paced)),
        load(
            "one-shard",
            "scale",
            "one shard on one CPU, 16 connections",
            &[Node, Contender],
            Work::Replay(shards(1)),
        ),
        load(
            "two-shards",
            "scale",
            "two shards on two CPUs, 32 connections",
            &[Node, Contender],
            Work::Replay(shards(2)),
        ),
        load(
            "skewed",
            "scale",
            "two shards on two CPUs, 32 connections, the n-th of 200 targets scraped in one of n rounds",
            &[Node, Contender],
            Work::Replay(skewed),
        ),
        load(
            "remote-write",
            "grpc",
            "remote write 1 by the same loader",
            &[Node],
            streams("rw1", 200, 8, 2000),
        ),
        load(
            "streams",
            "grpc",
            "gRPC streams, 2,000 samples a batch",
            &[Node],
            streams("grpc", 200, 8, 2000),
        ),
        load(
            "streams-1000",
            "grpc",
            "1,000 streams of a connection each, 2,000 samples a batch",
            &[Node],
            streams("grpc", 1000, 1000, 2000),
        ),
        load(
            "tls",
            "tls",
            "100 k series, 2,000 samples a request, 8 connections, remote write 1",
            &[Node, NodeTls],
            Work::Replay(steady(size, 0)),
        ),
        load(
            "tls-streams",
            "tls",
            "gRPC streams, 2,000 samples a batch",
            &[Node, NodeTls],
            streams("grpc", 200, 8, 2000),
        ),
        load(
            "restart",
            "restart",
            "200 k series, 5 M samples, killed and started again on all CPUs",
            &[Node, Prometheus, PrometheusCurrent],
            Work::Restart(fleet(size.pick(400, 100, 6), size.pick(25, 10, 4))),
        ),
        load(
            "reads",
            "reads",
            "100 k series of 30 samples",
            &READERS,
            Work::Reads(fleet(size.pick(200, 50, 6), size.pick(30, 10, 4))),
        ),
    ]
}

/// Senders that stay, beside others that connect again for each request.
fn reconnects(size: Size) -> Vec<Load> {
    let (rate, per_s) = size.pick((100_000.0, 1_000.0), (50_000.0, 500.0), (10_000.0, 100.0));
    let alone = Replay { rate: Some(rate), settle_s: 0.0, ..steady(size, size.pick(32, 12, 6)) };
    let measured_s = f64::from(alone.options.rounds) * alone.options.total_series() as f64 / rate;
    let senders = size.pick(32, 32, 4);
    let series = 10;
    let options = GenerateOptions {
        targets: senders,
        // None of those that stay.
        first_target: alone.options.targets,
        series,
        batch: series,
        rounds: ((measured_s + RECONNECTS_LONGER_S) * per_s / senders as f64).ceil() as u32,
        interval_ms: 1_000,
        connections: senders,
        ..GenerateOptions::default()
    };
    let beside = |handshake| Replay {
        beside: Some(Reconnects { options: options.clone(), per_s, handshake }),
        ..alone.clone()
    };
    let load = |name, what, work| Load {
        name,
        section: "reconnects",
        what,
        sides: vec![NodeTls],
        work: Work::Replay(work),
    };
    vec![
        load("stay", "100 k samples a second over TLS, 2,000 a request, 8 connections", alone.clone()),
        load(
            "stay-beside-resumed",
            "the same beside 1,000 other connections a second that resume a session, write 10 samples and end",
            beside(Handshake::Resumed),
        ),
        load(
            "stay-beside-full",
            "the same where each of these has a full handshake",
            beside(Handshake::Full),
        ),
    ]
}

/// Some of them beside another build of the node.
fn former(size: Size) -> Vec<Load> {
    let of = [writes(size), requests(size), connections(size), labels(size), others(size)].concat();
    let same = |(name, of_name)| {
        let load = of.iter().find(|load| load.name == of_name).expect("a load of the report");
        Load { name, section: "former", sides: vec![Node, NodeFormer], ..load.clone() }
    };
    let names = [
        ("former-steady-1", "steady-1"),
        ("former-steady-2", "steady-2"),
        ("former-new-series", "new-series"),
        ("former-churn", "churn"),
        ("former-batch-10", "batch-10"),
        ("former-batch-100", "batch-100"),
        ("former-connections-1", "connections-1"),
        ("former-connections-64", "connections-64"),
        ("former-connections-1000", "connections-1000"),
        ("former-sorted", "sorted"),
        ("former-unsorted", "unsorted"),
        ("former-shuffled", "shuffled"),
        ("former-long-labels", "long-labels"),
        ("former-streams", "streams"),
    ];
    names.map(same).to_vec()
}

fn write(name: &'static str, what: &'static str, sides: &[Side], work: Replay) -> Load {
    Load { name, section: "writes", what, sides: sides.to_vec(), work: Work::Replay(work) }
}

/// The load that the others differ from by one thing each; its own number of rounds where it is 0.
fn steady(size: Size, rounds: u32) -> Replay {
    let options = GenerateOptions {
        targets: size.pick(200, 100, 10),
        series: 500,
        rounds: if rounds == 0 { size.pick(120, 40, 6) } else { rounds },
        ..GenerateOptions::default()
    };
    Replay {
        options,
        warmup: size.pick(2, 2, 1),
        rate: None,
        settle_s: size.pick(3.0, 0.0, 0.0),
        place: Place::Apart,
        beside: None,
    }
}

fn long_labels() -> Vec<(String, String)> {
    let label = |number: usize| {
        let value = format!("annotation-{number}-of-a-deployment-{}", "x".repeat(LONG_LABEL_BYTES));
        (format!("long_label_{number}"), value[..LONG_LABEL_BYTES].to_owned())
    };
    (0..LONG_LABELS).map(label).collect()
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
                Work::Restart(options) | Work::Reads(options) => options,
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
        assert_eq!(rounds("steady-1", Side::Node), 120);
        assert_eq!(rounds("steady-1", Side::Prometheus), 2 + 11);
        assert_eq!(rounds("new-series", Side::VictoriaMetrics), 3);
        assert_eq!(rounds("paced", Side::Prometheus), 12);
    }

    #[test]
    fn remote_write_2_is_kept_from_who_does_not_speak_it() {
        let load = all(Size::Full).into_iter().find(|load| load.name == "steady-2").expect("a load");
        let program = |version: &str| Program { path: PathBuf::new(), version: version.to_owned() };
        assert!(load.is_for(Side::Node, &program("")));
        assert!(!load.is_for(Side::Prometheus, &program("2.42.0 (Debian)")));
    }
}

//! Remote write as fast as it is answered, on one CPU.

use silverback_load::encode::RemoteWrite;
use silverback_load::label_order::LabelOrder;
use silverback_load::replay::arrival::Arrival;
use silverback_load::replay::generate::GenerateOptions;

use super::Side::{self, Contender, Node, VictoriaMetrics, VictoriaMetricsCurrent};
use super::{EVERYONE, Load, OURS, PEERS, Replay, Size, Work, steady};

/// Those that acknowledge what they have on disk, and VictoriaMetrics.
const FEW: [Side; 4] = [Node, Contender, VictoriaMetrics, VictoriaMetricsCurrent];

/// What every series has besides, in the load of long labels.
const LONG_LABELS: usize = 8;
const LONG_LABEL_BYTES: usize = 120;
/// In the load of one long value.
const LONG_VALUE_BYTES: usize = 2048;
/// In the load of many labels.
const MANY_LABELS: usize = 40;
const MANY_LABEL_BYTES: usize = 16;

/// All of them.
pub(super) fn all(size: Size) -> Vec<Load> {
    [floor, writes, requests, connections, labels].map(|part| part(size)).concat()
}

fn floor(size: Size) -> Vec<Load> {
    vec![Load {
        name: "floor",
        section: "writes",
        what: "no server: the requests of `steady-1` through Snappy, one walk, a hash of the labels and a look-up, \
               which is what any receiver spends at least",
        sides: vec![Node],
        work: Work::Floor(steady(size, size.pick(20, 6, 3)).options),
    }]
}

fn writes(size: Size) -> Vec<Load> {
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
        write("steady-2", "the same over remote write 2", &EVERYONE, version_2(steady(size, 0))),
        write("new-series", "400 k series that nobody knows, three scrapes", &EVERYONE, new_series(size)),
        write("churn", "100 k series, a tenth of them replaced in a minute of their time", &FEW, churn),
        write("backlog", "50 k series, an hour of scrapes that come after the newest", &FEW, backlog),
        write("again", "the same hour in order, and then measured as it is sent once more", &FEW, again),
    ]
}

fn requests(size: Size) -> Vec<Load> {
    let both = [&OURS[..], &PEERS].concat();
    vec![
        write(
            "batch-10",
            "100 k series, 10 samples a request, 8 connections",
            &FEW,
            batches(size, 10, size.pick(10, 6, 4)),
        ),
        write(
            "batch-100",
            "100 k series, 100 samples a request, 8 connections",
            &both,
            batches(size, 100, size.pick(45, 20, 6)),
        ),
    ]
}

fn connections(size: Size) -> Vec<Load> {
    let over = |connections: usize| {
        let mut work = steady(size, size.pick(45, 30, 6));
        work.options.connections = connections;
        work
    };
    let both = [&OURS[..], &PEERS].concat();
    vec![
        write("connections-1", "100 k series, 2,000 samples a request, one connection", &FEW, over(1)),
        write("connections-64", "the same over 64 connections", &FEW, over(64)),
        write(
            "connections-1000",
            "100 k series over 1,000 connections, 100 samples a request",
            &both,
            many_connections(size),
        ),
    ]
}

fn labels(size: Size) -> Vec<Load> {
    let rounds = size.pick(45, 20, 6);
    // The table of known labels has grown by then to what unsorted ones need.
    let warmup = size.pick(20, 8, 1);
    let in_order = |label_order| {
        let mut work = Replay { warmup, ..steady(size, rounds) };
        work.options.label_order = label_order;
        work
    };
    let mut long = steady(size, rounds);
    long.options.labels = further_labels(LONG_LABELS, LONG_LABEL_BYTES);
    let fewer = |labels| {
        let mut work = steady(size, size.pick(30, 10, 4));
        work.options.targets = size.pick(50, 25, 5);
        work.options.labels = labels;
        work
    };
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
        write(
            "long-value",
            "25 k series with one more label of 2 KiB",
            &FEW,
            fewer(further_labels(1, LONG_VALUE_BYTES)),
        ),
        // VictoriaMetrics drops labels beyond 30.
        write(
            "many-labels",
            "25 k series with 40 more labels of 16 bytes",
            &[Node, Contender],
            fewer(further_labels(MANY_LABELS, MANY_LABEL_BYTES)),
        ),
    ]
}

fn write(name: &'static str, what: &'static str, sides: &[Side], work: Replay) -> Load {
    Load { name, section: "writes", what, sides: sides.to_vec(), work: Work::Replay(work) }
}

/// The same by remote write 2.
pub(super) fn version_2(work: Replay) -> Replay {
    Replay { options: GenerateOptions { remote_write: RemoteWrite::V2, ..work.options }, ..work }
}

/// Series that nobody knows.
pub(super) fn new_series(size: Size) -> Replay {
    let mut work = steady(size, 3);
    work.options.targets = size.pick(800, 300, 10);
    work.warmup = 0;
    work
}

/// So many samples a request.
pub(super) fn batches(size: Size, batch: usize, rounds: u32) -> Replay {
    let mut work = steady(size, rounds);
    work.options.batch = batch;
    work
}

/// A connection for each target.
pub(super) fn many_connections(size: Size) -> Replay {
    let mut work = batches(size, 100, size.pick(45, 30, 6));
    work.options.connections = size.pick(1000, 200, 20);
    work.options.targets = work.options.connections;
    work.options.series = 100;
    work
}

/// Labels that every series has besides, each value of so many bytes.
fn further_labels(count: usize, bytes: usize) -> Vec<(String, String)> {
    let label = |number: usize| {
        let value = format!("annotation-{number}-of-a-deployment-{}", "x".repeat(bytes));
        (format!("further_label_{number}"), value[..bytes].to_owned())
    };
    (0..count).map(label).collect()
}

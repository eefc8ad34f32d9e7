//! What isn't floats by remote write as fast as they are answered: native histograms, a fixed rate, gRPC, TLS, senders that reconnect, restarts and reads.

use silverback_load::replay::generate::GenerateOptions;
use silverback_load::wire::Handshake;

use super::Side::{
    self, Contender, Node, NodeMemory, NodeTls, Prometheus, PrometheusCurrent, VictoriaMetrics,
    VictoriaMetricsCurrent,
};
use super::writes::version_2;
use super::{Load, Reconnects, Replay, Size, Streams, Work, steady};

/// Who is asked how long an answer takes.
const PACED: [Side; 5] = [Node, Contender, VictoriaMetrics, VictoriaMetricsCurrent, Prometheus];
const READERS: [Side; 4] = [Node, VictoriaMetrics, VictoriaMetricsCurrent, Prometheus];
/// In each native histogram.
const HISTOGRAM_BUCKETS: usize = 40;
/// Senders that reconnect begin before what is measured beside them, and end after it.
const RECONNECTS_LONGER_S: f64 = 5.0;

/// All of them.
pub(super) fn all(size: Size) -> Vec<Load> {
    [histograms, others, reconnects].map(|part| part(size)).concat()
}

/// Native histograms.
fn histograms(size: Size) -> Vec<Load> {
    let mut work = steady(size, size.pick(100, 20, 6));
    work.options.targets = size.pick(20, 10, 4);
    work.options.connections = size.pick(8, 8, 4);
    work.options.histograms = HISTOGRAM_BUCKETS;
    let load = |name, what, work| Load {
        name,
        section: "histograms",
        what,
        sides: vec![Node, NodeMemory, PrometheusCurrent],
        work: Work::Replay(work),
    };
    vec![
        load(
            "histograms-1",
            "10 k series of integer histograms, 40 buckets each, 2,000 a request, 8 connections, remote write 1",
            work.clone(),
        ),
        load("histograms-2", "the same over remote write 2", version_2(work)),
    ]
}

fn others(size: Size) -> Vec<Load> {
    let paced = Replay {
        rate: Some(size.pick(100_000.0, 50_000.0, 5_000.0)),
        settle_s: 0.0,
        ..steady(size, size.pick(9, 6, 5))
    };
    let load =
        |name, section, what, sides: &[Side], work| Load { name, section, what, sides: sides.to_vec(), work };
    let streams = |protocol, targets, connections, batch| {
        Work::Streams(Streams { protocol, targets, connections, batch, seconds: size.pick(4, 1, 1) })
    };
    let fleet = |targets, rounds| GenerateOptions { targets, rounds, ..steady(size, 0).options };
    vec![
        load("paced", "latency", "100 k samples a second, 2,000 a request", &PACED, Work::Replay(paced)),
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
            "200 k series, 4 M samples, killed and started again on all CPUs",
            &[Node, Prometheus, PrometheusCurrent],
            Work::Restart(fleet(size.pick(400, 100, 6), size.pick(20, 10, 4))),
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
    let alone = Replay { rate: Some(rate), settle_s: 0.0, ..steady(size, size.pick(22, 12, 6)) };
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

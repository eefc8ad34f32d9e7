//! What the node has to be worth beside its peers, and whether it is. It knows figures by their names, no runs.

use super::measurements::{Measurements, Ratio};
use super::restart::READY_S;
use super::side::Side;
use super::writes::figure;
use crate::rebalance::verdict::{Bound, Kind};

/// One target: a ratio that must be at least so much, or at most.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The part of the document that has it.
    pub section: &'static str,
    figure: &'static str,
    of: (&'static str, Side),
    to: (&'static str, Side),
    limit: Limit,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
        }
    }
}

/// Samples for each second of CPU time, ours to another's at the same load.
const fn per_cpu(load: &'static str, to: Side, least: f64) -> Target {
    let (of, to) = ((load, to.counterpart()), (load, to));
    Target { section: "writes", figure: figure::PER_CPU_S, of, to, limit: Limit::AtLeast(least) }
}

/// The node to another at the same load.
const fn beside(
    section: &'static str,
    figure: &'static str,
    load: &'static str,
    to: Side,
    limit: Limit,
) -> Target {
    Target { section, figure, of: (load, Side::Node), to: (load, to), limit }
}

/// The node at one load to the node at another.
const fn own(
    section: &'static str,
    figure: &'static str,
    of: &'static str,
    to: &'static str,
    least: f64,
) -> Target {
    let limit = Limit::AtLeast(least);
    Target { section, figure, of: (of, Side::Node), to: (to, Side::Node), limit }
}

/// Samples for each second of CPU time at a load of `scale`, the node's to the contender's.
const fn scale(load: &'static str, least: f64) -> Target {
    beside("scale", figure::PER_CPU_S, load, Side::Contender, Limit::AtLeast(least))
}

/// The node over TLS at one load to itself at another.
const fn encrypted(section: &'static str, of: &'static str, to: &'static str, most: f64) -> Target {
    let (of, to) = ((of, Side::NodeTls), (to, Side::NodeTls));
    Target { section, figure: figure::P99_MS, of, to, limit: Limit::AtMost(most) }
}

/// The node to another build of it.
const fn former(load: &'static str) -> Target {
    beside("former", figure::PER_CPU_S, load, Side::NodeFormer, Limit::AtLeast(0.98))
}

/// All targets, in the document's order.
pub const TARGETS: &[Target] = &[
    per_cpu("steady-1", Side::Contender, 1.15),
    per_cpu("steady-2", Side::Contender, 1.15),
    per_cpu("new-series", Side::Contender, 1.4),
    per_cpu("batch-100", Side::Contender, 1.4),
    per_cpu("connections-1000", Side::Contender, 1.4),
    per_cpu("steady-1", Side::ContenderMemory, 1.15),
    per_cpu("steady-2", Side::ContenderMemory, 1.15),
    per_cpu("new-series", Side::ContenderMemory, 1.4),
    per_cpu("batch-100", Side::ContenderMemory, 1.4),
    per_cpu("connections-1000", Side::ContenderMemory, 1.4),
    beside("writes", figure::P50_MS, "connections-1000", Side::Contender, Limit::AtMost(1.0)),
    beside("writes", figure::P99_MS, "connections-1000", Side::Contender, Limit::AtMost(1.0)),
    per_cpu("batch-100", Side::VictoriaMetrics, 3.5),
    beside("writes", figure::PER_CPU_S, "batch-100", Side::NodeMemory, Limit::AtLeast(0.8)),
    per_cpu("connections-1", Side::VictoriaMetrics, 1.5),
    per_cpu("connections-1000", Side::VictoriaMetrics, 5.0),
    per_cpu("new-series", Side::VictoriaMetrics, 18.0),
    per_cpu("long-labels", Side::VictoriaMetrics, 4.0),
    per_cpu("long-value", Side::VictoriaMetrics, 4.0),
    per_cpu("steady-2", Side::PrometheusCurrent, 13.0),
    // 1.25 times the floor's CPU time.
    own("writes", figure::PER_CPU_S, "steady-1", "floor", 0.8),
    own("writes", figure::PER_CPU_S, "unsorted", "sorted", 0.9),
    own("writes", figure::PER_CPU_S, "backlog", "steady-1", 0.7),
    own("writes", figure::PER_CPU_S, "again", "steady-1", 0.5),
    beside("latency", figure::P99_MS, "paced", Side::VictoriaMetrics, Limit::AtMost(1.0)),
    scale("two-shards", 1.15),
    beside("scale", figure::PER_S, "two-shards", Side::Contender, Limit::AtLeast(1.15)),
    scale("two-steady-2", 1.15),
    scale("two-new-series", 1.4),
    scale("two-batch-100", 1.4),
    scale("two-connections-1000", 1.4),
    scale("skewed", 1.5),
    own("scale", figure::PER_CPU_S, "two-shards", "one-shard", 0.97),
    own("scale", figure::PER_S, "two-shards", "one-shard", 1.8),
    beside("histograms", figure::PER_CPU_S, "histograms-1", Side::PrometheusCurrent, Limit::AtLeast(8.0)),
    beside("histograms", figure::PER_CPU_S, "histograms-2", Side::PrometheusCurrent, Limit::AtLeast(8.0)),
    own("grpc", figure::PER_CPU_S, "streams", "remote-write", 2.5),
    own("grpc", figure::PER_CPU_S, "streams-1000", "streams", 0.8),
    beside("tls", figure::PER_CPU_S, "tls", Side::NodeTls, Limit::AtMost(1.15)),
    beside("tls", figure::PER_CPU_S, "tls-streams", Side::NodeTls, Limit::AtMost(1.15)),
    encrypted("reconnects", "stay-beside-resumed", "stay", 2.0),
    encrypted("reconnects", "stay-beside-full", "stay", 2.0),
    beside("restart", READY_S, "restart", Side::Prometheus, Limit::AtMost(0.2)),
    former("former-steady-1"),
    former("former-steady-2"),
    former("former-new-series"),
    former("former-churn"),
    former("former-batch-10"),
    former("former-batch-100"),
    former("former-connections-1"),
    former("former-connections-64"),
    former("former-connections-1000"),
    former("former-sorted"),
    former("former-unsorted"),
    former("former-shuffled"),
    former("former-long-labels"),
    former("former-long-value"),
    former("former-many-labels"),
    former("former-streams"),
];

impl Target {
    /// Whether it holds; nothing where one of both wasn't measured.
    pub fn judged(&self, all: &Measurements) -> Option<Bound> {
        let ratio = Ratio::of(&all.ratios(self.figure, self.of, self.to));
        if ratio.rounds == 0 {
            return None;
        }
        let median = ratio.spread.median;
        let limit = match self.limit {
            Limit::AtLeast(least) => format!("at least {least}"),
            Limit::AtMost(most) => format!("at most {most}"),
        };
        let text = format!("{}: {median:.2}, {limit}", self.words());
        Some(Bound::new(Kind::Speed, self.limit.holds(median), text))
    }

    /// What is compared.
    pub fn words(&self) -> String {
        let ((of, of_side), (to, to_side)) = (self.of, self.to);
        let figure = match self.figure {
            figure::PER_CPU_S => "samples a CPU second",
            figure::PER_S => "samples a second",
            figure::P50_MS => "p50",
            figure::P99_MS => "p99",
            READY_S => "seconds until ready",
            other => other,
        };
        match of == to {
            true => format!("{of}, {figure}, {of_side} to {to_side}"),
            false => format!("{of} to {to}, {figure}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::loads::{Size, all};
    use super::super::measurements::tests::measurements;
    use super::*;

    #[test]
    fn every_target_is_about_loads_of_its_section_and_sides_that_get_them() {
        let loads = all(Size::Full);
        for target in TARGETS {
            for (name, side) in [target.of, target.to] {
                let load = loads.iter().find(|load| load.name == name).expect(name);
                assert!(load.sides.contains(&side), "{name} isn't for {side}");
                assert_eq!(load.section, target.section, "{name}");
            }
        }
    }

    #[test]
    fn a_target_holds_or_is_missed_and_says_by_how_much() {
        let target = Target { figure: "x", ..per_cpu("steady-1", Side::Contender, 1.15) };
        let judged = |ours| {
            let rows =
                [("steady-1", Side::Node, &[Some(ours)][..]), ("steady-1", Side::Contender, &[Some(1.0)])];
            target.judged(&measurements(&rows)).expect("both were measured").to_string()
        };
        assert_eq!(judged(1.2), "holds: steady-1, x, silverback to contender: 1.20, at least 1.15");
        assert_eq!(judged(1.1), "MISSED: steady-1, x, silverback to contender: 1.10, at least 1.15");
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let all = measurements(&[("steady-1", Side::Node, &[Some(1.0)])]);
        assert!(per_cpu("steady-1", Side::Contender, 1.15).judged(&all).is_none());
    }
}

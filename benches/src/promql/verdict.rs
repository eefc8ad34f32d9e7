//! What the node has to be worth, and whether it is.

use super::dataset::{COUNTERS, Extent};
use super::expressions::{ALL, Expression, RATE, RATE_OF_RACK};
use super::tables::Costs;
use crate::rebalance::verdict::{Bound, Kind};
use crate::report::side::{Kind as Peer, Side};

/// CPU time of the rate over all counters, for each sample that there is.
const RATE_NS_A_SAMPLE: f64 = 1.5e9 / 144e6;
/// Wall time of the rate over a rack.
const RACK_MS: f64 = 15.0;
/// Ten panels at once.
const PANELS_MS: f64 = 150.0;
/// The memory that a query takes, as a part of what Prometheus takes.
const MEMORY: f64 = 1.0 / 3.0;
/// Two shards to one.
const SHARDS: f64 = 1.8;
/// Writes beside queries to writes alone.
const BESIDE: f64 = 2.0;

/// What was measured beside the table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Others {
    /// Ten panels at once, in seconds.
    pub panels_s: f64,
    /// The p99 of writes: alone and beside queries, in seconds.
    pub writes_s: (f64, f64),
    /// The rate over all counters by one shard and by two, in seconds of the wall's clock.
    pub shards_s: Option<(f64, f64)>,
}

/// All bounds.
pub fn judge(costs: &Costs, extent: &Extent, others: &Others) -> Vec<Bound> {
    let mut bounds = Vec::new();
    let mut at_most = |what: String, is: f64, most: f64| {
        bounds.push(Bound::new(Kind::Speed, is <= most, format!("{what}: {is:.2}, at most {most:.2}")));
    };
    if let Some(cost) = costs.median(RATE.text, Side::Node) {
        let samples = (extent.instances * COUNTERS * extent.rounds) as f64;
        at_most(format!("`{}`, CPU ns a sample", RATE.text), cost.cpu_s * 1e9 / samples, RATE_NS_A_SAMPLE);
    }
    if let Some(cost) = costs.median(RATE_OF_RACK.text, Side::Node) {
        at_most(format!("`{}`, ms", RATE_OF_RACK.text), cost.wall_s * 1e3, RACK_MS);
    }
    at_most("ten panels at once, ms".to_owned(), others.panels_s * 1e3, PANELS_MS);
    at_most(
        "p99 of writes beside four queries to alone".to_owned(),
        others.writes_s.1 / others.writes_s.0,
        BESIDE,
    );
    if let (Some(own), Some(other)) = (
        costs.median(RATE.text, Side::Node),
        prometheus(costs).and_then(|side| costs.median(RATE.text, side)),
    ) {
        at_most("peak memory to Prometheus'".to_owned(), part(own.grown_bytes, other.grown_bytes), MEMORY);
    }
    if let Some((one, two)) = others.shards_s {
        let ratio = one / two;
        let text = format!("wall time of one shard to that of two: {ratio:.2}, at least {SHARDS}");
        bounds.push(Bound::new(Kind::Speed, ratio >= SHARDS, text));
    }
    for expression in &ALL {
        bounds.extend(beside(costs, expression));
    }
    bounds
}

fn beside(costs: &Costs, expression: &Expression) -> Vec<Bound> {
    let mut bounds = Vec::new();
    for side in costs.peers() {
        let least = match side.kind() {
            Peer::VictoriaMetrics => expression.beside_victoria_metrics,
            Peer::Prometheus => Some(expression.beside_prometheus),
            Peer::Node | Peer::Contender => None,
        };
        let (Some(least), Some(ratio)) = (least, costs.ratio(expression.text, side)) else { continue };
        let text = format!("`{}`, CPU time of {side} to ours: {ratio:.1}, at least {least}", expression.text);
        bounds.push(Bound::new(Kind::Speed, ratio >= least, text));
    }
    bounds
}

/// What one is of the other. Where either is nothing, nothing was seen, and no bound is kept by that.
fn part(own: f64, other: f64) -> f64 {
    if own > 0.0 && other > 0.0 { own / other } else { f64::NAN }
}

/// The newest that is here.
fn prometheus(costs: &Costs) -> Option<Side> {
    costs.peers().into_iter().rfind(|side| side.kind() == Peer::Prometheus)
}

#[cfg(test)]
mod tests {
    use super::super::ask::Cost;
    use super::*;

    #[test]
    fn memory_of_which_nothing_was_seen_keeps_no_bound() {
        let keeps = |own: f64, other: f64| {
            let mut costs = Costs::default();
            for (side, grown_bytes) in [(Side::Node, own), (Side::Prometheus, other)] {
                costs.add(RATE.text, side, Cost { cpu_s: 1.0, wall_s: 1.0, grown_bytes });
            }
            let extent = Extent { instances: 1, rounds: 1, start_ms: 0 };
            let bounds = judge(&costs, &extent, &Others::default());
            let memory = bounds.iter().find(|bound| bound.to_string().contains("peak memory"));
            memory.map(|bound| bound.is_kept(Kind::Speed))
        };
        assert_eq!(keeps(1e6, 9e6), Some(true));
        for (own, other) in [(9e6, 9e6), (0.0, 9e6), (9e6, 0.0), (0.0, 0.0)] {
            assert_eq!(keeps(own, other), Some(false), "{own}, {other}");
        }
    }
}

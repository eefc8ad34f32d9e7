//! What questions cost, by expression and by side, and the table of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::ask::Cost;
use super::expressions::ALL;
use crate::report::side::{Programs, Side};

/// All costs, round after round.
#[derive(Debug, Default)]
pub struct Costs(BTreeMap<(String, Side), Vec<Cost>>);

impl Costs {
    /// Adds one.
    pub fn add(&mut self, text: &str, side: Side, cost: Cost) {
        self.0.entry((text.to_owned(), side)).or_default().push(cost);
    }

    /// The median of each figure of all rounds.
    pub fn median(&self, text: &str, side: Side) -> Option<Cost> {
        let rounds = self.0.get(&(text.to_owned(), side))?;
        let median = |figure: fn(&Cost) -> f64| middle(rounds.iter().map(figure));
        Some(Cost {
            cpu_s: median(|cost| cost.cpu_s),
            wall_s: median(|cost| cost.wall_s),
            grown_bytes: median(|cost| cost.grown_bytes),
        })
    }

    /// How many times the node's CPU time another takes: the median of the rounds' ratios.
    pub fn ratio(&self, text: &str, side: Side) -> Option<f64> {
        let (own, other) =
            (self.0.get(&(text.to_owned(), Side::Node))?, self.0.get(&(text.to_owned(), side))?);
        Some(middle(own.iter().zip(other).map(|(own, other)| other.cpu_s / own.cpu_s)))
    }

    /// Who else was asked.
    pub fn peers(&self) -> Vec<Side> {
        Side::ALL
            .into_iter()
            .filter(|side| !side.is_own() && self.0.keys().any(|(_, of)| of == side))
            .collect()
    }

    /// A row for each expression: what it costs the node, and each peer with the ratio to the node.
    pub fn table(&self, programs: &Programs) -> String {
        let peers = self.peers();
        let mut text = "| expression | silverback CPU ms | wall ms | MB |".to_owned();
        for peer in &peers {
            let _ = write!(text, " {} CPU ms | times ours | wall ms | MB |", programs.label(*peer));
        }
        text += "\n|---|--:|--:|--:|";
        text += &"--:|--:|--:|--:|".repeat(peers.len());
        for expression in &ALL {
            let Some(own) = self.median(expression.text, Side::Node) else { continue };
            let shown = expression.text.replace('|', "\\|");
            let Cost { cpu_s, wall_s, grown_bytes } = own;
            let _ = write!(
                text,
                "\n| `{shown}` | {:.1} | {:.1} | {:.0} |",
                cpu_s * 1e3,
                wall_s * 1e3,
                grown_bytes / 1e6
            );
            for peer in &peers {
                match (self.median(expression.text, *peer), self.ratio(expression.text, *peer)) {
                    (Some(Cost { cpu_s, wall_s, grown_bytes }), Some(ratio)) => {
                        let (cpu_ms, wall_ms, mb) = (cpu_s * 1e3, wall_s * 1e3, grown_bytes / 1e6);
                        let _ = write!(text, " {cpu_ms:.1} | {ratio:.1} | {wall_ms:.1} | {mb:.0} |");
                    }
                    (_, _) => text += " | | | |",
                }
            }
        }
        text
    }
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::super::expressions::RATE;
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut costs = Costs::default();
        for (own, other) in [(1.0, 3.0), (2.0, 10.0), (4.0, 16.0)] {
            let cost = |cpu_s| Cost { cpu_s, wall_s: 1.0, grown_bytes: 0.0 };
            costs.add(RATE.text, Side::Node, cost(own));
            costs.add(RATE.text, Side::Prometheus, cost(other));
        }
        assert_eq!(costs.ratio(RATE.text, Side::Prometheus), Some(4.0));
        assert_eq!(costs.median(RATE.text, Side::Node).map(|cost| cost.cpu_s), Some(2.0));
        assert_eq!(costs.peers(), [Side::Prometheus]);
        let lines = costs.table(&Programs::default());
        let columns: Vec<usize> = lines.lines().map(|line| line.matches(" |").count()).collect();
        assert_eq!(columns[0], columns[2], "{lines}");
    }
}

//! Figures of all runs, by what was done, by whom and in which round. It knows no units and no words.

use std::collections::BTreeMap;

use silverback_load::replay::spread::Spread;

use super::side::Side;
use crate::founding::meter::Figures;

/// A row: what was done, and by whom.
pub type Row = (String, Side);

/// What was measured, and what failed.
#[derive(Debug, Default)]
pub struct Measurements {
    rounds: BTreeMap<Row, BTreeMap<usize, Figures>>,
    /// Runs that came to nothing, in words.
    pub failures: Vec<Failure>,
}

/// A run that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Of which load.
    pub load: &'static str,
    /// Whose.
    pub side: Side,
    /// Why.
    pub why: String,
}

impl Measurements {
    /// Adds one run's figures.
    pub fn add(&mut self, round: usize, setting: &str, side: Side, figures: Figures) {
        self.rounds.entry((setting.to_owned(), side)).or_default().insert(round, figures);
    }

    /// Who was measured at something, in the tables' order.
    pub fn sides_of(&self, setting: &str) -> Vec<Side> {
        self.rounds.keys().filter(|(of, _)| of == setting).map(|(_, side)| *side).collect()
    }

    /// A row's figures, round by round.
    pub fn rounds_of(&self, setting: &str, side: Side) -> impl Iterator<Item = (usize, &Figures)> {
        let rounds = self.rounds.get(&(setting.to_owned(), side));
        rounds.into_iter().flatten().map(|(round, figures)| (*round, figures))
    }

    /// One round's figure.
    fn figure(&self, setting: &str, side: Side, round: usize, figure: &str) -> Option<f64> {
        self.rounds.get(&(setting.to_owned(), side))?.get(&round)?.get(figure).copied()
    }

    /// The figure of one row divided by that of another, each of the same round: machines are quicker at one time
    /// than at another, and both rows have it alike.
    pub fn ratios(&self, figure: &str, of: (&str, Side), to: (&str, Side)) -> Vec<f64> {
        let ratio = |(round, figures): (usize, &Figures)| {
            let (of, to) = (figures.get(figure)?, self.figure(to.0, to.1, round, figure)?);
            let ratio = of / to;
            ratio.is_finite().then_some(ratio)
        };
        self.rounds_of(of.0, of.1).filter_map(ratio).collect()
    }

    /// The same in one round.
    pub fn ratio_in(&self, round: usize, figure: &str, of: (&str, Side), to: (&str, Side)) -> Option<f64> {
        let ratio = self.figure(of.0, of.1, round, figure)? / self.figure(to.0, to.1, round, figure)?;
        ratio.is_finite().then_some(ratio)
    }

    /// Rounds that any row has.
    pub fn rounds(&self) -> usize {
        self.rounds.values().map(BTreeMap::len).max().unwrap_or(0)
    }
}

/// What ratios come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Least, middle and most.
    pub spread: Spread,
    /// The median distance from the median: how far one round lies from the others, whatever a single one does.
    pub deviation: f64,
    /// Of how many rounds.
    pub rounds: usize,
}

impl Ratio {
    /// Of ratios in any order.
    pub fn of(ratios: &[f64]) -> Self {
        let spread = Spread::of(ratios.iter().copied());
        let distances = ratios.iter().map(|ratio| (ratio - spread.median).abs());
        Self { spread, deviation: Spread::of(distances).median, rounds: ratios.len() }
    }

    /// Whether it is below another by more than this part of it, whatever the rounds' own spread lets one expect.
    /// What was never measured is.
    pub fn is_below(&self, other: f64, part: f64) -> bool {
        let at_best = self.spread.median + self.deviation;
        at_best.is_nan() || at_best < other * (1.0 - part)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Rounds of one figure, `x`; a round without one failed.
    pub(crate) fn measurements(rows: &[(&str, Side, &[Option<f64>])]) -> Measurements {
        let mut all = Measurements::default();
        for (setting, side, rounds) in rows {
            for (round, value) in rounds.iter().enumerate() {
                if let Some(value) = value {
                    all.add(round, setting, *side, Figures::from([("x".to_owned(), *value)]));
                }
            }
        }
        all
    }

    #[test]
    fn a_ratio_is_of_two_runs_of_the_same_round() {
        let all = measurements(&[
            ("a", Side::Node, &[Some(10.0), None, Some(30.0), Some(8.0)]),
            ("a", Side::Contender, &[Some(5.0), Some(1.0), Some(10.0), None]),
        ]);
        assert_eq!(all.ratios("x", ("a", Side::Node), ("a", Side::Contender)), [2.0, 3.0]);
        assert_eq!(all.ratio_in(2, "x", ("a", Side::Node), ("a", Side::Contender)), Some(3.0));
        assert_eq!(all.ratio_in(1, "x", ("a", Side::Node), ("a", Side::Contender)), None);
        assert_eq!(all.rounds(), 3);
        assert_eq!(all.sides_of("a"), [Side::Node, Side::Contender]);
    }

    #[test]
    fn what_is_divided_by_nothing_is_no_ratio() {
        let all = measurements(&[("a", Side::Node, &[Some(1.0)]), ("a", Side::Contender, &[Some(0.0)])]);
        assert!(all.ratios("x", ("a", Side::Node), ("a", Side::Contender)).is_empty());
    }

    #[test]
    fn one_odd_round_moves_neither_the_median_nor_the_deviation_far() {
        let ratio = Ratio::of(&[1.2, 1.25, 1.22, 1.24, 9.0]);
        assert_eq!((ratio.spread.median, ratio.spread.max, ratio.rounds), (1.24, 9.0, 5));
        assert!((ratio.deviation - 0.02).abs() < 1e-9, "{}", ratio.deviation);
    }

    #[test]
    fn a_ratio_falls_by_a_tenth_and_by_what_rounds_differ() {
        let check = |ratios: &[f64], kept, is_below| {
            assert_eq!(Ratio::of(ratios).is_below(kept, 0.1), is_below, "{ratios:?} beside {kept}");
        };
        check(&[1.19, 1.2, 1.21], 1.3, false);
        check(&[1.09, 1.1, 1.11], 1.3, true);
        // As low in the middle, but the rounds differ by more than it fell.
        check(&[0.9, 1.1, 1.3], 1.3, false);
        check(&[], 1.3, true);
    }
}

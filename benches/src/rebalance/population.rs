//! Series for the cells that they are to lie in, and how often each cell is sent to.

use silverback_load::catalogue::Label;
use silverback_load::random::SplitMix;
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, Labels, SeriesIdHasher};

/// Zipf's exponent over the cells of a shard: the first takes a seventh of its shard's load.
const EXPONENT: f64 = 1.0;

/// Labels of series, found by trying numbers until enough of them hash to the right cells.
#[derive(Debug)]
pub struct Search {
    hasher: SeriesIdHasher,
    name: &'static str,
    number: u64,
}

impl Search {
    /// Of series of this name, on the node with this seed.
    pub fn new(seed: u64, name: &'static str) -> Self {
        Self { hasher: SeriesIdHasher::new(seed, ""), name, number: 0 }
    }

    /// So many series in each cell, by cell.
    pub fn in_every_cell(&mut self, count: usize) -> Vec<Vec<Vec<Label>>> {
        let mut found: Vec<Vec<Vec<Label>>> = vec![Vec::new(); CELL_COUNT];
        let mut missing = CELL_COUNT * count;
        while missing > 0 {
            let (cell, labels) = self.next();
            let there = &mut found[usize::from(cell.0)];
            if there.len() < count {
                there.push(labels);
                missing -= 1;
            }
        }
        found
    }

    /// So many series of one cell.
    pub fn in_cell(&mut self, cell: CellId, count: usize) -> Vec<Vec<Label>> {
        let mut found = Vec::with_capacity(count);
        while found.len() < count {
            let (there, labels) = self.next();
            if there == cell {
                found.push(labels);
            }
        }
        found
    }

    fn next(&mut self) -> (CellId, Vec<Label>) {
        let number = self.number.to_string();
        self.number += 1;
        let labels = Labels::from_pairs([("__name__", self.name), ("series", number.as_str())]);
        let cell = self.hasher.hash_canonical(&labels.to_canonical()).cell();
        let pairs = [("__name__", self.name.to_owned()), ("series", number)];
        (cell, pairs.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

/// Draws cells.
#[derive(Debug, Clone)]
pub struct Weights {
    /// The part of the load that goes to each cell and those before it.
    cumulated: Vec<f64>,
}

impl Weights {
    /// Every cell alike.
    pub fn even() -> Self {
        Self::of(|_| 1.0)
    }

    /// `part` of the load on the first half of the cells, which the first of two shards is dealt, and
    /// within each half by Zipf's law.
    pub fn skewed(part: f64) -> Self {
        let half = CELL_COUNT / 2;
        let of_rank = |rank: usize| 1.0 / ((rank + 1) as f64).powf(EXPONENT);
        let sum: f64 = (0..half).map(of_rank).sum();
        Self::of(|cell| (if cell < half { part } else { 1.0 - part }) * of_rank(cell % half) / sum)
    }

    /// Half of the load on one cell, the rest on every other alike.
    pub fn half_on(cell: CellId) -> Self {
        let others = (CELL_COUNT - 1) as f64;
        Self::of(|other| if other == usize::from(cell.0) { others } else { 1.0 })
    }

    fn of(weight: impl Fn(usize) -> f64) -> Self {
        let sum: f64 = (0..CELL_COUNT).map(&weight).sum();
        let mut cumulated: Vec<f64> = (0..CELL_COUNT).map(|cell| weight(cell) / sum).collect();
        for cell in 1..CELL_COUNT {
            cumulated[cell] += cumulated[cell - 1];
        }
        Self { cumulated }
    }

    /// The next cell.
    pub fn draw(&self, random: &mut SplitMix) -> usize {
        let at = random.unit();
        self.cumulated.partition_point(|part| *part <= at).min(CELL_COUNT - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fifths_of_a_skewed_load_go_to_the_first_half() {
        let (weights, mut random) = (Weights::skewed(0.8), SplitMix::new(1, 1));
        let drawn: Vec<usize> = (0..100_000).map(|_| weights.draw(&mut random)).collect();
        let part = |range: std::ops::Range<usize>| {
            drawn.iter().filter(|cell| range.contains(cell)).count() as f64 / drawn.len() as f64
        };
        assert!((part(0..512) - 0.8).abs() < 0.01, "{}", part(0..512));
        assert!((part(0..1) - 0.117).abs() < 0.01, "{}", part(0..1));
    }

    #[test]
    fn one_cell_can_have_half_of_the_load() {
        let (weights, mut random) = (Weights::half_on(CellId(700)), SplitMix::new(1, 1));
        let of_cell = (0..10_000).filter(|_| weights.draw(&mut random) == 700).count();
        assert!((4800..5200).contains(&of_cell), "{of_cell}");
    }

    #[test]
    fn series_are_found_for_their_cells() {
        let mut search = Search::new(7, "s");
        let every = search.in_every_cell(2);
        assert!(every.iter().all(|series| series.len() == 2));
        let one = search.in_cell(CellId(5), 3);
        let hasher = SeriesIdHasher::new(7, "");
        for labels in one {
            let labels = Labels::from_pairs(labels);
            assert_eq!(hasher.hash_canonical(&labels.to_canonical()).cell(), CellId(5));
        }
    }
}

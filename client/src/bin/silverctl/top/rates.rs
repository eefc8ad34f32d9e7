//! What happened between two looks: counters become rates. It knows no node and no screen.

use std::cmp::Reverse;
use std::collections::HashMap;

use silverback_client::{Cell, Shard};

use super::look::Look;

/// One shard, or all of them together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ShardRates {
    /// As the node reports it now: sizes and levels.
    pub now: Shard,
    /// What happened in a second; none from a first look.
    pub per_s: Option<PerSecond>,
}

/// What happened in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PerSecond {
    /// Samples that were stored.
    pub samples: f64,
    /// Samples that were refused.
    pub refused: f64,
    /// Series that were made.
    pub series_created: f64,
    /// Commits.
    pub commits: f64,
    /// The part of the time that the core was busy with traffic; of all shards, their mean.
    pub busy: f64,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CellRates {
    /// As the node reports it now, its load too: a cell that moved has other counters.
    pub now: Cell,
    /// Its part of what all cells take of their cores; none where they take nothing.
    pub part: Option<f64>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rates {
    /// All shards together.
    pub all: ShardRates,
    /// By number.
    pub shards: Vec<ShardRates>,
    /// The busiest first.
    pub cells: Vec<CellRates>,
}

impl Rates {
    /// Of `newer`, since `older` where the node has been up all the while.
    pub(crate) fn between(older: Option<&Look>, newer: &Look) -> Self {
        let older = older.filter(|older| older.shards.uptime < newer.shards.uptime);
        let span_s = older.map_or(0.0, |older| (newer.shards.uptime - older.shards.uptime).as_secs_f64());
        let before: Option<HashMap<u32, &Shard>> =
            older.map(|older| older.shards.shards.iter().map(|shard| (shard.number, shard)).collect());
        let shards: Vec<_> = newer
            .shards
            .shards
            .iter()
            .map(|now| {
                let before = before.as_ref().and_then(|before| before.get(&now.number));
                let per_s = before.map(|before| PerSecond::between(before, now, span_s));
                ShardRates { now: *now, per_s }
            })
            .collect();
        Self { all: all(&shards), shards, cells: cells(newer) }
    }
}

impl PerSecond {
    fn between(before: &Shard, now: &Shard, span_s: f64) -> Self {
        let rate = |counter: fn(&Shard) -> u64| counter(now).saturating_sub(counter(before)) as f64 / span_s;
        Self {
            samples: rate(|shard| shard.samples),
            refused: rate(|shard| shard.samples_refused),
            series_created: rate(|shard| shard.series_created),
            commits: rate(|shard| shard.commits),
            busy: now.core_busy_us_per_s as f64 / 1e6,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            samples: self.samples + other.samples,
            refused: self.refused + other.refused,
            series_created: self.series_created + other.series_created,
            commits: self.commits + other.commits,
            busy: self.busy + other.busy,
        }
    }
}

/// Levels and sizes add up, and so do rates; how busy they are is a mean.
fn all(shards: &[ShardRates]) -> ShardRates {
    let sum = |level: fn(&Shard) -> u64| shards.iter().map(|shard| level(&shard.now)).sum();
    let now = Shard {
        series: sum(|shard| shard.series),
        cells: shards.iter().map(|shard| shard.now.cells).sum(),
        queued: sum(|shard| shard.queued),
        memory_bytes: sum(|shard| shard.memory_bytes),
        memory_bytes_max: sum(|shard| shard.memory_bytes_max),
        wal_bytes: sum(|shard| shard.wal_bytes),
        ..Shard::default()
    };
    let rates: Option<Vec<PerSecond>> = shards.iter().map(|shard| shard.per_s).collect();
    let per_s = rates.filter(|rates| !rates.is_empty()).map(|rates| {
        let sum = rates.iter().copied().fold(PerSecond::default(), PerSecond::plus);
        PerSecond { busy: sum.busy / rates.len() as f64, ..sum }
    });
    ShardRates { now, per_s }
}

fn cells(look: &Look) -> Vec<CellRates> {
    let all: u64 = look.cells.iter().map(|cell| cell.busy_us_per_s).sum();
    let part = |cell: &Cell| (all > 0).then(|| cell.busy_us_per_s as f64 / all as f64);
    let mut cells: Vec<_> = look.cells.iter().map(|now| CellRates { now: *now, part: part(now) }).collect();
    cells.sort_by_key(|cell| (Reverse((cell.now.busy_us_per_s, cell.now.samples_per_s)), cell.now.number));
    cells
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use silverback_client::Shards;

    use super::*;

    /// Two shards and three cells, after so many seconds with these samples a second.
    pub(crate) fn look(uptime_s: u64, shard_samples: [u64; 2], cell_samples: [u64; 3]) -> Look {
        let shard = |number: u32| Shard {
            number,
            cpu: Some(number),
            series: 100,
            cells: 512,
            samples: shard_samples[number as usize] * uptime_s,
            samples_refused: uptime_s,
            core_busy_us_per_s: 250_000 * u64::from(number + 1),
            commits: 50 * uptime_s,
            queued: 3,
            memory_bytes: 64 << 20,
            memory_bytes_max: 256 << 20,
            wal_bytes: 5 << 30,
            ..Shard::default()
        };
        let cell = |number: u32| Cell {
            number,
            shard: number % 2,
            series: 10,
            samples_per_s: cell_samples[number as usize],
            busy_us_per_s: 10 * cell_samples[number as usize],
            ..Cell::default()
        };
        Look {
            shards: Shards {
                shards: vec![shard(0), shard(1)],
                uptime: Duration::from_secs(uptime_s),
                version: "0.1.0".to_owned(),
            },
            cells: (0..3).map(cell).collect(),
        }
    }

    #[test]
    fn counters_of_two_looks_are_rates() {
        let (older, newer) = (look(10, [1000, 3000], [10, 30, 60]), look(14, [1000, 3000], [10, 30, 60]));
        let rates = Rates::between(Some(&older), &newer);
        let first = rates.shards[0].per_s.expect("a rate");
        assert_eq!((first.samples, first.refused, first.busy, first.commits), (1000.0, 1.0, 0.25, 50.0));
        let all = rates.all.per_s.expect("a rate");
        assert_eq!((all.samples, all.busy, all.commits), (4000.0, 0.375, 100.0));
        assert_eq!((rates.all.now.series, rates.all.now.cells, rates.all.now.queued), (200, 1024, 6));
    }

    #[test]
    fn the_hottest_cell_is_the_first() {
        let (older, newer) = (look(10, [0, 0], [10, 30, 60]), look(12, [0, 0], [10, 30, 60]));
        let cells = Rates::between(Some(&older), &newer).cells;
        let hottest: Vec<_> = cells.iter().map(|cell| (cell.now.number, cell.part)).collect();
        assert_eq!(hottest, [(2, Some(0.6)), (1, Some(0.3)), (0, Some(0.1))]);
    }

    #[test]
    fn a_first_look_and_a_restarted_node_have_no_rates() {
        let newer = look(5, [1, 1], [1, 2, 3]);
        for older in [None, Some(look(100, [1, 1], [1, 2, 3])), Some(newer.clone())] {
            let rates = Rates::between(older.as_ref(), &newer);
            assert_eq!((rates.all.per_s, rates.shards[1].per_s), (None, None));
            assert_eq!(rates.cells[0].now.number, 2);
        }
    }

    #[test]
    fn idle_cells_have_no_part_of_anything() {
        let cells = Rates::between(None, &look(5, [0, 0], [0, 0, 0])).cells;
        assert!(cells.iter().all(|cell| cell.part.is_none()));
    }
}

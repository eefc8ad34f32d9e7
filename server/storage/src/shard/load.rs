//! What each cell costs the shard's core: rates that forget within seconds.
//!
//! An append counts a cell's samples, and the worker its own time; once a second both become rates
//! here, the time split over the cells by their samples. So the way of a sample holds no clock and
//! nothing else that it wouldn't hold without.

use crate::cell::Cell;
use crate::message::CellStats;
use crate::shard::Shard;
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, Epoch};

/// How long a load is remembered: what is older than this counts for about a third.
const MEMORY_S: f64 = 3.0;

/// What a core did until now: counters that never go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreTime {
    /// A clock.
    pub now_us: u64,
    /// Time that the core spent on traffic: without jobs that give way to it.
    pub foreground_us: u64,
}

/// The rates of a shard and its cells. A cell that goes is forgotten here as fast as it is learnt
/// where it went: the sum over the shards is its load all the time.
#[derive(Debug)]
pub(super) struct LoadMeter {
    seen: Option<LastCounters>,
    cells: Box<[Metered]>,
    core_busy_us_per_s: f64,
    other_busy_us_per_s: f64,
}

/// The counters at the last look.
#[derive(Debug)]
struct LastCounters {
    time: CoreTime,
    append_us: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Metered {
    seen_samples: u64,
    samples_per_s: f64,
    busy_us_per_s: f64,
}

impl Metered {
    /// Samples since the last look. A cell that went and came back counts from zero.
    fn since(&self, cell: &Cell) -> u64 {
        cell.samples.checked_sub(self.seen_samples).unwrap_or(cell.samples)
    }
}

impl Default for LoadMeter {
    fn default() -> Self {
        let cells = [Metered::default(); CELL_COUNT].into();
        Self { seen: None, cells, core_busy_us_per_s: 0.0, other_busy_us_per_s: 0.0 }
    }
}

impl LoadMeter {
    /// Takes in what was counted since the last look.
    fn look(&mut self, time: CoreTime, append_us: u64, cells: &[Cell]) {
        let Some(seen) = self.seen.replace(LastCounters { time, append_us }) else {
            self.cells.iter_mut().zip(cells).for_each(|(metered, cell)| metered.seen_samples = cell.samples);
            return;
        };
        let span_s = (time.now_us - seen.time.now_us) as f64 / 1e6;
        if span_s <= 0.0 {
            return;
        }
        let weight = 1.0 - (-span_s / MEMORY_S).exp();
        let decay = |rate: &mut f64, now: f64| *rate += (now - *rate) * weight;
        let foreground_us = time.foreground_us.saturating_sub(seen.time.foreground_us);
        decay(&mut self.core_busy_us_per_s, foreground_us as f64 / span_s);
        let append_us = append_us.saturating_sub(seen.append_us);
        decay(&mut self.other_busy_us_per_s, foreground_us.saturating_sub(append_us) as f64 / span_s);
        let samples: u64 = self.cells.iter().zip(cells).map(|(metered, cell)| metered.since(cell)).sum();
        let sample_us = append_us as f64 / samples.max(1) as f64;
        for (metered, cell) in self.cells.iter_mut().zip(cells) {
            let samples_per_s = metered.since(cell) as f64 / span_s;
            decay(&mut metered.samples_per_s, samples_per_s);
            decay(&mut metered.busy_us_per_s, samples_per_s * sample_us);
            metered.seen_samples = cell.samples;
        }
    }

    /// How busy the core is with traffic.
    pub(super) fn core_busy_us_per_s(&self) -> u64 {
        self.core_busy_us_per_s as u64
    }

    /// How busy it is with traffic beside taking samples in: requests, whosever samples they bring.
    pub(super) fn other_busy_us_per_s(&self) -> u64 {
        self.other_busy_us_per_s as u64
    }
}

impl Shard {
    /// Makes rates of what was counted since the last call; about once a second.
    pub fn meter_loads(&mut self, time: CoreTime) {
        self.loads.look(time, self.counters.busy_us, &*self.cells);
    }

    /// The cells that hold a series and that the shard answers for at an epoch, and those of which it
    /// remembers a load. Their memory is what the shard's series take on average.
    pub(crate) fn cells(&self, epoch: Epoch) -> Vec<CellStats> {
        let series_bytes = self.memory_bytes().total() / self.store.size().series.max(1);
        let all = (0..).map(CellId).zip(&*self.cells).zip(&self.loads.cells);
        let stats = all.map(|((cell, held), metered)| {
            let is_answered = self.ownership.answers(cell, epoch);
            let series = if is_answered { held.table.len() } else { 0 };
            CellStats {
                cell,
                series,
                samples: if is_answered { held.samples } else { 0 },
                bytes: series * series_bytes,
                samples_per_s: metered.samples_per_s.round() as u64,
                busy_us_per_s: metered.busy_us_per_s.round() as u64,
            }
        });
        stats.filter(|cell| cell.series > 0 || cell.samples_per_s > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn cells(samples: [u64; 2]) -> Vec<Cell> {
        let mut cells: Vec<Cell> = std::iter::repeat_with(Cell::default).take(CELL_COUNT).collect();
        cells.iter_mut().zip(samples).for_each(|(cell, samples)| cell.samples = samples);
        cells
    }

    /// A meter after so many seconds with these samples and this time spent in each.
    fn after(seconds: u64, samples_per_s: [u64; 2], append_us: u64, foreground_us: u64) -> LoadMeter {
        let mut meter = LoadMeter::default();
        for second in 0..=seconds {
            let time = CoreTime { now_us: second * SECOND, foreground_us: second * foreground_us };
            meter.look(time, second * append_us, &cells(samples_per_s.map(|samples| samples * second)));
        }
        meter
    }

    fn check(rate: f64, expected: f64) {
        assert!((rate - expected).abs() <= expected * 0.02, "{rate} instead of {expected}");
    }

    #[test]
    fn a_shard_s_time_is_split_over_its_cells_by_their_samples() {
        let meter = after(20, [3000, 1000], 40_000, 100_000);
        check(meter.cells[0].samples_per_s, 3000.0);
        check(meter.cells[0].busy_us_per_s, 30_000.0);
        check(meter.cells[1].busy_us_per_s, 10_000.0);
        check(meter.cells[2].busy_us_per_s, 0.0);
        check(meter.core_busy_us_per_s, 100_000.0);
        check(meter.other_busy_us_per_s, 60_000.0);
    }

    #[test]
    fn a_load_that_ended_is_forgotten_within_seconds() {
        let mut meter = after(20, [3000, 1000], 40_000, 100_000);
        let ended = cells([60_000, 20_000]);
        for second in 21..40 {
            meter.look(CoreTime { now_us: second * SECOND, foreground_us: 0 }, 800_000, &ended);
        }
        assert!(meter.cells[0].busy_us_per_s < 100.0, "{:?}", meter.cells[0]);
        assert!(meter.core_busy_us_per_s < 500.0);
    }

    #[test]
    fn what_was_counted_before_the_first_look_is_no_load() {
        let mut meter = LoadMeter::default();
        meter.look(CoreTime { now_us: 5, foreground_us: 9 }, SECOND, &cells([1 << 40, 0]));
        meter.look(CoreTime { now_us: 5 + SECOND, foreground_us: 9 }, SECOND, &cells([1 << 40, 0]));
        assert_eq!(meter.cells[0].samples_per_s, 0.0);
    }

    #[test]
    fn looks_at_the_same_time_divide_by_nothing() {
        let mut meter = after(3, [10, 10], 10, 10);
        let samples_per_s = meter.cells[0].samples_per_s;
        meter.look(CoreTime { now_us: 3 * SECOND, foreground_us: 30 }, 30, &cells([30, 30]));
        assert_eq!(meter.cells[0].samples_per_s, samples_per_s);
    }

    #[test]
    fn a_cell_that_moves_keeps_its_load_over_both_shards() {
        let (mut source, mut target) = (after(20, [3000, 0], 30_000, 30_000), after(20, [0, 0], 0, 0));
        for second in 21..30 {
            let at = |foreground_us| CoreTime { now_us: second * SECOND, foreground_us };
            // The source's counter goes back to zero, the target's begins there.
            source.look(at(600_000), 600_000, &cells([0, 0]));
            let since = second - 20;
            target.look(at(since * 30_000), since * 30_000, &cells([3000 * since, 0]));
            check(source.cells[0].samples_per_s + target.cells[0].samples_per_s, 3000.0);
            check(source.cells[0].busy_us_per_s + target.cells[0].busy_us_per_s, 30_000.0);
        }
        assert!(source.cells[0].samples_per_s < 300.0);
    }
}

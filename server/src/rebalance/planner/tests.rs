//! The planner over simulated time: hysteresis, rest, noise.

use super::*;
use crate::placement::NodeId;
use crate::rebalance::{CellLoad, DrainState, ShardLoad};
use silverback_model::CellId;

const CORE: f64 = 1_000_000.0;

/// A node whose cells have a steady load each, seen through noise.
struct Simulated {
    owners: Vec<ShardId>,
    loads: Vec<f64>,
    /// What the planner sees, as the shards report it: decayed over seconds.
    seen: Vec<f64>,
    shards: usize,
    random: u64,
}

impl Simulated {
    /// Zipf's law over the cells of each of two shards, `part` of the load on the first.
    fn zipf(part: f64, seed: u64) -> Self {
        let half = CELL_COUNT / 2;
        let weight = |cell: usize| 1.0 / ((cell % half + 1) as f64);
        let sum: f64 = (0..half).map(weight).sum();
        let part_of = |cell: usize| if cell < half { part } else { 1.0 - part };
        let loads: Vec<f64> = (0..CELL_COUNT).map(|cell| CORE * part_of(cell) * weight(cell) / sum).collect();
        let owners = (0..CELL_COUNT).map(|cell| ShardId((cell / half) as u16)).collect();
        Self { owners, seen: loads.clone(), loads, shards: 2, random: seed | 1 }
    }

    /// A factor of 0.5 to 1.5.
    fn noise(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        0.5 + (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn look(&mut self) -> NodeLoad {
        let mut busy = vec![0; self.shards];
        let mut cells = Vec::with_capacity(CELL_COUNT);
        for cell in 0..CELL_COUNT {
            let load = self.loads[cell] * self.noise();
            self.seen[cell] += (load - self.seen[cell]) * 0.2;
            let busy_us_per_s = self.seen[cell] as u64;
            let owner = self.owners[cell];
            busy[usize::from(owner.0)] += busy_us_per_s;
            let mobility = Movable::Free;
            cells.push(CellLoad { owner, busy_us_per_s, series: 10, bytes: 6000, mobility });
        }
        let shard = |busy_us_per_s| ShardLoad {
            node: NodeId(0),
            busy_us_per_s,
            room_bytes: 1 << 30,
            drain_state: DrainState::Open,
        };
        NodeLoad { shards: busy.into_iter().map(shard).collect(), cells }
    }

    /// Rounds of a second each; the moves, with the second in which they were done.
    fn run(&mut self, planner: &mut Planner, seconds: std::ops::Range<u64>) -> Vec<(u64, Move)> {
        let mut done = Vec::new();
        for second in seconds {
            let node = self.look();
            for next in planner.round(Duration::from_secs(second), node) {
                self.owners[usize::from(next.cell.0)] = next.to;
                done.push((second, next));
            }
        }
        done
    }

    /// The true imbalance.
    fn imbalance(&self) -> f64 {
        let mut busy = vec![0.0; self.shards];
        self.owners.iter().zip(&self.loads).for_each(|(owner, load)| busy[usize::from(owner.0)] += load);
        busy.iter().copied().fold(0.0, f64::max) * self.shards as f64 / busy.iter().sum::<f64>()
    }
}

#[test]
fn a_hot_shard_is_even_again_within_ten_seconds() {
    for seed in 1..20 {
        let mut node = Simulated::zipf(0.8, seed);
        let moves = node.run(&mut Planner::new(Hysteresis::default()), 0..10);
        assert!(node.imbalance() < 1.05, "seed {seed}: {}", node.imbalance());
        assert!(moves.len() <= MOVES_MAX, "seed {seed}: {} moves", moves.len());
    }
}

#[test]
fn noise_moves_nothing_back_and_forth() {
    for seed in 1..20 {
        let mut node = Simulated::zipf(0.8, seed);
        let moves = node.run(&mut Planner::new(Hysteresis::default()), 0..600);
        let mut moved: Vec<CellId> = moves.iter().map(|(_, next)| next.cell).collect();
        let count = moved.len();
        moved.sort_unstable();
        moved.dedup();
        assert_eq!(moved.len(), count, "seed {seed}: a cell moved twice");
        assert!(moves.iter().all(|(second, _)| *second < 20), "seed {seed}: {moves:?}");
    }
}

#[test]
fn an_even_node_is_left_alone() {
    for seed in 1..20 {
        let mut node = Simulated::zipf(0.5, seed);
        assert_eq!(node.run(&mut Planner::new(Hysteresis::default()), 0..600), []);
    }
}

#[test]
fn loads_must_be_uneven_for_some_rounds() {
    let mut planner = Planner::new(Hysteresis::default());
    let (hot, even) = (Simulated::zipf(0.8, 1).look(), Simulated::zipf(0.5, 1).look());
    let rounds = [&hot, &hot, &even, &hot, &hot, &hot];
    let moves = (0..).map(Duration::from_secs).zip(rounds);
    let moves: Vec<bool> = moves.map(|(now, node)| !planner.round(now, node.clone()).is_empty()).collect();
    assert_eq!(moves, [false, false, false, false, false, true]);
}

#[test]
fn a_nearly_idle_node_is_left_alone() {
    let mut node = Simulated::zipf(0.8, 1);
    node.loads.iter_mut().for_each(|load| *load /= 100.0);
    node.seen.clone_from(&node.loads);
    assert_eq!(node.run(&mut Planner::new(Hysteresis::default()), 0..60), []);
}

#[test]
fn a_cell_that_moved_rests_and_then_may_move_again() {
    let hysteresis = Hysteresis { rounds: 1, ..Hysteresis::default() };
    let mut planner = Planner::new(hysteresis);
    let hot = Simulated::zipf(0.8, 1).look();
    let first = planner.round(Duration::ZERO, hot.clone());
    first.iter().for_each(|next| planner.rest(Duration::ZERO, next.cell));
    let is_moved = |next: &Move| first.iter().any(|earlier| earlier.cell == next.cell);
    let meanwhile = planner.round(Duration::from_secs(60), hot.clone());
    meanwhile.iter().for_each(|next| planner.rest(hysteresis.rest, next.cell));
    assert!(!meanwhile.is_empty() && !meanwhile.iter().any(is_moved));
    assert!(planner.round(hysteresis.rest, hot).iter().all(is_moved));
}

#[test]
fn a_cell_that_somebody_else_moved_rests_too() {
    let mut planner = Planner::new(Hysteresis { rounds: 2, ..Hysteresis::default() });
    let mut node = Simulated::zipf(0.8, 1).look();
    node.cells[0].owner = ShardId(1);
    assert_eq!(planner.round(Duration::ZERO, node.clone()), []);
    node.cells[0].owner = ShardId(0);
    let moves = planner.round(Duration::ZERO, node);
    assert!(!moves.is_empty() && moves.iter().all(|next| next.cell != CellId(0)));
}

#[test]
fn a_drained_shard_waits_for_no_round() {
    let mut node = Simulated::zipf(0.5, 1).look();
    node.shards[1].drain_state = DrainState::Drained;
    assert_eq!(Planner::new(Hysteresis::default()).round(Duration::ZERO, node).len(), MOVES_MAX);
}

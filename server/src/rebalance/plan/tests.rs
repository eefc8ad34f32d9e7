//! The plan's promises, on tables and on any loads.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::placement::NodeId;
use crate::rebalance::ShardLoad;

const CORE: u64 = 1_000_000;

fn shard(node: usize, busy_us_per_s: u64) -> ShardLoad {
    ShardLoad { node: NodeId(node), busy_us_per_s, room_bytes: 1 << 30, drain_state: DrainState::Open }
}

fn cell(owner: u16, busy_us_per_s: u64) -> CellLoad {
    CellLoad { owner: ShardId(owner), busy_us_per_s, series: 10, bytes: 6000, mobility: Movable::Free }
}

/// Shards as busy as their cells, all on one node.
fn node(shards: u16, cells: &[(u16, u64)]) -> NodeLoad {
    let busy = |number: u16| cells.iter().filter(|(owner, _)| *owner == number).map(|(_, busy)| busy).sum();
    NodeLoad {
        shards: (0..shards).map(|number| shard(0, busy(number))).collect(),
        cells: cells.iter().map(|(owner, busy)| cell(*owner, *busy)).collect(),
    }
}

/// The loads once `moves` are done.
fn after(mut node: NodeLoad, moves: &[Move]) -> NodeLoad {
    for next in moves {
        let cell = &mut node.cells[usize::from(next.cell.0)];
        assert_eq!(cell.owner, next.from, "{next:?}");
        cell.owner = next.to;
        let (cell_us_per_s, bytes) = (cell.busy_us_per_s, cell.bytes);
        let from = &mut node.shards[usize::from(next.from.0)];
        from.busy_us_per_s -= cell_us_per_s;
        from.room_bytes += bytes;
        let to = &mut node.shards[usize::from(next.to.0)];
        to.busy_us_per_s += cell_us_per_s;
        to.room_bytes -= bytes;
    }
    node
}

fn check(node: &NodeLoad, expected: &[(u16, u16)]) {
    let moves: Vec<(u16, u16)> = moves(node).iter().map(|next| (next.cell.0, next.to.0)).collect();
    assert_eq!(moves, expected);
}

#[test]
fn nothing_moves_where_loads_are_even() {
    check(&node(2, &[(0, 1000), (0, 1000), (1, 1000), (1, 1000)]), &[]);
    check(&node(2, &[(0, 0), (1, 0)]), &[]);
    check(&node(1, &[(0, CORE)]), &[]);
    check(&NodeLoad::default(), &[]);
}

#[test]
fn the_cell_that_evens_out_best_goes_first_to_the_idlest_shard() {
    check(&node(3, &[(0, 300_000), (0, 200_000), (0, 100_000), (1, 100_000)]), &[(0, 2), (2, 1)]);
}

#[test]
fn the_others_leave_the_shard_of_a_cell_that_outweighs_everything() {
    let node = node(2, &[(0, 800_000), (0, 50_000), (0, 50_000), (1, 100_000)]);
    check(&node, &[(1, 1), (2, 1)]);
}

#[test]
fn a_hot_cell_alone_stays_where_it_is() {
    check(&node(2, &[(0, 900_000), (1, 10_000)]), &[]);
}

#[test]
fn the_next_shard_is_helped_where_the_hottest_can_t_be() {
    check(&node(3, &[(0, 900_000), (1, 300_000), (1, 300_000), (2, 0)]), &[(1, 2)]);
}

#[test]
fn a_pinned_and_a_resting_cell_stay() {
    for mobility in [Movable::Pinned, Movable::Resting] {
        let mut node = node(2, &[(0, 200_000), (0, 300_000), (0, 300_000)]);
        node.cells[1].mobility = mobility;
        check(&node, &[(2, 1)]);
    }
}

#[test]
fn a_cell_too_dear_for_what_it_gains_stays() {
    let mut node = node(2, &[(0, 2000), (0, 2000)]);
    node.cells[0].series = 1_000_000;
    check(&node, &[(1, 1)]);
}

#[test]
fn no_shard_gets_more_than_it_has_room_for() {
    let mut node = node(2, &[(0, 300_000), (0, 300_000)]);
    node.cells[0].bytes = 1 << 31;
    check(&node, &[(1, 1)]);
    node.shards[1].room_bytes = 5000;
    check(&node, &[]);
}

#[test]
fn a_shard_on_the_same_node_comes_first_where_it_helps() {
    let on_nodes = |near: u64, far: u64| NodeLoad {
        shards: vec![shard(0, 600_000), shard(0, near), shard(1, far)],
        cells: (0..6).map(|_| cell(0, 100_000)).collect(),
    };
    assert_eq!(moves(&on_nodes(300_000, 200_000))[0].to, ShardId(1));
    assert_eq!(moves(&on_nodes(590_000, 200_000))[0].to, ShardId(2));
}

#[test]
fn a_drained_shard_gives_its_cells_away_and_gets_none() {
    let mut node = node(3, &[(0, 100), (0, 0), (0, 500_000), (1, 900_000), (1, 100_000)]);
    node.shards[0].drain_state = DrainState::Drained;
    node.cells[2].mobility = Movable::Pinned;
    node.cells[0].mobility = Movable::Resting;
    check(&node, &[(0, 2), (1, 2), (4, 2)]);
    node.shards.iter_mut().for_each(|shard| shard.drain_state = DrainState::Drained);
    check(&node, &[]);
}

/// Cells by Zipf's law: the first `on_first` of them on shard 0, with `part` of the load.
fn zipf(part: f64, on_first: usize, exponent: f64) -> NodeLoad {
    let weight = |rank: usize| 1.0 / ((rank + 1) as f64).powf(exponent);
    let of = |count: usize, total: f64| {
        let sum: f64 = (0..count).map(weight).sum();
        (0..count).map(move |rank| (total * weight(rank) / sum) as u64)
    };
    let hot = of(on_first, part * CORE as f64).map(|busy| (0, busy));
    let rest = of(CELL_COUNT - on_first, (1.0 - part) * CORE as f64).map(|busy| (1, busy));
    node(2, &hot.chain(rest).collect::<Vec<_>>())
}

#[test]
fn four_fifths_of_a_skewed_load_on_one_of_two_shards_are_even_after_one_plan() {
    for exponent in [0.8, 1.0, 1.2] {
        let hot = zipf(0.8, CELL_COUNT / 2, exponent);
        let moves = moves(&hot);
        let evened = after(hot, &moves);
        assert!(moves.len() <= MOVES_MAX);
        assert!(evened.imbalance() < 1.03, "{exponent}: {} after {}", evened.imbalance(), moves.len());
    }
}

fn any_mobility() -> impl Strategy<Value = Movable> {
    prop_oneof![4 => Just(Movable::Free), 1 => Just(Movable::Pinned), 1 => Just(Movable::Resting)]
}

fn any_cell(shards: u16) -> impl Strategy<Value = CellLoad> {
    let sizes = (0..100_000u64, 0..100_000_000u64);
    (0..shards, 0..300_000u64, sizes, any_mobility()).prop_map(|(owner, busy, (series, bytes), mobility)| {
        CellLoad { series, bytes, mobility, ..cell(owner, busy) }
    })
}

/// Shards with work of their own beside their cells'.
fn any_node() -> impl Strategy<Value = NodeLoad> {
    let shards = vec((0..3usize, 0..500_000u64, 0..1_000_000_000u64), 1..8);
    shards
        .prop_flat_map(|shards| {
            let cells = vec(any_cell(shards.len() as u16), 0..100);
            (Just(shards), cells)
        })
        .prop_map(|(shards, cells)| {
            let shard_of = |(node, own, room_bytes)| ShardLoad { room_bytes, ..shard(node, own) };
            let mut shards: Vec<ShardLoad> = shards.into_iter().map(shard_of).collect();
            cells
                .iter()
                .for_each(|cell| shards[usize::from(cell.owner.0)].busy_us_per_s += cell.busy_us_per_s);
            NodeLoad { shards, cells }
        })
}

proptest! {
    #[test]
    fn no_move_makes_the_busiest_shard_busier(node in any_node()) {
        let mut node = node;
        for next in moves(&node) {
            let before = node.busiest_us_per_s();
            node = after(node, &[next]);
            prop_assert!(node.busiest_us_per_s() <= before);
        }
    }

    #[test]
    fn only_free_cells_move(node in any_node()) {
        for next in moves(&node) {
            prop_assert_eq!(node.cells[usize::from(next.cell.0)].mobility, Movable::Free);
            prop_assert_ne!(next.from, next.to);
        }
    }

    #[test]
    fn plans_on_the_same_loads_come_to_an_end(node in any_node()) {
        let mut node = node;
        for _ in 0..100 {
            let moves = moves(&node);
            if moves.is_empty() {
                return Ok(());
            }
            node = after(node, &moves);
        }
        prop_assert!(false, "a hundred plans");
    }

    #[test]
    fn a_drained_shard_is_emptied_of_all_but_pinned_cells(node in any_node()) {
        let mut node = node;
        node.shards.push(shard(0, 0));
        node.shards.iter_mut().for_each(|shard| shard.room_bytes = 1 << 40);
        node.shards[0].drain_state = DrainState::Drained;
        for _ in 0..100 {
            let moves = moves(&node);
            node = after(node, &moves);
        }
        let left = node.cells.iter().filter(|cell| cell.owner == ShardId(0));
        prop_assert!(left.into_iter().all(|cell| cell.mobility == Movable::Pinned));
    }
}

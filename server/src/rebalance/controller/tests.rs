//! The controller on a node of plain numbers.

use std::cell::{Cell, RefCell};

use futures::executor::block_on;

use super::*;
use crate::migration::{MigrationCounts, Reason, Trigger};
use crate::placement::NodeId;
use crate::rebalance::{CellLoad, Hysteresis, ShardLoad};
use silverback_model::{CellId, Epoch, ShardId};

/// Two shards with four cells of equal load.
struct Plain<'a> {
    owners: RefCell<Vec<ShardId>>,
    steering: &'a Steering,
    now: Cell<Duration>,
    migration_takes: Duration,
    fault: Option<MigrationError>,
    asked: RefCell<Vec<CellId>>,
}

impl<'a> Plain<'a> {
    fn new(steering: &'a Steering) -> Self {
        Self {
            owners: RefCell::new(vec![ShardId(0); 4]),
            steering,
            now: Cell::default(),
            migration_takes: Duration::from_millis(10),
            fault: None,
            asked: RefCell::default(),
        }
    }
}

impl Rebalanced for &Plain<'_> {
    async fn look(&self) -> Option<NodeLoad> {
        let owners = self.owners.borrow();
        let load = |(cell, owner): (u16, &ShardId)| CellLoad {
            owner: *owner,
            busy_us_per_s: 100_000,
            series: 10,
            bytes: 6000,
            mobility: self.steering.mobility(CellId(cell)),
        };
        let cells: Vec<CellLoad> = (0..).zip(owners.iter()).map(load).collect();
        let shard = |shard: u16| ShardLoad {
            node: NodeId(0),
            busy_us_per_s: owners.iter().filter(|owner| owner.0 == shard).count() as u64 * 100_000,
            room_bytes: 1 << 30,
            drain_state: self.steering.drain_state(ShardId(shard)),
        };
        Some(NodeLoad { shards: (0..2).map(shard).collect(), cells })
    }

    async fn migrate(&self, next: Move) -> Result<Migrated, MigrationError> {
        self.now.set(self.now.get() + self.migration_takes);
        self.asked.borrow_mut().push(next.cell);
        let ended = match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => {
                self.owners.borrow_mut()[usize::from(next.cell.0)] = next.to;
                Ok(Migrated { series: 10, bytes: 6000, epoch: Epoch(2), took_us: 10_000, paused_us: 100 })
            }
        };
        self.steering.migrations.end(Trigger::Planned(next.reason), &ended);
        ended
    }

    fn now(&self) -> Duration {
        self.now.get()
    }

    fn is_stopping(&self) -> bool {
        false
    }
}

fn rounds(node: &Plain<'_>, count: usize) -> MigrationCounts {
    let planner = Planner::new(Hysteresis { rounds: 1, ..Hysteresis::default() });
    let mut controller = Controller::new(node, planner, node.steering);
    for _ in 0..count {
        block_on(controller.round());
        node.now.set(node.now.get() + Duration::from_secs(1));
    }
    node.steering.migrations.counts()
}

#[test]
fn a_hot_shard_s_cells_are_handed_over() {
    let steering = Steering::new(2);
    let node = Plain::new(&steering);
    let counts = rounds(&node, 3);
    assert_eq!(node.owners.borrow().iter().filter(|owner| owner.0 == 1).count(), 2);
    assert_eq!((counts.planned(), counts.done(), counts.failed()), (2, 2, 0));
    assert_eq!(counts.done_by[Reason::HotShard as usize], 2);
    assert_eq!(steering.imbalance(), 1.0);
}

#[test]
fn nothing_moves_while_it_is_paused() {
    let steering = Steering::new(2);
    steering.set_motion(Motion::Paused);
    let node = Plain::new(&steering);
    assert_eq!(rounds(&node, 3), MigrationCounts::default());
    assert_eq!(steering.imbalance(), 2.0);
    steering.set_motion(Motion::Running);
    assert_eq!(rounds(&node, 1).done(), 2);
}

#[test]
fn a_move_that_fails_is_counted_by_its_reason_ends_the_round_and_is_not_tried_again_at_once() {
    let steering = Steering::new(2);
    let node = Plain { fault: Some(MigrationError::TimedOut(ShardId(1))), ..Plain::new(&steering) };
    assert_eq!(rounds(&node, 1).failed(), 1);
    let counts = rounds(&node, 10);
    // Each cell once more, by a planner that knows of no attempt: it rests.
    assert_eq!((counts.done(), counts.failed()), (0, 5));
    assert_eq!(counts.failed_by[MigrationError::TimedOut(ShardId(1)).reason() as usize], 5);
}

#[test]
fn a_round_that_takes_long_is_cut_short() {
    let steering = Steering::new(2);
    let node = Plain { migration_takes: 2 * ROUND_MAX, ..Plain::new(&steering) };
    assert_eq!(rounds(&node, 1).done(), 1);
}

#[test]
fn a_drained_shard_is_emptied() {
    let steering = Steering::new(2);
    steering.drain(ShardId(0)).unwrap();
    steering.pin(CellId(3));
    let node = Plain::new(&steering);
    let counts = rounds(&node, 2);
    assert_eq!(node.owners.borrow().iter().map(|owner| owner.0).collect::<Vec<_>>(), [1, 1, 1, 0]);
    assert_eq!(counts.done_by[Reason::Drain as usize], 3);
}

//! Cells that move between shards while clients write and read, shards crash, and disks fail.
//!
//! Routers, workers, shards, logs and migrations are the node's own. The lanes between them are
//! [`lanes`]: slow, sometimes very slow, and now and then full. A seed is several lives of one node
//! on one disk, as in [`crate::world`].
mod core;
mod lanes;
mod life;
mod node;
mod sender;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use silverback_storage::message::PartPool;

use self::life::{CellLife, Moves};
use crate::disk::SimDisk;
use crate::executor::{Executor, Stopped};
use crate::fleet::Fleet;
use crate::life::Came;
use crate::oracle::Oracle;
use crate::plan::{End, Plan, Taken, Trouble};
use crate::random::Random;
use crate::trace::{Shown, Trace};
use crate::world::Tally;

pub(crate) use self::node::{
    Defect, DrainForgotten, OwnersForgotten, ReleasedTooEarly, Sound, StreamHurried, StreamUnnamed,
};

const CLIENTS_MAX: usize = 3;

/// What a seed went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CellTally {
    pub common: Tally,
    pub moved: u64,
    pub kept: u64,
    pub sent_again: u64,
}

impl std::ops::AddAssign for CellTally {
    fn add_assign(&mut self, other: Self) {
        self.common += other.common;
        self.moved += other.moved;
        self.kept += other.kept;
        self.sent_again += other.sent_again;
    }
}

/// Runs one seed. Panics where something does not hold.
pub(crate) fn run<D: Defect>(seed: u64, shown: Shown) -> CellTally {
    let mut world = CellWorld::new(seed, shown);
    for _ in 0..world.random.within(2..5) {
        let plan = Plan::draw(&mut world.random, world.disk.used_bytes());
        let plan = Plan { flips: 0, taken: Taken::Nothing, clients: plan.clients.min(CLIENTS_MAX), ..plan };
        world.live::<D>(&plan);
    }
    world.live::<D>(&Plan { parts: 1, ..Plan::quiet() });
    world.tally.common.acknowledged = world.oracle.borrow().acknowledged_count() as u64;
    world.tally.common.trace_hash = world.trace.hash();
    world.tally
}

/// What stays when a node goes.
struct CellWorld {
    random: Random,
    disk: SimDisk,
    shards: usize,
    oracle: Rc<RefCell<Oracle>>,
    fleets: Vec<Rc<RefCell<Fleet>>>,
    clock_ms: Rc<Cell<i64>>,
    pool: PartPool,
    retention_ms: i64,
    late_window_ms: i64,
    now_us: u64,
    trace: Trace,
    tally: CellTally,
}

impl CellWorld {
    fn new(seed: u64, shown: Shown) -> Self {
        let mut random = Random::new(seed);
        let trace = Trace::new(shown);
        let retention_ms = *random.pick(&[3_600_000, 24 * 3_600_000]);
        // Where nothing comes late, a stream that overtakes itself is refused.
        let late_window_ms = *random.pick(&[0, retention_ms]);
        let fleet = |client| {
            let fleet = Fleet::new(client, random.within(1..40), retention_ms);
            Rc::new(RefCell::new(if late_window_ms == 0 { fleet.in_order() } else { fleet }))
        };
        Self {
            fleets: (0..CLIENTS_MAX).map(fleet).collect(),
            disk: SimDisk::new(random.fork(), trace.clone()),
            shards: random.within(2..4),
            oracle: Rc::default(),
            clock_ms: Rc::new(Cell::new(1_700_000_000_000)),
            pool: PartPool::default(),
            retention_ms,
            late_window_ms,
            now_us: 0,
            random,
            trace,
            tally: CellTally::default(),
        }
    }

    fn live<D: Defect>(&mut self, plan: &Plan) {
        self.trace.event("life", [0, 0], format_args!("{plan:?}"));
        self.disk.begin_life(plan.faults.clone());
        let mut executor = Executor::new(self.random.fork(), self.now_us);
        let (came, moves) = (Rc::new(RefCell::new(Came::Starting)), Rc::<Cell<Moves>>::default());
        let life = CellLife {
            plan: plan.clone(),
            shards: self.shards,
            host: executor.host(),
            disk: self.disk.clone(),
            random: self.random.fork(),
            oracle: Rc::clone(&self.oracle),
            fleets: self.fleets.clone(),
            clock_ms: Rc::clone(&self.clock_ms),
            pool: self.pool.clone(),
            retention_ms: self.retention_ms,
            late_window_ms: self.late_window_ms,
            trace: self.trace.clone(),
            came: Rc::clone(&came),
            moves: Rc::clone(&moves),
        };
        executor.host().spawn(life.run::<D>());
        let disk = self.disk.clone();
        let stopped = executor.run(move || disk.is_crashed());
        self.now_us = executor.now_us();
        drop(executor);
        self.judge(plan, stopped, &came.take(), moves.get());
        match plan.end {
            End::PowerLoss => self.disk.lose_power(),
            End::Kill => {}
        }
    }

    fn judge(&mut self, plan: &Plan, stopped: Stopped, came: &Came, moves: Moves) {
        self.trace.event("life ends", [self.disk.steps(), 0], format_args!("{came:?}, {stopped:?}"));
        match (stopped, came) {
            (Stopped::AsAsked, _) | (Stopped::Finished, Came::Through) => {}
            // Where one log can't be opened, the committers of the others wait on.
            (Stopped::Finished | Stopped::Deadlocked, Came::Refused(reason)) => {
                assert!(plan.trouble != Trouble::Nothing, "the node doesn't start: {reason}");
            }
            (Stopped::Finished | Stopped::Deadlocked | Stopped::Endless, came) => {
                panic!("{stopped:?} while {came:?}");
            }
        }
        self.tally.common.lives += 1;
        self.tally.common.crashes += u64::from(stopped == Stopped::AsAsked);
        self.tally.common.deleted += moves.deleted;
        self.tally.moved += moves.moved;
        self.tally.kept += moves.kept;
        self.tally.sent_again += moves.sent_again;
    }
}

//! One seed: several lives of a node on one disk, and what must hold between them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use silverback_storage::message::PartPool;
use silverback_storage::wal::Lsn;

use crate::disk::SimDisk;
use crate::executor::{Executor, SimHost, Stopped};
use crate::fleet::Fleet;
use crate::life::{Came, Life};
use crate::node::{Node, Recovery};
use crate::oracle::Oracle;
use crate::plan::{End, Plan, Taken, Trouble};
use crate::random::Random;
use crate::trace::{Shown, Trace};

const CLIENTS_MAX: usize = 4;

/// Where the one log is.
const LOG_DIR: &str = "wal/g1-s1/0/";

/// What stays when a node goes.
pub(crate) struct World {
    random: Random,
    disk: SimDisk,
    oracle: Rc<RefCell<Oracle>>,
    fleets: Vec<Rc<RefCell<Fleet>>>,
    clock_ms: Rc<Cell<i64>>,
    pool: PartPool,
    retention_ms: i64,
    now_us: u64,
    trace: Trace,
    /// Samples that were deleted.
    deleted: Rc<Cell<u64>>,
    /// The files in which a bit has turned over, and those that were missed.
    rotten: BTreeSet<String>,
}

/// What a seed went through, to know that it went through anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub lives: u64,
    pub crashes: u64,
    pub acknowledged: u64,
    pub deleted: u64,
    pub trace_hash: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.lives += other.lives;
        self.crashes += other.crashes;
        self.acknowledged += other.acknowledged;
        self.deleted += other.deleted;
        self.trace_hash ^= other.trace_hash;
    }
}

/// Runs one seed. Panics where something does not hold.
pub(crate) fn run<N: Node>(seed: u64, shown: Shown) -> Tally {
    let mut world = World::new(seed, shown);
    let mut tally = Tally::default();
    for _ in 0..world.random.within(2..6) {
        let plan = Plan::draw(&mut world.random, world.disk.used_bytes());
        tally.lives += 1;
        tally.crashes += u64::from(world.live::<N>(&plan));
    }
    world.live::<N>(&Plan { parts: 1, ..Plan::quiet() });
    tally.acknowledged = world.oracle.borrow().acknowledged_count() as u64;
    tally.deleted = world.deleted.get();
    tally.trace_hash = world.trace.hash();
    tally
}

impl World {
    pub(crate) fn new(seed: u64, shown: Shown) -> Self {
        let mut random = Random::new(seed);
        let trace = Trace::new(shown);
        let retention_ms = *random.pick(&[3_600_000, 6 * 3_600_000, 24 * 3_600_000]);
        let fleet = |client| Rc::new(RefCell::new(Fleet::new(client, random.within(1..80), retention_ms)));
        Self {
            fleets: (0..CLIENTS_MAX).map(fleet).collect(),
            disk: SimDisk::new(random.fork(), trace.clone()),
            oracle: Rc::default(),
            clock_ms: Rc::new(Cell::new(1_700_000_000_000)),
            pool: PartPool::default(),
            retention_ms,
            now_us: 0,
            deleted: Rc::default(),
            rotten: BTreeSet::new(),
            random,
            trace,
        }
    }

    /// One life. Returns whether the power went before its work was done.
    pub(crate) fn live<N: Node>(&mut self, plan: &Plan) -> bool {
        self.rot(plan.flips);
        let taken = self.take_away(plan.taken);
        let (mut stopped, mut came) = self.live_with::<N>(plan, Recovery::Strict);
        let is_refused = matches!(came, Came::Refused(_));
        assert!(is_refused || plan.taken != Taken::All || taken.is_empty(), "it starts without {taken:?}");
        if is_refused {
            // Where it isn't, all that was acknowledged is to be there.
            self.rotten.extend(taken);
        }
        if !self.rotten.is_empty() && matches!(came, Came::Refused(_)) {
            (stopped, came) = self.live_with::<N>(plan, Recovery::Salvage);
            match came {
                // What was salvaged is written out whole: from now on a strict start is to do.
                Came::Serving | Came::Through => self.rotten.clear(),
                // It may be, and the power went, or the disk failed once the new file had its name: what was lost
                // was reported, and the next start finds nothing of it.
                Came::Starting | Came::Refused(_) => {
                    self.oracle.borrow_mut().forgive(Lsn(0)..=Lsn(u64::MAX));
                }
            }
        }
        self.judge(plan, stopped, &came);
        match plan.end {
            End::PowerLoss => self.disk.lose_power(),
            End::Kill => {}
        }
        stopped == Stopped::AsAsked
    }

    /// Turns bits over anywhere on the disk.
    fn rot(&mut self, flips: usize) {
        for _ in 0..flips {
            let files = self.disk.files();
            let Some((path, len)) = files.get(self.random.below(files.len().max(1))) else { return };
            // Files are full of zeros towards their end.
            let at = self.random.by_magnitude((*len).max(1)) - 1;
            // A second bit in the same header could make it another version's.
            if at < *len && self.rotten.insert(path.clone()) {
                self.trace.event("rot", [at as u64, 0], format_args!("{path} at {at}"));
                self.disk.flip_bit(path, at, self.random.below(8) as u32);
            }
        }
    }

    /// Takes files of the log away. Returns which.
    fn take_away(&self, taken: Taken) -> Vec<String> {
        let in_log = |(path, _): (String, usize)| Some(path).filter(|path| path.starts_with(LOG_DIR));
        let files: Vec<String> = self.disk.files().into_iter().filter_map(in_log).collect();
        let newest = files.iter().rfind(|path| path.ends_with(".wal"));
        let is_taken = |path: &&String| match taken {
            Taken::Nothing => false,
            Taken::Newest => newest == Some(path) || path.ends_with("/closed"),
            Taken::All => true,
        };
        let taken: Vec<String> = files.iter().filter(is_taken).cloned().collect();
        taken.iter().for_each(|path| {
            self.trace.event("taken", [0, 0], format_args!("{path}"));
            self.disk.take_away(path);
        });
        taken
    }

    fn live_with<N: Node>(&mut self, plan: &Plan, recovery: Recovery) -> (Stopped, Came) {
        self.trace.event("life", [0, 0], format_args!("{recovery:?} {plan:?}"));
        self.disk.begin_life(plan.faults.clone());
        let mut executor = Executor::new(self.random.fork(), self.now_us);
        let came = Rc::new(RefCell::new(Came::Starting));
        let life = self.life(plan, executor.host(), &came);
        executor.host().spawn(life.run::<N>(recovery));
        let disk = self.disk.clone();
        let stopped = executor.run(move || disk.is_crashed());
        self.now_us = executor.now_us();
        drop(executor);
        let came = came.take();
        let numbers = [self.disk.steps(), u64::from(stopped == Stopped::AsAsked)];
        self.trace.event("life ends", numbers, format_args!("{came:?}, {stopped:?}"));
        (stopped, came)
    }

    fn judge(&self, plan: &Plan, stopped: Stopped, came: &Came) {
        match (stopped, came) {
            (Stopped::AsAsked, _) | (Stopped::Finished, Came::Through) => {}
            (Stopped::Finished, Came::Refused(reason)) => {
                assert!(
                    plan.trouble != Trouble::Nothing,
                    "nothing is wrong, and the node doesn't start: {reason}"
                );
            }
            (Stopped::Finished | Stopped::Deadlocked | Stopped::Endless, came) => {
                panic!("{stopped:?} while {came:?}");
            }
        }
    }

    fn life(&mut self, plan: &Plan, host: SimHost, came: &Rc<RefCell<Came>>) -> Life {
        Life {
            plan: plan.clone(),
            host,
            disk: self.disk.clone(),
            random: self.random.fork(),
            oracle: Rc::clone(&self.oracle),
            fleets: self.fleets.clone(),
            clock_ms: Rc::clone(&self.clock_ms),
            pool: self.pool.clone(),
            retention_ms: self.retention_ms,
            trace: self.trace.clone(),
            deleted: Rc::clone(&self.deleted),
            is_rotten: !self.rotten.is_empty(),
            came: Rc::clone(came),
        }
    }
}

//! One life of the simulated node: clients, reads, retention, checkpoints, and cells on the move.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::future::{LocalBoxFuture, join_all};
use silverback::migration::{MigrationError, Trigger};
use silverback::routing::{Asker, DeletionFanoutError, ReadGate, deletion};
use silverback_host::Host;
use silverback_model::ShardId;
use silverback_model::limits::DELETION_WAIT_MAX;
use silverback_storage::message::{DeletionError, PartPool, ShardReadError};
use silverback_storage::shard::{checkpoint, maintenance};
use silverback_storage::wal::{LogError, Lsn};

use crate::cells::core::Times;
use crate::cells::node::{Acceptor, Defect, SimNode};
use crate::cells::sender::{Sender, cell};
use crate::client::{draw_doomed, selection_of};
use crate::disk::SimDisk;
use crate::executor::SimHost;
use crate::fleet::Fleet;
use crate::life::{Came, PAUSE_US_MAX, make_room, pause};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::random::Random;
use crate::trace::Trace;

/// What became of migrations.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moves {
    pub moved: u64,
    /// Samples.
    pub deleted: u64,
    pub kept: u64,
    /// Parts that came back.
    pub sent_again: u64,
}

/// What a life's tasks need.
pub(super) struct CellLife {
    pub plan: Plan,
    pub shards: usize,
    pub host: SimHost,
    pub disk: SimDisk,
    pub random: Random,
    pub oracle: Rc<RefCell<Oracle>>,
    pub fleets: Vec<Rc<RefCell<Fleet>>>,
    pub clock_ms: Rc<Cell<i64>>,
    pub pool: PartPool,
    pub retention_ms: i64,
    pub late_window_ms: i64,
    pub trace: Trace,
    pub came: Rc<RefCell<Came>>,
    pub moves: Rc<Cell<Moves>>,
}

/// How long what is left of moved cells may take to be freed.
const FREED_WITHIN: Duration = Duration::from_secs(300);

impl CellLife {
    pub(super) async fn run<D: Defect>(mut self) {
        let times = Times {
            clock_ms: Rc::clone(&self.clock_ms),
            retention_ms: self.retention_ms,
            late_window_ms: self.late_window_ms,
        };
        let lanes = self.random.fork();
        let started =
            SimNode::start::<D>(&self.disk, &self.host, self.shards, lanes, &self.pool, &times).await;
        let node = match started {
            Ok(node) => Rc::new(node),
            Err(error) => return *self.came.borrow_mut() = Came::Refused(error.to_string()),
        };
        *self.came.borrow_mut() = Came::Serving;
        self.settle(&node).await;
        self.work::<D>(&node).await;
        self.read_and_check(&node.acceptors[0]).await;
        self.check_nothing_is_left(&node).await;
        node.close().await;
        *self.came.borrow_mut() = Came::Through;
    }

    /// What came back must be all that was promised, and from now on it is decided.
    async fn settle(&self, node: &SimNode) {
        let held = node.acceptors[0].read_all().await;
        let mut oracle = self.oracle.borrow_mut();
        if let Err(fault) = oracle.check(&held, oracle.now()) {
            panic!("after a restart: {fault}");
        }
        oracle.settle(&held, Lsn(0));
    }

    async fn work<D: Defect>(&mut self, node: &Rc<SimNode>) {
        let mut tasks: Vec<LocalBoxFuture<()>> = Vec::new();
        let batches = self.plan.parts * 6;
        for (client, fleet) in self.fleets.clone().into_iter().take(self.plan.clients).enumerate() {
            let sender = Sender { sends_again: client % 2 == 1, ..self.sender(node, fleet) };
            let random = self.random.fork();
            tasks.push(match client % 2 {
                0 => Box::pin(sender.streamed::<D>(random, batches)),
                _ => Box::pin(sender.one_by_one(random, batches)),
            });
        }
        let random = [0; 6].map(|_| self.random.fork());
        let [first_mover, second_mover, reads, retention, checkpoints, deletions] = random;
        // Two movers: each meets the other's turn.
        tasks.push(Box::pin(self.move_cells(node, first_mover, self.plan.parts * 2)));
        tasks.push(Box::pin(self.move_cells(node, second_mover, self.plan.parts / 4)));
        tasks.push(Box::pin(self.read(node, reads)));
        tasks.push(Box::pin(self.retain(node, retention)));
        tasks.push(Box::pin(self.write_checkpoints(node, checkpoints)));
        let times = if D::IS_DELETED_FROM { self.plan.deletions } else { 0 };
        tasks.push(Box::pin(self.delete(node, deletions, times)));
        tasks.push(Box::pin(make_room(self.disk.clone(), self.host.clone())));
        join_all(tasks).await;
    }

    fn sender(&mut self, node: &SimNode, fleet: Rc<RefCell<Fleet>>) -> Sender {
        Sender {
            acceptor: self.random.pick(&node.acceptors).clone(),
            fleet,
            oracle: Rc::clone(&self.oracle),
            clock_ms: Rc::clone(&self.clock_ms),
            retention_ms: self.retention_ms,
            sends_again: false,
            moves: Rc::clone(&self.moves),
            trace: self.trace.clone(),
        }
    }

    async fn move_cells(&self, node: &SimNode, mut random: Random, times: usize) {
        for _ in 0..times {
            pause(&self.host, &mut random, PAUSE_US_MAX / 4).await;
            let (cell, to) = (cell(random.below(100)), ShardId(random.below(self.shards) as u16));
            let migrations = random.pick(&node.acceptors).migrations.clone();
            let handed = migrations.migrate(&self.host, cell, to, Trigger::Operator).await;
            let mut moves = self.moves.get();
            match &handed {
                Ok(_) => moves.moved += 1,
                Err(MigrationError::Busy | MigrationError::AlreadyThere) => {}
                Err(_) => moves.kept += 1,
            }
            self.moves.set(moves);
            self.trace.event(
                "handoff",
                [cell.0.into(), to.0.into()],
                format_args!("{cell:?} to {to:?}: {handed:?}"),
            );
        }
    }

    async fn read(&self, node: &SimNode, mut random: Random) {
        for _ in 0..self.plan.upkeep {
            pause(&self.host, &mut random, PAUSE_US_MAX).await;
            self.read_and_check(random.pick(&node.acceptors)).await;
        }
    }

    /// Reads all while writes go on, and holds it against what was acknowledged before.
    async fn read_and_check(&self, acceptor: &Acceptor) {
        let before = self.oracle.borrow().now();
        let held = acceptor.read_all().await;
        if let Err(fault) = self.oracle.borrow().check(&held, before) {
            panic!("a read: {fault}");
        }
    }

    /// Deletions, one after the other, while cells move.
    async fn delete(&self, node: &SimNode, mut random: Random, times: usize) {
        let gate = ReadGate::new(1, 1, 1);
        for _ in 0..times {
            pause(&self.host, &mut random, PAUSE_US_MAX).await;
            let acceptor = random.pick(&node.acceptors);
            let doomed = draw_doomed(&mut random, self.clock_ms.get(), self.retention_ms);
            let read = gate.enter(Asker::default()).await.expect("it is the only one");
            let selections = [selection_of(&doomed)].into();
            self.oracle.borrow_mut().deletion_begins(&doomed, Lsn(0));
            let (deleted, ended) =
                deletion::delete(&acceptor.router, read.lease(), &selections, || DELETION_WAIT_MAX).await;
            let numbers = [deleted.series, deleted.series_cut];
            self.trace.event("deletion", numbers, format_args!("{} samples, {ended:?}", deleted.samples));
            let done = match ended {
                Ok(()) => Some(Lsn(0)),
                Err(DeletionFanoutError::Overloaded(_)) => None,
                Err(DeletionFanoutError::Stopped(DeletionError::Log(
                    LogError::Full(_) | LogError::Failed(_),
                ))) => None,
                Err(DeletionFanoutError::Stopped(DeletionError::Read(ShardReadError::Moved))) => None,
                Err(error) => panic!("nothing keeps anybody from deleting: {error}"),
            };
            let mut moves = self.moves.get();
            moves.deleted += self.oracle.borrow_mut().deletion_ends(done);
            self.moves.set(moves);
            self.read_and_check(acceptor).await;
        }
    }

    async fn retain(&self, node: &SimNode, mut random: Random) {
        for _ in 0..self.plan.upkeep {
            pause(&self.host, &mut random, PAUSE_US_MAX).await;
            let core = random.pick(&node.cores);
            let horizon_ms = self.clock_ms.get() - self.retention_ms;
            self.oracle.borrow_mut().expire_before(horizon_ms);
            maintenance::retain(&core.shard, &core.log, &self.host, horizon_ms).await;
        }
    }

    async fn write_checkpoints(&self, node: &SimNode, mut random: Random) {
        for _ in 0..self.plan.checkpoints {
            pause(&self.host, &mut random, PAUSE_US_MAX).await;
            let core = random.pick(&node.cores);
            let written = checkpoint::write(&core.shard, &core.log, &core.place, &self.host).await;
            self.trace.event("checkpoint", [0, 0], format_args!("{:?}", written.is_ok()));
        }
    }

    /// Each series ends up on the one shard that owns its cell.
    async fn check_nothing_is_left(&self, node: &SimNode) {
        let began_us = self.host.monotonic_us();
        let owners = |number| node.cores.iter().filter(|core| core.shard.borrow().owns(cell(number))).count();
        // That a cell was released may be on its way to its former owner.
        while node.foreign_series() > 0 || (0..10).any(|number| owners(number) > 1) {
            let waited = Duration::from_micros(self.host.monotonic_us() - began_us);
            assert!(waited < FREED_WITHIN, "{} series are left where they left", node.foreign_series());
            self.host.sleep(Duration::from_millis(100)).await;
        }
        for number in 0..10 {
            assert_eq!(owners(number), 1, "owners of {:?}", cell(number));
        }
    }
}

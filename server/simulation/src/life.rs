//! One life of a node, from its start to its end or to the crash.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use silverback_host::Host;
use silverback_model::SeriesIdHasher;
use silverback_model::clock::Clock;
use silverback_storage::message::PartPool;
use silverback_storage::shard::{Reads, Worker, maintenance};
use silverback_storage::wal::Lsn;

use crate::client::{Client, Connection, Replies, draw_doomed};
use crate::disk::SimDisk;
use crate::executor::SimHost;
use crate::fleet::Fleet;
use crate::node::{Lost, Node, Recovery};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::random::Random;
use crate::trace::Trace;

/// The longest pause between two pieces of upkeep.
pub(crate) const PAUSE_US_MAX: usize = 1 << 20;

/// How far a life came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Came {
    #[default]
    Starting,
    /// The log could not be opened, for this reason.
    Refused(String),
    Serving,
    Through,
}

/// What a life's tasks need.
pub(crate) struct Life {
    pub plan: Plan,
    pub host: SimHost,
    pub disk: SimDisk,
    pub random: Random,
    pub oracle: Rc<RefCell<Oracle>>,
    pub fleets: Vec<Rc<RefCell<Fleet>>>,
    pub clock_ms: Rc<Cell<i64>>,
    pub pool: PartPool,
    pub retention_ms: i64,
    pub trace: Trace,
    /// Bits have turned over on the disk.
    pub is_rotten: bool,
    /// Samples that were deleted.
    pub deleted: Rc<Cell<u64>>,
    /// Learns how far it came.
    pub came: Rc<RefCell<Came>>,
}

impl Life {
    pub(crate) async fn run<N: Node>(mut self, recovery: Recovery) {
        let node = match N::start(self.disk.clone(), self.host.clone(), recovery).await {
            Ok(node) => Rc::new(node),
            Err(reason) => return self.refused(reason),
        };
        *self.came.borrow_mut() = Came::Serving;
        if self.is_rotten {
            self.forgive(&*node);
        }
        let connection = self.connect(&node);
        self.spawn_worker(&*node, &connection);
        self.settle(&connection, node.durable()).await;
        self.work(&node, &connection).await;
        connection.inbox.close();
        node.close().await;
        *self.came.borrow_mut() = Came::Through;
    }

    /// Damage is reported with its place.
    fn refused(self, reason: String) {
        self.trace.event("refused", [0, 0], format_args!("{reason}"));
        *self.came.borrow_mut() = Came::Refused(reason);
    }

    /// What the disk has lost is lost, but no more than that. At the log's end, a damaged group is one
    /// that was never finished.
    fn forgive<N: Node>(&self, node: &N) {
        let mut oracle = self.oracle.borrow_mut();
        oracle.forgive(Lsn(node.durable().0 + 1)..=Lsn(u64::MAX));
        for lost in node.lost() {
            match lost {
                Lost::Groups(first, last) => oracle.forgive(*first..=*last),
                Lost::Unknown => oracle.forgive(Lsn(0)..=Lsn(u64::MAX)),
            }
        }
    }

    fn connect<N: Node>(&self, node: &Rc<N>) -> Connection {
        let node = Rc::clone(node);
        Connection {
            inbox: Rc::default(),
            replies: Replies::default(),
            host: self.host.clone(),
            pool: self.pool.clone(),
            oracle: Rc::clone(&self.oracle),
            clock_ms: Rc::clone(&self.clock_ms),
            hasher: SeriesIdHasher::new(1, ""),
            refs: Rc::default(),
            retention_ms: self.retention_ms,
            trace: self.trace.clone(),
            durable: Rc::new(move || node.durable()),
        }
    }

    fn spawn_worker<N: Node>(&self, node: &N, connection: &Connection) {
        let replies = connection.replies.clone();
        let worker = Worker {
            shard: Rc::clone(node.shard()),
            reads: Reads::new(usize::MAX),
            inbox: Rc::clone(&connection.inbox),
            log: node.log().clone(),
            host: self.host.clone(),
            reply: move |to, reply| replies.deliver(to, reply),
            clock: Clock::Settable(Rc::clone(&self.clock_ms)),
            retention_ms: self.retention_ms,
            late_window_ms: self.retention_ms,
            core_stats: Box::new(|_| unreachable!("nobody asks for stats")),
        };
        self.host.spawn(worker.run());
    }

    /// What came back must be all that was promised, and from now on it is decided.
    async fn settle(&self, connection: &Connection, durable: Lsn) {
        let held = connection.read_all().await;
        let mut oracle = self.oracle.borrow_mut();
        if let Err(fault) = oracle.check(&held, oracle.now()) {
            panic!("after a restart: {fault}");
        }
        oracle.settle(&held, durable);
    }

    async fn work<N: Node>(&mut self, node: &Rc<N>, connection: &Connection) {
        let mut clients = Vec::new();
        for fleet in &self.fleets[..self.plan.clients] {
            let client = Client::new(connection.clone(), Rc::clone(fleet), self.random.fork());
            clients.push(client.run(self.plan.parts));
        }
        let upkeep = upkeep(Rc::clone(node), connection.clone(), self.random.fork(), self.plan.upkeep);
        let (node, random) = (Rc::clone(node), self.random.fork());
        let checkpoints =
            checkpoints(node, self.host.clone(), self.trace.clone(), random, self.plan.checkpoints);
        let room = make_room(self.disk.clone(), self.host.clone());
        let deletions = if N::IS_DELETED_FROM { self.plan.deletions } else { 0 };
        let deletions = delete(connection.clone(), self.random.fork(), deletions, Rc::clone(&self.deleted));
        futures::join!(join_all(clients), upkeep, checkpoints, room, deletions);
        connection.read_and_check().await;
    }
}

/// Retention passes, jumps of the clock and reads beside the clients, in a drawn order.
async fn upkeep<N: Node>(node: Rc<N>, connection: Connection, mut random: Random, times: usize) {
    let clock_ms = &connection.clock_ms;
    for _ in 0..times {
        pause(&connection.host, &mut random, PAUSE_US_MAX).await;
        match random.below(4) {
            0 => clock_ms.set(clock_ms.get() + random.below(connection.retention_ms as usize / 8) as i64),
            1 => connection.read_and_check().await,
            _ => {
                let horizon_ms = clock_ms.get() - connection.retention_ms;
                connection.oracle.borrow_mut().expire_before(horizon_ms);
                maintenance::retain(node.shard(), node.log(), &connection.host, horizon_ms).await;
            }
        }
    }
}

async fn delete(connection: Connection, mut random: Random, times: usize, deleted: Rc<Cell<u64>>) {
    for _ in 0..times {
        pause(&connection.host, &mut random, PAUSE_US_MAX).await;
        let doomed = draw_doomed(&mut random, connection.clock_ms.get(), connection.retention_ms);
        deleted.set(deleted.get() + connection.delete(&doomed).await);
        connection.read_and_check().await;
    }
}

async fn checkpoints<N: Node>(node: Rc<N>, host: SimHost, trace: Trace, mut random: Random, times: usize) {
    for _ in 0..times {
        pause(&host, &mut random, PAUSE_US_MAX).await;
        let written = node.checkpoint().await;
        trace.event("checkpoint", [0, 0], format_args!("{written:?}"));
    }
}

/// Sleeps for a drawn time, more often a short one.
pub(crate) async fn pause(host: &SimHost, random: &mut Random, most_us: usize) {
    host.sleep(Duration::from_micros(random.by_magnitude(most_us) as u64)).await;
}

/// A full disk has room again some time later.
pub(crate) async fn make_room(disk: SimDisk, host: SimHost) {
    host.sleep(Duration::from_secs(3)).await;
    disk.set_faults(|faults| faults.capacity_bytes = None);
}

//! One seed: several lives of a node on one disk, and what must hold between them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use silverback::clock::Clock;
use silverback::host::Host;
use silverback::message::PartPool;
use silverback::model::SeriesIdHasher;
use silverback::shard::{Worker, maintenance};

use crate::client::{Client, Connection, Replies};
use crate::disk::SimDisk;
use crate::executor::{Executor, SimHost, Stopped};
use crate::fleet::Fleet;
use crate::node::Node;
use crate::oracle::Oracle;
use crate::plan::{End, Plan, Trouble};
use crate::random::Random;
use crate::trace::{Shown, Trace};

const CLIENTS_MAX: usize = 4;

/// What stays when a node goes.
struct World {
    random: Random,
    disk: SimDisk,
    oracle: Rc<RefCell<Oracle>>,
    fleets: Vec<Rc<RefCell<Fleet>>>,
    clock_ms: Rc<Cell<i64>>,
    pool: PartPool,
    retention_ms: i64,
    now_us: u64,
    trace: Trace,
}

/// How far a life came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    Starting,
    /// The log could not be opened.
    Refused,
    Serving,
    Through,
}

/// What a seed went through, to know that it went through anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub lives: u64,
    pub crashes: u64,
    pub acknowledged: u64,
    pub trace_hash: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.crashes += other.crashes;
        self.acknowledged += other.acknowledged;
        self.trace_hash ^= other.trace_hash;
    }
}

/// Runs one seed. Panics where something does not hold.
pub fn run<N: Node>(seed: u64, shown: Shown) -> Tally {
    let mut random = Random::new(seed);
    let trace = Trace::new(shown);
    let mut world = World {
        disk: SimDisk::new(random.fork(), trace.clone()),
        oracle: Rc::default(),
        fleets: (0..CLIENTS_MAX)
            .map(|c| Rc::new(RefCell::new(Fleet::new(c, random.within(1..80)))))
            .collect(),
        clock_ms: Rc::new(Cell::new(1_700_000_000_000)),
        pool: PartPool::default(),
        retention_ms: *random.pick(&[3_600_000, 6 * 3_600_000, 24 * 3_600_000]),
        now_us: 0,
        random,
        trace,
    };
    let mut tally = Tally::default();
    for _ in 0..world.random.within(2..6) {
        let plan = Plan::draw(&mut world.random, world.disk.used_bytes());
        tally.lives += 1;
        tally.crashes += u64::from(world.live::<N>(&plan));
    }
    let last = Plan { end: End::PowerLoss, parts: 1, ..Plan::quiet() };
    world.live::<N>(&last);
    tally.acknowledged = world.oracle.borrow().acknowledged_count() as u64;
    tally.trace_hash = world.trace.hash();
    tally
}

impl World {
    /// One life. Tells whether the power went before its work was done.
    fn live<N: Node>(&mut self, plan: &Plan) -> bool {
        self.trace.event("life", [0, 0], format_args!("{plan:?}"));
        self.disk.begin_life(plan.faults.clone());
        let mut executor = Executor::new(self.random.fork(), self.now_us);
        let came = Rc::new(Cell::new(Came::Starting));
        let life = Life {
            plan: plan.clone(),
            connection: self.connect(executor.host()),
            disk: self.disk.clone(),
            random: self.random.fork(),
            fleets: self.fleets.clone(),
            came: Rc::clone(&came),
        };
        executor.host().spawn(life.run::<N>());
        let disk = self.disk.clone();
        let stopped = executor.run(move || disk.is_crashed());
        self.now_us = executor.now_us();
        drop(executor);
        let crashed = stopped == Stopped::AsAsked;
        self.trace.event(
            "life ends",
            [self.disk.steps(), u64::from(crashed)],
            format_args!("{came:?}, {stopped:?}"),
        );
        match (stopped, came.get()) {
            (Stopped::AsAsked, _) | (Stopped::Finished, Came::Through) => {}
            (Stopped::Finished, Came::Refused) => {
                assert!(plan.trouble != Trouble::Nothing, "the node doesn't start, and nothing is wrong");
            }
            (Stopped::Finished | Stopped::Deadlocked | Stopped::Endless, came) => {
                panic!("{stopped:?} while {came:?}");
            }
        }
        match plan.end {
            End::PowerLoss => self.disk.lose_power(),
            End::Kill => {}
        }
        crashed
    }

    fn connect(&self, host: SimHost) -> Connection {
        Connection {
            inbox: Rc::default(),
            replies: Replies::default(),
            host,
            pool: self.pool.clone(),
            oracle: Rc::clone(&self.oracle),
            clock_ms: Rc::clone(&self.clock_ms),
            hasher: SeriesIdHasher::new(1, ""),
            retention_ms: self.retention_ms,
            trace: self.trace.clone(),
        }
    }
}

/// One life from within: what its tasks need.
struct Life {
    plan: Plan,
    connection: Connection,
    disk: SimDisk,
    random: Random,
    fleets: Vec<Rc<RefCell<Fleet>>>,
    came: Rc<Cell<Came>>,
}

impl Life {
    async fn run<N: Node>(mut self) {
        let node = match N::start(self.disk.clone(), self.connection.host.clone()).await {
            Ok(node) => Rc::new(node),
            Err(reason) => {
                self.connection.trace.event("refused", [0, 0], format_args!("{reason}"));
                return self.came.set(Came::Refused);
            }
        };
        self.came.set(Came::Serving);
        self.spawn_worker(&*node);
        self.settle().await;
        let mut clients = Vec::new();
        for fleet in &self.fleets[..self.plan.clients] {
            let client = Client::new(self.connection.clone(), Rc::clone(fleet), self.random.fork());
            clients.push(client.run(self.plan.parts));
        }
        let upkeep = upkeep(Rc::clone(&node), self.connection.clone(), self.random.fork(), self.plan.upkeep);
        let room = make_room(self.disk.clone(), self.connection.host.clone());
        futures::join!(join_all(clients), upkeep, room);
        self.connection.read_and_check().await;
        self.connection.inbox.close();
        node.close().await;
        self.came.set(Came::Through);
    }

    /// What came back must be all that was promised, and from now on it is decided.
    async fn settle(&self) {
        let held = self.connection.read_all().await;
        let mut oracle = self.connection.oracle.borrow_mut();
        if let Err(fault) = oracle.check(&held, oracle.now()) {
            panic!("after a restart: {fault}");
        }
        oracle.settle(&held);
    }

    fn spawn_worker<N: Node>(&self, node: &N) {
        let replies = self.connection.replies.clone();
        let worker = Worker {
            shard: Rc::clone(node.shard()),
            inbox: Rc::clone(&self.connection.inbox),
            log: node.log().clone(),
            host: self.connection.host.clone(),
            reply: move |to, reply| replies.deliver(to, reply),
            clock: Clock::Settable(Rc::clone(&self.connection.clock_ms)),
            retention_ms: self.connection.retention_ms,
            core_stats: Box::new(|_| unreachable!("nobody asks for stats")),
        };
        self.connection.host.spawn(worker.run());
    }
}

/// What goes on beside the clients, in a drawn order.
async fn upkeep<N: Node>(node: Rc<N>, connection: Connection, mut random: Random, times: usize) {
    let clock_ms = &connection.clock_ms;
    for _ in 0..times {
        let pause_us = random.by_magnitude(1 << 20) as u64;
        connection.host.sleep(Duration::from_micros(pause_us)).await;
        match random.below(8) {
            0 | 1 => {
                let horizon_ms = clock_ms.get() - connection.retention_ms;
                connection.oracle.borrow_mut().expire_before(horizon_ms);
                maintenance::retain(node.shard(), node.log(), &connection.host, horizon_ms).await;
            }
            2 | 3 => clock_ms.set(clock_ms.get() + random.below(connection.retention_ms as usize / 8) as i64),
            4 => connection.read_and_check().await,
            _ => {
                let written = node.checkpoint().await;
                connection.trace.event("checkpoint", [0, 0], format_args!("{written:?}"));
            }
        }
    }
}

/// A full disk has room again some time later.
async fn make_room(disk: SimDisk, host: SimHost) {
    host.sleep(Duration::from_secs(3)).await;
    disk.set_faults(|faults| faults.capacity_bytes = None);
}

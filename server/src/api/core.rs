//! What the handlers of one core share: the way to the shards, pools, counters, the clock.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use futures::future::LocalBoxFuture;
use futures::lock::Mutex;

use crate::api::ingest::refusal_log::RefusalLog;
use crate::api::ingest::remote_write::Decoder;
use crate::api::query::read_fault::ReadFault;
use crate::config::Config;
use crate::migration::{Migrated, MigrationError, Trigger, Turn};
use crate::placement::NodeId;
use crate::rebalance::Steering;
use crate::routing::{Asker, BodyPool, ByteBudget, ReadGate, ReadInFlight, Router};
use silverback_host::Arrivals;
use silverback_host::disk::room::RoomSeen;
use silverback_model::clock::Clock;
use silverback_model::limits::MemoryPlan;
use silverback_model::{CellId, SeriesIdHasher, ShardId};
use silverback_runtime::{Pinning, Shutdown, SideThread, Slicer};
use silverback_storage::message::{AcceptorCounts, PartPool};
use silverback_storage::shard::Pulses;
use silverback_storage::wal::health::{LogHealth, ShutLogs};
use silverback_storage::wal::progress::{ReplayProgress, Replaying};

/// Moves a cell to a shard.
pub(crate) type Migrate =
    Box<dyn Fn(CellId, ShardId, Trigger) -> LocalBoxFuture<'static, Result<Migrated, MigrationError>>>;

/// One core's acceptor state. Lives behind an `Rc` on its core.
pub struct Core {
    /// The way to every shard.
    pub router: Rc<Router>,
    /// Moves a cell from its shard to another, and counts it.
    pub migrate: Migrate,
    /// Buffers for the parts that requests are split into.
    pub parts: PartPool,
    /// Buffers for decompressed bodies.
    pub bodies: BodyPool,
    /// Bytes for the series that gRPC streams define.
    pub definitions: ByteBudget,
    /// Bytes for reads in flight: their requests, and answers that are made whole.
    pub read_bytes: ByteBudget,
    /// Whose turn it is to make an answer whole that takes much of that.
    pub large_answers: Arc<Mutex<()>>,
    /// Labels → series id.
    pub hasher: SeriesIdHasher,
    /// Keeps its buffers and known label sets from request to request.
    pub decoder: RefCell<Decoder>,
    /// The wall clock.
    pub clock: Clock,
    /// As the node was started.
    pub config: Arc<Config>,
    /// What every core of the node knows alike.
    pub node: Arc<NodeFacts>,
    /// Told once the node is to end: it isn't ready any more.
    pub shutdown: Shutdown,
    /// Slices for answers that take long to make.
    pub slicer: Slicer,
    /// What this core's handlers count.
    pub counts: Cell<AcceptorCounts>,
    /// Reads in flight on this core, and those that wait.
    pub reads: Rc<ReadGate>,
    /// Compiles what would hold the core.
    pub(crate) compiler: Arc<SideThread>,
}

/// Facts about the whole node, fixed at its start.
#[derive(Debug)]
pub struct NodeFacts {
    /// When it started.
    pub started: Instant,
    /// The same in ms since the Unix epoch.
    pub started_ms: i64,
    /// The CPU of each shard.
    pub cpus: Box<[usize]>,
    /// Whether the shards stay there.
    pub pinning: Pinning,
    /// The NUMA node of each of these CPUs.
    pub nodes: Box<[NodeId]>,
    /// Where it listens.
    pub listen: Box<[SocketAddr]>,
    /// How far the replays have come.
    pub replay: ReplayProgress,
    /// Shards that have their data back.
    pub restored: Arrivals,
    /// Which logs take nothing in.
    pub logs: Arc<LogHealth>,
    /// When each shard last gave a sign.
    pub pulses: Pulses,
    /// How its memory limit is shared out.
    pub memory: MemoryPlan,
    /// What people say about where cells go.
    pub steering: Steering,
    /// The last refusals.
    pub refusals: RefusalLog,
    /// What the data directory's file system has room for.
    pub room: RoomSeen,
    /// Whose turn it is to delete series.
    pub deletions: Turn,
}

impl NodeFacts {
    /// The CPU that a shard is pinned to; `None` where it isn't.
    pub(crate) fn pinned_cpu(&self, shard: usize) -> Option<usize> {
        match self.pinning {
            Pinning::Pinned => self.cpus.get(shard).copied(),
            Pinning::Free => None,
        }
    }
}

impl Core {
    /// Why the node takes no writes now; `None`: it takes them.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if self.shutdown.is_requested() {
            return Some("the node is stopping".to_owned());
        }
        if let Some(replaying) = self.replaying() {
            return Some(replaying.to_string());
        }
        self.node.logs.shut().map(|ShutLogs { count, fault }| {
            format!("{count} of {} write-ahead logs take nothing in: {fault}", self.node.cpus.len())
        })
    }

    /// Why the node is to be restarted; `None`: it is healthy. What a restart makes no better is no reason.
    pub(crate) fn unhealthy(&self) -> Option<String> {
        if self.replaying().is_some() || self.node.logs.is_any_hung() {
            return None;
        }
        self.node.pulses.silent(self.config.stall_limit).map(|silent| silent.to_string())
    }

    /// Begins a read: refused before all data is back, and where too many wait already.
    pub(crate) async fn begin_read(&self, asker: &Asker) -> Result<ReadInFlight, ReadFault> {
        self.check_replayed()?;
        Ok(self.reads.enter(asker.clone()).await?)
    }

    /// Refuses reads until all data is back.
    pub(crate) fn check_replayed(&self) -> Result<(), ReadFault> {
        self.replaying().map_or(Ok(()), |replaying| Err(ReadFault::Replaying(replaying)))
    }

    /// How far the replay is; `None` once every shard has its data back.
    pub(crate) fn replaying(&self) -> Option<Replaying> {
        let NodeFacts { replay, restored, cpus, .. } = &*self.node;
        (restored.count() < cpus.len()).then(|| replay.after(self.node.started.elapsed()))
    }

    /// Changes this core's counters.
    pub(crate) fn count(&self, change: impl FnOnce(&mut AcceptorCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// The counters, with what is in flight now.
    pub(crate) fn acceptor_counts(&self) -> AcceptorCounts {
        AcceptorCounts {
            in_flight_bytes: self.bodies.in_use_bytes() as u64,
            pool_bytes: self.bodies.kept_bytes() as u64,
            definition_bytes: self.definitions.taken_bytes() as u64,
            reads_in_flight: self.reads.in_flight() as u64,
            reads_waiting: self.reads.waiting() as u64,
            read_bytes: self.read_bytes.taken_bytes() as u64,
            ..self.counts.get()
        }
    }
}

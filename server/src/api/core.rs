//! What all handlers of one core share: the way to the shards, counters, the clock, facts of the node.
//!
//! What accepts samples has more than this in [`Ingest`](crate::api::ingest::Ingest), what answers reads in
//! [`Reader`](crate::api::query::Reader), what moves cells in [`CellMover`](crate::api::cell_mover::CellMover).

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::access::reload::Reloads;
use crate::api::ingest::refusal_log::RefusalLog;
use crate::api::query::local_blocks::LocalBlocks;
use crate::api::query::snapshot::Snapshots;
use crate::blocks::Blocks;
use crate::config::Config;
use crate::migration::Turn;
use crate::placement::NodeId;
use crate::rebalance::Steering;
use crate::routing::Router;
use silverback_host::Arrivals;
use silverback_host::disk::room::RoomSeen;
use silverback_model::clock::Clock;
use silverback_model::limits::MemoryPlan;
use silverback_runtime::{Pinning, Shutdown, Slicer};
use silverback_shipper::Shipper;
use silverback_storage::message::AcceptorCounts;
use silverback_storage::shard::Pulses;
use silverback_storage::wal::health::{LogHealth, ShutLogs};
use silverback_storage::wal::progress::{ReplayProgress, Replaying};

/// What every handler of a core has. Lives behind an `Rc` on its core.
pub struct CoreContext {
    /// The way to every shard.
    pub router: Rc<Router>,
    /// The wall clock.
    pub clock: Clock,
    /// As the node was started.
    pub config: Arc<Config>,
    /// What every core of the node knows alike.
    pub node: Arc<NodeFacts>,
    /// Requested once the node is to end: it isn't ready any more.
    pub shutdown: Shutdown,
    /// Slices for what takes long.
    pub slicer: Slicer,
    /// What this core's handlers count.
    pub counts: Cell<AcceptorCounts>,
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
    /// Which logs accept nothing.
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
    /// What writes snapshots.
    pub snapshots: Snapshots,
    /// Its blocks on disk; `None`: it makes none.
    pub blocks: Option<Arc<Blocks>>,
    /// The blocks on disk, as reads have them.
    pub(crate) local_blocks: Arc<LocalBlocks>,
    /// How often the files that say who may do what were read again; `None`: there are none.
    pub(crate) reloads: Option<Arc<Reloads>>,
    /// What uploads blocks; `None`: none are uploaded.
    pub(crate) shipper: Option<Arc<Shipper>>,
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

impl CoreContext {
    /// Why the node takes no writes now; `None`: it takes them.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if self.shutdown.is_requested() {
            return Some("the node is stopping".to_owned());
        }
        if let Some(replaying) = self.replaying() {
            return Some(replaying.to_string());
        }
        self.node.logs.shut().map(|ShutLogs { count, fault }| {
            format!("{count} of {} write-ahead logs accept nothing: {fault}", self.node.cpus.len())
        })
    }

    /// Why the node is to be restarted; `None`: it is healthy. What a restart makes no better is no reason.
    pub(crate) fn unhealthy(&self) -> Option<String> {
        if self.replaying().is_some() || self.node.logs.is_any_hung() {
            return None;
        }
        self.node.pulses.silent(self.config.stall_limit).map(|silent| silent.to_string())
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
}

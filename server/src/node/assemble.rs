//! Puts one core together: shard, worker, router, acceptor; and takes it apart in order.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use crate::access::gate::PasswordThread;
use crate::access::{Access, Doors};
use crate::api::admission::Door;
use crate::api::cell_mover::{CellMover, Migrate};
use crate::api::core::{CoreContext, NodeFacts};
use crate::api::handlers::Handlers;
use crate::api::ingest::Ingest;
use crate::api::ingest::refusal_log::RefusalLog;
use crate::api::query::Reader;
use crate::api::query::http_api::promql;
use crate::api::query::local_blocks::LocalBlocks;
use crate::api::query::snapshot::Snapshots;
use crate::blocks::Blocks;
use crate::config::{BlocksMode, Config, ShipOnShutdown};
use crate::migration::{Migrations, Turn};
use crate::node::data_dir::{DataDir, note_logs};
use crate::node::host::ExecutorHost;
use crate::node::memory::MemoryWatch;
use crate::node::recovery::{Recovery, RecoveryBarrier, RecoveryError};
use crate::node::trusted_clock::TrustedClock;
use crate::node::{
    blocks, entrance, memory, presence, rebalance, room, self_scrape, upkeep, watchdog, welcome,
};
use crate::placement::PlacementPlan;
use crate::rebalance::Steering;
use crate::routing::{LaneMessage, Lanes, Router, RoutingTable};
use silverback_host::Arrivals;
use silverback_host::disk::room::{FileSystemRoom, RoomSeen};
use silverback_model::clock::Clock;
use silverback_model::limits::MemoryPlan;
use silverback_model::{SeriesIdHasher, ShardId};
use silverback_runtime as runtime;
use silverback_runtime::{
    BoundAddress, Delivery, Encryption, Executor, LaneReceivers, LaneSenders, Shutdown, SideThread, Slicer,
};
use silverback_shipper::Shipper;
use silverback_storage::message::{AcceptorCounts, CoreStats, ShardReply, ShardStats};
use silverback_storage::shard::{Inbox, Pulses, Reads, ReplyTo, Shard, Worker};
use silverback_storage::wal::DiskLog;
use silverback_storage::wal::layout::Layout;
use silverback_storage::wal::progress::ReplayProgress;

/// The tenant of requests that name none.
const DEFAULT_TENANT: &str = "";

/// What the cores are put together from.
pub(super) struct Shared {
    /// As the node was started.
    pub config: Arc<Config>,
    /// What every core reports of the node.
    pub(crate) facts: Arc<NodeFacts>,
    /// Its addresses, and what each is for.
    pub(crate) listeners: Vec<(Door, BoundAddress)>,
    /// Who may do what, and what checks passwords; `None`: nobody says.
    pub(crate) access: Option<(Access, Arc<PasswordThread>)>,
    data_dir: DataDir,
    barrier: RecoveryBarrier,
    /// Keeps the process within its limit.
    pub watch: MemoryWatch,
    /// Cores that have nothing in flight any more.
    drained: Arrivals,
    migration_turn: Turn,
    compiler: Arc<SideThread>,
    /// Asks what a disk that hangs doesn't answer.
    disk_watcher: Arc<SideThread>,
}

impl Shared {
    /// For one core on each of the plan's CPUs.
    pub(crate) fn new(
        config: Config,
        memory: MemoryPlan,
        placement: &PlacementPlan,
        listeners: Vec<(Door, BoundAddress)>,
        (access, shipper): (Option<Access>, Option<Arc<Shipper>>),
        data_dir: DataDir,
        clock: &Clock,
    ) -> io::Result<Self> {
        let watch = MemoryWatch::new(memory, placement.seats.len());
        let steering = Steering::new(placement.seats.len());
        let facts = NodeFacts {
            started: runtime::now(),
            started_ms: clock.now_ms(),
            cpus: placement.cpus().into(),
            pinning: placement.pinning,
            nodes: placement.seats.iter().map(|seat| seat.node).collect(),
            listen: listen_of(&listeners),
            reloads: access.as_ref().map(|access| Arc::clone(&access.reloads)),
            memory,
            replay: ReplayProgress::default(),
            restored: Arrivals::default(),
            logs: Arc::default(),
            pulses: Pulses::new(placement.seats.len()),
            steering,
            refusals: RefusalLog::default(),
            room: RoomSeen::default(),
            deletions: Turn::default(),
            snapshots: Snapshots::start()?,
            blocks: match config.blocks {
                BlocksMode::On => Some(Arc::new(Blocks::start(&config.data_dir)?)),
                BlocksMode::Off => None,
            },
            shipper,
            local_blocks: blocks_of(&config, &memory, clock)?,
        };
        // So that the first scrape has it. Nothing is served yet that a slow disk could hold up.
        facts.room.set(FileSystemRoom::of(&config.data_dir).ok());
        let passwords = || PasswordThread::start().map(Arc::new);
        let access = access.map(|access| Ok::<_, io::Error>((access, passwords()?))).transpose()?;
        Ok(Self {
            config: Arc::new(config),
            watch,
            facts: Arc::new(facts),
            listeners,
            access,
            data_dir,
            barrier: RecoveryBarrier::default(),
            drained: Arrivals::default(),
            migration_turn: Turn::default(),
            compiler: Arc::new(SideThread::start("compiler")?),
            disk_watcher: Arc::new(SideThread::start("disk-watcher")?),
        })
    }

    /// Where it listens, whatever for.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|(_, bound)| bound.address()).collect()
    }

    /// Who may do what, at the start; `None`: nobody says.
    pub(crate) fn doors(&self) -> Option<&Doors> {
        self.access.as_ref().map(|(access, _)| &*access.doors)
    }

    pub(crate) fn cores(&self) -> usize {
        self.facts.cpus.len()
    }

    fn series_max(&self) -> usize {
        self.config.max_series.map_or(usize::MAX, |max| usize::try_from(max.get()).unwrap_or(usize::MAX))
    }
}

/// What of the data directory's blocks is there. Of an earlier run's retention nothing may be known.
fn blocks_of(config: &Config, memory: &MemoryPlan, clock: &Clock) -> io::Result<Arc<LocalBlocks>> {
    let horizon_ms = clock.now_ms().saturating_sub(config.retention.as_millis() as i64);
    LocalBlocks::start(&config.data_dir, memory.block_bytes / 2, horizon_ms)
}

/// Where everything is answered but what has addresses of its own.
fn listen_of(listeners: &[(Door, BoundAddress)]) -> Box<[SocketAddr]> {
    let is_main = |door: &Door| matches!(door, Door::Main { .. });
    listeners.iter().filter(|(door, _)| is_main(door)).map(|(_, bound)| bound.address()).collect()
}

/// Why a core ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// Its sockets failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It didn't get its data back.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
}

struct ExecutorLanes(LaneSenders<LaneMessage>);

impl Lanes for ExecutorLanes {
    fn offer(&self, to: usize, message: LaneMessage) -> Result<(), LaneMessage> {
        self.0.offer(to, message).map_err(runtime::OfferRejected::into_message)
    }
}

/// Runs one core from its start to the end of the node.
pub(crate) async fn run_core(shared: Arc<Shared>, executor: Executor<LaneMessage>) -> Result<(), CoreError> {
    let Executor { index, senders, receivers, shutdown, slicer } = executor;
    let host = ExecutorHost::new(slicer.clone());
    let inbox = Rc::new(Inbox::default());
    let table = RoutingTable::even(shared.cores());
    let router = Rc::new(Router::new(index, table, Rc::clone(&inbox), Box::new(ExecutorLanes(senders))));
    receive(receivers, Rc::clone(&router));

    let plan = shared.facts.memory;
    let mut shard = Shard::new(ShardId(index as u16), shared.series_max());
    shard.set_memory_budget(plan.shard_bytes);
    shard.set_exemplars_max(shared.config.max_exemplars.div_ceil(shared.cores()));
    let shard = Rc::new(RefCell::new(shard));
    let reads = Reads::new(plan.select_bytes);
    let migrations = Migrations::new(
        Rc::clone(&router),
        shared.migration_turn.clone(),
        Arc::clone(&shared.facts.steering.migrations),
    );
    let core = Rc::new(CoreContext {
        router: Rc::clone(&router),
        clock: Clock::System,
        config: Arc::clone(&shared.config),
        node: Arc::clone(&shared.facts),
        shutdown: shutdown.clone(),
        slicer: slicer.clone(),
        counts: Cell::default(),
    });
    let hasher = SeriesIdHasher::new(shared.data_dir.identity.seed, DEFAULT_TENANT);
    let (gate, encryption) = entrance::start_access(&shared);
    let handlers = Handlers {
        gate,
        ingest: Rc::new(Ingest::new(Rc::clone(&core), hasher)),
        reader: Rc::new(Reader::new(Rc::clone(&core), Arc::clone(&shared.compiler))),
        mover: Rc::new(CellMover::new(Rc::clone(&core), migrate(migrations, slicer.clone()))),
        core: Rc::clone(&core),
    };
    promql::serve_folds(&handlers.reader);
    promql::serve_queries(&handlers.reader);
    let log = DiskLog::new(shared.config.ack, Arc::clone(&shared.facts.logs));
    // From now on, so that it reports its state; it takes writes once its log is open.
    let of_worker = (Rc::clone(&shard), Rc::clone(&reads));
    start_worker(&handlers, of_worker, Rc::clone(&inbox), log.clone(), host);
    watchdog::start(Rc::clone(&core), Rc::clone(&inbox));
    memory::start(&shared, index, &handlers, (Rc::clone(&shard), Rc::clone(&reads)));
    let keeper = KeeperPlace::default();
    let (of_shard, of_keeper) = ((shard, reads), Rc::clone(&keeper));
    let recovered = start_recovery(&shared, &handlers, index, (of_shard, of_keeper), log.clone());
    let accepted = accept(&shared, handlers, &encryption).await;
    if let Some(keeper) = keeper.take() {
        ship_what_is_left(&shared, &core, keeper).await;
    }
    drain(&shared).await;
    // Whoever still had a write in flight has been cut.
    inbox.abandon();
    if let Some(Err(error)) = recovered.take() {
        return Err(error.into());
    }
    close(&shared, index, &log).await;
    Ok(accepted?)
}

fn migrate(migrations: Migrations, slicer: Slicer) -> Migrate {
    Box::new(move |cell, to, trigger| {
        let (migrations, host) = (migrations.clone(), ExecutorHost::new(slicer.clone()));
        Box::pin(async move { migrations.migrate(&host, cell, to, trigger).await })
    })
}

/// What a recovery came to, once it has ended.
type Recovered = Rc<Cell<Option<Result<(), RecoveryError>>>>;

/// Who has blocks cut, on the core that has them cut, once its shard has its data back.
type KeeperPlace = Rc<Cell<Option<blocks::KeeperEnd>>>;

/// Gets the shard's data back, and then starts what needs it. A failure ends the node.
fn start_recovery(
    shared: &Arc<Shared>,
    handlers: &Handlers,
    index: usize,
    ((shard, reads), keeper): ((Rc<RefCell<Shard>>, Rc<Reads>), KeeperPlace),
    log: DiskLog,
) -> Recovered {
    let recovered = Recovered::default();
    let (shared, handlers, outcome) = (Arc::clone(shared), handlers.clone(), Rc::clone(&recovered));
    runtime::spawn_essential(async move {
        let Handlers { core, ingest, mover, reader, .. } = handlers;
        let recovery = Recovery {
            index,
            config: &shared.config,
            identity: shared.data_dir.identity,
            layout: shared.data_dir.layout,
            router: &core.router,
            progress: &shared.facts.replay,
            barrier: &shared.barrier,
            shard: Rc::clone(&shard),
            log: log.clone(),
            host: ExecutorHost::new(core.slicer.clone()),
        };
        match recovery.run().await {
            Ok(checkpoints) => {
                let disk = checkpoints.segments.disk.clone();
                // Once all are restored, others' samples come in.
                let reached_ms = shard.borrow().time_reached_ms();
                let clock = TrustedClock::begin(core.clock.now_ms(), reached_ms, runtime::now());
                let is_last = shared.facts.restored.arrive() == shared.cores();
                if is_last {
                    welcome::tell(&shared.config, &shared.facts.listen, shared.doors(), shared.cores());
                }
                presence::start(Rc::clone(&core), log.clone(), checkpoints.clone());
                if index == 0 {
                    keeper.set(blocks::start(reader, clock.clone(), shared.data_dir.identity.seed));
                }
                upkeep::start(&core, shard, reads, (log, clock), checkpoints);
                if index == 0 {
                    rebalance::start(mover);
                    room::start(Rc::clone(&core), Arc::clone(&shared.disk_watcher));
                    self_scrape::start(ingest);
                    runtime::spawn_background(upkeep::look_at_blocks(Rc::clone(&core)));
                }
                if let (true, Layout::Same(own)) = (is_last, shared.data_dir.layout) {
                    // Where an older version made them.
                    note_logs(&disk, shared.data_dir.identity, own).await;
                }
            }
            Err(error) => {
                tracing::error!(shard = index, %error, "the node can't start");
                outcome.set(Some(Err(error)));
                core.shutdown.request();
            }
        }
    });
    recovered
}

/// Has what is in memory cut to blocks and uploaded, where the node is to leave nothing behind. All cores still answer
/// each other: this one hasn't come to its end.
async fn ship_what_is_left(shared: &Shared, core: &Rc<CoreContext>, keeper: blocks::KeeperEnd) {
    let Some(shipper) = &shared.facts.shipper else { return };
    let is_whole = shared.facts.restored.count() == shared.cores();
    if shared.config.ship_on_shutdown == ShipOnShutdown::Off || !is_whole {
        return;
    }
    // From here on nothing comes in.
    shared.drained.reached(shared.cores() - 1).await;
    let core = CoreContext {
        router: Rc::clone(&core.router),
        clock: core.clock.clone(),
        config: Arc::clone(&core.config),
        node: Arc::clone(&core.node),
        // Blocks aren't cut on a node that is to end: they are begun again at the next start.
        shutdown: Shutdown::new(),
        slicer: core.slicer.clone(),
        counts: Cell::default(),
    };
    let reader = Rc::new(Reader::new(Rc::new(core), Arc::clone(&shared.compiler)));
    blocks::ship_what_is_left(keeper, reader, shipper, shared.config.shutdown_timeout).await;
}

/// Lets what waits for the disk get there.
async fn close(shared: &Shared, index: usize, log: &DiskLog) {
    let is_starting = shared.facts.restored.count() < shared.cores();
    if is_starting && index == 0 {
        tracing::warn!(
            "stopped while it was starting: nothing is lost, and the next start begins its replay again"
        );
    }
    match runtime::timeout(shared.config.shutdown_timeout, log.close()).await {
        Ok(Ok(())) => {}
        // A log that isn't open yet has nothing to write.
        Ok(Err(fault)) if is_starting => tracing::debug!(%fault, "the write-ahead log was not open yet"),
        Ok(Err(fault)) => tracing::warn!(%fault, "the write-ahead log accepts nothing at the end"),
        Err(elapsed) => tracing::error!(%elapsed, "the write-ahead log was not written to its end in time"),
    }
}

fn receive(receivers: LaneReceivers<LaneMessage>, router: Rc<Router>) {
    receivers.deliver_to(move |delivery| match delivery {
        Delivery::Messages { from, messages } => {
            messages.for_each(|message| router.deliver(from, message));
        }
        Delivery::Closed { from } => tracing::debug!(from, "a lane was closed"),
    });
}

fn start_worker(
    handlers: &Handlers,
    (shard, reads): (Rc<RefCell<Shard>>, Rc<Reads>),
    inbox: Rc<Inbox>,
    log: DiskLog,
    host: ExecutorHost,
) {
    let core = &handlers.core;
    let router = Rc::clone(&core.router);
    let reply = move |to: ReplyTo, reply: ShardReply| router.reply(to, reply);
    let stats_of = handlers.clone();
    let core_stats = move |shard: ShardStats| CoreStats {
        shard,
        acceptor: acceptor_counts(&stats_of),
        executor: runtime::counts(),
    };
    let worker = Worker {
        shard,
        reads,
        inbox,
        log,
        host,
        reply,
        clock: core.clock.clone(),
        retention_ms: core.config.retention.as_millis() as i64,
        late_window_ms: core.config.out_of_order_window.as_millis() as i64,
        core_stats: Box::new(core_stats),
    };
    runtime::spawn_essential(worker.run());
}

/// The counters of a core's handlers, with what is in flight now.
fn acceptor_counts(handlers: &Handlers) -> AcceptorCounts {
    let Handlers { core, ingest, reader, .. } = handlers;
    AcceptorCounts {
        in_flight_bytes: ingest.bodies.in_use_bytes() as u64,
        pool_bytes: ingest.bodies.kept_bytes() as u64,
        definition_bytes: ingest.definitions.taken_bytes() as u64,
        reads_in_flight: reader.reads.in_flight() as u64,
        reads_waiting: reader.reads.waiting() as u64,
        read_bytes: reader.read_bytes.taken_bytes() as u64,
        queries_active: reader.queries.in_flight() as u64,
        queries_waiting: reader.queries.waiting() as u64,
        ..core.counts.get()
    }
}

/// Serves every address until the notice to end, and then what is in flight. Sockets that fail on one
/// core give that notice to all: without its shard the others can't serve.
async fn accept(shared: &Shared, handlers: Handlers, encryption: &Encryption) -> io::Result<()> {
    let (shutdown, config) = (handlers.core.shutdown.clone(), &shared.config);
    let served = entrance::serve(shared, handlers, encryption).await;
    if let Err(error) = &served {
        tracing::error!(%error, "a core's sockets failed; the node ends");
        shutdown.request();
    }
    if runtime::timeout(config.shutdown_timeout, runtime::connections_ended()).await.is_err() {
        let open = runtime::counts().connections_open;
        tracing::warn!(open, "connections did not end in time and are cut");
    }
    served
}

/// Waits until no core has requests in flight: until then each may be asked by the others.
async fn drain(shared: &Shared) {
    shared.drained.arrive();
    shared.drained.reached(shared.cores()).await;
}

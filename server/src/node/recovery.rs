//! A core's way from its log's files to a shard that takes writes.
#![expect(clippy::disallowed_types, reason = "held for one insertion, while a node starts")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::Config;
use crate::node::data_dir::note_logs;
use crate::node::host::ExecutorHost;
use crate::node::identity::Identity;
use crate::routing::{Router, RoutingTable};
use silverback_host::disk::{Disk, DiskError};
use silverback_host::{Arrivals, Host};
use silverback_model::ShardId;
use silverback_runtime::disk::DirectDisk;
use silverback_storage::shard::Shard;
use silverback_storage::shard::checkpoint::{self, CheckpointError, CheckpointPlace};
use silverback_storage::shard::restore::{Refs, Restorer};
use silverback_storage::wal::committer;
use silverback_storage::wal::frame::FrameKey;
use silverback_storage::wal::layout::{self, Generation, Layout};
use silverback_storage::wal::log::DiskLog;
use silverback_storage::wal::progress::ReplayProgress;
use silverback_storage::wal::replay::{ReplayError, Replayed, make_tail_durable, replay};
use silverback_storage::wal::segment::SegmentHeader;
use silverback_storage::wal::segments::{SegmentPlace, SegmentSet, Segments};
use silverback_storage::wal::{Claims, Log, NoJournal};

/// Why a shard didn't get its data back.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// Its log can't be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The logs of another number of shards were read and can't be written as this one's.
    #[error("writing the logs for another number of shards: {0}")]
    Changing(DiskError),
    /// What was salvaged of a damaged log can't be written as a whole one.
    #[error("writing what was salvaged: {0}")]
    Salvaged(#[from] CheckpointError),
}

/// What the cores need of each other: whose each cell is, and how far they are while the number of
/// shards changes.
#[derive(Debug, Default)]
pub(crate) struct RecoveryBarrier {
    /// Cores that have written the logs of the new number of shards.
    written: Arrivals,
    /// The core that has put them in the place of the former ones.
    replaced: Arrivals,
    /// What each log says of who owns what, by its shard.
    claims: Mutex<BTreeMap<usize, Claims>>,
    /// How many logs have said it.
    claimed: Arrivals,
}

impl RecoveryBarrier {
    fn claims(&self) -> MutexGuard<'_, BTreeMap<usize, Claims>> {
        // Each change is one insert: a panic elsewhere leaves nothing half done.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One core's part of the node's recovery.
pub(super) struct Recovery<'a> {
    /// The core.
    pub index: usize,
    /// As the node was started.
    pub config: &'a Config,
    /// The data directory's.
    pub identity: Identity,
    /// Where the logs are.
    pub layout: Layout,
    /// Learns which cell is whose.
    pub router: &'a Router,
    /// Learns how far it is.
    pub progress: &'a ReplayProgress,
    /// Where cores meet.
    pub barrier: &'a RecoveryBarrier,
    /// The core's shard, empty.
    pub shard: Rc<RefCell<Shard>>,
    /// The shard's log, not open.
    pub log: DiskLog,
    /// The thread.
    pub host: ExecutorHost,
}

impl Recovery<'_> {
    /// Replays what there is and opens the log.
    pub(crate) async fn run(self) -> Result<CheckpointPlace<DirectDisk>, RecoveryError> {
        let disk = DirectDisk::open(&self.config.data_dir)?;
        if self.index == 0 {
            let block_bytes = disk.block_bytes();
            tracing::info!(mode = ?disk.mode(), block_bytes, ack = ?self.config.ack, "the write-ahead log's disk");
        }
        let (generation, replayed) = match self.layout {
            Layout::Same(generation) => (generation, self.replay_own(&disk, generation).await?),
            Layout::Changed { from, to } => (to, self.replay_former(&disk, from, to).await?),
        };
        let segment_set = Rc::new(RefCell::new(replayed.segment_set));
        let place = self.segment_place(&disk, generation.log_dir(self.index));
        self.log.count(|counts| {
            counts.since_checkpoint_bytes = replayed.since_checkpoint_bytes;
            counts.checkpoint_bytes = replayed.checkpoint_bytes;
        });
        let segments = Segments::new(
            place.clone(),
            self.host.clone(),
            self.log.clone(),
            Rc::clone(&segment_set),
            replayed.next_seq,
        )
        .going_on_in(replayed.unfilled);
        committer::start(&self.log, segments, replayed.last, self.config.ack, &self.host).await?;
        let checkpoints =
            CheckpointPlace { segments: place, segment_set, bytes_min: self.config.checkpoint_bytes as u64 };
        if !replayed.damage.is_empty() {
            // So that the next start finds a whole log, and reports no loss a second time.
            checkpoint::write(&self.shard, &self.log, &checkpoints, &self.host).await?;
        }
        Ok(checkpoints)
    }

    async fn replay_own(&self, disk: &DirectDisk, own: Generation) -> Result<Replayed, RecoveryError> {
        let place = self.identity.log_place(disk, own, self.index);
        let mut restorer = Restorer::new(Rc::clone(&self.shard), Refs::Kept, |_| true);
        let recovery = self.config.wal_recovery;
        let replayed = replay(&place, recovery, &self.host, self.progress, &mut restorer).await?;
        self.tell(&place.dir, &replayed);
        // Before others hear of its claims: they remove for good what these say they have no more.
        make_tail_durable(disk, &replayed).await?;
        let claims = restorer.claims().clone();
        let table = RoutingTable::of_claims(&self.exchange([(self.index, claims.clone())], own.shards).await);
        let ownership = table.ownership_of(self.own_shard(), &claims);
        self.shard.borrow_mut().set_ownership(ownership, &mut *self.log.journal());
        self.router.set_table(table);
        self.keep_dir(disk, own).await?;
        for name in place.files().await?.unfinished {
            disk.remove(&place.path(&name)).await?;
        }
        Ok(replayed)
    }

    /// The directory of a log that is gone may be gone too. Only a recovery that salvages comes so far.
    async fn keep_dir(&self, disk: &DirectDisk, own: Generation) -> Result<(), DiskError> {
        let dir = own.log_dir(self.index);
        match disk.list(&dir).await {
            Err(error) if error.kind == io::ErrorKind::NotFound => {
                disk.create_dir(&dir).await?;
                disk.sync_dir(&own.dir()).await
            }
            listed => listed.map(drop),
        }
    }

    /// Takes the own cells' series out of all former logs, and writes them as the first checkpoint of
    /// a new one. The new logs count once all shards have theirs.
    async fn replay_former(
        &self,
        disk: &DirectDisk,
        from: Generation,
        to: Generation,
    ) -> Result<Replayed, RecoveryError> {
        let owners = self.former_owners(disk, from, to).await?;
        let table = RoutingTable::even(to.shards);
        for former in 0..from.shards {
            let place = self.identity.log_place(disk, from, former);
            let (here, there) = (self.own_shard(), ShardId(former as u16));
            let owns = |cell| table.owner(cell) == here && owners.owner(cell) == there;
            let refs = Refs::Renumbered(Vec::new());
            let mut restorer = Restorer::new(Rc::clone(&self.shard), refs, owns).among(to.shards);
            let recovery = self.config.wal_recovery;
            let replayed = replay(&place, recovery, &self.host, self.progress, &mut restorer).await?;
            self.tell(&place.dir, &replayed);
        }
        {
            let mut shard = self.shard.borrow_mut();
            shard.free_left_out();
            let ownership = table.ownership_of(self.own_shard(), &Claims::default());
            // The new log has none but the shard's own.
            shard.set_ownership(ownership, &mut NoJournal);
        }
        let place = self.segment_place(disk, to.unfinished_log_dir(self.index));
        let checkpoint_bytes = checkpoint::write_first(&self.shard, &place, &self.host).await;
        let checkpoint_bytes = checkpoint_bytes.map_err(RecoveryError::Changing)?;
        self.barrier.written.arrive();
        self.wait(&self.barrier.written, to.shards).await;
        if self.index == 0 {
            layout::replace(disk, from, to).await?;
            note_logs(disk, self.identity, to).await;
            self.barrier.replaced.arrive();
        }
        self.wait(&self.barrier.replaced, 1).await;
        tracing::info!(
            shard = self.index,
            from = from.shards,
            to = to.shards,
            "the number of shards has changed"
        );
        let segment_set = SegmentSet { marked: Some(0), ..SegmentSet::default() };
        Ok(Replayed { next_seq: 1, checkpoint_bytes, segment_set, ..Replayed::default() })
    }

    /// Who owned what by the former logs. Each core reads some of them for it.
    async fn former_owners(
        &self,
        disk: &DirectDisk,
        from: Generation,
        to: Generation,
    ) -> Result<RoutingTable, RecoveryError> {
        let mut claims = Vec::new();
        for former in (self.index..from.shards).step_by(to.shards) {
            let place = self.identity.log_place(disk, from, former);
            let mut of_log = Claims::default();
            let recovery = self.config.wal_recovery;
            replay(&place, recovery, &self.host, self.progress, &mut of_log).await?;
            claims.push((former, of_log));
        }
        Ok(RoutingTable::of_claims(&self.exchange(claims, from.shards).await))
    }

    /// Gives the other cores what some logs say, and waits for what all of `logs` say.
    async fn exchange(&self, own: impl IntoIterator<Item = (usize, Claims)>, logs: usize) -> Vec<Claims> {
        for (log, claims) in own {
            self.barrier.claims().insert(log, claims);
            self.barrier.claimed.arrive();
        }
        self.wait(&self.barrier.claimed, logs).await;
        self.barrier.claims().values().cloned().collect()
    }

    fn own_shard(&self) -> ShardId {
        ShardId(self.index as u16)
    }

    fn tell(&self, dir: &str, replayed: &Replayed) {
        if let Some(torn) = &replayed.torn {
            tracing::warn!(%torn, "the write-ahead log's end isn't whole and was cut off: torn, or damaged");
        }
        for damage in &replayed.damage {
            tracing::error!(%damage, "salvaged what could be read of a damaged write-ahead log");
        }
        tracing::info!(
            shard = self.index,
            log = dir,
            groups = replayed.groups,
            checkpoint_bytes = replayed.checkpoint_bytes,
            series = self.shard.borrow().stats().series,
            "replayed a write-ahead log"
        );
    }

    /// Waits for as many to arrive. No slice is held meanwhile.
    async fn wait(&self, arrivals: &Arrivals, all: usize) {
        self.host.release_slice();
        arrivals.reached(all).await;
    }

    fn segment_place(&self, disk: &DirectDisk, dir: String) -> SegmentPlace<DirectDisk> {
        SegmentPlace {
            disk: disk.clone(),
            dir: dir.into(),
            seed: self.identity.seed,
            key: FrameKey::new(self.identity.seed),
            header: SegmentHeader {
                shard: self.index as u16,
                shards: self.router.table().shards() as u16,
                seq: 0,
                block_bytes: disk.block_bytes() as u32,
                made: None,
            },
            segment_bytes: self.config.wal_segment_bytes as u64,
        }
    }
}

//! One core of the simulated node: its shard and log over the simulated disk, its worker and router.

use std::cell::{Cell, RefCell, RefMut};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use silverback_host::disk::Disk;
use silverback_model::ShardId;
use silverback_model::clock::Clock;
use silverback_storage::shard::checkpoint::CheckpointPlace;
use silverback_storage::shard::ownership::Ownership;
use silverback_storage::shard::restore::{Refs, Restorer};
use silverback_storage::shard::{Inbox, Reads, ReplyTo, Shard, Worker};
use silverback_storage::wal::frame::FrameKey;
use silverback_storage::wal::layout::Generation;
use silverback_storage::wal::progress::ReplayProgress;
use silverback_storage::wal::record::Group;
use silverback_storage::wal::replay::{LogPlace, Replayed, make_tail_durable, replay};
use silverback_storage::wal::segment::SegmentHeader;
use silverback_storage::wal::segments::{SegmentPlace, Segments};
use silverback_storage::wal::{AckMode, WalRecovery};
use silverback_storage::wal::{
    Claims, DiskLog, Durable, Log, LogError, LogReport, Lsn, MemoryLog, committer,
};

use crate::cells::node::{Defect, Flushes};
use crate::disk::SimDisk;
use crate::executor::SimHost;

/// A segment's blocks: few enough that a life goes through several.
const SEGMENT_BLOCKS: u64 = 12;
const NODE_SEED: u64 = 7;

/// A shard whose log was replayed and is not open yet.
pub(super) struct Replayable {
    pub shard: Rc<RefCell<Shard>>,
    pub claims: Claims,
    replayed: Replayed,
    dir: Rc<str>,
}

/// A shard with its open log.
#[derive(Clone)]
pub(super) struct SimCore {
    pub shard: Rc<RefCell<Shard>>,
    pub log: DiskLog,
    pub place: CheckpointPlace<SimDisk>,
}

type Failure = Box<dyn std::error::Error>;

impl Replayable {
    pub(super) async fn read(
        disk: &SimDisk,
        host: &SimHost,
        generation: Generation,
        shard: usize,
    ) -> Result<Self, Failure> {
        let dir: Rc<str> = generation.log_dir(shard).into();
        let id = ShardId(shard as u16);
        let place = LogPlace {
            disk: disk.clone(),
            dir: Rc::clone(&dir),
            seed: NODE_SEED,
            shard: id,
            is_marked: true,
        };
        let shard = Rc::new(RefCell::new(Shard::new(id, usize::MAX)));
        let mut restorer = Restorer::new(Rc::clone(&shard), Refs::Kept, |_| true);
        let progress = ReplayProgress::default();
        let replayed = replay(&place, WalRecovery::Strict, host, &progress, &mut restorer).await?;
        make_tail_durable(disk, &replayed).await?;
        for name in place.files().await?.unfinished {
            disk.remove(&place.path(&name)).await?;
        }
        Ok(Self { shard, claims: restorer.claims().clone(), replayed, dir })
    }

    pub(super) async fn open(
        self,
        disk: SimDisk,
        host: &SimHost,
        shard: usize,
        shards: usize,
        ownership: Ownership,
    ) -> Result<SimCore, Failure> {
        let block_bytes = disk.block_bytes();
        let place = SegmentPlace {
            disk,
            dir: self.dir,
            seed: NODE_SEED,
            key: FrameKey::new(NODE_SEED),
            header: SegmentHeader {
                shard: shard as u16,
                shards: shards as u16,
                seq: 0,
                block_bytes: block_bytes as u32,
                made: None,
            },
            segment_bytes: SEGMENT_BLOCKS * block_bytes as u64,
        };
        let log = DiskLog::new(AckMode::Durable, Arc::default());
        self.shard.borrow_mut().set_ownership(ownership, &mut *log.journal());
        let segment_set = Rc::new(RefCell::new(self.replayed.segment_set));
        let next_seq = self.replayed.next_seq;
        let segments =
            Segments::new(place.clone(), host.clone(), log.clone(), Rc::clone(&segment_set), next_seq)
                .going_on_in(self.replayed.unfilled);
        committer::start(&log, segments, self.replayed.last, AckMode::Durable, host).await?;
        Ok(SimCore {
            shard: self.shard,
            log,
            place: CheckpointPlace { segments: place, segment_set, bytes_min: u64::MAX },
        })
    }
}

/// What shards go by.
pub(super) struct Times {
    pub clock_ms: Rc<Cell<i64>>,
    pub retention_ms: i64,
    pub late_window_ms: i64,
}

impl SimCore {
    pub(super) fn spawn_worker<D: Defect>(
        &self,
        inbox: Rc<Inbox>,
        reply: impl Fn(ReplyTo, silverback_storage::message::ShardReply) + Clone + 'static,
        host: &SimHost,
        times: &Times,
    ) {
        let worker = Worker {
            shard: Rc::clone(&self.shard),
            reads: Reads::new(usize::MAX),
            inbox,
            log: SimLog::<D>(self.log.clone(), PhantomData),
            host: host.clone(),
            reply,
            clock: Clock::Settable(Rc::clone(&times.clock_ms)),
            retention_ms: times.retention_ms,
            late_window_ms: times.late_window_ms,
            core_stats: Box::new(|_| unreachable!("nobody asks for stats")),
        };
        host.spawn(worker.run());
    }
}

/// The log, which may say that it has flushed what it hasn't.
#[derive(Clone)]
struct SimLog<D>(DiskLog, PhantomData<D>);

impl<D: Defect> Log for SimLog<D> {
    type Journal = Group;

    fn check(&self) -> Result<(), LogError> {
        self.0.check()
    }

    fn journal(&self) -> RefMut<'_, Group> {
        self.0.journal()
    }

    fn filling(&self) -> Lsn {
        self.0.filling()
    }

    fn report(&self, now_us: u64) -> LogReport {
        self.0.report(now_us)
    }

    fn ask_checkpoint(&self) -> u64 {
        self.0.ask_checkpoint()
    }

    async fn commit(&self) -> Result<Durable, LogError> {
        self.0.commit().await
    }

    async fn flush(&self) -> Result<Durable, LogError> {
        match D::FLUSHES {
            Flushes::Awaited => self.0.flush().await,
            Flushes::Claimed => MemoryLog::default().flush().await,
        }
    }
}

//! The node's own way from its files to a shard and a log, over the simulated disk.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use silverback_host::disk::Disk;
use silverback_model::ShardId;
use silverback_storage::shard::Shard;
use silverback_storage::shard::checkpoint::{self, CheckpointPlace};
use silverback_storage::shard::restore::{Refs, Restorer};
use silverback_storage::wal::committer;
use silverback_storage::wal::frame::FrameKey;
use silverback_storage::wal::layout::{self, Layout};
use silverback_storage::wal::progress::ReplayProgress;
use silverback_storage::wal::record::Record;
use silverback_storage::wal::replay::{
    LogPlace, Loss, Replayed, Restore, RestoreError, make_tail_durable, replay,
};
use silverback_storage::wal::segment::SegmentHeader;
use silverback_storage::wal::segments::{SegmentPlace, Segments};
use silverback_storage::wal::{AckMode, WalRecovery};
use silverback_storage::wal::{DiskLog, Lsn};

use crate::disk::{SimDisk, Syncs};
use crate::executor::SimHost;
use crate::node::{Lost, Node, Recovery};

/// A segment's blocks: few enough that a life goes through several.
const SEGMENT_BLOCKS: u64 = 12;

const NODE_SEED: u64 = 7;

/// A shard with its log on disk.
pub(crate) struct Durable<D> {
    shard: Rc<RefCell<Shard>>,
    log: DiskLog,
    place: CheckpointPlace<SimDisk>,
    host: SimHost,
    lost: Vec<Lost>,
    defect: PhantomData<D>,
}

/// What is wrong with a node on purpose, to see that it is found out.
pub(crate) trait Defect: 'static {
    const SYNCS: Syncs = Syncs::Honest;
    const ACK: AckMode = AckMode::Durable;
    const TAIL: Tail = Tail::MadeDurable;
    const REPLAY: Passes = Passes::Everything;
    const IS_DELETED_FROM: bool = false;
}

/// What is done about a last group that may be written and not synced.
pub(crate) enum Tail {
    MadeDurable,
    Trusted,
}

/// What of the log's records a replay gives the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passes {
    Everything,
    /// All but native histograms.
    NoHistograms,
}

/// A shard that is given some of its records.
struct Passing<R>(R, Passes);

impl<R: Restore> Restore for Passing<R> {
    fn record(&mut self, record: Record<'_>) -> Result<(), RestoreError> {
        match (&record, self.1) {
            (Record::Histograms(_), Passes::NoHistograms) => Ok(()),
            (_, Passes::Everything | Passes::NoHistograms) => self.0.record(record),
        }
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        self.0.finish()
    }
}

/// Nothing is wrong.
pub(crate) struct Sound;
impl Defect for Sound {
    const IS_DELETED_FROM: bool = true;
}

/// What is synced is not durable.
pub(crate) struct DataNotSynced;
impl Defect for DataNotSynced {
    const SYNCS: Syncs = Syncs::LieOfData;
}

/// Names that are synced are not durable.
pub(crate) struct NamesNotSynced;
impl Defect for NamesNotSynced {
    const SYNCS: Syncs = Syncs::LieOfNames;
}

/// Writes are acknowledged before they are on disk.
pub(crate) struct AcknowledgedTooEarly;
impl Defect for AcknowledgedTooEarly {
    const ACK: AckMode = AckMode::Memory;
}

/// What a killed process wrote counts as durable.
pub(crate) struct TailTrusted;
impl Defect for TailTrusted {
    const TAIL: Tail = Tail::Trusted;
}

/// A replay forgets native histograms.
pub(crate) struct HistogramsForgotten;
impl Defect for HistogramsForgotten {
    const REPLAY: Passes = Passes::NoHistograms;
}

impl<D: Defect> Node for Durable<D> {
    type Log = DiskLog;

    const IS_DELETED_FROM: bool = D::IS_DELETED_FROM;

    async fn start(disk: SimDisk, host: SimHost, recovery: Recovery) -> Result<Self, String> {
        disk.set_syncs(D::SYNCS);
        Self::open(disk, host, recovery).await.map_err(|error| error.to_string())
    }

    fn shard(&self) -> &Rc<RefCell<Shard>> {
        &self.shard
    }

    fn log(&self) -> &DiskLog {
        &self.log
    }

    fn durable(&self) -> Lsn {
        self.log.durable()
    }

    fn lost(&self) -> &[Lost] {
        &self.lost
    }

    async fn checkpoint(&self) -> Result<(), String> {
        let written = checkpoint::write(&self.shard, &self.log, &self.place, &self.host).await;
        written.map_err(|error| error.to_string())
    }

    async fn close(&self) {
        // Why it accepts nothing was reported to whoever wrote.
        drop(self.log.close().await);
    }
}

impl<D: Defect> Durable<D> {
    async fn open(
        disk: SimDisk,
        host: SimHost,
        recovery: Recovery,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let generation = match layout::prepare(&disk, 1).await? {
            Layout::Same(generation) => generation,
            Layout::Changed { .. } => unreachable!("there is always one shard"),
        };
        let (shard, log) =
            (Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX))), DiskLog::new(D::ACK, Arc::default()));
        let dir: Rc<str> = generation.log_dir(0).into();
        let place = LogPlace {
            disk: disk.clone(),
            dir: Rc::clone(&dir),
            seed: NODE_SEED,
            shard: ShardId(0),
            is_marked: true,
        };
        let restorer = Restorer::new(Rc::clone(&shard), Refs::Kept, |_| true);
        let mut restorer = Passing(restorer, D::REPLAY);
        let recovery = match recovery {
            Recovery::Strict => WalRecovery::Strict,
            Recovery::Salvage => WalRecovery::Salvage,
        };
        let replayed = replay(&place, recovery, &host, &ReplayProgress::default(), &mut restorer).await?;
        match D::TAIL {
            Tail::MadeDurable => make_tail_durable(&disk, &replayed).await?,
            Tail::Trusted => {}
        }
        for name in place.files().await?.unfinished {
            disk.remove(&place.path(&name)).await?;
        }
        let lost = lost(&replayed);
        let block_bytes = disk.block_bytes() as u32;
        let header = SegmentHeader { shard: 0, shards: 1, seq: 0, block_bytes, made: None };
        let key = FrameKey::new(NODE_SEED);
        let segment_bytes = SEGMENT_BLOCKS * disk.block_bytes() as u64;
        let place = SegmentPlace { disk, dir, seed: NODE_SEED, key, header, segment_bytes };
        let segment_set = Rc::new(RefCell::new(replayed.segment_set));
        let segments = Segments::new(
            place.clone(),
            host.clone(),
            log.clone(),
            Rc::clone(&segment_set),
            replayed.next_seq,
        )
        .going_on_in(replayed.unfilled);
        committer::start(&log, segments, replayed.last, D::ACK, &host).await?;
        let place = CheckpointPlace { segments: place, segment_set, bytes_min: u64::MAX };
        if !lost.is_empty()
            && let Err(error) = checkpoint::write(&shard, &log, &place, &host).await
        {
            // The process ends with it: so does what it has begun.
            drop(log.close().await);
            return Err(error.into());
        }
        Ok(Self { shard, log, place, host, lost, defect: PhantomData })
    }
}

fn lost(replayed: &Replayed) -> Vec<Lost> {
    let lost = |loss: &Loss| match loss {
        Loss::Groups(first, last) | Loss::AtLeast(first, last) => Lost::Groups(*first, *last),
        Loss::Newest(last) | Loss::Log(_, last) => Lost::Groups(Lsn(last.0 + 1), Lsn(u64::MAX)),
        Loss::Frames(..) | Loss::CheckpointEnd | Loss::End(..) | Loss::File(_) | Loss::Records(_) => {
            Lost::Unknown
        }
    };
    replayed.damage.iter().map(|damage| lost(&damage.loss)).collect()
}

//! A log alone on the simulated disk: what it does where the disk is full, where checkpoints fail, and
//! where it has become too long.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use silverback_host::Host;
use silverback_host::disk::Disk;
use silverback_model::{Sample, SeriesId, SeriesRef, ShardId};
use silverback_storage::shard::Shard;
use silverback_storage::shard::checkpoint::{self, CheckpointError, CheckpointPlace};
use silverback_storage::wal::AckMode;
use silverback_storage::wal::committer;
use silverback_storage::wal::frame::FrameKey;
use silverback_storage::wal::health::LogHealth;
use silverback_storage::wal::segment::SegmentHeader;
use silverback_storage::wal::segments::{SegmentPlace, Segments};
use silverback_storage::wal::{DiskLog, Journal, Log, LogError, Lsn, RefReuse};

use crate::disk::{Faults, SimDisk};
use crate::executor::{Executor, SimHost, Stopped};
use crate::random::Random;
use crate::trace::{Shown, Trace};

const NODE_SEED: u64 = 7;

/// The header's block and eleven small groups.
const SEGMENT_BLOCKS: u64 = 12;

/// With so much after the last checkpoint the next one is due.
const DUE_BYTES: u64 = 1 << 40;

struct LoneLog {
    ack: AckMode,
    log: DiskLog,
    health: Arc<LogHealth>,
    shard: Rc<RefCell<Shard>>,
    place: CheckpointPlace<SimDisk>,
    disk: SimDisk,
    host: SimHost,
    /// The test ends with a failed log.
    fails_to_close: Cell<bool>,
}

/// Runs a test on a log in an empty directory, and the log to its end.
fn check(ack: AckMode, test: impl AsyncFnOnce(&LoneLog) + 'static) {
    let mut executor = Executor::new(Random::new(1), 0);
    let (host, disk) = (executor.host(), SimDisk::new(Random::new(2), Trace::new(Shown::Hidden)));
    executor.host().spawn(async move {
        let log = LoneLog::new(ack, disk, host).await;
        test(&log).await;
        assert_eq!(log.log.close().await.is_err(), log.fails_to_close.get());
    });
    assert_eq!(executor.run(|| false), Stopped::Finished);
}

impl LoneLog {
    async fn new(ack: AckMode, disk: SimDisk, host: SimHost) -> Self {
        disk.create_dir("log").await.unwrap();
        let block_bytes = disk.block_bytes();
        let segments = SegmentPlace {
            disk: disk.clone(),
            dir: "log".into(),
            seed: NODE_SEED,
            key: FrameKey::new(NODE_SEED),
            header: SegmentHeader {
                shard: 0,
                shards: 1,
                seq: 0,
                block_bytes: block_bytes as u32,
                made: None,
            },
            segment_bytes: SEGMENT_BLOCKS * block_bytes as u64,
        };
        let health = Arc::<LogHealth>::default();
        Self {
            ack,
            log: DiskLog::new(ack, Arc::clone(&health)),
            health,
            shard: Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX))),
            place: CheckpointPlace { segments, segment_set: Rc::default(), bytes_min: DUE_BYTES },
            disk,
            host,
            fails_to_close: Cell::new(false),
        }
    }

    async fn open(&self) {
        let (place, segment_set) = (self.place.segments.clone(), Rc::clone(&self.place.segment_set));
        let segments = Segments::new(place, self.host.clone(), self.log.clone(), segment_set, 1);
        committer::start(&self.log, segments, Lsn(0), self.ack, &self.host).await.unwrap();
    }

    fn append(&self) {
        self.log.journal().stored(SeriesRef(0), Sample::new(1, 1.0));
    }

    async fn write_group(&self) {
        self.append();
        self.log.flush().await.unwrap();
    }

    async fn checkpoint(&self) -> Result<(), CheckpointError> {
        checkpoint::write(&self.shard, &self.log, &self.place, &self.host).await
    }

    fn grow(&self, bytes: u64) {
        self.log.count(|counts| counts.since_checkpoint_bytes += bytes);
    }

    /// Whether it takes writes, and whether its health says so too.
    fn takes_writes(&self) -> bool {
        let takes_writes = self.log.check().is_ok();
        assert_eq!(self.health.shut().map_or(0, |shut| shut.count), usize::from(!takes_writes));
        takes_writes
    }

    fn segments(&self) -> usize {
        self.disk.files().iter().filter(|(path, _)| path.ends_with(".wal")).count()
    }

    async fn pass(&self, time: Duration) {
        self.host.sleep(time).await;
    }

    /// Makes the disk full but for so many bytes.
    fn fill(&self, left_bytes: usize) {
        let capacity_bytes = Some(self.disk.used_bytes() + left_bytes);
        self.disk.set_faults(|faults| faults.capacity_bytes = capacity_bytes);
    }

    fn make_room(&self) {
        self.disk.set_faults(|faults| faults.capacity_bytes = None);
    }
}

#[test]
fn a_long_log_takes_writes_until_checkpoints_fail_and_it_grows_on() {
    check(AckMode::Durable, async |log| {
        log.open().await;
        log.grow(100 * DUE_BYTES);
        assert!(checkpoint::is_due(&log.shard.borrow(), &log.log, &log.place));
        assert!(log.takes_writes(), "none was tried");
        log.fill(0);
        for _ in 0..3 {
            assert!(log.checkpoint().await.is_err());
            log.grow(DUE_BYTES);
            assert!(log.takes_writes());
        }
        assert!(log.checkpoint().await.is_err());
        log.grow(1);
        assert!(!log.takes_writes());
        assert!(matches!(log.log.check(), Err(LogError::CheckpointOverdue(_))));
        log.make_room();
        log.checkpoint().await.unwrap();
        assert!(log.takes_writes());
    });
}

#[test]
fn a_disk_that_hangs_is_reported_to_those_who_wait_and_writes_go_on_when_it_answers() {
    check(AckMode::Durable, async |log| {
        log.open().await;
        log.write_group().await;
        log.disk.set_faults(|faults| faults.is_hung = true);
        log.append();
        let (waiting, looking) = futures::join!(log.log.flush(), async {
            log.pass(Duration::from_secs(3)).await;
            let takes_writes = log.takes_writes();
            let in_flight_us = log.log.report(log.host.monotonic_us()).commit_in_flight_us;
            (takes_writes, in_flight_us)
        });
        assert!(matches!(waiting, Err(LogError::Hung(5..=7))), "{waiting:?}");
        assert!(looking.0, "no hang yet");
        assert!((2_900_000..3_500_000).contains(&looking.1), "{} µs", looking.1);
        assert!(!log.takes_writes() && log.health.is_any_hung());
        log.pass(Duration::from_secs(70)).await;
        assert!(matches!(log.log.check(), Err(LogError::Hung(70..))));
        log.disk.set_faults(|faults| faults.is_hung = false);
        log.pass(Duration::from_millis(10)).await;
        assert!(log.takes_writes());
        assert_eq!(log.log.durable(), Lsn(2), "what was refused is durable all the same");
        assert_eq!(log.log.report(log.host.monotonic_us()).commit_in_flight_us, 0);
        log.write_group().await;
    });
}

#[test]
fn a_log_that_closes_waits_for_a_disk_that_hangs() {
    check(AckMode::Memory, async |log| {
        log.open().await;
        log.append();
        log.disk.set_faults(|faults| faults.is_hung = true);
        log.pass(Duration::from_secs(10)).await;
        assert!(!log.takes_writes());
        let (closed, ()) = futures::join!(log.log.close(), async {
            log.pass(Duration::from_secs(10)).await;
            log.disk.set_faults(|faults| faults.is_hung = false);
        });
        assert_eq!(closed, Ok(()));
        assert_eq!(log.log.durable(), Lsn(1));
    });
}

#[test]
fn a_log_that_is_too_long_is_written_to_its_end() {
    check(AckMode::Memory, async |log| {
        log.open().await;
        log.append();
        log.log.bound(0);
        log.grow(1);
        assert!(!log.takes_writes());
        assert_eq!(log.log.close().await, Ok(()));
        assert_eq!(log.log.durable(), Lsn(1));
    });
}

#[test]
fn a_log_that_is_too_long_begins_once_the_disk_has_room() {
    check(AckMode::Durable, async |log| {
        log.log.bound(0);
        log.grow(1);
        log.fill(0);
        log.open().await;
        log.pass(Duration::from_secs(2)).await;
        log.make_room();
        log.pass(Duration::from_secs(1)).await;
        assert_eq!(log.segments(), 1, "one segment, and nothing more of the room");
        log.log.begin_behind_checkpoint(0);
        assert!(log.takes_writes());
        log.write_group().await;
    });
}

#[test]
fn the_next_segment_is_not_tried_again_and_again_on_a_full_disk() {
    check(AckMode::Durable, async |log| {
        log.open().await;
        log.fill(log.disk.block_bytes());
        let before = log.disk.creates();
        for _ in 0..8 {
            log.write_group().await;
            log.pass(Duration::from_millis(100)).await;
        }
        assert_eq!(log.disk.creates() - before, 1);
        log.pass(Duration::from_secs(10)).await;
        log.make_room();
        log.write_group().await;
        log.pass(Duration::from_secs(1)).await;
        assert_eq!((log.disk.creates() - before, log.segments()), (2, 2));
    });
}

/// As after many starts, each of which left a segment behind that it couldn't go on in.
#[test]
fn segments_with_little_in_them_make_a_checkpoint_due_too() {
    check(AckMode::Durable, async |log| {
        log.open().await;
        let segment_bytes = SEGMENT_BLOCKS * log.disk.block_bytes() as u64;
        let place = CheckpointPlace { bytes_min: 3 * segment_bytes, ..log.place.clone() };
        let is_due = || checkpoint::is_due(&log.shard.borrow(), &log.log, &place);
        for _ in 0..4 * SEGMENT_BLOCKS {
            log.log.count(|counts| counts.since_checkpoint_bytes = 0);
            log.write_group().await;
        }
        assert!(is_due(), "{:?}", log.place.segment_set.borrow());
        log.checkpoint().await.unwrap();
        assert!(!is_due(), "{:?}", log.place.segment_set.borrow());
    });
}

#[test]
fn the_disk_holds_three_times_the_shard_at_the_most() {
    check(AckMode::Durable, async |log| {
        log.open().await;
        let segment_bytes = SEGMENT_BLOCKS * log.disk.block_bytes() as u64;
        // What the shard has, as far as its checkpoints go.
        let shard_bytes = 5 * segment_bytes;
        let place = CheckpointPlace { bytes_min: shard_bytes, ..log.place.clone() };
        let mut most = 0;
        for _ in 0..50 * SEGMENT_BLOCKS {
            log.write_group().await;
            if checkpoint::is_due(&log.shard.borrow(), &log.log, &place) {
                checkpoint::write(&log.shard, &log.log, &place, &log.host).await.unwrap();
            }
            most = most.max(log.disk.used_bytes() as u64);
        }
        // The next segment is made ahead.
        assert!(most <= 3 * shard_bytes + 2 * segment_bytes, "{most} bytes for {shard_bytes}");
        // A log that was long for once gives its room back.
        let long = 40 * SEGMENT_BLOCKS;
        for _ in 0..long {
            log.write_group().await;
        }
        checkpoint::write(&log.shard, &log.log, &place, &log.host).await.unwrap();
        let left = log.disk.used_bytes() as u64;
        assert!(left <= 3 * shard_bytes + 2 * segment_bytes, "{left} bytes for {shard_bytes}");
    });
}

#[test]
fn the_journal_of_a_failed_log_takes_nothing() {
    check(AckMode::Durable, async |log| {
        log.open().await;
        log.disk.set_faults(|faults| faults.good_syncs = Some(0));
        log.append();
        assert!(matches!(log.log.flush().await, Err(LogError::Failed(_))));
        for series in 0..1000 {
            let reuse = log.log.journal().removed(SeriesRef(series), SeriesId(1));
            assert_eq!(reuse, RefReuse::AtOnce);
        }
        assert_eq!(log.log.journal().bytes(), 0);
        assert!(matches!(log.log.flush().await, Err(LogError::Failed(_))), "nothing of it is durable");
        assert!(log.checkpoint().await.is_err());
        assert!(!log.takes_writes());
        log.fails_to_close.set(true);
    });
}

#[test]
fn a_log_that_is_told_to_fail_acknowledges_no_group_that_was_on_its_way() {
    check(AckMode::Durable, async |log| {
        log.open().await;
        log.write_group().await;
        log.append();
        let mut waiting = Box::pin(log.log.flush());
        assert!(futures::poll!(&mut waiting).is_pending());
        log.log.fail("its directory is gone");
        assert_eq!(waiting.await, Err(LogError::Failed("its directory is gone".into())));
        log.pass(Duration::from_secs(1)).await;
        assert!(!log.takes_writes(), "a group that was written meanwhile opens it again");
        assert_eq!(log.log.durable(), Lsn(1));
        assert!(!log.disk.files().iter().any(|(path, _)| path.ends_with("closed")));
        log.fails_to_close.set(true);
    });
}

#[test]
fn a_checkpoint_that_fails_leaves_no_file_behind() {
    let failing: [fn(&mut Faults, u64); 2] =
        [|faults, good| faults.good_writes = Some(good), |faults, good| faults.good_syncs = Some(good)];
    for fail in failing {
        check(AckMode::Durable, async move |log| {
            log.open().await;
            let mut failed = 0;
            loop {
                log.disk.set_faults(|faults| fail(faults, failed));
                let written = log.checkpoint().await;
                log.disk.set_faults(|faults| *faults = Faults::default());
                let files = log.disk.files();
                assert!(!files.iter().any(|(path, _)| path.ends_with(".tmp")), "{written:?}: {files:?}");
                if written.is_ok() {
                    break;
                }
                failed += 1;
            }
            assert!(failed >= 2, "{failed} operations could fail");
        });
    }
}

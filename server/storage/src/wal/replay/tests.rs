//! Logs written, hurt in one place, and replayed: what is cut, what is reported, what is kept.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::executor::block_on;

use super::*;
use crate::wal::AckMode;
use crate::wal::checkpoint::CheckpointWriter;
use crate::wal::record::{CheckpointFrame, Group};
use crate::wal::segments::{SegmentPlace, Segments};
use crate::wal::{DiskLog, Journal};
use silverback_host::Alone;
use silverback_host::disk::blocking::BlockingDisk;
use silverback_model::{Sample, SeriesId, SeriesRef, ShardId};

const SEED: u64 = 7;
pub(super) const BLOCK: usize = 512;
/// Room for the header and three groups.
pub(super) const SEGMENT_BYTES: u64 = 4 * BLOCK as u64;

/// A log's directory; removed when dropped.
pub(super) struct TestLog {
    pub(super) root: PathBuf,
    place: SegmentPlace<BlockingDisk>,
}

impl Drop for TestLog {
    fn drop(&mut self) {
        // What a failed test leaves behind is in nobody's way.
        drop(std::fs::remove_dir_all(&self.root));
    }
}

impl TestLog {
    /// With groups 1 to `groups`, each of one sample whose value is the group's number.
    pub(super) fn with_groups(groups: u64) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("silverback-replay-{}-{number}", std::process::id()));
        std::fs::create_dir_all(root.join("log")).unwrap();
        let place = SegmentPlace {
            disk: BlockingDisk::new(&root, BLOCK),
            dir: "log".into(),
            seed: SEED,
            key: FrameKey::new(SEED),
            header: SegmentHeader { shard: 0, shards: 1, seq: 0, block_bytes: BLOCK as u32, made: None },
            segment_bytes: SEGMENT_BYTES,
        };
        let log = Self { root, place };
        log.write(1, 1..=groups);
        log
    }

    /// Where its segments are made.
    pub(super) fn place(&self) -> &SegmentPlace<BlockingDisk> {
        &self.place
    }

    /// Adds groups, beginning with segment `seq`.
    pub(super) fn write(&self, seq: u64, groups: impl Iterator<Item = u64>) {
        let log = DiskLog::new(AckMode::Durable, Arc::default());
        let segment_set = Rc::new(RefCell::new(SegmentSet::default()));
        let mut segments = Segments::new(self.place.clone(), Alone, log, segment_set, seq);
        for number in groups {
            let mut group = Group::default();
            if number == 1 {
                group.created(SeriesRef(0), SeriesId(5), std::iter::once((&b"job"[..], &b"x"[..])));
            }
            group.stored(SeriesRef(0), Sample::new(number as i64, number as f64));
            block_on(segments.write(Lsn(number), &mut group)).unwrap();
        }
        block_on(segments.close());
    }

    /// Adds an empty segment `seq`, when the groups up to `last` are on disk.
    pub(super) fn begin_segment(&self, seq: u64, last: Lsn) {
        let log = DiskLog::new(AckMode::Durable, Arc::default());
        log.begin_after(last);
        let mut segments = Segments::new(self.place.clone(), Alone, log, Rc::default(), seq);
        block_on(segments.begin()).unwrap();
        block_on(segments.close());
    }

    /// As a clean stop leaves it, with this last group.
    pub(super) fn close(&self, last: Lsn) {
        block_on(crate::wal::closing::write(&self.place, last)).unwrap();
    }

    /// A checkpoint without series, after which a replay goes on with group `first`.
    pub(super) fn write_empty_checkpoint(&self, first: Lsn) {
        let mut writer = block_on(CheckpointWriter::create(&self.place, first)).unwrap();
        let mut snapshot = CheckpointFrame::default();
        snapshot.end(0, 0);
        block_on(writer.write(&mut snapshot)).unwrap();
        block_on(writer.finish()).unwrap();
    }

    /// Changes the bytes of a segment from `offset` on.
    pub(super) fn overwrite(&self, seq: u64, offset: usize, with: &[u8]) {
        let path = self.root.join("log").join(segment_name(seq));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[offset..offset + with.len()].copy_from_slice(with);
        std::fs::write(path, bytes).unwrap();
    }

    pub(super) fn replay(&self, recovery: WalRecovery) -> Result<(Replayed, Vec<u64>), ReplayError> {
        let disk = self.place.disk.clone();
        let place = LogPlace { disk, dir: "log".into(), seed: SEED, shard: ShardId(0), is_marked: true };
        let mut values = Values::default();
        let progress = ReplayProgress::default();
        block_on(replay(&place, recovery, &Alone, &progress, &mut values)).map(|found| (found, values.0))
    }

    /// The values of a log that is whole but for its tail.
    pub(super) fn values(&self) -> Vec<u64> {
        self.replay(WalRecovery::Strict).unwrap().1
    }

    /// What a strict replay says, and what a salvaging one still reads.
    pub(super) fn check_damage(&self, expect: &str, values: &[u64]) {
        let error = self.replay(WalRecovery::Strict).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
        let (found, salvaged) = self.replay(WalRecovery::Salvage).unwrap();
        assert_eq!(salvaged, values);
        assert!(found.damage.iter().any(|damage| damage.to_string().contains(expect)), "{:?}", found.damage);
    }
}

/// The samples' values, in order.
#[derive(Default)]
struct Values(Vec<u64>);

impl Restore for Values {
    fn record(&mut self, record: Record<'_>) -> Result<(), RestoreError> {
        if let Record::Samples(samples) = record {
            self.0.extend(samples.iter().map(|sample| sample.unwrap().sample.value as u64));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        Ok(())
    }
}

#[test]
fn groups_come_back_in_order_over_segments() {
    let log = TestLog::with_groups(8);
    let (found, values) = log.replay(WalRecovery::Strict).unwrap();
    assert_eq!(values, (1..=8).collect::<Vec<u64>>());
    assert_eq!((found.last, found.next_seq, found.groups, found.torn), (Lsn(8), 4, 8, None));
    assert_eq!(found.segment_set.kept.iter().map(|s| s.last.0).collect::<Vec<u64>>(), [3, 6]);
    let unfilled = Unfilled { seq: 3, at: 3 * BLOCK as u64, bytes: SEGMENT_BYTES, last: Lsn(8) };
    assert_eq!(found.unfilled, Some(unfilled));
}

#[test]
fn a_log_goes_on_in_a_segment_only_where_nothing_was_begun() {
    let check = |log: &TestLog, seq: Option<u64>| {
        let (found, _) = log.replay(WalRecovery::Strict).unwrap();
        assert_eq!(found.unfilled.map(|unfilled| unfilled.seq), seq);
        let is_shelved = |seq| {
            let mut kept = found.segment_set.kept.iter();
            let name = segment_name(seq);
            kept.any(|kept| kept.seq == seq)
                || found.segment_set.spares.iter().any(|spare| *spare.name == *name)
        };
        (1..found.next_seq).for_each(|other| assert_eq!(is_shelved(other), Some(other) != seq, "{other}"));
    };
    check(&TestLog::with_groups(5), Some(2));
    // The last one is full.
    check(&TestLog::with_groups(6), None);
    let torn = TestLog::with_groups(5);
    torn.overwrite(2, 2 * BLOCK + 30, &[0xff; 4]);
    check(&torn, None);
    // One that was made ahead, after one with room, and after one without.
    let ahead = TestLog::with_groups(5);
    ahead.write(3, 6..=6);
    ahead.overwrite(3, BLOCK, &[0; BLOCK]);
    check(&ahead, Some(2));
    ahead.overwrite(2, 2 * BLOCK + 30, &[0xff; 4]);
    check(&ahead, Some(3));
}

#[test]
fn a_torn_tail_is_cut_and_the_rest_replayed() {
    let log = TestLog::with_groups(5);
    // The payload of group 5, after its frame's header.
    log.overwrite(2, 2 * BLOCK + 30, &[0xff; 4]);
    let (found, values) = log.replay(WalRecovery::Strict).unwrap();
    assert_eq!(values, [1, 2, 3, 4]);
    assert_eq!(found.torn.unwrap().offset, 2 * BLOCK as u64);
}

#[test]
fn a_log_goes_on_behind_a_torn_tail() {
    let log = TestLog::with_groups(5);
    log.overwrite(2, 2 * BLOCK + 30, &[0xff; 4]);
    log.write(3, 5..=6);
    assert_eq!(log.values(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_tail_is_made_durable_on_a_disk_with_larger_blocks_too() {
    let log = TestLog::with_groups(5);
    let (found, _) = log.replay(WalRecovery::Strict).unwrap();
    block_on(make_tail_durable(&BlockingDisk::new(&log.root, 8 * BLOCK), &found)).unwrap();
    assert_eq!(log.values(), [1, 2, 3, 4, 5]);
}

#[test]
fn a_group_that_is_missing_before_another_is_damage() {
    let log = TestLog::with_groups(5);
    log.overwrite(1, 2 * BLOCK + 30, &[0xff; 4]);
    log.check_damage("log/00000000000000000001.wal at byte 1024: group 2 is lost", &[1, 3, 4, 5]);
}

#[test]
fn a_group_of_zeros_before_another_is_damage() {
    let log = TestLog::with_groups(5);
    log.overwrite(1, BLOCK, &[0; 2 * BLOCK]);
    log.check_damage("groups 1 to 2 are lost", &[3, 4, 5]);
}

#[test]
fn a_missing_segment_is_damage() {
    let log = TestLog::with_groups(8);
    std::fs::remove_file(log.root.join("log").join(segment_name(2))).unwrap();
    log.check_damage("groups 4 to 6 are lost", &[1, 2, 3, 7, 8]);
}

#[test]
fn a_segment_without_its_header_is_damage() {
    let log = TestLog::with_groups(5);
    log.overwrite(1, 12, &[0xff; 20]);
    log.check_damage("log/00000000000000000001.wal at byte 0: the file can't be read", &[4, 5]);
}

#[test]
fn a_segment_that_can_t_be_read_is_let_go_of_with_those_before_what_comes_next() {
    let log = TestLog::with_groups(8);
    log.overwrite(2, 12, &[0xff; 20]);
    let (found, _) = log.replay(WalRecovery::Salvage).unwrap();
    let kept = |segment: &SealedSegment| (segment.seq, segment.last.0, segment.bytes);
    let kept: Vec<_> = found.segment_set.kept.iter().map(kept).collect();
    assert_eq!(kept, [(1, 3, SEGMENT_BYTES), (2, 3, SEGMENT_BYTES), (3, 8, SEGMENT_BYTES)]);
}

#[test]
fn a_segment_of_another_data_directory_is_refused_whatever_the_recovery() {
    let log = TestLog::with_groups(2);
    let other = SegmentHeader { seq: 1, ..log.place.header }.encode(SEED + 1);
    log.overwrite(1, 0, &other);
    for recovery in [WalRecovery::Strict, WalRecovery::Salvage] {
        assert!(matches!(log.replay(recovery), Err(ReplayError::Foreign(..))));
    }
}

#[test]
fn a_file_of_another_shard_is_refused_whatever_the_recovery() {
    let log = TestLog::with_groups(2);
    let other = SegmentHeader { seq: 1, shard: 1, shards: 2, ..log.place.header }.encode(SEED);
    log.overwrite(1, 0, &other);
    for recovery in [WalRecovery::Strict, WalRecovery::Salvage] {
        let told = log.replay(recovery).unwrap_err().to_string();
        assert!(told.ends_with("it is of shard 1's log: put it back where it was"), "{told}");
    }
}

#[test]
fn a_checkpoint_stands_for_the_groups_before_it() {
    let log = TestLog::with_groups(8);
    log.write_empty_checkpoint(Lsn(5));
    // Damage in what the checkpoint has in it hurts nobody.
    log.overwrite(1, BLOCK + 30, &[0xff; 4]);
    assert_eq!(log.values(), [5, 6, 7, 8]);
}

#[test]
fn a_checkpoint_without_its_end_is_damage() {
    let log = TestLog::with_groups(3);
    log.write_empty_checkpoint(Lsn(2));
    let path = log.root.join("log").join(checkpoint_name(Lsn(2)));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[BLOCK + 30] ^= 1;
    std::fs::write(path, bytes).unwrap();
    log.check_damage("the checkpoint's end is lost", &[2, 3]);
}

//! Checkpoints of a shard: its series as they are while the scan comes by, in slices beside traffic.
//!
//! The scan needs no stop: what changes behind its back is in the groups from the scan's begin
//! on, which a replay reads after the checkpoint, and a sample that is in both counts once.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::shard::exemplars::ring::ExemplarNumber;
use crate::shard::{Host, Shard};
use crate::wal::checkpoint::{CheckpointWriter, truncate};
use crate::wal::log::DiskLog;
use crate::wal::record::{CheckpointFrame, Claim, ClaimKind};
use crate::wal::segments::{SegmentPlace, SegmentSet};
use crate::wal::{Log, LogError, Lsn};
use silverback_host::disk::{Disk, DiskError};
use silverback_model::{Exemplar, Metadata, SeriesRef};

/// Series that are copied between two looks at the slice.
const STEP: u32 = 16;

/// A frame is written once it has so many bytes: a commit may have to wait for one.
const FRAME_BYTES: usize = 64 << 10;

/// Bytes of a checkpoint that are written in a second, and as many again as the log grows by: a disk that is
/// given more at once makes the next commit's sync wait for all of it. A checkpoint is no larger than the
/// shard and the log may grow by several times that meanwhile, so it always ends in time.
const BYTES_PER_S: u64 = 32 << 20;

/// Removed series' refs that wait for a checkpoint: with more of them one is due.
const REMOVED_MIN: usize = 10_000;

/// Where a shard's checkpoints go.
#[derive(Debug, Clone)]
pub struct CheckpointPlace<D> {
    /// The log's files.
    pub segments: SegmentPlace<D>,
    /// The segments that checkpoints release.
    pub segment_set: Rc<RefCell<SegmentSet>>,
    /// The log's bytes with which a checkpoint is due at the earliest.
    pub bytes_min: u64,
}

/// Why no checkpoint was written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The log itself isn't well.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// How many times the size with which a checkpoint is due the log may grow by before it is written.
const OVERDUE_GROWTH_MAX: u64 = 3;

/// Whether a checkpoint is worth its while: the log is as large as the shard, or the segments that it would
/// release are, with however little in each, or many refs wait, or somebody asked.
pub fn is_due<D>(shard: &Shard, log: &DiskLog, place: &CheckpointPlace<D>) -> bool {
    let due_bytes = due_bytes(shard, place);
    log.counts().since_checkpoint_bytes >= due_bytes
        || place.segment_set.borrow().kept_bytes() >= due_bytes
        || shard.removed.len() >= REMOVED_MIN.max(shard.store.size().series / 4)
        || log.wants_checkpoint()
}

fn due_bytes<D>(shard: &Shard, place: &CheckpointPlace<D>) -> u64 {
    place.bytes_min.max(shard.memory_bytes().total() as u64)
}

/// Writes a checkpoint and removes what it makes superfluous. Bounds the log until it is there,
/// from its length now on: it may be long because none was due, and that is no reason to refuse writes.
pub async fn write<D: Disk, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    log: &DiskLog,
    place: &CheckpointPlace<D>,
    host: &H,
) -> Result<(), CheckpointError> {
    log.begin_checkpoint();
    let written = write_and_count(shard, log, place, host).await;
    // Before anything else is waited for: it is counted by now.
    log.end_checkpoint();
    // What the log takes until the next one is due, and a segment that is made ahead.
    let spare_bytes_max = due_bytes(&shard.borrow(), place).saturating_add(place.segments.segment_bytes);
    truncate(&place.segments, &place.segment_set, written?, spare_bytes_max).await?;
    let segment_bytes = place.segment_set.borrow().bytes();
    log.count(|counts| counts.segment_bytes = segment_bytes);
    Ok(())
}

/// Returns the first group that a replay still needs.
async fn write_and_count<D: Disk, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    log: &DiskLog,
    place: &CheckpointPlace<D>,
    host: &H,
) -> Result<Lsn, CheckpointError> {
    let due_bytes = due_bytes(&shard.borrow(), place);
    let length_bytes = log.counts().since_checkpoint_bytes.max(due_bytes);
    log.bound(length_bytes.saturating_add(due_bytes.saturating_mul(OVERDUE_GROWTH_MAX)));
    // With all earlier groups on disk, the one that is filled now names no series that was gone
    // before the last checkpoint.
    log.flush().await?;
    let first = log.filling();
    let written_before = log.counts().written_bytes;
    let freed = std::mem::take(&mut shard.borrow_mut().removed);
    let written = write_behind(shard, log, &place.segments, host, first).await;
    host.release_slice();
    let bytes = match written {
        Ok(bytes) => bytes,
        Err(error) => {
            shard.borrow_mut().removed.extend(freed);
            log.count(|counts| counts.checkpoints_failed += 1);
            return Err(error);
        }
    };
    for step in freed.chunks(STEP as usize) {
        step.iter().for_each(|series| shard.borrow_mut().store.free(*series));
        host.yield_if_needed().await;
    }
    host.release_slice();
    log.count(|counts| {
        counts.checkpoints += 1;
        counts.checkpoint_bytes = bytes;
    });
    log.begin_behind_checkpoint(log.counts().written_bytes - written_before);
    Ok(first)
}

/// Writes the first checkpoint of a log that has no group yet. Returns its size in bytes.
pub async fn write_first<D: Disk, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    place: &SegmentPlace<D>,
    host: &H,
) -> Result<u64, DiskError> {
    scan_to_file(shard, place, host, Lsn(1), None).await?.finish().await
}

/// The pace of a checkpoint beside a log that is written.
struct CheckpointPace<'a> {
    log: &'a DiskLog,
    began_us: u64,
    /// Of the log, when the checkpoint began.
    log_bytes: u64,
    /// Of the checkpoint, so far.
    bytes: u64,
}

impl<'a> CheckpointPace<'a> {
    fn new(log: &'a DiskLog, now_us: u64) -> Self {
        Self { log, began_us: now_us, log_bytes: log.counts().written_bytes, bytes: 0 }
    }

    /// How long to wait before more is written, after `bytes` were.
    fn after(&mut self, bytes: u64, now_us: u64) -> Duration {
        self.bytes += bytes;
        let grown = self.log.counts().written_bytes - self.log_bytes;
        let due_us = self.bytes.saturating_sub(grown) * 1_000_000 / BYTES_PER_S;
        Duration::from_micros((self.began_us + due_us).saturating_sub(now_us))
    }
}

/// Writes the checkpoint that a replay of the groups from `first` on begins with.
async fn write_behind<D: Disk, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    log: &DiskLog,
    place: &SegmentPlace<D>,
    host: &H,
    first: Lsn,
) -> Result<u64, CheckpointError> {
    let pace = CheckpointPace::new(log, host.monotonic_us());
    let file = scan_to_file(shard, place, host, first, Some(pace)).await?;
    // A series that was removed before the scan came by is not in it, but may have samples in those
    // groups: the checkpoint counts only once the removal is on disk too.
    match log.flush().await {
        Ok(_) => Ok(file.finish().await?),
        Err(error) => {
            file.discard().await;
            Err(error.into())
        }
    }
}

async fn scan_to_file<D: Disk, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    place: &SegmentPlace<D>,
    host: &H,
    first: Lsn,
    pace: Option<CheckpointPace<'_>>,
) -> Result<CheckpointWriter<D>, DiskError> {
    let mut file = CheckpointWriter::create(place, first).await?;
    match scan(shard, &mut file, host, pace).await {
        Ok(()) => Ok(file),
        Err(error) => {
            file.discard().await;
            Err(error)
        }
    }
}

async fn scan<D: Disk, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    file: &mut CheckpointWriter<D>,
    host: &H,
    mut pace: Option<CheckpointPace<'_>>,
) -> Result<(), DiskError> {
    let end = shard.borrow().store.end();
    // Later ones are in the groups from the scan's begin on, and the series of these are in the scan if they stay.
    let exemplars_end = shard.borrow().exemplars.end();
    let mut snapshot = CheckpointFrame::default();
    let (mut from, mut series, mut chunks) = (0, 0, 0);
    while from < end {
        let to = end.min(from + STEP);
        for at in (from..to).map(SeriesRef) {
            if let Some(copied) = shard.borrow_mut().copy(at, &mut snapshot) {
                series += 1;
                chunks += copied;
            }
        }
        from = to;
        write_if_full(file, &mut snapshot, host, &mut pace).await?;
    }
    let mut next = Some(ExemplarNumber::default());
    while let Some(from) = next {
        let copy = |series, exemplar: &Exemplar<'_>| snapshot.exemplar(series, exemplar);
        next = shard.borrow().visit_exemplars((from, exemplars_end), copy);
        write_if_full(file, &mut snapshot, host, &mut pace).await?;
    }
    let mut passed: Option<Box<str>> = None;
    loop {
        let copy = |said: Metadata<'_>, seen_ms| snapshot.metadata(&said, seen_ms);
        passed = shard.borrow().metadata.visit(passed.as_deref(), copy);
        write_if_full(file, &mut snapshot, host, &mut pace).await?;
        if passed.is_none() {
            break;
        }
    }
    shard.borrow().claim(&mut snapshot);
    snapshot.end(series, chunks);
    host.release_slice();
    file.write(&mut snapshot).await
}

/// Writes a frame once there is enough for one, at its pace.
async fn write_if_full<D: Disk, H: Host>(
    file: &mut CheckpointWriter<D>,
    snapshot: &mut CheckpointFrame,
    host: &H,
    pace: &mut Option<CheckpointPace<'_>>,
) -> Result<(), DiskError> {
    if snapshot.bytes() >= FRAME_BYTES {
        host.release_slice();
        let bytes = snapshot.bytes() as u64;
        file.write(snapshot).await?;
        if let Some(pace) = pace {
            host.sleep(pace.after(bytes, host.monotonic_us())).await;
        }
    }
    host.yield_if_needed().await;
    Ok(())
}

impl Shard {
    /// The cells that came to the shard: the groups with their claims may be removed.
    fn claim(&self, snapshot: &mut CheckpointFrame) {
        for (cell, epoch) in self.ownership.claims() {
            snapshot.claimed(Claim { cell, epoch, kind: ClaimKind::Owned, other: self.id });
        }
    }

    /// Copies a series, if there is one, and returns its number of chunks.
    pub(super) fn copy(&mut self, at: SeriesRef, snapshot: &mut CheckpointFrame) -> Option<u64> {
        if !self.store.holds(at) {
            return None;
        }
        self.store.fold_late(at);
        let text = self.store.labels(at).iter().map(|label| self.index.text(*label));
        let labels = text.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        snapshot.created(at, self.store.id(at), labels);
        let sealed = self.store.sealed(at);
        let bounds = sealed.iter().map(|c| (c.min_timestamp_ms(), c.max_timestamp_ms(), c.bytes()));
        snapshot.chunks(at, bounds, &self.store.open_bytes(at));
        if let Some(histograms) = self.store.all_histograms(at) {
            snapshot.histograms(at, &histograms.sealed, histograms.open());
        }
        Some(sealed.len() as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::wal::AckMode;

    #[test]
    fn a_checkpoint_goes_on_as_fast_as_its_rate_and_the_log_s_growth_allow() {
        let log = DiskLog::new(AckMode::Durable, Arc::default());
        let mut pace = CheckpointPace::new(&log, 5_000_000);
        assert_eq!(pace.after(BYTES_PER_S, 5_000_100), Duration::from_micros(999_900));
        assert_eq!(pace.after(BYTES_PER_S / 2, 6_000_000), Duration::from_millis(500));
        log.count(|counts| counts.written_bytes += BYTES_PER_S);
        assert_eq!(pace.after(BYTES_PER_S / 4, 6_000_000), Duration::ZERO);
        assert_eq!(pace.after(BYTES_PER_S / 2, 6_000_000), Duration::from_millis(250));
    }
}

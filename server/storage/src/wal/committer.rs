//! What writes a log's groups to its segments: one durable write for each group, one at a time.
//!
//! What is appended while a group is on its way forms the next one; that small ones wait a moment for more is
//! the shard's worker's. A full
//! disk is waited out with the group in hand; any other failure ends the log for good, for a sync
//! that failed and then succeeds says nothing about what was written before it.

use std::time::Duration;

use crate::wal::AckMode;
use crate::wal::Lsn;
use crate::wal::log::DiskLog;
use crate::wal::record::Group;
use crate::wal::segments::Segments;
use crate::wal::states::Work;
use silverback_host::Host;
use silverback_host::disk::{Disk, DiskError};

/// How long a full disk is left alone before the next attempt: nothing reports room on it.
const FULL_DISK_RETRY: Duration = Duration::from_millis(500);

/// How far the disk may be behind memory where writes are acknowledged from memory.
const MEMORY_ACK_INTERVAL: Duration = Duration::from_millis(500);

/// How often it checks whether the disk answers, while a group is on its way to it: silence wakes nobody.
const HANG_LOOK: Duration = Duration::from_secs(1);

/// Opens a log after the groups up to `last`, and starts what commits its groups until it is closed.
/// A full disk is no error: the log is then open once there is room.
pub async fn start<D: Disk, H: Host>(
    log: &DiskLog,
    mut segments: Segments<D, H>,
    last: Lsn,
    ack: AckMode,
    host: &H,
) -> Result<(), DiskError> {
    log.begin_after(last);
    match segments.begin().await {
        Ok(()) => log.open(),
        Err(error) if error.is_full() => log.run_full(&error.to_string()),
        Err(error) => return Err(error),
    }
    host.spawn_essential(run(log.clone(), segments, host.clone()));
    host.spawn_essential(commit_behind(log.clone(), ack, host.clone()));
    host.spawn_essential(look_for_hangs(log.clone(), host.clone()));
    Ok(())
}

/// Commits a log's groups until it is closed or fails.
async fn run<D: Disk, H: Host>(log: DiskLog, mut segments: Segments<D, H>, host: H) {
    if commit_groups(&log, &mut segments, &host).await == Ended::Whole {
        segments.note_closing(log.durable()).await;
    }
    segments.close().await;
    log.end();
}

/// How a log ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// All that it took is on disk.
    Whole,
    /// Not all of it.
    Failed,
}

async fn commit_groups<D: Disk, H: Host>(log: &DiskLog, segments: &mut Segments<D, H>, host: &H) -> Ended {
    while !segments.has_begun() && !log.is_closing() && !log.has_failed() {
        match segments.begin().await {
            Ok(()) => log.open(),
            Err(error) if error.is_full() => wait_for_room(log, host, &error).await,
            Err(error) => {
                fail(log, &error);
                return Ended::Failed;
            }
        }
    }
    let mut group = Group::default();
    while log.wait_for_work().await == Work::Group {
        let lsn = log.take_group(&mut group);
        if !write_group(log, segments, host, lsn, &mut group).await {
            return Ended::Failed;
        }
        // Somebody may have found out meanwhile that it went nowhere.
        if log.has_failed() {
            return Ended::Failed;
        }
        group.clear();
        log.committed();
        segments.look_ahead();
    }
    if segments.has_begun() && !log.has_failed() { Ended::Whole } else { Ended::Failed }
}

/// Asks for commits in turn where nobody waits for them.
async fn commit_behind<H: Host>(log: DiskLog, ack: AckMode, host: H) {
    match ack {
        AckMode::Durable => {}
        AckMode::Memory => {
            while !log.is_closing() {
                host.sleep(MEMORY_ACK_INTERVAL).await;
                log.want();
            }
        }
    }
}

/// Looks again and again whether the disk answers. Beside the commits, so that none arms a timer.
async fn look_for_hangs<H: Host>(log: DiskLog, host: H) {
    while log.sets_out_or_ends().await {
        host.sleep(HANG_LOOK).await;
        log.look_for_hang(host.monotonic_us());
    }
}

/// Writes a group, waiting out a full disk. Returns whether it is durable.
async fn write_group<D: Disk, H: Host>(
    log: &DiskLog,
    segments: &mut Segments<D, H>,
    host: &H,
    lsn: Lsn,
    group: &mut Group,
) -> bool {
    loop {
        let began_us = host.monotonic_us();
        let shorten_slices = host.shorten_slices();
        log.set_out(began_us);
        let written = segments.write(lsn, group).await;
        log.arrive();
        drop(shorten_slices);
        match written {
            Ok(bytes) => {
                let samples = group.samples() as u64;
                log.count(|counts| {
                    counts.commits += 1;
                    counts.samples += samples;
                    counts.written_bytes += bytes;
                    counts.since_checkpoint_bytes += bytes;
                    counts.commit_durations.add(host.monotonic_us() - began_us);
                });
                return true;
            }
            Err(error) if error.is_full() => wait_for_room(log, host, &error).await,
            Err(error) => {
                fail(log, &error);
                return false;
            }
        }
        if log.has_failed() {
            return false;
        }
        if log.is_closing() {
            tracing::error!("the disk stayed full to the end: what was not acknowledged is not on disk");
            return false;
        }
    }
}

fn fail(log: &DiskLog, error: &DiskError) {
    tracing::error!(%error, "the write-ahead log failed; no writes are accepted until a restart");
    log.fail(&error.to_string());
}

async fn wait_for_room<H: Host>(log: &DiskLog, host: &H, error: &DiskError) {
    silverback_host::warn_limited!(%error, "the disk is full; writes are refused until there is room");
    log.count(|counts| counts.full_disk += 1);
    if log.has_failed() {
        return;
    }
    log.run_full(&error.to_string());
    host.sleep(FULL_DISK_RETRY).await;
}

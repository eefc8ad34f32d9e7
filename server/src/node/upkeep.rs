//! What each core does from time to time: retention, rates of load, memory ahead of what is sent and back to
//! the system, and checkpoints when they are due.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{pending, select};

use crate::api::core::CoreContext;
use crate::node::host::ExecutorHost;
use crate::node::retention;
use crate::node::trusted_clock::TrustedClock;
use silverback_host::Host;
use silverback_host::disk::Disk;
use silverback_runtime::{now, sleep, spawn_background, thread_cpu_time};
use silverback_storage::cell::heap;
use silverback_storage::shard::checkpoint::{self, CheckpointPlace};
use silverback_storage::shard::load::CoreTime;
use silverback_storage::shard::{Reads, Shard, maintenance, singles};
use silverback_storage::wal::log::DiskLog;

/// How often counters become rates of load, and memory is made ready.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often it checks whether room for new series is short.
const SINGLES_LOOK: Duration = Duration::from_secs(10);

/// How often it checks which blocks there are, where nobody reports a change.
const BLOCKS_LOOK: Duration = Duration::from_secs(60);

/// How often it checks whether a checkpoint is due by what the log has grown by: nothing reports that, for it
/// would at each commit. One that is asked for begins at once, but no earlier than this after the one before.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(500);
/// How long a checkpoint that failed is left alone.
const CHECKPOINT_RETRY: Duration = Duration::from_secs(10);

/// Starts a core's upkeep; it ends with the executor.
pub(super) fn start<D: Disk>(
    core: &Rc<CoreContext>,
    shard: Rc<RefCell<Shard>>,
    reads: Rc<Reads>,
    (log, clock): (DiskLog, TrustedClock),
    checkpoints: CheckpointPlace<D>,
) {
    spawn_background(retention::retain(Rc::clone(core), Rc::clone(&shard), log.clone(), clock));
    spawn_background(drop_singles(Rc::clone(core), Rc::clone(&shard), log.clone()));
    spawn_background(housekeeping(Rc::clone(core), Rc::clone(&shard), reads));
    spawn_background(write_checkpoints(Rc::clone(core), shard, log, checkpoints));
}

/// Looks at the directory of blocks now and then: somebody may bring some, or take some away. One core does it for all.
pub(crate) async fn look_at_blocks(core: Rc<CoreContext>) {
    let mut changed = core.node.blocks.as_ref().map(|blocks| blocks.changed.subscribe());
    while !core.shutdown.is_requested() {
        let told = async {
            match &mut changed {
                Some(changed) => drop(changed.next().await),
                None => pending().await,
            }
        };
        select(pin!(told), pin!(sleep(BLOCKS_LOOK))).await;
        core.node.local_blocks.refresh().await;
    }
}

/// Has what a burst of label sets left behind make room for new series where it is short.
async fn drop_singles(core: Rc<CoreContext>, shard: Rc<RefCell<Shard>>, log: DiskLog) {
    while !core.shutdown.is_requested() {
        sleep(SINGLES_LOOK).await;
        let host = ExecutorHost::new(core.slicer.clone());
        let in_blocks_ms =
            core.node.blocks.as_ref().map_or(i64::MAX, |blocks| blocks.held_back.in_blocks_ms());
        let dropped = singles::drop_singles(&shard, &log, &host, (host.monotonic_us(), in_blocks_ms)).await;
        if dropped > 0 {
            tracing::info!(
                dropped,
                "room for new series was short: series with one sample and no second within two hours went"
            );
        }
    }
}

async fn housekeeping(core: Rc<CoreContext>, shard: Rc<RefCell<Shard>>, reads: Rc<Reads>) {
    let began = now();
    let host = ExecutorHost::new(core.slicer.clone());
    while !core.shutdown.is_requested() {
        let foreground = thread_cpu_time().saturating_sub(core.slicer.total());
        let time = CoreTime {
            now_us: began.elapsed().as_micros() as u64,
            foreground_us: foreground.as_micros() as u64,
        };
        shard.borrow_mut().meter_loads(time);
        reads.prune();
        maintenance::give_memory_back(&shard, &host).await;
        maintenance::make_memory_ahead(&shard, &host).await;
        heap::give_back();
        sleep(LOOK_INTERVAL).await;
    }
}

async fn write_checkpoints<D: Disk>(
    core: Rc<CoreContext>,
    shard: Rc<RefCell<Shard>>,
    log: DiskLog,
    place: CheckpointPlace<D>,
) {
    while !core.shutdown.is_requested() {
        let is_due = checkpoint::is_due(&shard.borrow(), &log, &place);
        if !is_due {
            select(pin!(log.checkpoint_wanted()), pin!(sleep(CHECKPOINT_LOOK))).await;
            continue;
        }
        let began = now();
        let host = ExecutorHost::new(core.slicer.clone());
        match checkpoint::write(&shard, &log, &place, &host).await {
            Ok(()) => {
                let took_ms = began.elapsed().as_millis() as u64;
                let counts = log.counts();
                tracing::debug!(took_ms, bytes = counts.checkpoint_bytes, "wrote a checkpoint");
                // Whoever asks again and again gets none more often.
                sleep(CHECKPOINT_LOOK).await;
            }
            Err(error) => {
                silverback_host::warn_limited!(%error, "no checkpoint could be written; the log grows on");
                sleep(CHECKPOINT_RETRY).await;
            }
        }
    }
}

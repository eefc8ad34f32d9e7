//! What each core does from time to time: retention, rates of load, memory ahead of what is sent, and
//! checkpoints when they are due.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::api::core::Core;
use crate::disk::Disk;
use crate::node::host::ExecutorHost;
use crate::runtime::{now, sleep, spawn_background, thread_cpu_time};
use crate::shard::checkpoint::{self, CheckpointPlace};
use crate::shard::load::CoreTime;
use crate::shard::{Shard, maintenance};
use crate::wal::log::DiskLog;

/// Retention passes are this far apart at the most.
const PASS_INTERVAL_MAX: Duration = Duration::from_secs(5 * 60);
/// A pass for each of so many parts of the retention, so that little is kept beyond it.
const PASSES_PER_RETENTION: u32 = 50;

/// How often counters become rates of load, and memory is made ready.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often it is looked whether a checkpoint is due.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(500);
/// How long a checkpoint that failed is left alone.
const CHECKPOINT_RETRY: Duration = Duration::from_secs(10);

/// Starts a core's upkeep; it ends with the executor.
pub fn start<D: Disk>(
    core: &Rc<Core>,
    shard: Rc<RefCell<Shard>>,
    log: DiskLog,
    checkpoints: CheckpointPlace<D>,
) {
    spawn_background(retain(Rc::clone(core), Rc::clone(&shard), log.clone()));
    spawn_background(look_each_second(Rc::clone(core), Rc::clone(&shard)));
    spawn_background(write_checkpoints(Rc::clone(core), shard, log, checkpoints));
}

async fn retain(core: Rc<Core>, shard: Rc<RefCell<Shard>>, log: DiskLog) {
    let retention = core.config.retention;
    let interval = (retention / PASSES_PER_RETENTION).min(PASS_INTERVAL_MAX);
    let mut clock = RetentionClock { latest_ms: core.clock.now_ms() };
    let mut passed = now();
    while !core.shutdown.is_requested() {
        sleep(interval).await;
        // A job of its own for each pass: between passes it holds no slice.
        let host = ExecutorHost::new(core.slicer.clone());
        let now_ms = clock.at_pass(core.clock.now_ms(), passed.elapsed());
        passed = now();
        let horizon_ms = now_ms.saturating_sub(retention.as_millis() as i64);
        maintenance::retain(&shard, &log, &host, horizon_ms).await;
    }
}

/// The wall clock as retention believes it. One that jumps ahead by days would have all samples dropped
/// in one pass, and they were not back when it is put right.
struct RetentionClock {
    latest_ms: i64,
}

impl RetentionClock {
    /// How many times as fast as time passes it runs at the most: it catches up with a clock that was
    /// put right.
    const SPEED_MAX: u32 = 2;

    /// The time of a pass that begins so long after the one before.
    fn at_pass(&mut self, wall_ms: i64, elapsed: Duration) -> i64 {
        let most_ms = self.latest_ms.saturating_add((Self::SPEED_MAX * elapsed).as_millis() as i64);
        if wall_ms > most_ms {
            let ahead_ms = wall_ms.saturating_sub(most_ms);
            tracing::warn!(ahead_ms, "the wall clock has jumped ahead; retention follows it slowly");
        }
        let now_ms = wall_ms.min(most_ms);
        self.latest_ms = self.latest_ms.max(now_ms);
        now_ms
    }
}

async fn look_each_second(core: Rc<Core>, shard: Rc<RefCell<Shard>>) {
    let began = now();
    let host = ExecutorHost::new(core.slicer.clone());
    while !core.shutdown.is_requested() {
        let foreground = thread_cpu_time().saturating_sub(core.slicer.total());
        let time = CoreTime {
            now_us: began.elapsed().as_micros() as u64,
            foreground_us: foreground.as_micros() as u64,
        };
        shard.borrow_mut().meter_loads(time);
        maintenance::make_memory_ahead(&shard, &host).await;
        sleep(LOOK_INTERVAL).await;
    }
}

async fn write_checkpoints<D: Disk>(
    core: Rc<Core>,
    shard: Rc<RefCell<Shard>>,
    log: DiskLog,
    place: CheckpointPlace<D>,
) {
    while !core.shutdown.is_requested() {
        sleep(CHECKPOINT_LOOK).await;
        if !checkpoint::is_due(&shard.borrow(), &log, &place) {
            continue;
        }
        let began = now();
        let host = ExecutorHost::new(core.slicer.clone());
        match checkpoint::write(&shard, &log, &place, &host).await {
            Ok(()) => {
                let took_ms = began.elapsed().as_millis() as u64;
                let counts = log.counts();
                tracing::debug!(took_ms, bytes = counts.checkpoint_bytes, "wrote a checkpoint");
            }
            Err(error) => {
                crate::warn_limited!(%error, "no checkpoint could be written; the log grows on");
                sleep(CHECKPOINT_RETRY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: Duration = Duration::from_secs(300);
    const PASS_MS: i64 = PASS.as_millis() as i64;
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;

    #[test]
    fn retention_goes_by_the_wall_clock_and_back_with_it() {
        let mut clock = RetentionClock { latest_ms: 0 };
        assert_eq!(clock.at_pass(PASS_MS, PASS), PASS_MS);
        assert_eq!(clock.at_pass(2 * PASS_MS + 1000, PASS), 2 * PASS_MS + 1000);
        assert_eq!(clock.at_pass(PASS_MS, PASS), PASS_MS, "what is younger is kept for longer");
        assert_eq!(clock.at_pass(3 * PASS_MS, PASS), 3 * PASS_MS);
    }

    #[test]
    fn a_clock_that_jumps_ahead_is_followed_slowly_and_left_at_once_when_it_is_put_right() {
        let mut clock = RetentionClock { latest_ms: 0 };
        assert_eq!(clock.at_pass(2 * DAY_MS, PASS), 2 * PASS_MS);
        assert_eq!(clock.at_pass(2 * DAY_MS, PASS), 4 * PASS_MS);
        assert_eq!(clock.at_pass(3 * PASS_MS, PASS), 3 * PASS_MS);
    }
}

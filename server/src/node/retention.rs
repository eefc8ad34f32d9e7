//! Retention's passes. What they drop is gone for good, so they go by a clock that can be [trusted](TrustedClock).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::api::core::CoreContext;
use crate::blocks::{Blocks, Pass};
use crate::node::host::ExecutorHost;
use crate::node::trusted_clock::{HeardTime, TrustedClock};
use crate::routing::fanout;
use silverback_runtime::{now, sleep, timeout};
use silverback_storage::shard::{RetentionState, Shard, maintenance};
use silverback_storage::wal::log::DiskLog;

/// Retention passes are this far apart at most.
const PASS_INTERVAL_MAX: Duration = Duration::from_secs(5 * 60);
/// A pass for each of so many parts of the retention, so that little is kept beyond it.
const PASSES_PER_RETENTION: u32 = 50;

/// How long a shard may take to say what it has heard.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A wall clock that is further ahead than this has jumped, or the node was down for so long.
const JUMP_MS_MIN: i64 = 15 * 60 * 1000;

/// Drops what is older than the retention, pass by pass, until the node ends.
pub(crate) async fn retain(
    core: Rc<CoreContext>,
    shard: Rc<RefCell<Shard>>,
    log: DiskLog,
    mut clock: TrustedClock,
) {
    let retention = core.config.retention;
    let interval = (retention / PASSES_PER_RETENTION).min(PASS_INTERVAL_MAX);
    let mut state = RetentionState::default();
    let mut released_ms = i64::MIN;
    let mut heard = by_all(&core).await.unwrap_or_default();
    while !core.shutdown.is_requested() {
        sleep(interval).await;
        // A job of its own for each pass: between passes it holds no slice.
        let host = ExecutorHost::new(core.slicer.clone());
        // What isn't heard now is heard at the next pass.
        let heard_by_now = by_all(&core).await.unwrap_or(heard);
        let heard_before = std::mem::replace(&mut heard, heard_by_now);
        let now_ms = clock.look(core.clock.now_ms(), now(), heard.since(heard_before));
        note(&mut state, clock.behind_ms);
        shard.borrow_mut().note_retention(state);
        let mut horizon_ms = now_ms.saturating_sub(retention.as_millis() as i64);
        if let Some(blocks) = &core.node.blocks {
            let in_blocks_ms = held_back(blocks, horizon_ms, !shard.borrow_mut().has_room_for_series());
            // What was cut a moment ago goes at the next pass: reads that began before it may look for it in memory.
            horizon_ms = horizon_ms.min(std::mem::replace(&mut released_ms, in_blocks_ms));
        }
        let horizon_ms = core.node.local_blocks.before_pass(horizon_ms).await;
        maintenance::retain(&shard, &log, &host, horizon_ms).await;
    }
}

/// How far retention may go that would like to go to a horizon.
fn held_back(blocks: &Blocks, horizon_ms: i64, is_short: bool) -> i64 {
    match blocks.held_back.pass(horizon_ms, is_short) {
        Pass::Before(before_ms) => before_ms,
        Pass::GivenUp(before_ms) => {
            blocks.counts.given_up.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                before_ms,
                "memory is short and blocks can't be cut: samples that are older than --retention and in no block are dropped"
            );
            before_ms
        }
    }
}

/// What all shards have heard; `None` where one of them has no time to say it.
async fn by_all(core: &CoreContext) -> Option<HeardTime> {
    let cores = timeout(ANSWER_MAX, fanout::stats(&core.router)).await.ok()?.ok()?;
    Some(HeardTime::of(&cores))
}

fn note(state: &mut RetentionState, behind_ms: i64) {
    let was_behind = state.behind_ms as i64 >= JUMP_MS_MIN;
    state.behind_ms = behind_ms as u64;
    if behind_ms >= JUMP_MS_MIN && !was_behind {
        state.jumps += 1;
        tracing::warn!(
            behind_ms,
            "the wall clock is far ahead of the samples: it has jumped, or the node was down for long; retention and cuts \
             of blocks follow it slowly while others send samples of its time, and stand still while most are refused as \
             too old"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_jump_of_the_clock_is_counted_once() {
        let mut state = RetentionState::default();
        for behind_ms in [0, JUMP_MS_MIN - 1, JUMP_MS_MIN, 9 * JUMP_MS_MIN, 0, JUMP_MS_MIN] {
            note(&mut state, behind_ms);
        }
        assert_eq!(state, RetentionState { behind_ms: JUMP_MS_MIN as u64, jumps: 2 });
    }
}

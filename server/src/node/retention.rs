//! Retention: which time it goes by, and its passes.
//!
//! What it drops is gone for good, and the wall clock may be wrong: a machine's may be days ahead when the
//! node starts. So retention begins where the samples end that came back, and goes on as time passes. It follows
//! a wall clock that is further ahead at a bounded speed, where the samples that others send bear it out, and
//! stands still while they contradict it. The node's own samples have that clock's time, and say nothing of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::api::core::Core;
use crate::node::host::ExecutorHost;
use crate::routing::fanout;
use silverback_model::RefusedReason;
use silverback_runtime::{now, sleep, timeout};
use silverback_storage::message::CoreStats;
use silverback_storage::shard::{RetentionState, Shard, maintenance};
use silverback_storage::wal::log::DiskLog;

/// Retention passes are this far apart at the most.
const PASS_INTERVAL_MAX: Duration = Duration::from_secs(5 * 60);
/// A pass for each of so many parts of the retention, so that little is kept beyond it.
const PASSES_PER_RETENTION: u32 = 50;

/// How long a shard may take to say what it has heard.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How many times as fast as time passes a clock that is ahead is followed at the most.
const SPEED_MAX: u32 = 2;

/// A wall clock that is further ahead than this has jumped, or the node was down for so long.
const JUMP_MS_MIN: i64 = 15 * 60 * 1000;

/// Drops what is older than the retention, pass by pass, until the node ends.
pub(crate) async fn retain(core: Rc<Core>, shard: Rc<RefCell<Shard>>, log: DiskLog) {
    let retention = core.config.retention;
    let interval = (retention / PASSES_PER_RETENTION).min(PASS_INTERVAL_MAX);
    let mut clock = RetentionClock::begin(core.clock.now_ms(), shard.borrow().time_reached_ms());
    let (mut passed, mut heard) = (now(), Heard::by_all(&core).await.unwrap_or_default());
    while !core.shutdown.is_requested() {
        sleep(interval).await;
        // A job of its own for each pass: between passes it holds no slice.
        let host = ExecutorHost::new(core.slicer.clone());
        // What isn't told now is told at the next pass.
        let heard_by_now = Heard::by_all(&core).await.unwrap_or(heard);
        let heard_before = std::mem::replace(&mut heard, heard_by_now);
        let now_ms = clock.at_pass(core.clock.now_ms(), passed.elapsed(), heard.since(heard_before));
        shard.borrow_mut().note_retention(clock.state);
        passed = now();
        let horizon_ms = now_ms.saturating_sub(retention.as_millis() as i64);
        let horizon_ms = core.node.blocks.before_pass(horizon_ms).await;
        maintenance::retain(&shard, &log, &host, horizon_ms).await;
    }
}

/// What the samples of others say of the wall clock, by which they are taken or refused.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    taken: u64,
    too_old: u64,
}

impl Heard {
    /// By all shards since the start; `None` where one of them has no time to say it.
    async fn by_all(core: &Core) -> Option<Self> {
        let cores = timeout(ANSWER_MAX, fanout::stats(&core.router)).await.ok()?.ok()?;
        let sum = |of: fn(&CoreStats) -> u64| cores.iter().map(of).sum::<u64>();
        let taken = sum(|core| core.shard.samples).saturating_sub(sum(|core| core.acceptor.own_samples));
        Some(Self { taken, too_old: sum(|core| core.shard.refused.get(RefusedReason::TooOld)) })
    }

    fn since(self, before: Self) -> Self {
        // The node's own are counted a moment later than the shards count them.
        Self {
            taken: self.taken.saturating_sub(before.taken),
            too_old: self.too_old.saturating_sub(before.too_old),
        }
    }

    /// How many times as fast as time passes retention may follow a clock that is ahead of it. Twice where most
    /// samples are of the time that the clock shows: it catches up with a clock that was put right, and after a
    /// time without the node. As fast where nobody sends: what came back has been there for so long, whatever
    /// the clock shows.
    fn speed(self) -> u32 {
        match self.taken > self.too_old {
            true => SPEED_MAX,
            false if self.too_old == 0 => 1,
            false => 0,
        }
    }
}

/// The wall clock as retention believes it. One that jumps ahead by days would have all samples dropped
/// in one pass, and they were not back when it is put right.
struct RetentionClock {
    latest_ms: i64,
    state: RetentionState,
}

impl RetentionClock {
    /// Begins where the samples end that came back, and not after the wall clock.
    fn begin(wall_ms: i64, reached_ms: Option<i64>) -> Self {
        let latest_ms = reached_ms.map_or(wall_ms, |reached_ms| reached_ms.min(wall_ms));
        Self { latest_ms, state: RetentionState::default() }
    }

    /// The time of a pass that begins so long after the one before, in which this was heard.
    fn at_pass(&mut self, wall_ms: i64, elapsed: Duration, heard: Heard) -> i64 {
        let after = |speed: u32| self.latest_ms.saturating_add((speed * elapsed).as_millis() as i64);
        // A clock that goes a little faster is none that has jumped.
        let now_ms = if wall_ms > after(SPEED_MAX) { after(heard.speed()) } else { wall_ms };
        self.latest_ms = self.latest_ms.max(now_ms);
        self.tell(wall_ms.saturating_sub(now_ms));
        now_ms
    }

    fn tell(&mut self, behind_ms: i64) {
        let was_behind = self.state.behind_ms as i64 >= JUMP_MS_MIN;
        self.state.behind_ms = behind_ms.max(0) as u64;
        if behind_ms >= JUMP_MS_MIN && !was_behind {
            self.state.jumps += 1;
            tracing::warn!(
                behind_ms,
                "the wall clock is far ahead of the samples: it has jumped, or the node was down for long; \
                 retention follows it slowly while others send samples of its time, and stands still while most are \
                 refused as too old"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: Duration = Duration::from_secs(300);
    const PASS_MS: i64 = PASS.as_millis() as i64;
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    const BORNE_OUT: Heard = Heard { taken: 10, too_old: 1 };
    const CONTRADICTED: Heard = Heard { taken: 1, too_old: 10 };
    const SILENT: Heard = Heard { taken: 0, too_old: 0 };

    #[test]
    fn retention_goes_by_the_wall_clock_and_back_with_it() {
        let mut clock = RetentionClock::begin(0, None);
        for heard in [BORNE_OUT, CONTRADICTED, SILENT] {
            clock.latest_ms = 0;
            assert_eq!(clock.at_pass(PASS_MS, PASS, heard), PASS_MS);
            assert_eq!(clock.at_pass(2 * PASS_MS + 1000, PASS, heard), 2 * PASS_MS + 1000);
            assert_eq!(clock.at_pass(PASS_MS, PASS, heard), PASS_MS, "what is younger is kept for longer");
            assert_eq!(clock.at_pass(3 * PASS_MS, PASS, heard), 3 * PASS_MS);
        }
        assert_eq!(clock.state, RetentionState::default());
    }

    #[test]
    fn a_clock_that_jumps_ahead_is_followed_slowly_and_left_at_once_when_it_is_put_right() {
        let mut clock = RetentionClock::begin(0, None);
        assert_eq!(clock.at_pass(2 * DAY_MS, PASS, BORNE_OUT), 2 * PASS_MS);
        assert_eq!(clock.at_pass(2 * DAY_MS, PASS, BORNE_OUT), 4 * PASS_MS);
        assert_eq!(clock.state, RetentionState { behind_ms: (2 * DAY_MS - 4 * PASS_MS) as u64, jumps: 1 });
        assert_eq!(clock.at_pass(3 * PASS_MS, PASS, BORNE_OUT), 3 * PASS_MS);
        assert_eq!(clock.state, RetentionState { behind_ms: 0, jumps: 1 });
        clock.at_pass(2 * DAY_MS, PASS, CONTRADICTED);
        assert_eq!(clock.state.jumps, 2);
    }

    #[test]
    fn a_clock_that_is_contradicted_drops_nothing() {
        let mut clock = RetentionClock::begin(0, None);
        for _ in 0..100 {
            assert_eq!(clock.at_pass(2 * DAY_MS, PASS, CONTRADICTED), 0);
        }
        assert_eq!(clock.at_pass(PASS_MS, PASS, BORNE_OUT), PASS_MS);
    }

    #[test]
    fn where_nobody_sends_time_passes_and_the_clock_is_not_followed() {
        let mut clock = RetentionClock::begin(10 * DAY_MS, Some(0));
        for pass in 1..=100 {
            assert_eq!(clock.at_pass(10 * DAY_MS + pass * PASS_MS, PASS, SILENT), pass * PASS_MS);
        }
    }

    #[test]
    fn a_start_under_a_clock_that_is_ahead_begins_where_the_samples_end() {
        let mut clock = RetentionClock::begin(10 * DAY_MS, Some(0));
        assert_eq!(clock.at_pass(10 * DAY_MS, PASS, CONTRADICTED), 0);
        assert_eq!(clock.at_pass(10 * DAY_MS, PASS, BORNE_OUT), 2 * PASS_MS);
        // Samples ahead of the clock are no reason to go before it.
        let mut clock = RetentionClock::begin(0, Some(DAY_MS));
        assert_eq!(clock.at_pass(PASS_MS, PASS, BORNE_OUT), PASS_MS);
    }

    #[test]
    fn what_came_before_a_time_without_the_node_goes_no_later_than_it_would_have() {
        // The node was down for three days; what it holds is of the day before.
        let mut clock = RetentionClock::begin(3 * DAY_MS, Some(0));
        let (mut passes, mut horizon_ms) = (0, -DAY_MS);
        while horizon_ms < 0 {
            passes += 1;
            horizon_ms = clock.at_pass(3 * DAY_MS + passes * PASS_MS, PASS, BORNE_OUT) - DAY_MS;
        }
        assert!(passes * PASS_MS <= DAY_MS / 2 + PASS_MS);
    }
}

//! The wall clock as far as the samples bear it out. A machine's may be days ahead when the node starts, and what is
//! done by it can't be undone: samples dropped, ranges cut that aren't over.
//!
//! So this one begins where the samples end that came back, and goes on as time passes. It follows a wall clock that is
//! further ahead at a bounded speed, where the samples that others send bear it out, and stands still while they
//! contradict it. The node's own samples have that clock's time, and say nothing of it.

use std::time::{Duration, Instant};

use silverback_model::RefusedReason;
use silverback_storage::message::CoreStats;

/// How many times as fast as time passes a clock that is ahead is followed at most.
const SPEED_MAX: u32 = 2;

/// What the samples of others say of the wall clock, by which they are taken or refused.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HeardTime {
    taken: u64,
    too_old: u64,
}

impl HeardTime {
    /// By all shards since the start.
    pub(super) fn of(cores: &[CoreStats]) -> Self {
        let sum = |of: fn(&CoreStats) -> u64| cores.iter().map(of).sum::<u64>();
        let taken = sum(|core| core.shard.samples).saturating_sub(sum(|core| core.acceptor.own_samples));
        Self { taken, too_old: sum(|core| core.shard.refused.get(RefusedReason::TooOld)) }
    }

    pub(super) fn since(self, before: Self) -> Self {
        // The node's own are counted a moment later than the shards count them.
        Self {
            taken: self.taken.saturating_sub(before.taken),
            too_old: self.too_old.saturating_sub(before.too_old),
        }
    }

    /// How many times as fast as time passes a clock may be followed that is ahead of it. Twice where most
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

/// The time that can be trusted.
#[derive(Debug, Clone)]
pub(super) struct TrustedClock {
    latest_ms: i64,
    looked: Instant,
    /// How far it was behind the wall clock at the last look, in ms.
    pub(super) behind_ms: i64,
}

impl TrustedClock {
    /// Begins where the samples end that came back, and not after the wall clock. To be called before others come in:
    /// those may be of any time.
    pub(super) fn begin(wall_ms: i64, reached_ms: Option<i64>, now: Instant) -> Self {
        let latest_ms = reached_ms.map_or(wall_ms, |reached_ms| reached_ms.min(wall_ms));
        Self { latest_ms, looked: now, behind_ms: 0 }
    }

    /// The time at a look; this was heard since the one before.
    pub(super) fn look(&mut self, wall_ms: i64, now: Instant, heard: HeardTime) -> i64 {
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        self.at_look(wall_ms, elapsed, heard)
    }

    /// The time at a look so long after the one before, in which this was heard.
    fn at_look(&mut self, wall_ms: i64, elapsed: Duration, heard: HeardTime) -> i64 {
        let after = |speed: u32| self.latest_ms.saturating_add((speed * elapsed).as_millis() as i64);
        // A clock that goes a little faster hasn't jumped.
        let now_ms = if wall_ms > after(SPEED_MAX) { after(heard.speed()) } else { wall_ms };
        self.latest_ms = self.latest_ms.max(now_ms);
        self.behind_ms = wall_ms.saturating_sub(now_ms).max(0);
        now_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: Duration = Duration::from_secs(300);
    const PASS_MS: i64 = PASS.as_millis() as i64;
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    const BORNE_OUT: HeardTime = HeardTime { taken: 10, too_old: 1 };
    const CONTRADICTED: HeardTime = HeardTime { taken: 1, too_old: 10 };
    const SILENT: HeardTime = HeardTime { taken: 0, too_old: 0 };

    #[test]
    fn it_goes_by_the_wall_clock_and_back_with_it() {
        let mut clock = TrustedClock::begin(0, None, Instant::now());
        for heard in [BORNE_OUT, CONTRADICTED, SILENT] {
            clock.latest_ms = 0;
            assert_eq!(clock.at_look(PASS_MS, PASS, heard), PASS_MS);
            assert_eq!(clock.at_look(2 * PASS_MS + 1000, PASS, heard), 2 * PASS_MS + 1000);
            assert_eq!(clock.at_look(PASS_MS, PASS, heard), PASS_MS, "it was put right");
            assert_eq!(clock.at_look(3 * PASS_MS, PASS, heard), 3 * PASS_MS);
        }
        assert_eq!(clock.behind_ms, 0);
    }

    #[test]
    fn a_look_goes_by_what_has_passed_since_the_one_before_and_the_first_since_the_beginning() {
        let began = Instant::now();
        let mut clock = TrustedClock::begin(10 * DAY_MS, Some(0), began);
        assert_eq!(clock.look(10 * DAY_MS, began + PASS, SILENT), PASS_MS);
        assert_eq!(clock.look(10 * DAY_MS, began + PASS, SILENT), PASS_MS);
        assert_eq!(clock.look(10 * DAY_MS, began + 3 * PASS, BORNE_OUT), 5 * PASS_MS);
    }

    #[test]
    fn a_clock_that_jumps_ahead_is_followed_slowly_and_left_at_once_when_it_is_put_right() {
        let mut clock = TrustedClock::begin(0, None, Instant::now());
        assert_eq!(clock.at_look(2 * DAY_MS, PASS, BORNE_OUT), 2 * PASS_MS);
        assert_eq!(clock.at_look(2 * DAY_MS, PASS, BORNE_OUT), 4 * PASS_MS);
        assert_eq!(clock.behind_ms, 2 * DAY_MS - 4 * PASS_MS);
        assert_eq!(clock.at_look(3 * PASS_MS, PASS, BORNE_OUT), 3 * PASS_MS);
        assert_eq!(clock.behind_ms, 0);
    }

    #[test]
    fn a_clock_that_is_contradicted_drops_nothing() {
        let mut clock = TrustedClock::begin(0, None, Instant::now());
        for _ in 0..100 {
            assert_eq!(clock.at_look(2 * DAY_MS, PASS, CONTRADICTED), 0);
        }
        assert_eq!(clock.at_look(PASS_MS, PASS, BORNE_OUT), PASS_MS);
    }

    #[test]
    fn where_nobody_sends_time_passes_and_the_clock_is_not_followed() {
        let mut clock = TrustedClock::begin(10 * DAY_MS, Some(0), Instant::now());
        for pass in 1..=100 {
            assert_eq!(clock.at_look(10 * DAY_MS + pass * PASS_MS, PASS, SILENT), pass * PASS_MS);
        }
    }

    #[test]
    fn a_start_under_a_clock_that_is_ahead_begins_where_the_samples_end() {
        let mut clock = TrustedClock::begin(10 * DAY_MS, Some(0), Instant::now());
        assert_eq!(clock.at_look(10 * DAY_MS, PASS, CONTRADICTED), 0);
        assert_eq!(clock.at_look(10 * DAY_MS, PASS, BORNE_OUT), 2 * PASS_MS);
        // Samples ahead of the clock are no reason to go before it.
        let mut clock = TrustedClock::begin(0, Some(DAY_MS), Instant::now());
        assert_eq!(clock.at_look(PASS_MS, PASS, BORNE_OUT), PASS_MS);
    }

    #[test]
    fn what_came_before_a_time_without_the_node_goes_no_later_than_it_would_have() {
        // The node was down for three days; what it holds is of the day before.
        let mut clock = TrustedClock::begin(3 * DAY_MS, Some(0), Instant::now());
        let (mut passes, mut horizon_ms) = (0, -DAY_MS);
        while horizon_ms < 0 {
            passes += 1;
            horizon_ms = clock.at_look(3 * DAY_MS + passes * PASS_MS, PASS, BORNE_OUT) - DAY_MS;
        }
        assert!(passes * PASS_MS <= DAY_MS / 2 + PASS_MS);
    }
}

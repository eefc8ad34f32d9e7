//! The time limits of connections, counted in looks at them. Who looks, and what has passed a limit, is the watches'.
use std::time::Duration;

use super::HttpLimits;

/// Looks in the shortest of the limits; a limit is kept to within one of them.
const LOOKS_A_LIMIT: u32 = 8;
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(10);
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(500);

/// How long a connection may keep its lease from others that wait, for what it has sent and its requests don't take.
const LEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a connection has to have waited for a request before it gives way to a new one: who sends one after the
/// other keeps its own.
const EVICTION_IDLE_MIN: Duration = Duration::from_secs(1);

/// How long a connection that is asked to go, and has no request in flight, may stay after the last byte that it was
/// sent: a request that was on its way comes before.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// How long a client that has ended its sending side is taken to wait for the first byte of its answer. One that has
/// gone looks the same until something is sent to it.
const GRACE_AFTER_END: Duration = Duration::from_secs(1);

/// Limits in looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looks {
    pub(super) header: u64,
    pub(super) idle: u64,
    pub(super) stall: u64,
    pub(super) lease: u64,
    pub(super) eviction: u64,
    pub(super) grace: u64,
    pub(super) farewell: u64,
}

/// What lies between two looks.
pub(super) fn interval(limits: &HttpLimits) -> Duration {
    let shortest = limits.header_timeout.min(limits.idle_timeout).min(limits.stall_timeout);
    (shortest / LOOKS_A_LIMIT).clamp(LOOK_INTERVAL_MIN, LOOK_INTERVAL_MAX)
}

impl Looks {
    /// The limits where looks come at such intervals.
    pub(super) fn new(limits: &HttpLimits, interval: Duration) -> Self {
        let looks = |limit: Duration| (limit.as_micros().div_ceil(interval.as_micros()) as u64).max(1);
        Self {
            header: looks(limits.header_timeout),
            idle: looks(limits.idle_timeout),
            stall: looks(limits.stall_timeout),
            lease: looks(LEASE_TIMEOUT.min(limits.stall_timeout)),
            eviction: looks(EVICTION_IDLE_MIN),
            farewell: looks(FAREWELL_MAX),
            grace: looks(GRACE_AFTER_END.min(limits.stall_timeout)),
        }
    }
}

//! Whether a client that is waited for sends a request's body at a decent pace: by bytes over time, so that a byte
//! now and then is none.
//!
//! It knows neither sockets nor clocks: looks come at even intervals, and bytes when they come.
use std::time::Duration;

/// What a body brings in a second at least, averaged over [`BODY_GRACE`]. A client that sends as little is gone after a
/// request's time limit anyway, unless the body is a few packets.
const BYTES_A_SECOND: u64 = 1 << 10;

/// How long nothing need come, after a request's begin or what was sent at that pace.
const BODY_GRACE: Duration = Duration::from_secs(3);

/// The floor in looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Floor {
    bytes_a_look: u64,
    credit_max: u64,
}

impl Floor {
    /// Where looks come at such intervals.
    pub(super) fn new(interval: Duration) -> Self {
        let interval_us = interval.as_micros().max(1) as u64;
        let bytes_a_look = (BYTES_A_SECOND * interval_us).div_ceil(1_000_000);
        let looks = (BODY_GRACE.as_micros() as u64).div_ceil(interval_us);
        // What is less than a look's is below the floor.
        Self { bytes_a_look, credit_max: bytes_a_look * (looks + 1) }
    }
}

/// The pace of one connection's bodies. Time that is spent waiting for them is paid for by what comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyPace {
    /// In bytes.
    credit: u64,
    slow_since: Option<u64>,
}

impl BodyPace {
    /// Of a client that begins to send.
    pub(super) fn new(floor: Floor) -> Self {
        Self { credit: floor.credit_max, slow_since: None }
    }

    /// It was waited for at that look.
    pub(super) fn waited(&mut self, look: u64, floor: Floor) {
        self.credit = self.credit.saturating_sub(floor.bytes_a_look);
        if self.credit < floor.bytes_a_look {
            self.slow_since = self.slow_since.or(Some(look));
        }
    }

    /// So many bytes came.
    pub(super) fn came(&mut self, bytes: u64, floor: Floor) {
        self.credit = self.credit.saturating_add(bytes).min(floor.credit_max);
        if self.credit >= floor.bytes_a_look {
            self.slow_since = None;
        }
    }

    /// The look at which it fell below the floor, where it is there.
    pub(super) fn slow_since(&self) -> Option<u64> {
        self.slow_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS_A_SECOND: u64 = 2;

    /// After how many seconds a client that sends so many bytes at each look counts as slow, of a hundred.
    fn slow_after(bytes_a_look: u64) -> Option<u64> {
        let floor = Floor::new(Duration::from_secs(1) / LOOKS_A_SECOND as u32);
        let mut pace = BodyPace::new(floor);
        (0..100 * LOOKS_A_SECOND).find_map(|look| {
            pace.came(bytes_a_look, floor);
            pace.waited(look, floor);
            pace.slow_since().map(|since| (since + 1) / LOOKS_A_SECOND)
        })
    }

    #[test]
    fn a_byte_now_and_then_is_no_pace() {
        assert_eq!(slow_after(0), Some(3));
        assert_eq!(slow_after(1), Some(3));
        assert_eq!(slow_after(256), Some(6));
    }

    #[test]
    fn a_kibibyte_a_second_is_a_pace_however_it_comes() {
        assert_eq!(slow_after(512), None);
        let floor = Floor::new(Duration::from_millis(500));
        let mut pace = BodyPace::new(floor);
        for look in 0..200 {
            if look % 5 == 0 {
                pace.came(2560, floor);
            }
            pace.waited(look, floor);
            assert_eq!(pace.slow_since(), None, "at look {look}");
        }
    }

    #[test]
    fn much_at_once_pays_for_no_more_than_a_few_seconds_and_a_slow_client_may_become_decent() {
        let floor = Floor::new(Duration::from_millis(500));
        let mut pace = BodyPace::new(floor);
        pace.came(1 << 30, floor);
        (0..20).for_each(|look| pace.waited(look, floor));
        assert_eq!(pace.slow_since(), Some(6));
        pace.came(511, floor);
        assert_eq!(pace.slow_since(), Some(6));
        pace.came(1, floor);
        assert_eq!(pace.slow_since(), None);
    }
}

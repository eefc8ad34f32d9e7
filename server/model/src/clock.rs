//! The wall clock, as a handle that tests and simulations can set.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time of day. Monotonic time is the runtime's.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's.
    #[default]
    System,
    /// One that stays where it is put, in ms since the Unix epoch.
    Settable(Rc<Cell<i64>>),
}

impl Clock {
    /// Milliseconds since the Unix epoch; negative on a machine whose clock is before it.
    pub fn now_ms(&self) -> i64 {
        match self {
            Self::System => system_ms(),
            Self::Settable(now) => now.get(),
        }
    }
}

fn system_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_millis() as i64,
        Err(before) => -(before.duration().as_millis() as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settable_clock_stands_where_it_is_put() {
        let now = Rc::new(Cell::new(5));
        let clock = Clock::Settable(Rc::clone(&now));
        now.set(7);
        assert_eq!(clock.now_ms(), 7);
    }

    #[test]
    fn the_system_clock_is_past_2020() {
        assert!(Clock::System.now_ms() > 1_577_836_800_000);
    }
}

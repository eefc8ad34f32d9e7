//! How far memory's retention may go: not to what is in no block yet. Written by the core that has blocks cut, read by all
//! cores' passes.
//!
//! The memory limit goes before: where memory is short and nothing can be cut, retention stops waiting, and what is older
//! than it keeps goes though no block has it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// For so long retention may wait for late samples to be cut: nothing is wrong.
pub const USUAL_WAIT_MS_MAX: i64 = 30 * 60 * 1000;

/// How cutting goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutProgress {
    /// What is due is cut, or there was nothing to do.
    Goes,
    /// It failed.
    Fails,
}

/// How far a pass of retention goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// It drops what is older than this, in ms: all of it is in blocks, or nobody wants it in one.
    Before(i64),
    /// The same, but some of it is in no block: memory was short, and cutting failed.
    GivenUp(i64),
}

/// What retention waits for.
#[derive(Debug)]
pub struct HeldBack {
    released_ms: AtomicI64,
    in_blocks_ms: AtomicI64,
    fails: AtomicBool,
}

impl Default for HeldBack {
    fn default() -> Self {
        // Until it was looked what is in blocks.
        let [released_ms, in_blocks_ms] = [(); 2].map(|()| AtomicI64::new(i64::MIN));
        Self { released_ms, in_blocks_ms, fails: AtomicBool::new(false) }
    }
}

impl HeldBack {
    /// What is older is in blocks. What was said before stays so.
    pub(crate) fn release(&self, before_ms: i64) {
        self.released_ms.fetch_max(before_ms, Ordering::AcqRel);
    }

    /// Up to where retention may drop, in ms.
    pub(crate) fn released_ms(&self) -> i64 {
        self.released_ms.load(Ordering::Acquire)
    }

    /// What is older and in memory is in blocks now, whatever retention keeps. It goes back where something comes late.
    pub(crate) fn note_in_blocks(&self, before_ms: i64) {
        self.in_blocks_ms.store(before_ms, Ordering::Release);
    }

    /// It isn't known any more what is in blocks.
    pub(crate) fn forget_in_blocks(&self) {
        self.note_in_blocks(i64::MIN);
    }

    /// Before when memory has nothing that isn't in a block, in ms.
    pub(crate) fn in_blocks_ms(&self) -> i64 {
        self.in_blocks_ms.load(Ordering::Acquire)
    }

    /// How the last step of cutting went.
    pub(crate) fn note(&self, progress: CutProgress) {
        self.fails.store(progress == CutProgress::Fails, Ordering::Release);
    }

    /// How far a pass goes that would like to go to a horizon. `is_short`: there is no room for new series.
    pub(crate) fn pass(&self, horizon_ms: i64, is_short: bool) -> Pass {
        let released_ms = self.released_ms();
        let waits_long = horizon_ms.saturating_sub(released_ms) > USUAL_WAIT_MS_MAX;
        if waits_long && is_short && self.fails.load(Ordering::Acquire) {
            // For all cores: what one of them has dropped is to be cut by none.
            self.release(horizon_ms);
            return Pass::GivenUp(horizon_ms);
        }
        Pass::Before(horizon_ms.min(released_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    #[test]
    fn retention_goes_as_far_as_all_is_in_blocks_and_no_further() {
        let held = HeldBack::default();
        assert_eq!(held.pass(10 * HOUR_MS, false), Pass::Before(i64::MIN), "nothing is known at a start");
        held.release(7 * HOUR_MS);
        held.release(6 * HOUR_MS);
        assert_eq!(held.pass(10 * HOUR_MS, false), Pass::Before(7 * HOUR_MS));
        assert_eq!(held.pass(5 * HOUR_MS, false), Pass::Before(5 * HOUR_MS));
        held.note(CutProgress::Fails);
        assert_eq!(held.pass(10 * HOUR_MS, false), Pass::Before(7 * HOUR_MS), "there is room to wait");
    }

    #[test]
    fn where_memory_is_short_and_nothing_can_be_cut_the_memory_limit_goes_before() {
        let held = HeldBack::default();
        held.release(7 * HOUR_MS);
        assert_eq!(held.pass(10 * HOUR_MS, true), Pass::Before(7 * HOUR_MS), "it is about to be cut");
        held.note(CutProgress::Fails);
        let soon_ms = 7 * HOUR_MS + USUAL_WAIT_MS_MAX;
        assert_eq!(held.pass(soon_ms, true), Pass::Before(7 * HOUR_MS), "it waits no longer than usual");
        assert_eq!(held.pass(10 * HOUR_MS, true), Pass::GivenUp(10 * HOUR_MS));
        assert_eq!(held.pass(10 * HOUR_MS, true), Pass::Before(10 * HOUR_MS), "once, for all cores");
        held.note(CutProgress::Goes);
        assert_eq!(held.pass(12 * HOUR_MS, true), Pass::Before(10 * HOUR_MS));
    }
}

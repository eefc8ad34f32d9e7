//! The slot of the segment that is made ahead: a background job makes it while the one before it is filled.
//!
//! Whoever needs it is woken once the job has ended, however it ended. How a segment is made, and of what, is
//! not known here.

use std::cell::RefCell;
use std::rc::Rc;

use silverback_host::waiters::Waiters;

/// Shared by the log's committer and the job that makes the segment.
#[derive(Debug)]
pub(super) struct AheadSlot<F> {
    ahead: RefCell<Ahead<F>>,
    /// They wait for the job to end.
    waiting: Waiters,
}

/// The next segment.
#[derive(Debug)]
enum Ahead<F> {
    /// Nobody has begun to make it, and nobody is to before this time of the host's clock.
    Unmade { not_before_us: u64 },
    /// A background job makes it.
    Making,
    /// It is there, with its header: its file, and its size.
    Made(F, u64),
}

/// The job that makes a segment, as its slot knows it. One that ends silently, by a panic, leaves the
/// segment unmade.
#[derive(Debug)]
pub(super) struct Maker<F>(Rc<AheadSlot<F>>);

impl<F> AheadSlot<F> {
    /// With nothing in it.
    pub(super) fn new() -> Rc<Self> {
        let ahead = RefCell::new(Ahead::Unmade { not_before_us: 0 });
        Rc::new(Self { ahead, waiting: Waiters::default() })
    }

    /// Begins to make the segment, unless one is there, or on its way, or it is too early to try again.
    pub(super) fn begin(self: &Rc<Self>, now_us: u64) -> Option<Maker<F>> {
        let mut ahead = self.ahead.borrow_mut();
        match *ahead {
            Ahead::Unmade { not_before_us } if not_before_us <= now_us => {
                *ahead = Ahead::Making;
                Some(Maker(Rc::clone(self)))
            }
            Ahead::Unmade { .. } | Ahead::Making | Ahead::Made(..) => None,
        }
    }

    /// Takes the segment and its size, once the job that makes one has ended. `None`: nobody has made one.
    pub(super) async fn take(&self) -> Option<(F, u64)> {
        self.waiting
            .until(|| {
                let mut ahead = self.ahead.borrow_mut();
                if matches!(*ahead, Ahead::Making) {
                    return None;
                }
                Some(match std::mem::replace(&mut *ahead, Ahead::Unmade { not_before_us: 0 }) {
                    Ahead::Made(file, bytes) => Some((file, bytes)),
                    Ahead::Making | Ahead::Unmade { .. } => None,
                })
            })
            .await
    }

    fn end(&self, ended: Ahead<F>) {
        self.ahead.replace(ended);
        self.waiting.wake_all();
    }
}

impl<F> Maker<F> {
    /// The segment is there.
    pub(super) fn made(self, file: F, bytes: u64) {
        self.0.end(Ahead::Made(file, bytes));
    }

    /// It can't be made, and isn't to be tried again before this time of the host's clock.
    pub(super) fn failed(self, not_before_us: u64) {
        self.0.end(Ahead::Unmade { not_before_us });
    }
}

impl<F> Drop for Maker<F> {
    fn drop(&mut self) {
        let is_making = matches!(*self.0.ahead.borrow(), Ahead::Making);
        if is_making {
            self.0.end(Ahead::Unmade { not_before_us: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use silverback_test_support::waking::{check_is_woken, check_one_waker_is_kept};

    #[test]
    fn who_needs_the_segment_is_woken_when_it_is_made() {
        let slot = AheadSlot::new();
        let maker = slot.begin(0).expect("nobody has begun");
        assert!(slot.begin(0).is_none(), "one is on its way");
        check_one_waker_is_kept(slot.take());
        assert!(slot.waiting.is_empty());
        assert_eq!(check_is_woken(slot.take(), || maker.made("file", 5)), Some(("file", 5)));
        assert!(slot.begin(0).is_some(), "it was taken");
    }

    #[test]
    fn a_job_that_fails_or_goes_without_a_word_lets_who_needs_the_segment_make_it() {
        let slot = AheadSlot::<()>::new();
        for (ends, tries_again_at_us) in [(true, 7), (false, 0)] {
            let maker = slot.begin(7).expect("it is time");
            let end = || if ends { maker.failed(7) } else { drop(maker) };
            assert_eq!(check_is_woken(slot.take(), end), None);
            assert!(slot.begin(tries_again_at_us).is_some());
        }
    }

    #[test]
    fn an_attempt_that_failed_is_not_repeated_at_once() {
        let slot = AheadSlot::<()>::new();
        slot.begin(0).unwrap().failed(5);
        assert!(slot.begin(4).is_none());
        assert!(slot.begin(5).is_some());
        assert_eq!(slot.take().now_or_never(), Some(None));
    }
}

//! Pings that race with the executor they are for.
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Wake},
};

use loom::thread;

use crate::{
    beat::{Beat, BeatTask, UNANSWERED_MAX},
    check,
    sync::{Arc, AtomicUsize, Ordering},
};

/// Wakes that the beat's executor hasn't looked at.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// As much of an executor as a beat sees: its task, and whether it has to run.
struct Executor {
    task: BeatTask,
    wakes: std::sync::Arc<Wakes>,
}

impl Executor {
    fn of(beat: &Arc<Beat>) -> Self {
        Self { task: BeatTask(beat.clone()), wakes: std::sync::Arc::default() }
    }

    fn poll(&mut self) {
        let waker = self.wakes.clone().into();
        assert!(Pin::new(&mut self.task).poll(&mut Context::from_waker(&waker)).is_pending());
    }

    /// Polls the task if it was woken, and says whether it was.
    fn poll_if_woken(&mut self) -> bool {
        let woken = self.wakes.0.swap(0, Ordering::AcqRel) > 0;
        if woken {
            self.poll();
        }
        woken
    }
}

fn ping(beat: &Arc<Beat>, times: u64) -> thread::JoinHandle<()> {
    let beat = beat.clone();
    thread::spawn(move || {
        for _ in 0..times {
            beat.ping();
            assert!(beat.unanswered() <= UNANSWERED_MAX);
        }
    })
}

#[test]
fn a_ping_is_answered_or_its_wake_is_still_to_be_looked_at() {
    check(|| {
        let beat = Arc::<Beat>::default();
        let mut executor = Executor::of(&beat);
        let pinger = ping(&beat, 2);
        executor.poll();
        executor.poll_if_woken();
        pinger.join().unwrap();
        while executor.poll_if_woken() {}
        assert_eq!(beat.unanswered(), 0);
    });
}

#[test]
fn no_more_than_the_capped_pings_are_unanswered_however_they_are_answered() {
    check(|| {
        let beat = Arc::<Beat>::default();
        let mut executor = Executor::of(&beat);
        executor.poll();
        let pinger = ping(&beat, UNANSWERED_MAX + 2);
        executor.poll_if_woken();
        pinger.join().unwrap();
        // One beyond the cap: of a ping that a poll answered before its wake was there.
        assert!(executor.wakes.0.load(Ordering::Acquire) as u64 <= UNANSWERED_MAX + 1);
        while executor.poll_if_woken() {}
        assert_eq!(beat.unanswered(), 0);
    });
}

#[test]
fn nothing_wakes_an_executor_that_has_stopped_its_beat() {
    check(|| {
        let beat = Arc::<Beat>::default();
        let mut executor = Executor::of(&beat);
        executor.poll();
        let pinger = ping(&beat, 2);
        beat.stop();
        while executor.poll_if_woken() {}
        pinger.join().unwrap();
        assert_eq!(executor.wakes.0.load(Ordering::Acquire), 0);
        assert_eq!(std::sync::Arc::strong_count(&executor.wakes), 1);
    });
}

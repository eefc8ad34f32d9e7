//! Tests of one executor's beat.
use std::{future::Future, pin::Pin, sync::Arc, task::Context};

use super::{
    beat::{Beat, BeatTask, UNANSWERED_MAX},
    wake_count::WakeCount,
};

fn poll(task: &mut BeatTask, wakes: &Arc<WakeCount>) {
    let waker = wakes.clone().into();
    assert!(Pin::new(task).poll(&mut Context::from_waker(&waker)).is_pending());
}

#[test]
fn an_executor_that_does_not_answer_gets_no_more_than_the_capped_wakes() {
    let (beat, wakes) = (Arc::<Beat>::default(), Arc::<WakeCount>::default());
    let mut task = BeatTask(beat.clone());
    poll(&mut task, &wakes);
    for _ in 0..100 {
        beat.ping();
    }
    assert_eq!((wakes.count() as u64, beat.unanswered()), (UNANSWERED_MAX, UNANSWERED_MAX));

    poll(&mut task, &wakes);
    beat.ping();
    assert_eq!((wakes.count() as u64, beat.unanswered()), (UNANSWERED_MAX + 1, 1));
}

#[test]
fn a_stopped_beat_is_woken_no_more() {
    let (beat, wakes) = (Arc::<Beat>::default(), Arc::<WakeCount>::default());
    let mut task = BeatTask(beat.clone());
    poll(&mut task, &wakes);
    beat.ping();
    beat.stop();
    beat.ping();
    assert_eq!(wakes.count(), 1);
    poll(&mut task, &wakes);
    assert_eq!(Arc::strong_count(&wakes), 1, "a last poll doesn't bring it back");
}

#[test]
fn a_beat_that_stops_before_it_is_ever_pinged_stays_stopped() {
    let (beat, wakes) = (Arc::<Beat>::default(), Arc::<WakeCount>::default());
    let mut task = BeatTask(beat.clone());
    poll(&mut task, &wakes);
    beat.stop();
    poll(&mut task, &wakes);
    beat.ping();
    assert_eq!(wakes.count(), 0);
    assert_eq!(Arc::strong_count(&wakes), 1);
}

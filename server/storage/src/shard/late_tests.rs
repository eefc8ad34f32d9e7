//! Late samples on their way through a shard: what is accepted, and what a replay has.

use crate::shard::append::{PartOutcome, TimeBounds};
use crate::shard::delete::tests::{KeptLog, check_replays, held};
use crate::shard::tests::{EVER, append, append_to, labels, scrape, shard};
use crate::wal::Log;
use futures::executor::block_on;
use silverback_model::{Labels, RefusedReason, Sample};

const STEP_MS: i64 = 15_000;
const WINDOW_MS: i64 = 3_600_000;
const LATE: TimeBounds = TimeBounds { late_window_ms: WINDOW_MS, ..EVER };

fn series(times_ms: impl IntoIterator<Item = i64>) -> Vec<(Labels, Vec<Sample>)> {
    let samples = times_ms.into_iter().map(|at| Sample::new(at, at as f64 / 3.0));
    vec![(labels(&[("__name__", "up")]), samples.collect())]
}

fn refused(outcome: &PartOutcome) -> Vec<(RefusedReason, u64)> {
    let counts = outcome.refusals.iter().flat_map(|refusals| refusals.counts.iter());
    counts.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn late_samples_are_taken_in_counted_and_read_by_time() {
    let shard = shard();
    append(&shard, LATE, &series([0, 10 * STEP_MS]));
    let outcome = append(&shard, LATE, &series([3 * STEP_MS, STEP_MS, 2 * STEP_MS, 10 * STEP_MS]));
    assert_eq!((outcome.written, refused(&outcome)), (4, vec![]));
    let stats = shard.borrow().stats();
    assert_eq!((stats.samples, stats.late, stats.already), (6, 3, 1));
    let times: Vec<i64> = held(&shard)[0].1.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 1, 2, 3, 10].map(|step| step * STEP_MS));
}

#[test]
fn what_is_too_late_is_refused_with_the_newest_sample_and_the_window_in_words() {
    let shard = shard();
    append(&shard, LATE, &series([2 * WINDOW_MS]));
    let outcome = append(&shard, LATE, &series([WINDOW_MS - 1, WINDOW_MS]));
    assert_eq!((outcome.written, refused(&outcome)), (1, vec![(RefusedReason::OutOfOrder, 1)]));
    let words = &outcome.refusals.as_ref().unwrap().examples.iter().next().unwrap().words;
    let (time, newest, oldest) = ("1970-01-01T00:59:59.999Z", "1970-01-01T02:00:00Z", "1970-01-01T01:00:00Z");
    for part in [r#"{__name__="up"}"#, time, newest, oldest] {
        assert!(words.contains(part), "{words}");
    }
    let again = append(&shard, LATE, &series([WINDOW_MS]));
    assert_eq!((again.written, shard.borrow().stats().already), (1, 1));
}

#[test]
fn a_replay_has_exactly_what_the_shard_has() {
    let (shard, log) = (shard(), KeptLog::default());
    for at in (0..300).map(|i| i * STEP_MS) {
        append_to(&shard, LATE, &scrape(7, at + WINDOW_MS), &mut *log.journal());
        append_to(&shard, LATE, &scrape(7, at), &mut *log.journal());
        append_to(&shard, LATE, &scrape(3, at + WINDOW_MS - 7), &mut *log.journal());
        if at % (50 * STEP_MS) == 0 {
            block_on(log.flush()).unwrap();
        }
    }
    assert!(shard.borrow().stats().late > 2000);
    check_replays(&shard, &log);
}

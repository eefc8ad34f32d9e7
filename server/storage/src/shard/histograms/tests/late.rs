//! Histograms that come late: what is accepted and counted, what is refused, and what a log, a checkpoint and a
//! deletion make of them.

use super::*;
use crate::shard::in_progress::PartInProgress;
use crate::shard::tests::{NOBODY, write};

const WINDOW_MS: i64 = 3_600_000;
const LATE: TimeBounds = TimeBounds { late_window_ms: WINDOW_MS, ..EVER };

/// Of a series of every kind: counters of integers, floats, gauges, custom buckets, staleness markers.
fn mixed(n: u64) -> Histogram {
    match n % 6 {
        0 => Histogram { hint: ResetHint::Gauge, ..counting(n % 30) },
        1 => Histogram::stale(HistogramKind::Integer),
        2 => Histogram {
            schema: -53,
            zero_threshold: 0.0,
            bounds: (0..40).map(f64::from).collect(),
            ..custom(n)
        },
        3 => float(n),
        _ => counting(n),
    }
}

fn custom(n: u64) -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: 0, length: 2 }], words: vec![n, 0] };
    Histogram { count: 2 * n, positive, ..Histogram::default() }
}

/// The steps that a series got first, and those that it got late, in this order.
fn parted(steps: u64) -> (Vec<u64>, Vec<u64>) {
    let (late, first): (Vec<u64>, Vec<u64>) = (0..steps).partition(|n| n % 3 == 1);
    let shuffled = (0..late.len()).map(|i| late[i * 7 % late.len()]).collect();
    (first, shuffled)
}

fn at(name: &str, step: u64, make: fn(u64) -> Histogram) -> Written {
    vec![run(name, step..step + 1, make)]
}

#[test]
fn they_are_taken_in_counted_apart_and_read_in_their_place() {
    let shard = shard();
    let (first, late) = parted(201);
    assert!(!late.is_empty() && late.len() % 7 != 0);
    for step in first.iter().chain(&late) {
        for (name, make) in [("a", counting as fn(u64) -> Histogram), ("b", mixed)] {
            let outcome = take_to(&shard, LATE, &at(name, *step, make), &mut NoJournal);
            assert_eq!((outcome.histograms, refused(&outcome)), (1, vec![]), "{name} at {step}");
        }
    }
    let all = vec![run("a", 0..201, counting), run("b", 0..201, mixed)];
    check_same(&histograms(&shard), &all);
    let stats = shard.borrow().stats();
    assert_eq!((stats.samples, stats.late, stats.already), (402, 2 * late.len() as u64, 0));
    for bytes in [1, 5_000] {
        assert!(held_in_batches(&shard, bytes) == held(&shard), "{bytes} a batch");
    }
    // Again, wherever they are, whatever the window.
    let again = take(&shard, &all);
    assert_eq!((again.histograms, refused(&again), shard.borrow().stats().already), (402, vec![], 402));
    let others = vec![run("a", 4..5, float), run("b", 100..101, counting), run("a", 199..200, float)];
    let others = take_to(&shard, LATE, &others, &mut NoJournal);
    assert_eq!((others.histograms, refused(&others)), (1, vec![(RefusedReason::Duplicate, 2)]));
    check_same(&histograms(&shard), &all);
}

#[test]
fn what_is_too_late_is_refused_with_the_newest_and_the_window_in_words() {
    let shard = shard();
    let one = |at_ms: i64| vec![(named("a"), vec![(at_ms, counting(3))])];
    take(&shard, &one(2 * WINDOW_MS));
    for (at_ms, bounds) in [(WINDOW_MS - 1, LATE), (2 * WINDOW_MS - 1, EVER)] {
        let outcome = take_to(&shard, bounds, &one(at_ms), &mut NoJournal);
        assert_eq!((outcome.histograms, refused(&outcome)), (0, vec![(RefusedReason::OutOfOrder, 1)]));
    }
    let outcome = take_to(&shard, LATE, &one(WINDOW_MS - 1), &mut NoJournal);
    let words = &outcome.refusals.unwrap().examples.iter().next().unwrap().words.clone();
    for part in ["1970-01-01T00:59:59.999Z", "1970-01-01T02:00:00Z", "goes back to 1970-01-01T01:00:00Z"] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(take_to(&shard, LATE, &one(WINDOW_MS), &mut NoJournal).histograms, 1);
    let bounds = TimeBounds { oldest_ms: 2 * WINDOW_MS - 10, ..LATE };
    let outcome = take_to(&shard, bounds, &one(2 * WINDOW_MS - 11), &mut NoJournal);
    assert_eq!(refused(&outcome), [(RefusedReason::TooOld, 1)]);
    assert_eq!((histograms(&shard)[0].1.len(), shard.borrow().stats().late), (2, 1));
    // The newest float counts, too.
    floats_to(&shard, &[Sample::new(4 * WINDOW_MS, 1.0)]);
    let outcome = take_to(&shard, LATE, &one(2 * WINDOW_MS - 1), &mut NoJournal);
    assert_eq!(refused(&outcome), [(RefusedReason::OutOfOrder, 1)]);
}

#[test]
fn whichever_of_a_float_and_a_late_histogram_comes_first_is_kept() {
    let shard = shard();
    take(&shard, &vec![run("a", 9..10, counting)]);
    take_to(&shard, LATE, &at("a", 5, counting), &mut NoJournal);
    let late_float = |step: i64| {
        let samples = vec![Sample::new(step * STEP_MS, 1.0)];
        append_to(&shard, LATE, &[(named("a"), samples)], &mut NoJournal)
    };
    assert_eq!(refused(&late_float(5)), [(RefusedReason::Duplicate, 1)]);
    assert_eq!(late_float(6).written, 1);
    let outcome = take_to(&shard, LATE, &at("a", 6, counting), &mut NoJournal);
    assert_eq!(refused(&outcome), [(RefusedReason::Duplicate, 1)]);
    assert_eq!(shard.borrow().store.samples(SeriesRef(0)), 3);
}

#[test]
fn a_log_and_a_checkpoint_with_the_log_behind_it_bring_them_back() {
    let (shard, log) = (shard(), KeptLog::default());
    let (first, late) = parted(150);
    let (mut snapshot, mut from) = (CheckpointFrame::default(), 0);
    for (i, step) in first.iter().chain(&late).enumerate() {
        take_to(&shard, LATE, &at("a", *step, counting), &mut *log.journal());
        take_to(&shard, LATE, &at("b", *step, mixed), &mut *log.journal());
        if i == first.len() + late.len() / 3 {
            block_on(log.flush()).unwrap();
            from = log.payloads().len();
        }
        // After the groups that it is read with: what these have is in it in part.
        if i == first.len() + late.len() / 2 {
            (0..2).for_each(|at| _ = shard.borrow_mut().copy(SeriesRef(at), &mut snapshot));
        }
    }
    let all = vec![run("a", 0..150, counting), run("b", 0..150, mixed)];
    check_same(&histograms(&shard), &all);
    block_on(log.flush()).unwrap();
    for refs in [Refs::Kept, Refs::Renumbered(Vec::new())] {
        check_same(&histograms(&replayed_shard(&log, refs)), &all);
    }
    let restored = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
    let mut restorer = Restorer::new(Rc::clone(&restored), Refs::Kept, |_| true);
    let checkpoint = snapshot.parts().concat();
    for payload in [&checkpoint].into_iter().chain(&log.payloads()[from..]) {
        records(payload).for_each(|record| restorer.record(record.unwrap()).unwrap());
    }
    restorer.finish().unwrap();
    check_same(&histograms(&restored), &all);
}

#[test]
fn a_deletion_takes_them_and_a_replay_does_not_bring_them_back() {
    let (shard, log) = (shard(), KeptLog::default());
    let (first, late) = parted(120);
    for step in first.iter().chain(&late) {
        take_to(&shard, LATE, &at("a", *step, mixed), &mut *log.journal());
    }
    // One group has late ones, what is left of them, and others that came after the deletion at the same times.
    let (from, to) = (30 * STEP_MS, 60 * STEP_MS);
    assert_eq!(delete_range(&shard, &log, from..=to).samples, 31);
    take_to(&shard, LATE, &at("a", 40, counting), &mut *log.journal());
    take_to(&shard, LATE, &vec![run("a", 58..60, float)], &mut *log.journal());
    let mut expect = vec![run("a", 0..120, mixed)];
    expect[0].1.retain(|(at, _)| !(from..=to).contains(at));
    expect[0].1.extend([run("a", 40..41, counting).1, run("a", 58..60, float).1].concat());
    expect[0].1.sort_by_key(|(at, _)| *at);
    check_same(&histograms(&shard), &expect);
    block_on(log.flush()).unwrap();
    for refs in [Refs::Kept, Refs::Renumbered(Vec::new())] {
        check_same(&histograms(&replayed_shard(&log, refs)), &expect);
    }
    assert_eq!(delete_range(&shard, &log, i64::MIN..=i64::MAX).samples, 120 - 31 + 3);
    block_on(log.flush()).unwrap();
    assert!(held(&replayed_shard(&log, Refs::Kept)).is_empty());
}

#[test]
fn many_floats_in_any_order_beside_histograms_are_taken_in_as_each_of_them_alone() {
    const HOUR_MS: i64 = 3_600_000;
    let early = (0..80).map(|i: i64| Sample::new(2 * HOUR_MS + i * 7 % 80 * 1000, i as f64));
    let floats: Vec<Sample> = early.chain([Sample::new(9 * HOUR_MS + HOUR_MS / 2, 1.0)]).collect();
    let with_histogram = || {
        let shard = shard();
        take(&shard, &vec![(named("a"), vec![(10 * HOUR_MS, counting(1))])]);
        shard
    };
    let (alone, together) = (with_histogram(), with_histogram());
    let written_alone: u64 = floats
        .iter()
        .map(|float| append_to(&alone, LATE, &[(named("a"), vec![*float])], &mut NoJournal).written)
        .sum();
    let mut part = PartInProgress::new(NOBODY, write(&[(named("a"), floats)]));
    while !part.is_whole() {
        part.append_piece(&mut together.borrow_mut(), LATE, || 0, &mut NoJournal);
    }
    let (_, outcome, _) = part.into_outcome();
    assert!(written_alone > 10 && outcome.written == written_alone, "{} of {written_alone}", outcome.written);
    assert_eq!(held(&together), held(&alone));
}

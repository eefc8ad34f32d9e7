//! How much of a part is appended between two looks at the clock, whatever it is made of.

use std::cell::RefCell;
use std::rc::Rc;

use crate::message::PartSamples;
use crate::shard::Shard;
use crate::shard::append::{PIECE_WORK, PartOutcome, TimeBounds};
use crate::shard::position::PartPosition;
use crate::shard::tests::{EVER, append, encode, labels, scrape, shard};
use crate::wal::NoJournal;
use silverback_model::{Labels, Sample};

const LATE: TimeBounds = TimeBounds { late_window_ms: 3_600_000, ..EVER };
const NONE_NOW: TimeBounds = TimeBounds { oldest_ms: i64::MAX, newest_ms: i64::MAX, late_window_ms: 0 };

/// What the pieces of a part took in: the most series of one, the most samples of one, and all together.
#[derive(Debug, Default)]
struct Taken {
    pieces: usize,
    series_max: usize,
    samples_max: usize,
    outcome: PartOutcome,
}

fn append_in_pieces(
    shard: &Rc<RefCell<Shard>>,
    bounds: TimeBounds,
    series: &[(Labels, Vec<Sample>)],
) -> Taken {
    let (body, entries, samples) = encode(series);
    let part = PartSamples { series: &entries, samples: &samples, starts: &[] };
    let (mut position, mut taken) = (PartPosition::default(), Taken::default());
    while !position.is_end(entries.len()) {
        let was = position;
        let outcome = shard.borrow_mut().append_piece(&body, part, &mut position, bounds, &mut NoJournal);
        let (series, samples) = position.since(was);
        assert!(series + samples > 0, "a piece of nothing");
        taken.pieces += 1;
        taken.series_max = taken.series_max.max(series);
        taken.samples_max = taken.samples_max.max(samples);
        taken.outcome.add(outcome);
    }
    assert_eq!(position.since(PartPosition::default()), (entries.len(), samples.len()));
    taken
}

/// Series with so many samples each, a second apart, and the first one at `from` seconds.
fn series_of(series: usize, samples: usize, from: i64) -> Vec<(Labels, Vec<Sample>)> {
    let samples =
        |i: usize| (0..samples as i64).map(move |at| Sample::new((from + at) * 1000, (i as i64 + at) as f64));
    scrape(series, 0).into_iter().enumerate().map(|(i, (labels, _))| (labels, samples(i).collect())).collect()
}

fn refused(taken: &Taken) -> u64 {
    taken.outcome.refusals.iter().flat_map(|refusals| refusals.counts.iter()).map(|(_, count)| count).sum()
}

/// There is at most one piece more than there have to be.
fn check_pieces(taken: &Taken, work: usize) {
    let least = work.div_ceil(PIECE_WORK);
    assert!((least..=least + 1).contains(&taken.pieces), "{work}: {} of {taken:?}", taken.pieces);
}

#[test]
fn known_series_end_a_piece_by_their_count_with_samples_and_without() {
    let shard = shard();
    append(&shard, EVER, &series_of(20_000, 1, 0));
    let taken = append_in_pieces(&shard, EVER, &series_of(20_000, 1, 1));
    assert_eq!(taken.outcome.written, 20_000);
    check_pieces(&taken, 20_000 * 4);
    check_pieces(&append_in_pieces(&shard, EVER, &series_of(20_000, 0, 0)), 20_000 * 4);
}

#[test]
fn new_series_end_a_piece_far_sooner_and_those_with_long_labels_by_their_bytes() {
    let taken = append_in_pieces(&shard(), EVER, &series_of(5000, 1, 0));
    assert_eq!(taken.outcome.written, 5000);
    assert!(taken.series_max <= PIECE_WORK / 48, "{taken:?}");
    let long = |i: usize| labels(&[("__name__", "up"), ("text", &format!("{i}{}", "x".repeat(64 * 1024)))]);
    let series: Vec<_> = (0..100).map(|i| (long(i), vec![Sample::new(1000, 1.0)])).collect();
    let taken = append_in_pieces(&shard(), EVER, &series);
    assert_eq!(taken.outcome.written, 100);
    assert!(taken.series_max <= PIECE_WORK / 1024, "{} series", taken.series_max);
}

#[test]
fn chunks_that_are_cut_end_a_piece_sooner() {
    let shard = shard();
    append(&shard, EVER, &series_of(5000, 120, 0));
    let taken = append_in_pieces(&shard, EVER, &series_of(5000, 1, 120));
    assert_eq!((taken.outcome.written, shard.borrow().stats().sealed_chunks), (5000, 5000));
    assert!(taken.series_max <= PIECE_WORK / 48, "{taken:?}");
}

#[test]
fn many_samples_of_a_series_are_taken_in_by_several_pieces() {
    for series in [1, 100] {
        let samples = 100_000 / series;
        let taken = append_in_pieces(&shard(), EVER, &series_of(series, samples, 0));
        assert_eq!(taken.outcome.written, 100_000);
        assert!(taken.samples_max <= PIECE_WORK, "{taken:?}");
        assert!(taken.pieces <= 3 * 100_000 / PIECE_WORK, "{taken:?}");
    }
}

#[test]
fn a_long_series_after_many_short_ones_has_what_they_leave_of_a_piece() {
    let shard = shard();
    let short = PIECE_WORK / 5 - 10;
    append(&shard, EVER, &series_of(short, 1, 0));
    let mut series = series_of(short, 1, 1);
    series.extend(series_of(short + 1, 5000, 0).pop());
    let (body, entries, samples) = encode(&series);
    let part = PartSamples { series: &entries, samples: &samples, starts: &[] };
    let mut position = PartPosition::default();
    shard.borrow_mut().append_piece(&body, part, &mut position, EVER, &mut NoJournal);
    let (whole, samples) = position.since(PartPosition::default());
    assert_eq!(whole, short);
    assert!(samples < short + 100, "{samples}");
}

#[test]
fn samples_that_are_refused_end_a_piece_sooner_and_each_change_of_the_reason_does() {
    let taken = append_in_pieces(&shard(), NONE_NOW, &series_of(1, 50_000, 0));
    assert_eq!((taken.outcome.written, refused(&taken)), (0, 50_000));
    assert!(taken.samples_max <= PIECE_WORK / 8, "{} samples", taken.samples_max);
    let taken = append_in_pieces(&shard(), NONE_NOW, &series_of(5000, 1, 0));
    assert_eq!(refused(&taken), 5000);
    assert!(taken.series_max <= PIECE_WORK / 64, "{} series", taken.series_max);
    let bounds = TimeBounds { oldest_ms: 1000, newest_ms: 2000, late_window_ms: 0 };
    let times = |i: i64| if i % 2 == 0 { 0 } else { 3000 };
    let series =
        vec![(labels(&[("__name__", "up")]), (0..50_000).map(|i| Sample::new(times(i), 1.0)).collect())];
    let taken = append_in_pieces(&shard(), bounds, &series);
    assert_eq!(refused(&taken), 50_000);
    assert!(taken.samples_max <= PIECE_WORK / 64, "{} samples", taken.samples_max);
}

#[test]
fn late_samples_end_a_piece_by_what_they_take_and_the_next_one_goes_on_there() {
    let shard = shard();
    let up = labels(&[("__name__", "up")]);
    let every = |step: i64, from: i64, samples: i64| {
        vec![(up.clone(), (0..samples).map(|i| Sample::new(from + i * step, i as f64)).collect())]
    };
    append(&shard, LATE, &every(100, 0, 36_000));
    // Each lies in another chunk, which is rewritten for it.
    let taken = append_in_pieces(&shard, LATE, &every(12_000, 50, 299));
    assert_eq!((taken.outcome.written, refused(&taken)), (299, 0));
    assert!((2..150).contains(&taken.samples_max), "{taken:?}");
    assert_eq!(shard.borrow().stats().late, 299);
}

//! Parts that are appended piece by piece: with cells that move between two pieces, and with samples in any order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;
use crate::message::{PartBuffer, PartSeries, PartStart};
use crate::shard::delete::tests::held;
use crate::shard::tests::{EVER, NOBODY, append, labels, scrape, shard, write};
use crate::wal::NoJournal;
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, RefusedReason, Sample, SeriesId};

const LATE: TimeBounds = TimeBounds { late_window_ms: i64::MAX, ..EVER };

/// Takes pieces in until a part is whole, and returns how many. `between` is called before each.
fn take_in(
    shard: &Rc<RefCell<Shard>>,
    part: &mut PartInProgress,
    bounds: TimeBounds,
    mut between: impl FnMut(&mut Shard, usize),
) -> usize {
    for pieces in 0.. {
        if part.is_whole() {
            return pieces;
        }
        between(&mut shard.borrow_mut(), pieces);
        if part.can_wait() {
            part.give_up_moved(&shard.borrow().ownership);
        }
        part.append_piece(&mut shard.borrow_mut(), bounds, || 0, &mut NoJournal);
    }
    unreachable!("it counts to the end of the pieces")
}

/// Times and start timestamps of a part's samples by series and time.
fn told(part: &PartBuffer) -> Vec<(SeriesId, i64, i64)> {
    let of = |(entry, own): (&PartSeries, _)| times_of(entry, own);
    let mut told: Vec<_> = part.part_samples().each_series().flat_map(of).collect();
    told.sort_unstable();
    told
}

fn times_of(entry: &PartSeries, own: impl Iterator<Item = (Sample, i64)>) -> Vec<(SeriesId, i64, i64)> {
    own.map(|(sample, start_ms)| (entry.id, sample.timestamp_ms, start_ms)).collect()
}

#[test]
fn what_moves_while_a_part_is_taken_in_comes_back_once_and_nothing_of_it_is_taken_in() {
    const SAMPLES: i64 = 40;
    let shard = shard();
    let mut series = scrape(2000, 0);
    series
        .iter_mut()
        .for_each(|(_, own)| *own = (1..=SAMPLES).map(|at| Sample::new(at * 1000, 1.0)).collect());
    // Every third series has them in no order.
    series
        .iter_mut()
        .step_by(3)
        .for_each(|(_, own)| own.sort_by_key(|sample| sample.timestamp_ms * 7 % 40_999));
    // All that come are late: they go the way on which a piece may end within a series.
    append(&shard, LATE, &scrape(2000, 1_000_000));
    let mut part = write(&series);
    part.part.epoch = Epoch(3);
    (0..part.part.samples.len() as u32)
        .step_by(3)
        .for_each(|sample| part.part.starts.push(PartStart { sample, start_ms: 1 + i64::from(sample) }));
    let all = told(&part.part);
    let mut begun = PartInProgress::new(NOBODY, part);
    let pieces = take_in(&shard, &mut begun, LATE, |shard, pieces| {
        if [2, 3, 7].contains(&pieces) {
            let leaving =
                (0..CELL_COUNT as u16).map(CellId).filter(|cell| usize::from(cell.0) % 10 == pieces);
            leaving.for_each(|cell| shard.ownership.drain(cell, Epoch(4 + pieces as u64)));
        }
    });
    assert!(pieces > 8, "{pieces} pieces");
    let (_, outcome, moved) = begun.into_outcome();
    let moved = moved.expect("a third of the cells has moved");
    let gone = told(&moved.parts);
    assert_eq!((outcome.written + gone.len() as u64, outcome.refusals.is_none()), (all.len() as u64, true));
    assert!(gone.len() > 1000 && outcome.written > 1000);
    assert_eq!(moved.parts.epoch, Epoch(3));
    let is_left = |one: &(SeriesId, i64, i64)| gone.binary_search(one).is_ok();
    assert!(gone.iter().all(|one| all.binary_search(one).is_ok()), "each with its own start timestamp");
    let stored: usize = held(&shard).iter().map(|(_, samples)| samples.len()).sum();
    assert_eq!(stored, 2000 + all.iter().filter(|one| !is_left(one)).count());
}

#[test]
fn shuffled_samples_of_a_series_take_some_pieces_more_than_sorted_ones_and_are_all_there() {
    const SAMPLES: usize = 100_000;
    let up = labels(&[("__name__", "up")]);
    let sample = |i: usize| Sample::new(i as i64 * 36, i as f64);
    let sorted: Vec<Sample> = (0..SAMPLES).map(sample).collect();
    let shuffled: Vec<Sample> = (0..SAMPLES).map(|i| sample(i * 61_211 % SAMPLES)).collect();
    let pieces = |samples: Vec<Sample>| {
        let shard = shard();
        let mut part = PartInProgress::new(NOBODY, write(&[(up.clone(), samples)]));
        let pieces = take_in(&shard, &mut part, LATE, |_, _| {});
        let (_, outcome, _) = part.into_outcome();
        assert_eq!((outcome.written, outcome.refusals.is_none()), (SAMPLES as u64, true));
        let stored = held(&shard)[0].1.clone();
        assert_eq!(stored.len(), SAMPLES);
        assert!(stored.iter().zip(&sorted).all(|((at_ms, value), sample)| {
            (*at_ms, *value) == (sample.timestamp_ms, sample.value.to_bits())
        }));
        pieces
    };
    let (of_sorted, of_shuffled) = (pieces(sorted.clone()), pieces(shuffled));
    assert!(of_shuffled <= 20 * of_sorted, "{of_shuffled} pieces, {of_sorted} of sorted ones");
}

#[test]
fn a_series_samples_are_taken_in_by_time_and_of_two_with_one_time_the_first() {
    let shard = shard();
    let at = |seconds: i64, value: f64| Sample::new(seconds * 1000, value);
    // Many, from new to old, and some of them twice.
    let mut own: Vec<Sample> = (0..100).rev().map(|seconds| at(seconds, seconds as f64)).collect();
    own.extend([at(5, 5.5), at(7, 7.0), at(99, 99.0)]);
    let mut part = PartInProgress::new(NOBODY, write(&[(labels(&[("__name__", "up")]), own)]));
    assert!(take_in(&shard, &mut part, LATE, |_, _| {}) < 10, "they are sorted");
    let (_, outcome, _) = part.into_outcome();
    let refused: Vec<_> = outcome.refusals.iter().flat_map(|refusals| refusals.counts.iter()).collect();
    assert_eq!((outcome.written, refused), (102, vec![(RefusedReason::Duplicate, 1)]));
    let expect: Vec<_> = (0..100).map(|seconds| (seconds * 1000, (seconds as f64).to_bits())).collect();
    assert_eq!(held(&shard)[0].1, expect);
}

#[test]
fn what_is_sorted_and_moves_leaves_others_to_be_sorted() {
    const SAMPLES: usize = 4000;
    let shuffled = || (0..SAMPLES).map(|i| Sample::new((i * 1777 % SAMPLES) as i64 * 1000, 1.0)).collect();
    let shard = shard();
    // Two series of different cells.
    let series: Vec<_> = scrape(2, 0).into_iter().map(|(labels, _)| (labels, shuffled())).collect();
    append(&shard, LATE, &scrape(2, 10_000_000));
    let mut part = write(&series);
    part.part.epoch = Epoch(3);
    let [leaves, stays] = [0, 1].map(|series: usize| part.part.series[series].id.cell());
    assert_ne!(leaves, stays);
    let mut begun = PartInProgress::new(NOBODY, part);
    // One piece to find out, and then the steps of sorting them.
    begun.append_piece(&mut shard.borrow_mut(), LATE, || 0, &mut NoJournal);
    assert!(!begun.can_wait());
    while !begun.can_wait() {
        begun.append_piece(&mut shard.borrow_mut(), LATE, || 0, &mut NoJournal);
    }
    shard.borrow_mut().ownership.drain(leaves, Epoch(4));
    let pieces = take_in(&shard, &mut begun, LATE, |_, _| {});
    assert!(pieces < 20, "{pieces} pieces: they were not sorted");
    let (_, outcome, moved) = begun.into_outcome();
    assert!(outcome.written as usize + moved.expect("a cell has moved").parts.samples.len() == 2 * SAMPLES);
}

/// What is stored and refused of a series' samples, each for itself in the order in which they are.
fn one_by_one(
    mut stored: BTreeMap<i64, u64>,
    own: &[Sample],
    bounds: TimeBounds,
) -> (BTreeMap<i64, u64>, [u64; 4]) {
    let [mut late, mut contradicting, mut old, mut ahead] = [0; 4];
    for sample in own {
        let newest_ms = stored.last_key_value().map_or(i64::MIN, |(at_ms, _)| *at_ms);
        let at_ms = sample.timestamp_ms;
        if at_ms < bounds.oldest_ms {
            old += 1;
        } else if at_ms > bounds.newest_ms {
            ahead += 1;
        } else if let Some(bits) = stored.get(&at_ms) {
            contradicting += u64::from(*bits != sample.value.to_bits());
        } else if newest_ms.saturating_sub(at_ms) > bounds.late_window_ms {
            late += 1;
        } else {
            stored.insert(at_ms, sample.value.to_bits());
        }
    }
    (stored, [late, contradicting, old, ahead])
}

#[test]
fn which_samples_are_taken_in_is_what_it_is_for_each_of_them_alone() {
    const STEP_MS: i64 = 1500;
    const REASONS: [RefusedReason; 4] = [
        RefusedReason::OutOfOrder,
        RefusedReason::Duplicate,
        RefusedReason::TooOld,
        RefusedReason::TooFarInFuture,
    ];
    let up = labels(&[("__name__", "up")]);
    for (samples, is_known) in
        [30, 34, 48, 200, 2000, 40_000].into_iter().zip([true, false].into_iter().cycle())
    {
        let known = [Sample::new(samples / 4 * STEP_MS, 0.0)];
        let known = if is_known { &known[..] } else { &[] };
        for stride in [1, 7, 1009, 1999, samples - 1] {
            // Each fourth time comes again, half of these with another value.
            let time = |i: i64| (i * stride % samples) / 4 * 4 * STEP_MS + (i % 3) * STEP_MS;
            let own: Vec<_> = (0..samples).map(|i| Sample::new(time(i), (i % 2) as f64)).collect();
            for (late_window_ms, tenth) in [(1, 0), (60_000, 1), (900_000, 1), (i64::MAX, 0)] {
                let oldest_ms = tenth * samples * STEP_MS / 10;
                let newest_ms = (10 - tenth) * samples * STEP_MS / 10;
                let bounds = TimeBounds { oldest_ms, newest_ms, late_window_ms };
                let shard = shard();
                append(&shard, EVER, &[(up.clone(), known.to_vec())]);
                let mut part = PartInProgress::new(NOBODY, write(&[(up.clone(), own.clone())]));
                take_in(&shard, &mut part, bounds, |_, _| {});
                let (_, outcome, _) = part.into_outcome();
                let counts = outcome.refusals.map(|refusals| refusals.counts).unwrap_or_default();
                let at_first = known.iter().map(|sample| (sample.timestamp_ms, sample.value.to_bits()));
                let (expect, refused) = one_by_one(at_first.collect(), &own, bounds);
                let case = format!("{samples} samples, every {stride}th, {bounds:?}");
                assert_eq!(REASONS.map(|why| counts.get(why)), refused, "{case}");
                assert_eq!(held(&shard)[0].1, expect.into_iter().collect::<Vec<_>>(), "{case}");
            }
        }
    }
}

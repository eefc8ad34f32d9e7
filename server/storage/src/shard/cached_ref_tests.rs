//! Samples whose sender keeps the refs of their series: what it is given, and what becomes of those whose refs are out
//! of date, or never were right.

use std::cell::RefCell;
use std::rc::Rc;

use futures::executor::block_on;

use crate::cell::table::SeriesTable;
use crate::message::{CachedRef, DefinitionBlock, Definitions, LabelSpan, WriteBody};
use crate::shard::append::{PartOutcome, TimeBounds};
use crate::shard::delete::tests::held;
use crate::shard::tests::{EVER, encode, scrape, shard};
use crate::shard::{Shard, maintenance};
use crate::wal::{MemoryLog, NoJournal};
use silverback_host::Alone;
use silverback_model::SeriesRef;

/// More than are brought near ahead.
const SERIES: usize = 50;

/// Sends a scrape as a stream does that has these refs, each series' sample being its number.
fn send(shard: &Rc<RefCell<Shard>>, refs: &[CachedRef], at_ms: i64, bounds: TimeBounds) -> PartOutcome {
    let series = scrape(refs.len(), at_ms);
    let (mut block, mut definitions) = (DefinitionBlock::default(), Definitions::default());
    for (labels, _) in &series {
        block.push(|out| out.extend_from_slice(&labels.to_canonical()));
    }
    definitions.push(block);
    let (_, mut entries, samples) = encode(&series);
    for ((entry, cached), number) in entries.iter_mut().zip(refs).zip(0..) {
        entry.labels = LabelSpan::of_definition(number, number);
        entry.cached = *cached;
    }
    let body = WriteBody { definitions, ..WriteBody::default() };
    shard.borrow_mut().append(&body, &entries, &samples, bounds, &mut NoJournal)
}

fn told(outcome: &PartOutcome) -> Vec<(u32, CachedRef)> {
    outcome.ref_updates.iter().flat_map(|updates| updates.iter()).collect()
}

/// A shard with a scrape, and the refs that its sender was given.
fn scraped() -> (Rc<RefCell<Shard>>, Vec<CachedRef>) {
    let shard = shard();
    let told = told(&send(&shard, &[CachedRef::NOT_YET; SERIES], 1000, EVER));
    assert!(told.iter().map(|(stream_ref, _)| *stream_ref).eq(0..SERIES as u32), "{told:?}");
    (shard, told.into_iter().map(|(_, cached)| cached).collect())
}

/// Whether each series has so many samples, and its own.
fn has_scrapes(shard: &Rc<RefCell<Shard>>, scrapes: usize) -> bool {
    let all = held(shard);
    let own = |(number, (_, samples)): (usize, &(_, Vec<(i64, u64)>))| {
        samples.len() == scrapes && samples.iter().all(|(_, bits)| f64::from_bits(*bits) == number as f64)
    };
    all.len() == SERIES && all.iter().enumerate().all(own)
}

#[test]
fn a_sender_is_told_each_ref_once() {
    let (shard, refs) = scraped();
    for at_ms in [2000, 3000] {
        let outcome = send(&shard, &refs, at_ms, EVER);
        assert_eq!((outcome.written, told(&outcome)), (SERIES as u64, vec![]));
    }
    assert!(has_scrapes(&shard, 3));
    let outcome = send(&shard, &[CachedRef::NONE; SERIES], 4000, EVER);
    assert_eq!((outcome.written, told(&outcome)), (SERIES as u64, vec![]), "one that keeps none gets none");
}

#[test]
fn a_ref_that_is_wrong_costs_a_search_and_is_put_right() {
    let (shard, refs) = scraped();
    let of_others: Vec<_> = (0..SERIES).map(|i| refs[(i + 1) % SERIES]).collect();
    let beyond = |first: u32| (0..SERIES as u32).map(|i| CachedRef::of(SeriesRef(first + i))).collect();
    let wrong: [Vec<_>; 4] = [of_others, beyond(SERIES as u32), beyond(1 << 20), beyond(u32::MAX - 60)];
    for (i, wrong) in wrong.iter().enumerate() {
        let outcome = send(&shard, wrong, 2000 + i as i64, EVER);
        assert_eq!(outcome.written, SERIES as u64);
        let now: Vec<_> = told(&outcome).into_iter().map(|(_, cached)| cached).collect();
        assert_eq!(now, refs);
    }
    assert!(has_scrapes(&shard, 5));
}

#[test]
fn what_is_refused_is_refused_whatever_the_ref() {
    let (shard, refs) = scraped();
    for refs in [refs, vec![CachedRef::of(SeriesRef(7)); SERIES], vec![CachedRef::NOT_YET; SERIES]] {
        let outcome = send(&shard, &refs, 999, EVER);
        let refused = outcome.refusals.map_or(0, |refusals| refusals.counts.total());
        assert_eq!((outcome.written, refused), (0, SERIES as u64));
    }
    assert!(has_scrapes(&shard, 1));
}

#[test]
fn a_ref_is_no_way_to_a_series_that_is_gone() {
    let (shard, refs) = scraped();
    block_on(maintenance::retain(&shard, &MemoryLog::default(), &Alone, 2000));
    assert!(held(&shard).is_empty());
    let outcome = send(&shard, &refs, 3000, EVER);
    assert_eq!((outcome.written, shard.borrow().stats().series), (SERIES as u64, SERIES));
    assert!(has_scrapes(&shard, 1));
}

#[test]
fn a_right_ref_needs_no_search() {
    let (shard, refs) = scraped();
    shard.borrow_mut().cells.iter_mut().for_each(|cell| cell.table = SeriesTable::default());
    let outcome = send(&shard, &refs, 2000, EVER);
    assert_eq!((outcome.written, told(&outcome)), (SERIES as u64, vec![]));
    assert_eq!(shard.borrow().stats().samples, 2 * SERIES as u64);
    assert_eq!(shard.borrow().store.size().series, SERIES, "none is made again");
}

#[test]
fn what_is_told_of_a_part_s_pieces_comes_together() {
    const MANY: usize = 10_000;

    let shard = shard();
    let told = told(&send(&shard, &[CachedRef::NOT_YET; MANY], 1000, EVER));
    assert!(told.iter().map(|(stream_ref, _)| *stream_ref).eq(0..MANY as u32));
}

#[test]
fn a_ref_to_memory_that_was_given_back_finds_nothing_there() {
    const MANY: usize = 20_000;

    let shard = shard();
    let refs: Vec<_> = told(&send(&shard, &[CachedRef::NOT_YET; MANY], 1000, EVER));
    let refs: Vec<_> = refs.into_iter().map(|(_, cached)| cached).collect();
    block_on(maintenance::retain(&shard, &MemoryLog::default(), &Alone, 2000));
    let before = shard.borrow().memory_bytes().total();
    while shard.borrow_mut().store.give_page_back() {}
    assert!(shard.borrow().memory_bytes().total() < before - before / 4);
    let outcome = send(&shard, &refs, 3000, EVER);
    assert_eq!((outcome.written, shard.borrow().stats().series), (MANY as u64, MANY));
}

#[test]
fn a_series_that_can_t_be_made_is_nowhere() {
    let (shard, refs) = scraped();
    block_on(maintenance::retain(&shard, &MemoryLog::default(), &Alone, 2000));
    shard.borrow_mut().set_memory_budgets(0, 0);
    let outcome = send(&shard, &refs, 3000, EVER);
    let now: Vec<_> = told(&outcome).into_iter().map(|(_, cached)| cached).collect();
    assert_eq!((outcome.written, now), (0, vec![CachedRef::NOT_YET; SERIES]));
}

//! Two shards that hand a cell over, step by step: what moves, what is seen, and what is undone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;
use futures::executor::{LocalPool, block_on};
use futures::task::LocalSpawnExt;

use crate::message::{ChunkView, MessageSpan, PartHistogram};
use crate::message::{
    Deleted, Deletion, DeletionReply, LabelSource, LabelSpan, MigrationPiece, MigrationRejected,
    MigrationReply, MigrationRequest, MigrationStep, OwnStep, PartExemplar, PartPool, PartSeries, PieceStep,
    PlainStep, Read, ReadReply, ReadRequest, ReadTicket, Rows, Selection, SeriesView, SeriesWanted,
    ShardReadError, WriteBody,
};
use crate::shard::append::TimeBounds;
use crate::shard::migration::{Taken, take_step};
use crate::shard::ownership::Ownership;
use crate::shard::scripted::Scripted;
use crate::shard::{Reads, Shard, delete};
use crate::wal::{MemoryLog, NoJournal};
use silverback_host::{Alone, Host};
use silverback_model::histogram::Histogram;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::limits::{CELL_COUNT, DELETION_WAIT_MAX};
use silverback_model::{CellId, Epoch, Labels, MatchOp, Matcher, Sample, SeriesId, SeriesIdHasher, ShardId};
use silverback_test_support::waking::check_is_woken;

const CELL: CellId = CellId(5);
/// Of the migration.
const EPOCH: Epoch = Epoch(2);
const EVER: TimeBounds = TimeBounds { oldest_ms: 0, newest_ms: i64::MAX, late_window_ms: 0 };
/// Enough that chunks are cut.
const SCRAPES: i64 = 300;

type Shared = Rc<RefCell<Shard>>;

struct Pair {
    source: Shared,
    target: Shared,
}

impl Pair {
    /// A source with so many series in the cell, and a target, of a node that takes so many.
    fn new(series: usize, series_max: usize) -> Self {
        let source = Shard::new(ShardId(0), series_max);
        let mut target = Shard::new(ShardId(1), series_max);
        target.set_ownership(Ownership::of(Epoch::FIRST, |_| None), &mut NoJournal);
        let pair = Self { source: Rc::new(RefCell::new(source)), target: Rc::new(RefCell::new(target)) };
        (0..SCRAPES).for_each(|at| append(&pair.source, series, at * 15_000));
        pair
    }

    /// A pass that begins with this step, but for its last piece.
    fn pass(&self, first: PieceStep) -> Result<MigrationPiece, MigrationRejected> {
        let mut next = first;
        loop {
            let MigrationReply::Copied(piece) = step(&self.source, next)? else { panic!("a piece") };
            if piece.is_last {
                return Ok(piece);
            }
            step(&self.target, PlainStep::Take(piece))?;
            next = PieceStep::Copy;
        }
    }

    /// Up to the target's owning the cell. `between` runs before the last pass but one.
    fn bring_over(&self, between: impl Fn()) -> Taken {
        step(&self.target, PlainStep::Expect)?;
        let piece = self.pass(PieceStep::Copy)?;
        step(&self.target, PlainStep::Take(piece))?;
        between();
        let piece = self.pass(PieceStep::Copy)?;
        step(&self.target, PlainStep::Take(piece))?;
        let rest = self.pass(PieceStep::Drain)?;
        step(&self.target, OwnStep { from: ShardId(0), rest })
    }

    /// What both say at an epoch: each series once.
    fn seen(&self, epoch: Epoch) -> Vec<(Labels, usize)> {
        let mut seen = select(&self.source, epoch).unwrap();
        seen.extend(select(&self.target, epoch).unwrap());
        seen.sort();
        seen
    }
}

fn step(shard: &Shared, step: impl Into<MigrationStep>) -> Taken {
    step_beside(shard, &Reads::new(usize::MAX), step)
}

/// With what waits among a shard's reads.
fn step_beside(shard: &Shared, reads: &Rc<Reads>, step: impl Into<MigrationStep>) -> Taken {
    let taken = Rc::new(Cell::new(None));
    let answer = {
        let taken = Rc::clone(&taken);
        move |answer| taken.set(Some(answer))
    };
    let request = MigrationRequest { cell: CELL, epoch: EPOCH, step: step.into() };
    take_step(shard, reads, &MemoryLog::default(), &Alone, request, answer);
    taken.take().expect("alone, every job runs to its end at once")
}

fn labels(number: usize) -> Labels {
    Labels::from_pairs([("__name__", "up"), ("instance", &*format!("i{number:05}"))])
}

fn series_id(block: &[u8]) -> SeriesId {
    let id = SeriesIdHasher::new(1, "").hash_canonical(block).0;
    SeriesId(u128::from(CELL.0) << 118 | id & ((1 << 118) - 1))
}

/// One sample of each series, older than the newest.
fn append_late(shard: &Shared, series: usize, at_ms: i64) {
    let bounds = TimeBounds { late_window_ms: i64::MAX, ..EVER };
    assert_eq!(written_within(shard, series, at_ms, bounds), series as u64);
}

/// One sample of each series.
fn append(shard: &Shared, series: usize, at_ms: i64) {
    assert_eq!(written(shard, series, at_ms), series as u64);
}

/// One sample of each series, of which as many are stored.
fn written(shard: &Shared, series: usize, at_ms: i64) -> u64 {
    written_within(shard, series, at_ms, EVER)
}

fn written_within(shard: &Shared, series: usize, at_ms: i64, bounds: TimeBounds) -> u64 {
    let (mut bytes, mut entries, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..series {
        let block = labels(number).to_canonical();
        let span = LabelSpan::new(LabelSource::Wire, bytes.len(), block.len());
        bytes.extend_from_slice(&block);
        entries.push(PartSeries::new(series_id(&block), span, 1));
        samples.push(Sample::new(at_ms, (number as i64 * at_ms) as f64));
    }
    let body = WriteBody { bytes: bytes.into(), ..WriteBody::default() };
    shard.borrow_mut().append(&body, &entries, &samples, bounds, &mut NoJournal).written
}

/// The series that a shard answers for, with the number of their samples.
fn select(shard: &Shared, epoch: Epoch) -> Result<Vec<(Labels, usize)>, ShardReadError> {
    let request = ReadRequest::Open {
        selection: Selection::everything(),
        wanted: SeriesWanted::Chunks.into(),
        bytes: usize::MAX,
    };
    let read = Read { ticket: ReadTicket::issue(), epoch, request };
    let opened = block_on(Reads::new(usize::MAX).answer(Rc::clone(shard), Alone, read))?;
    let ReadReply::Series(batch, None) = *opened else { panic!("all is in one batch") };
    let count_of = |chunk: ChunkView<'_>| {
        chunk.samples().count() + chunk.histograms().map_or(0, |histograms| histograms.samples_left())
    };
    let count = |series: SeriesView<'_>| series.chunks().map(count_of).sum();
    let series = (0..batch.count()).map(|at| batch.get(at));
    Ok(series.map(|one| (one.labels.into(), count(one))).collect())
}

fn takes(shard: &Shared, epoch: Epoch) -> bool {
    let mut part = PartPool::default().take().unwrap();
    let id = series_id(&labels(0).to_canonical());
    part.series.push(PartSeries::new(id, LabelSpan::NOWHERE, 0));
    part.epoch = epoch;
    let ownership = &shard.borrow().ownership;
    epoch >= ownership.settled() || ownership.takes_rest(&part, (0, 0, 0))
}

#[test]
fn a_cell_moves_with_what_came_while_it_was_copied_and_is_seen_once_all_the_time() {
    let pair = Pair::new(500, usize::MAX);
    let more = || (0..5).for_each(|at| append(&pair.source, 510, (SCRAPES + at) * 15_000));
    let owned = pair.bring_over(more);
    assert_eq!(owned, Ok(MigrationReply::Owned { series: 510 }));
    let samples = |number| if number < 500 { SCRAPES as usize + 5 } else { 5 };
    let expect: Vec<_> = (0..510).map(|number| (labels(number), samples(number))).collect();
    for epoch in [Epoch::FIRST, EPOCH, EPOCH.next()] {
        assert_eq!(pair.seen(epoch), expect, "at {epoch:?}");
    }
    assert!(!takes(&pair.source, Epoch::FIRST) && takes(&pair.target, EPOCH));
    let (source, target) = (pair.source.borrow().stats(), pair.target.borrow().stats());
    assert_eq!((source.series, target.series), (510, 510), "until the source releases it");
    step(&pair.source, PlainStep::Release { to: ShardId(1) }).unwrap();
    assert_eq!(select(&pair.source, Epoch::FIRST), Err(ShardReadError::Moved));
    assert_eq!(pair.seen(EPOCH), expect);
    let (source, target) = (pair.source.borrow().stats(), pair.target.borrow().stats());
    assert_eq!((source.series, target.series), (0, 510));
    assert_eq!((source.sealed_chunks, source.label_pairs), (0, 0));
}

/// Takes in an exemplar of a series, by its number.
fn exemplify(shard: &Shared, number: usize, at_ms: i64) {
    let series = series_id(&labels(number).to_canonical());
    let one =
        PartExemplar { series, timestamp_ms: at_ms, value: number as f64, labels_begin: 0, labels_len: 0 };
    let bounds = TimeBounds { late_window_ms: i64::MAX, ..EVER };
    let appended = shard.borrow_mut().append_exemplars(&WriteBody::default(), &[one], bounds, &mut NoJournal);
    assert_eq!(appended.kept, 1);
}

/// The exemplars that a shard answers for, as series' numbers and times, those of a series ascending.
fn exemplars(shard: &Shared, epoch: Epoch) -> Vec<(usize, i64)> {
    let (selection, wanted) = (Selection::everything(), SeriesWanted::Exemplars.into());
    let request = ReadRequest::Open { selection, wanted, bytes: usize::MAX };
    let read = Read { ticket: ReadTicket::issue(), epoch, request };
    let opened = block_on(Reads::new(usize::MAX).answer(Rc::clone(shard), Alone, read)).unwrap();
    let ReadReply::Series(batch, None) = *opened else { panic!("all is in one batch") };
    let of = |series: SeriesView<'_>| {
        series.exemplars().map(|one| (one.value as usize, one.timestamp_ms)).collect::<Vec<_>>()
    };
    (0..batch.count()).flat_map(|at| of(batch.get(at))).collect()
}

#[test]
fn a_cell_takes_its_exemplars_along_and_those_that_came_while_it_was_copied() {
    let pair = Pair::new(300, usize::MAX);
    (0..300).for_each(|number| exemplify(&pair.source, number, 1000));
    // Of a known series, late, and of one that came meanwhile; one that has no sample since it was copied, too.
    let more = || {
        append(&pair.source, 301, SCRAPES * 15_000);
        [(7, 500), (300, 9000), (8, 2000)]
            .iter()
            .for_each(|(number, at)| exemplify(&pair.source, *number, *at));
        assert_eq!(exemplars(&pair.target, EPOCH), [], "they are hidden until the cell is its own");
    };
    pair.bring_over(more).unwrap();
    let mut expect: Vec<_> = (0..300).map(|number| (number, 1000)).collect();
    expect.extend([(7, 500), (8, 2000), (300, 9000)]);
    expect.sort_unstable();
    assert_eq!(exemplars(&pair.target, EPOCH), expect);
    assert_eq!(
        (exemplars(&pair.source, EPOCH), exemplars(&pair.source, Epoch::FIRST)),
        (vec![], expect.clone())
    );
    step(&pair.source, PlainStep::Release { to: ShardId(1) }).unwrap();
    assert_eq!(pair.source.borrow().stats().exemplars_kept, 0);
    assert_eq!(exemplars(&pair.target, EPOCH), expect);
}

#[test]
fn a_cell_moves_with_late_samples_that_came_while_it_was_copied() {
    let pair = Pair::new(500, usize::MAX);
    let late = || {
        append_late(&pair.source, 100, 7);
        append(&pair.source, 50, SCRAPES * 15_000);
        append_late(&pair.source, 20, SCRAPES * 15_000 - 1);
    };
    append_late(&pair.source, 500, 1);
    pair.bring_over(late).unwrap();
    let more = |number| usize::from(number < 100) + usize::from(number < 50) + usize::from(number < 20);
    let expect: Vec<_> =
        (0..500).map(|number| (labels(number), SCRAPES as usize + 1 + more(number))).collect();
    for epoch in [Epoch::FIRST, EPOCH] {
        assert_eq!(pair.seen(epoch), expect, "at {epoch:?}");
    }
}

#[test]
fn a_cell_moves_with_native_histograms_and_what_came_of_them_while_it_was_copied() {
    let pair = Pair::new(3, usize::MAX);
    let append = |series: usize, at_ms: i64| append_histogram(&pair.source, series, at_ms);
    // Of one that has floats, too, and of one that has nothing else.
    [1, 7].into_iter().for_each(|series| append(series, 1000));
    pair.bring_over(|| {
        [1, 7].into_iter().for_each(|series| append(series, 2000));
        // Late ones, of a series that was copied, before and between its others.
        [1500, 500].into_iter().for_each(|at_ms| append(7, at_ms));
        // Older than its newest float.
        append(2, 5);
    })
    .unwrap();
    let scrapes = SCRAPES as usize;
    let expect = [(0, scrapes), (1, scrapes + 2), (2, scrapes + 1), (7, 4)];
    let expect: Vec<_> = expect.map(|(number, samples)| (labels(number), samples)).into();
    assert_eq!(pair.seen(EPOCH), expect);
}

/// A native histogram of a series.
fn append_histogram(shard: &Shared, series: usize, at_ms: i64) {
    let block = labels(series).to_canonical();
    let mut bytes = block.clone();
    let times = HistogramTimes { timestamp_ms: at_ms, ..HistogramTimes::default() };
    Histogram { count: 0, ..Histogram::default() }.put_message(times, &mut bytes);
    let message = MessageSpan::of_body(block.len(), bytes.len() - block.len());
    let span = LabelSpan::new(LabelSource::Wire, 0, block.len());
    let histogram = PartHistogram { id: series_id(&block), labels: span, message };
    let body = WriteBody { bytes: bytes.into(), ..WriteBody::default() };
    let bounds = TimeBounds { late_window_ms: i64::MAX, ..EVER };
    let (_, outcome) = shard.borrow_mut().append_histograms(&body, &[histogram], bounds, &mut NoJournal);
    assert_eq!(outcome.histograms, 1);
}

#[test]
fn a_cell_that_stays_takes_parts_of_the_next_epoch_alone() {
    let pair = Pair::new(50, usize::MAX);
    let before = pair.seen(Epoch::FIRST);
    pair.bring_over(|| {}).unwrap();
    step(&pair.target, PlainStep::Discard { from: ShardId(0) }).unwrap();
    step(&pair.source, PlainStep::Keep).unwrap();
    for epoch in [Epoch::FIRST, EPOCH.next()] {
        assert_eq!(pair.seen(epoch), before, "at {epoch:?}");
    }
    assert!(!takes(&pair.source, Epoch::FIRST) && takes(&pair.source, EPOCH.next()));
    assert_eq!(pair.target.borrow().foreign_series(), 0, "the target forgets what it has");
}

#[test]
fn a_target_without_room_refuses_and_the_source_goes_on() {
    let pair = Pair::new(50, usize::MAX);
    pair.target.borrow_mut().set_memory_budget(20_000);
    assert_eq!(pair.bring_over(|| {}), Err(MigrationRejected::Full));
    step(&pair.target, PlainStep::Discard { from: ShardId(0) }).unwrap();
    step(&pair.source, PlainStep::Keep).unwrap();
    assert!(takes(&pair.source, Epoch::FIRST), "it was never drained");
    assert_eq!(pair.target.borrow().foreign_series(), 0);
}

#[test]
fn a_cell_takes_its_room_for_series_along() {
    const OF_A_CELL: usize = 60;
    let pair = Pair::new(50, OF_A_CELL * CELL_COUNT);
    assert_eq!(written(&pair.target, 1, SCRAPES * 15_000), 0, "a shard without cells has no room");
    pair.bring_over(|| {}).unwrap();
    step(&pair.source, PlainStep::Release { to: ShardId(1) }).unwrap();
    assert_eq!(written(&pair.target, OF_A_CELL + 10, SCRAPES * 15_000), OF_A_CELL as u64);
}

#[test]
fn a_node_full_of_series_can_still_move_them() {
    let pair = Pair::new(50, 50);
    pair.bring_over(|| {}).unwrap();
    assert_eq!(pair.target.borrow().owned_series(), 50);
}

/// Deletes the samples of all series from a time on. `None`: it waits.
fn delete<H: Host>(shard: &Shared, host: H, epoch: Epoch, from_ms: i64) -> Option<DeletionReply> {
    let reads = Reads::new(usize::MAX);
    delete_beside(shard, &reads, host, (ReadTicket::issue(), epoch), from_ms).now_or_never()
}

fn delete_beside<H: Host>(
    shard: &Shared,
    reads: &Rc<Reads>,
    host: H,
    (ticket, epoch): (ReadTicket, Epoch),
    from_ms: i64,
) -> impl Future<Output = DeletionReply> + use<H> {
    let matchers = [Matcher::new("__name__", MatchOp::Equal, "up").unwrap()];
    let selection = Selection { matchers: matchers.into(), min_ms: from_ms, max_ms: i64::MAX };
    let deletion = Deletion { ticket, epoch, selections: [selection].into(), wait_max: DELETION_WAIT_MAX };
    delete::delete(Rc::clone(shard), Rc::clone(reads), MemoryLog::default(), host, deletion)
}

fn check_deleted(reply: Option<DeletionReply>, deleted: Deleted, ended: Result<(), ShardReadError>) {
    let reply = reply.expect("no cell is on its way");
    assert_eq!((reply.deleted, reply.ended), (deleted, ended.map_err(Into::into)));
}

#[test]
fn what_was_deleted_before_a_cell_moves_does_not_come_with_it() {
    let pair = Pair::new(50, usize::MAX);
    let half_ms = SCRAPES / 2 * 15_000;
    let cut = Deleted { series: 0, series_cut: 50, samples: 50 * (SCRAPES / 2) as u64 };
    check_deleted(delete(&pair.source, Alone, Epoch::FIRST, half_ms), cut, Ok(()));
    pair.bring_over(|| {}).unwrap();
    let expect: Vec<_> = (0..50).map(|number| (labels(number), (SCRAPES / 2) as usize)).collect();
    assert_eq!(pair.seen(EPOCH), expect);
}

#[test]
fn a_deletion_waits_for_a_cell_on_its_way_and_is_asked_again_where_it_went() {
    let pair = Pair::new(50, usize::MAX);
    let waits = |shard: &Shared, epoch| {
        let host = Scripted::new(|_| {});
        assert!(delete(shard, host.clone(), epoch, 0).is_none());
        assert_eq!(host.sleeps(), 1);
    };
    let before = pair.seen(Epoch::FIRST);
    step(&pair.target, PlainStep::Expect).unwrap();
    let piece = pair.pass(PieceStep::Copy).unwrap();
    waits(&pair.source, Epoch::FIRST);
    check_deleted(delete(&pair.target, Alone, Epoch::FIRST, 0), Deleted::default(), Ok(()));
    step(&pair.target, PlainStep::Take(piece)).unwrap();
    let rest = pair.pass(PieceStep::Drain).unwrap();
    waits(&pair.source, Epoch::FIRST);
    step(&pair.target, OwnStep { from: ShardId(0), rest }).unwrap();
    waits(&pair.source, Epoch::FIRST);
    assert_eq!(pair.seen(EPOCH), before);
    step(&pair.source, PlainStep::Release { to: ShardId(1) }).unwrap();
    let moved = Err(ShardReadError::Moved);
    check_deleted(delete(&pair.source, Alone, Epoch::FIRST, 0), Deleted::default(), moved);
    check_deleted(delete(&pair.source, Alone, EPOCH, 0), Deleted::default(), Ok(()));
    let all = Deleted { series: 50, series_cut: 0, samples: 50 * SCRAPES as u64 };
    check_deleted(delete(&pair.target, Alone, EPOCH, 0), all, Ok(()));
    assert_eq!(pair.seen(EPOCH), []);
}

#[test]
fn a_deletion_that_waits_for_a_cell_is_woken_when_the_cell_stays_comes_or_left() {
    let pair = Pair::new(50, usize::MAX);
    let [source, target] = [(); 2].map(|()| Reads::new(usize::MAX));
    let deleting = |shard, reads, epoch| {
        delete_beside(shard, reads, Scripted::new(|_| {}), (ReadTicket::issue(), epoch), i64::MAX)
    };
    let to_source = |next: PlainStep| drop(step_beside(&pair.source, &source, next).unwrap());
    let to_target = |next: MigrationStep| drop(step_beside(&pair.target, &target, next).unwrap());
    let ended = |reply: DeletionReply| reply.ended;
    to_target(PlainStep::Expect.into());
    pair.pass(PieceStep::Copy).unwrap();
    let kept = check_is_woken(deleting(&pair.source, &source, EPOCH), || to_source(PlainStep::Keep));
    assert_eq!(ended(kept), Ok(()));
    let piece = pair.pass(PieceStep::Copy).unwrap();
    to_target(PlainStep::Take(piece).into());
    let rest = pair.pass(PieceStep::Drain).unwrap();
    let left = check_is_woken(deleting(&pair.source, &source, Epoch::FIRST), || {
        to_target(OwnStep { from: ShardId(0), rest }.into());
        to_source(PlainStep::Release { to: ShardId(1) });
    });
    assert_eq!(ended(left), Err(ShardReadError::Moved.into()));
    assert!(target.settled.count() > 0 && source.settled.is_unawaited());
}

#[test]
fn a_deletion_waits_for_cells_for_one_time_whatever_is_selected_of_them() {
    let half_us = DELETION_WAIT_MAX.as_micros() as u64 / 2;
    let pair = Rc::new(Pair::new(1, usize::MAX));
    pair.pass(PieceStep::Copy).unwrap();
    // The cell stays, and goes again as soon as the first selection is through with its series.
    let (stays_since, of_host) = (Rc::new(Cell::new(None)), Rc::clone(&pair));
    let stayed = Rc::clone(&stays_since);
    let host = Scripted::new(move |at| {
        if stayed.get().is_some_and(|since| at == since + 2) {
            of_host.pass(PieceStep::Copy).unwrap();
        }
    });
    let matchers: Arc<[_]> = [Matcher::new("__name__", MatchOp::Equal, "up").unwrap()].into();
    let selection = Selection { matchers, min_ms: i64::MAX, max_ms: i64::MAX };
    let deletion = Deletion {
        ticket: ReadTicket::issue(),
        epoch: EPOCH,
        selections: [selection.clone(), selection].into(),
        wait_max: DELETION_WAIT_MAX,
    };
    let reads = Reads::new(usize::MAX);
    let (shard, log) = (Rc::clone(&pair.source), MemoryLog::default());
    let mut deleting = Box::pin(delete::delete(shard, Rc::clone(&reads), log, host.clone(), deletion));
    assert!((&mut deleting).now_or_never().is_none(), "it waits for the first one's");
    host.pass(half_us);
    step_beside(&pair.source, &reads, PlainStep::Keep).unwrap();
    stays_since.set(Some(host.steps()));
    assert!((&mut deleting).now_or_never().is_none(), "and for the other one's");
    assert_eq!(host.sleeps(), 2);
    host.pass(half_us);
    let reply = deleting.now_or_never().expect("its time is over");
    assert_eq!(reply.ended, Err(ShardReadError::Moved.into()));
}

#[test]
fn a_deletion_that_nobody_waits_for_waits_for_no_cell() {
    let (pair, reads, ticket) = (Pair::new(1, usize::MAX), Reads::new(usize::MAX), ReadTicket::issue());
    step(&pair.target, PlainStep::Expect).unwrap();
    pair.pass(PieceStep::Copy).unwrap();
    let of_read = (ticket.clone(), Epoch::FIRST);
    let deleting = delete_beside(&pair.source, &reads, Scripted::new(|_| {}), of_read, 0);
    let reply = check_is_woken(deleting, || ticket.cancel());
    assert_eq!(reply.ended, Err(ShardReadError::Cancelled.into()));
}

#[test]
fn a_deletion_goes_on_in_a_cell_that_stays_after_all() {
    let pair = Pair::new(50, usize::MAX);
    pair.bring_over(|| {}).unwrap();
    step(&pair.target, PlainStep::Discard { from: ShardId(0) }).unwrap();
    step(&pair.source, PlainStep::Keep).unwrap();
    let all = Deleted { series: 50, series_cut: 0, samples: 50 * SCRAPES as u64 };
    check_deleted(delete(&pair.source, Alone, Epoch::FIRST, 0), all, Ok(()));
    assert_eq!(pair.seen(EPOCH.next()), []);
}

#[test]
fn a_cell_that_left_is_waited_with_until_the_last_read_from_before_ends() {
    let pair = Pair::new(2, usize::MAX);
    let (reads, ticket) = (Reads::new(usize::MAX), ReadTicket::issue());
    let ask = |request| {
        let read = Read { ticket: ticket.clone(), epoch: Epoch::FIRST, request };
        *block_on(Rc::clone(&reads).answer(Rc::clone(&pair.source), Alone, read)).unwrap()
    };
    let selection = Selection::everything();
    let opened = ask(ReadRequest::Open { selection, wanted: SeriesWanted::Chunks.into(), bytes: 1 });
    let ReadReply::Series(_, Some(cursor)) = opened else { panic!("there is more") };
    let (is_over, of_task) = (Rc::new(Cell::new(false)), Rc::clone(&reads));
    let (told, mut tasks) = (Rc::clone(&is_over), LocalPool::new());
    let waits = async move {
        of_task.none_before(EPOCH).await;
        told.set(true);
    };
    tasks.spawner().spawn_local(waits).unwrap();
    tasks.run_until_stalled();
    assert!(!is_over.get());
    ask(ReadRequest::Close(vec![cursor]));
    tasks.run_until_stalled();
    assert!(is_over.get(), "its end wakes who waits for it");
}

#[test]
fn steps_that_do_not_follow_are_refused() {
    let pair = Pair::new(1, usize::MAX);
    fn check(shard: &Shared, asked: impl Into<MigrationStep>, refusal: MigrationRejected) {
        assert_eq!(step(shard, asked), Err(refusal));
    }
    check(&pair.source, PlainStep::Expect, MigrationRejected::OutOfStep);
    check(&pair.source, PieceStep::Drain, MigrationRejected::OutOfStep);
    check(&pair.source, PlainStep::Release { to: ShardId(1) }, MigrationRejected::OutOfStep);
    check(&pair.target, PieceStep::Copy, MigrationRejected::NotHeld);
    check(&pair.target, PlainStep::Take(MigrationPiece::default()), MigrationRejected::OutOfStep);
    let own = |rest| OwnStep { from: ShardId(0), rest };
    check(&pair.target, own(MigrationPiece::default()), MigrationRejected::OutOfStep);
    step(&pair.target, PlainStep::Expect).unwrap();
    check(&pair.target, PlainStep::Expect, MigrationRejected::Busy);
    let garbage = MigrationPiece { payload: vec![9], series: 1, ..MigrationPiece::default() };
    for asked in [MigrationStep::Plain(PlainStep::Take(garbage.clone())), own(garbage).into()] {
        assert!(matches!(step(&pair.target, asked), Err(MigrationRejected::Unreadable(_))));
    }
    assert!(!pair.target.borrow().ownership.owns(CELL), "without its last piece");
}

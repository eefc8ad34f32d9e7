//! A shard as its worker uses it: parts in, selects out, retention over it.

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::executor::block_on;

use crate::message::{
    ControlRequest, Correlation, LabelSource, LabelSpan, PartPool, PartSeries, Read, ReadRequest, ReadTicket,
    Selection, ShardReadError, ShardReply, ShardRequest, TextsWanted, WriteBody, WritePart, WriteReply,
};
use crate::shard::append::{PartOutcome, TimeBounds};
use crate::shard::read::tests::select;
use crate::shard::{Inbox, Reads, ReplyTo, Shard, Worker, maintenance};
use crate::wal::{Journal, Log, MemoryLog, NoJournal};
use silverback_host::{Alone, Host};
use silverback_model::clock::Clock;
use silverback_model::limits::memory::NEW_SERIES_PERCENT;
use silverback_model::{Epoch, Labels, RefusedReason, Sample, SeriesIdHasher, ShardId};

pub(super) const EVER: TimeBounds = TimeBounds { oldest_ms: 0, newest_ms: i64::MAX, late_window_ms: 0 };

pub(super) fn shard() -> Rc<RefCell<Shard>> {
    Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)))
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied())
}

/// Label sets with their samples, as a decoder hands them over.
pub(super) fn encode(series: &[(Labels, Vec<Sample>)]) -> (WriteBody, Vec<PartSeries>, Vec<Sample>) {
    let (mut bytes, mut entries, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for (labels, own) in series {
        let block = labels.to_canonical();
        let span = LabelSpan::new(LabelSource::Wire, bytes.len(), block.len());
        bytes.extend_from_slice(&block);
        let id = SeriesIdHasher::new(1, "").hash_canonical(&block);
        entries.push(PartSeries::new(id, span, own.len() as u32));
        samples.extend_from_slice(own);
    }
    (WriteBody { bytes: bytes.into(), ..WriteBody::default() }, entries, samples)
}

/// Appends one part.
pub(super) fn append(
    shard: &Rc<RefCell<Shard>>,
    bounds: TimeBounds,
    series: &[(Labels, Vec<Sample>)],
) -> PartOutcome {
    append_to(shard, bounds, series, &mut NoJournal)
}

/// Appends one part, and journals it.
pub(super) fn append_to(
    shard: &Rc<RefCell<Shard>>,
    bounds: TimeBounds,
    series: &[(Labels, Vec<Sample>)],
    journal: &mut impl Journal,
) -> PartOutcome {
    let (body, entries, samples) = encode(series);
    shard.borrow_mut().append(&body, &entries, &samples, bounds, journal)
}

pub(super) fn scrape(count: usize, at_ms: i64) -> Vec<(Labels, Vec<Sample>)> {
    let series = |i: usize| labels(&[("__name__", "up"), ("instance", &format!("i{i:05}")), ("job", "node")]);
    (0..count).map(|i| (series(i), vec![Sample::new(at_ms, i as f64)])).collect()
}

/// All series that the shard holds.
fn all(shard: &Rc<RefCell<Shard>>) -> Vec<(Labels, usize)> {
    select(shard, &Reads::new(usize::MAX), &[], 1 << 20)
}

#[test]
fn a_refused_sample_takes_nothing_of_its_neighbours() {
    let shard = shard();
    let bounds = TimeBounds { oldest_ms: 1000, newest_ms: 2000, late_window_ms: 0 };
    let times = [i64::MIN, 999, 1000, 1500, 1400, 2000, 2001, i64::MAX];
    let series = |name: &str| (labels(&[("__name__", name)]), times.map(|t| Sample::new(t, 1.0)).to_vec());
    let outcome = append(&shard, bounds, &[series("a"), series("b")]);
    assert_eq!(outcome.written, 6);
    let refusals = outcome.refusals.unwrap();
    let counts: Vec<_> = refusals.counts.iter().collect();
    let expect =
        [(RefusedReason::OutOfOrder, 2), (RefusedReason::TooOld, 4), (RefusedReason::TooFarInFuture, 4)];
    assert_eq!(counts, expect);
    let told: Vec<_> = refusals.examples.iter().map(|told| (told.reason, told.samples)).collect();
    assert_eq!(
        told,
        [(RefusedReason::TooOld, 4), (RefusedReason::OutOfOrder, 2), (RefusedReason::TooFarInFuture, 4)]
    );
    let behind = refusals.examples.iter().nth(1).unwrap();
    let words = r#"{__name__="a"} out of order sample: its time is 1970-01-01T00:00:01.400Z, the newest of its series 1970-01-01T00:00:01.500Z, and --out-of-order-window goes back to 1970-01-01T00:00:01.500Z"#;
    assert_eq!(behind.words, words);
    assert_eq!(all(&shard).len(), 2);
}

#[test]
fn a_series_is_known_by_sorted_labels_in_whatever_order_they_came() {
    let shard = shard();
    let sorted = labels(&[("__name__", "up"), ("instance", "a"), ("job", "node")]);
    append(&shard, EVER, &[(sorted.clone(), vec![Sample::new(1, 1.0)])]);
    let expected = (all(&shard), shard.borrow().stats().label_pairs);
    let came = Labels(sorted.0.iter().rev().cloned().collect());
    for new_shard in [shard, self::shard()] {
        let (body, mut entries, samples) = encode(&[(came.clone(), vec![Sample::new(2, 2.0)])]);
        entries[0].id = SeriesIdHasher::new(1, "").hash_canonical(&sorted.to_canonical());
        entries[0].labels = entries[0].labels.unsorted();
        let outcome = new_shard.borrow_mut().append(&body, &entries, &samples, EVER, &mut NoJournal);
        assert_eq!(outcome.written, 1);
        assert_eq!(all(&new_shard)[0].0, sorted);
        assert_eq!(
            (all(&new_shard).len(), new_shard.borrow().stats().label_pairs),
            (expected.0.len(), expected.1)
        );
    }
}

#[test]
fn a_series_whose_samples_are_all_refused_is_not_made() {
    let shard = shard();
    let bounds = TimeBounds { oldest_ms: 1000, newest_ms: 2000, late_window_ms: 0 };
    append(&shard, bounds, &scrape(5, 10));
    let stats = shard.borrow().stats();
    assert_eq!((stats.series, stats.label_pairs, stats.label_names), (0, 0, 0));
}

#[test]
fn new_series_beyond_the_limit_are_refused_and_known_ones_live_on() {
    let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), 10)));
    let outcome = append(&shard, EVER, &scrape(15, 1000));
    assert_eq!(outcome.written, 10);
    assert_eq!(outcome.refusals.unwrap().counts.get(RefusedReason::SeriesLimit), 5);
    assert_eq!(append(&shard, EVER, &scrape(10, 2000)).written, 10);
}

/// Series that no other call makes.
fn new_series(numbers: std::ops::Range<usize>, at_ms: i64) -> Vec<(Labels, Vec<Sample>)> {
    scrape(numbers.end, at_ms).split_off(numbers.start)
}

#[test]
fn short_of_memory_new_series_are_refused_and_then_parts_until_retention_frees_some() {
    const LOT: usize = 500;
    let shard = shard();
    shard.borrow_mut().set_memory_budget(4 << 20);
    let is_full = || shard.borrow_mut().refuses_part();
    let refused_of = |outcome: &PartOutcome, reason| {
        outcome.refusals.as_ref().map_or(0, |refusals| refusals.counts.get(reason))
    };
    let lots = (0..100).map(|lot| append(&shard, EVER, &new_series(lot * LOT..(lot + 1) * LOT, 1000)));
    let mut lots = lots.skip_while(|outcome| outcome.refusals.is_none());
    let short = lots.next().expect("new series are refused before 50,000 of them fill 4 MiB");
    assert_eq!(short.written + refused_of(&short, RefusedReason::MemoryLimit), LOT as u64);
    let held = shard.borrow().stats().series;
    assert!(held > 4000 && !is_full(), "{held} series");
    // It is looked at every few new series alone: no more than these and a page of each table are above the bound.
    let (bound_bytes, held_bytes) =
        ((4 << 20) / 100 * NEW_SERIES_PERCENT, shard.borrow().memory_bytes().total());
    assert!(held_bytes < bound_bytes + (256 << 10), "{held_bytes} bytes, {bound_bytes} for new series");
    let mut scrapes = (2..5000).inspect(|t| {
        let known = new_series(0..2000, t * 1000);
        assert_eq!(append(&shard, EVER, &known).written, 2000, "known series go on");
    });
    let last = scrapes.find(|_| is_full()).expect("samples fill what is left");
    assert!(last > 10 && shard.borrow().memory_bytes().total() >= 4 << 20);
    block_on(maintenance::retain(&shard, &MemoryLog::default(), &Alone, 2000));
    assert_eq!(shard.borrow().stats().series, 2000);
    assert!(!is_full());
    assert!(append(&shard, EVER, &new_series(60_000..60_100, last * 1000)).refusals.is_none());
}

#[test]
fn a_part_that_finds_memory_full_is_refused_whole_and_counted() {
    let full = shard();
    full.borrow_mut().set_memory_budget(0);
    let (replies, shard) = work(full, &scrape(3, 1000));
    assert!(matches!(&replies[..], [ShardReply::Write(WriteReply::MemoryFull)]), "{replies:?}");
    let stats = shard.borrow().stats();
    assert_eq!((stats.parts, stats.parts_refused, stats.series, stats.commits), (0, 1, 0, 0));
}

/// Where replies go in tests.
pub(super) const NOBODY: ReplyTo = ReplyTo { core: 0, correlation: Correlation { slot: 0, generation: 0 } };

/// A request's part with these series.
pub(super) fn write(series: &[(Labels, Vec<Sample>)]) -> WritePart {
    let mut part = PartPool::default().take().unwrap();
    let (body, entries, samples) = encode(series);
    part.series = entries;
    part.samples = samples;
    WritePart { body: Arc::new(body), part }
}

/// A worker of a shard at a time of which samples from 0 s on are kept.
pub(super) fn worker<L: Log, H: Host, R: Fn(ReplyTo, ShardReply)>(
    shard: &Rc<RefCell<Shard>>,
    inbox: Rc<Inbox>,
    log: L,
    host: H,
    reply: R,
) -> Worker<L, H, R> {
    Worker {
        shard: Rc::clone(shard),
        reads: Reads::new(usize::MAX),
        inbox,
        log,
        host,
        reply,
        clock: Clock::Settable(Rc::new(Cell::new(1_000_000))),
        retention_ms: 1_000_000,
        late_window_ms: 0,
        core_stats: Box::new(|_| unreachable!("nobody asks for stats")),
    }
}

/// What a worker replies to one part, and the shard behind it.
fn work(
    shard: Rc<RefCell<Shard>>,
    series: &[(Labels, Vec<Sample>)],
) -> (Vec<ShardReply>, Rc<RefCell<Shard>>) {
    let inbox = Rc::new(Inbox::default());
    let replies: Rc<RefCell<Vec<ShardReply>>> = Rc::default();
    inbox.push(NOBODY, ShardRequest::Write(write(series)));
    inbox.close();
    let sent = Rc::clone(&replies);
    let worker =
        worker(&shard, inbox, MemoryLog::default(), Alone, move |_, reply| sent.borrow_mut().push(reply));
    block_on(worker.run());
    (replies.take(), shard)
}

/// A thread on which background jobs panic at their first step, and end alone.
#[derive(Clone)]
struct Panicking;

impl Host for Panicking {
    async fn yield_if_needed(&self) {
        panic!("in the middle of a job");
    }

    fn release_slice(&self) {}

    fn shorten_slices(&self) -> impl Sized + 'static {}

    async fn yield_now(&self) {}

    async fn sleep(&self, _time: Duration) {}

    fn spawn_essential(&self, task: impl Future<Output = ()> + 'static) {
        block_on(task);
    }

    fn spawn_background<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        let ended = AssertUnwindSafe(job(self.clone())).catch_unwind().now_or_never();
        assert!(matches!(ended, Some(Err(_))), "it panics at once");
    }

    fn spawn_foreground<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        block_on(job(self.clone()));
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

#[test]
fn a_read_that_panics_is_answered_once_and_no_migration_waits_for_it() {
    let shard = shard();
    append(&shard, EVER, &scrape(10, 1000));
    let all = Selection { matchers: Arc::new([]), min_ms: 0, max_ms: 2000 };
    let replies: Rc<RefCell<Vec<ShardReply>>> = Rc::default();
    let (inbox, sent) = (Rc::new(Inbox::default()), Rc::clone(&replies));
    let request = ReadRequest::Open { selection: all, wanted: TextsWanted::LabelNames.into(), bytes: 1 };
    let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
    inbox.push(NOBODY, ShardRequest::Ask(ControlRequest::Read(Box::new(read))));
    inbox.close();
    let reply = move |_, reply| sent.borrow_mut().push(reply);
    let worker = worker(&shard, inbox, MemoryLog::default(), Panicking, reply);
    let reads = Rc::clone(&worker.reads);
    block_on(worker.run());
    let replies = replies.take();
    assert!(matches!(&replies[..], [ShardReply::Read(Err(ShardReadError::Panicked))]), "{replies:?}");
    assert!(!reads.is_any_before(Epoch::FIRST.next()));
    assert_eq!(reads.bytes(), 0);
}

#[test]
fn a_large_part_is_taken_in_whole_and_acknowledged_once() {
    const SERIES: usize = 10_000;
    let mut series = scrape(SERIES, 1000);
    series.iter_mut().for_each(|(_, samples)| samples.push(Sample::new(2000, 1.0)));
    // The last series has the only sample that is refused.
    series[SERIES - 1].1.push(Sample::new(1500, 1.0));
    let (replies, shard) = work(shard(), &series);
    let [ShardReply::Write(WriteReply::Written(ack))] = &replies[..] else {
        panic!("one acknowledgement: {replies:?}")
    };
    assert_eq!(ack.written, 2 * SERIES as u64);
    let refused = ack.refusals.as_ref().unwrap();
    assert_eq!(refused.counts.iter().collect::<Vec<_>>(), [(RefusedReason::OutOfOrder, 1)]);
    let stats = shard.borrow().stats();
    assert_eq!((stats.series, stats.samples, stats.parts, stats.commits), (SERIES, 2 * SERIES as u64, 1, 1));
}

#[test]
fn a_retried_part_is_accepted_and_stored_once() {
    let shard = shard();
    for t in [0, 15_000, 15_000, 0] {
        assert_eq!(append(&shard, EVER, &scrape(50, t)).written, 50);
    }
    assert_eq!(shard.borrow().stats().already, 100);
    let samples: usize = all(&shard).iter().map(|(_, samples)| samples).sum();
    assert_eq!(samples, 100);
}

#[test]
fn a_part_of_which_half_is_stored_is_accepted_when_it_is_sent_again() {
    const SAMPLES: i64 = 480;
    let shard = shard();
    let part = |samples: i64, value: f64| -> Vec<(Labels, Vec<Sample>)> {
        let own = || (0..samples).map(|i| Sample::new(i * 7_500, value + i as f64)).collect();
        ["a", "b", "c"].map(|name| (labels(&[("__name__", name)]), own())).into()
    };
    append(&shard, EVER, &part(SAMPLES / 2, 0.0));
    for already in [3 * SAMPLES / 2, 3 * SAMPLES / 2 + 3 * SAMPLES] {
        let again = append(&shard, EVER, &part(SAMPLES, 0.0));
        assert_eq!((again.written, again.refusals.is_none()), (3 * SAMPLES as u64, true));
        assert_eq!(shard.borrow().stats().already, already as u64);
    }
    let others = append(&shard, EVER, &part(SAMPLES, 0.5));
    let refusals = others.refusals.unwrap();
    let counts: Vec<_> = refusals.counts.iter().collect();
    assert_eq!((others.written, counts), (0, vec![(RefusedReason::Duplicate, 3 * SAMPLES as u64)]));
    let words = r#"{__name__="a"} duplicate sample for timestamp with another value: its time is 1970-01-01T00:00:00Z, and the newest of its series 1970-01-01T00:59:52.500Z"#;
    assert_eq!(refusals.examples.iter().next().unwrap().words, words);
}

#[test]
fn series_that_retention_drops_leave_nothing_behind() {
    let shard = shard();
    append(&shard, EVER, &scrape(3000, 1000));
    append(&shard, EVER, &scrape(10, 50_000));
    block_on(maintenance::retain(&shard, &MemoryLog::default(), &Alone, 40_000));
    let stats = shard.borrow().stats();
    assert_eq!((stats.series, stats.series_expired, stats.label_pairs), (10, 2990, 12));
    assert_eq!(append(&shard, EVER, &scrape(3000, 60_000)).written, 3000);
    assert_eq!(all(&shard).len(), 3000);
}

#[test]
fn a_shard_has_reached_the_time_that_half_of_its_series_have() {
    let shard = shard();
    let check = |reached| assert_eq!(shard.borrow().time_reached_ms(), reached);
    check(None);
    append(&shard, EVER, &scrape(3000, 1000));
    check(Some(1000));
    // A clock that is days ahead gives the node's own series its time.
    append(&shard, EVER, &scrape(1000, 1_000_000));
    check(Some(1000));
    append(&shard, EVER, &scrape(3000, 2_000_000));
    check(Some(2_000_000));
}

/// Five per cent of the targets are replaced in each half hour, over days of simulated time: what
/// the shard holds stays level, because what retention drops is used again.
#[test]
fn churn_keeps_memory_level() {
    const SERIES: usize = 2000;
    const STEP_MS: i64 = 30 * 60 * 1000;
    let retention_ms = 6 * 2 * STEP_MS;
    let shard = shard();
    let mut level = 0;
    for step in 0..160i64 {
        let now_ms = step * STEP_MS;
        let first = step as usize * SERIES / 20;
        let series: Vec<_> = scrape(first + SERIES, now_ms).split_off(first);
        assert_eq!(append(&shard, EVER, &series).written, SERIES as u64);
        block_on(maintenance::retain(&shard, &MemoryLog::default(), &Alone, now_ms - retention_ms));
        let stats = shard.borrow().stats();
        let bytes = stats.memory.total();
        match step {
            0..40 => level = level.max(bytes),
            _ => assert!(bytes * 10 <= level * 11, "step {step}: {bytes} bytes, level was {level}"),
        }
        assert!(stats.series <= SERIES * 8 / 4, "step {step}: {} series", stats.series);
    }
}

#[test]
fn memory_is_made_ahead_for_samples_that_come_and_counted_but_not_where_it_is_short() {
    let shard = shard();
    block_on(maintenance::make_memory_ahead(&shard, &Alone));
    let made = shard.borrow().memory_bytes().total();
    assert!(made >= 64 << 10, "{made} bytes");
    let scrape = new_series(0..1024, 1000);
    assert_eq!(append(&shard, EVER, &scrape).written, 1024);
    let before = shard.borrow().memory_bytes().total();
    // Room for three pieces until new series are refused: one is made, though two are wanted.
    shard.borrow_mut().set_memory_budget((before + (3 << 16)) / 90 * 100 + 100);
    block_on(maintenance::make_memory_ahead(&shard, &Alone));
    let made = shard.borrow().memory_bytes().total() - before;
    assert!((1 << 16..2 << 16).contains(&made), "{made} bytes");
    shard.borrow_mut().set_memory_budget(1);
    let before = shard.borrow().memory_bytes().total();
    block_on(maintenance::make_memory_ahead(&shard, &Alone));
    assert!(shard.borrow().memory_bytes().total() <= before);
}

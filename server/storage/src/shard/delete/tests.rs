//! Deletions as a worker runs them: what goes, what stays, what a replay makes of it, and when they stop.

use std::cell::RefMut;

use futures::executor::block_on;

use super::*;
use crate::message::{Read, ReadReply, ReadRequest, Rows, SeriesWanted};
use crate::shard::append::TimeBounds;
use crate::shard::maintenance;
use crate::shard::restore::{Refs, Restorer};
use crate::shard::scripted::Scripted;
use crate::shard::tests::{EVER, append_to, labels, scrape, shard};
use crate::wal::record::{Group, records};
use crate::wal::replay::Restore;
use crate::wal::{Durable, LogError, LogReport, Lsn, MemoryLog, NoJournal};
use silverback_host::Alone;
use silverback_model::gorilla::{OpenXor, SealedChunk, XorIter};
use silverback_model::limits::{CHUNK_RANGE_MS, CHUNK_SAMPLES, DELETION_WAIT_MAX};
use silverback_model::{Labels, MatchOp, Matcher, STALE_NAN_BITS, Sample, ShardId};

pub(in crate::shard) type Shared = Rc<RefCell<Shard>>;
pub(in crate::shard) type Held = Vec<(Labels, Vec<(i64, u64)>)>;

const STEP_MS: i64 = 15_000;

/// A log that keeps the payloads of its groups, or accepts nothing.
#[derive(Clone, Default)]
pub(in crate::shard) struct KeptLog {
    group: Rc<RefCell<Group>>,
    payloads: Rc<RefCell<Vec<Vec<u8>>>>,
    fault: Rc<RefCell<Option<LogError>>>,
}

impl Log for KeptLog {
    type Journal = Group;

    fn check(&self) -> Result<(), LogError> {
        self.fault.borrow().clone().map_or(Ok(()), Err)
    }

    fn journal(&self) -> RefMut<'_, Group> {
        self.group.borrow_mut()
    }

    fn filling(&self) -> Lsn {
        Lsn(0)
    }

    fn report(&self, _now_us: u64) -> LogReport {
        LogReport::default()
    }

    fn ask_checkpoint(&self) -> u64 {
        0
    }

    async fn commit(&self) -> Result<Durable, LogError> {
        self.flush().await
    }

    async fn flush(&self) -> Result<Durable, LogError> {
        self.check()?;
        let payload = std::mem::take(&mut *self.group.borrow_mut()).parts().concat();
        self.payloads.borrow_mut().extend((!payload.is_empty()).then_some(payload));
        MemoryLog::default().flush().await
    }
}

fn selection(matchers: &[(&str, MatchOp, &str)], range_ms: RangeInclusive<i64>) -> Selection {
    let matchers = matchers.iter().map(|(name, op, value)| Matcher::new(name, *op, value).unwrap());
    Selection { matchers: matchers.collect(), min_ms: *range_ms.start(), max_ms: *range_ms.end() }
}

fn ever(matchers: &[(&str, MatchOp, &str)]) -> Selection {
    selection(matchers, i64::MIN..=i64::MAX)
}

fn ask_on<H: Host>(
    shard: &Shared,
    log: &KeptLog,
    host: H,
    read_bytes: usize,
    selections: Vec<Selection>,
) -> DeletionReply {
    let deletion = Deletion {
        ticket: ReadTicket::issue(),
        epoch: Epoch::FIRST,
        selections: selections.into(),
        wait_max: DELETION_WAIT_MAX,
    };
    block_on(delete(Rc::clone(shard), Reads::new(read_bytes), log.clone(), host, deletion))
}

fn ask(shard: &Shared, log: &KeptLog, selections: Vec<Selection>) -> Deleted {
    let reply = ask_on(shard, log, Alone, usize::MAX, selections);
    assert_eq!(reply.ended, Ok(()));
    reply.deleted
}

/// All that a shard gives to a read.
pub(in crate::shard) fn held(shard: &Shared) -> Held {
    let selection = Selection::everything();
    let request = ReadRequest::Open { selection, wanted: SeriesWanted::Chunks.into(), bytes: usize::MAX };
    let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
    let opened = block_on(Reads::new(usize::MAX).answer(Rc::clone(shard), Alone, read)).unwrap();
    let ReadReply::Series(batch, None) = *opened else { panic!("all is in one batch") };
    let series = (0..batch.count()).map(|at| batch.get(at));
    let bits = |sample: Sample| (sample.timestamp_ms, sample.value.to_bits());
    series
        .map(|one| {
            let samples = one.chunks().flat_map(|chunk| chunk.samples());
            (one.labels.into(), samples.map(|sample| bits(sample.unwrap())).collect())
        })
        .collect()
}

impl KeptLog {
    /// The groups that were written.
    pub(in crate::shard) fn payloads(&self) -> Vec<Vec<u8>> {
        self.payloads.borrow().clone()
    }
}

/// Deletes a range of all series.
pub(in crate::shard) fn delete_range(
    shard: &Shared,
    log: &KeptLog,
    range_ms: RangeInclusive<i64>,
) -> Deleted {
    ask(shard, log, vec![selection(&[("__name__", MatchOp::Regex, ".+")], range_ms)])
}

/// What a replay of the log's groups has.
fn replayed(log: &KeptLog, refs: Refs) -> Held {
    held(&replayed_shard(log, refs))
}

/// The shard that a replay of the log's groups makes.
pub(in crate::shard) fn replayed_shard(log: &KeptLog, refs: Refs) -> Shared {
    let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
    let mut restorer = Restorer::new(Rc::clone(&shard), refs, |_| true);
    for payload in &*log.payloads.borrow() {
        records(payload).for_each(|record| restorer.record(record.unwrap()).unwrap());
    }
    restorer.finish().unwrap();
    shard
}

pub(in crate::shard) fn check_replays(shard: &Shared, log: &KeptLog) {
    block_on(log.flush()).unwrap();
    assert_eq!(replayed(log, Refs::Kept), held(shard));
    assert_eq!(replayed(log, Refs::Renumbered(Vec::new())), held(shard), "by another number of shards");
}

/// So many series of so many samples, staleness markers and payloads of NaN among them.
fn filled(series: usize, samples: i64) -> (Shared, KeptLog) {
    let (shard, log) = (shard(), KeptLog::default());
    for at in 0..samples {
        let mut scraped = scrape(series, at * STEP_MS);
        for (number, (_, samples)) in scraped.iter_mut().enumerate() {
            samples[0].value = match (at + number as i64) % 7 {
                0 => f64::from_bits(STALE_NAN_BITS),
                1 => f64::from_bits(0x7ff8_0000_dead_0000 | at as u64),
                _ => (at * 1000 + number as i64) as f64 / 3.0,
            };
        }
        let written = append_to(&shard, EVER, &scraped, &mut *log.journal()).written;
        assert_eq!(written, series as u64);
    }
    (shard, log)
}

#[test]
fn series_that_match_go_whole_and_may_come_again() {
    let (shard, log) = filled(100, 3);
    let before = held(&shard);
    let ten = [("instance", MatchOp::Regex, "i0000[0-9]"), ("job", MatchOp::Equal, "node")];
    let nothing = [("job", MatchOp::Equal, "other")];
    let deleted = ask(&shard, &log, vec![ever(&nothing), ever(&ten), ever(&ten)]);
    assert_eq!(deleted, Deleted { series: 10, series_cut: 0, samples: 30 });
    assert_eq!(held(&shard), before[10..]);
    let stats = shard.borrow().stats();
    assert_eq!((stats.series, stats.series_deleted, stats.samples_deleted), (90, 10, 30));
    assert_eq!((stats.label_pairs, stats.label_names), (92, 3), "the index knows them no more");
    check_replays(&shard, &log);
    let again = append_to(&shard, EVER, &scrape(10, 5), &mut *log.journal());
    assert_eq!(again.written, 10, "older than what went");
    assert_eq!(held(&shard).len(), 100);
    check_replays(&shard, &log);
}

#[test]
fn a_range_goes_with_both_its_ends_and_the_rest_stays_bit_for_bit() {
    for range in [0..=0, 0..=150, 100..=140, 119..=120, 130..=299, 299..=400, 7..=290] {
        let (shard, log) = filled(3, 300);
        let before = held(&shard);
        let range_ms = range.start() * STEP_MS..=range.end() * STEP_MS;
        let deleted =
            ask(&shard, &log, vec![selection(&[("job", MatchOp::Equal, "node")], range_ms.clone())]);
        let outside = |samples: &Vec<(i64, u64)>| {
            samples.iter().filter(|(at, _)| !range_ms.contains(at)).copied().collect::<Vec<_>>()
        };
        let expect: Held =
            before.iter().map(|(labels, samples)| (labels.clone(), outside(samples))).collect();
        assert_eq!(held(&shard), expect, "{range:?}");
        let gone = 3 * (300 - expect[0].1.len() as u64);
        assert_eq!(deleted, Deleted { series: 0, series_cut: 3, samples: gone }, "{range:?}");
        check_replays(&shard, &log);
        // Whatever its newest sample is now: the next ones come after that.
        let newest_ms = expect[0].1.last().unwrap().0;
        let next = append_to(&shard, EVER, &scrape(3, newest_ms + 1), &mut *log.journal());
        assert_eq!(next.written, 3, "{range:?}");
        let older = append_to(&shard, EVER, &scrape(3, newest_ms - 1), &mut *log.journal());
        assert_eq!(older.written, 0, "{range:?}");
        check_replays(&shard, &log);
    }
}

/// A series whose first chunk has its samples and as many late ones as stay in it, and one sample in another range.
fn filled_late() -> (Shared, KeptLog) {
    const COUNT: i64 = CHUNK_SAMPLES as i64;
    let (shard, log) = (shard(), KeptLog::default());
    let bounds = TimeBounds { late_window_ms: i64::MAX, ..EVER };
    let in_order = (0..COUNT).map(|at| at * STEP_MS).chain([NEXT_RANGE_MS]);
    for at_ms in in_order.chain((0..COUNT / 4).map(|at| at * STEP_MS + 1)) {
        let appended = append_to(&shard, bounds, &scrape(1, at_ms), &mut *log.journal());
        assert_eq!(appended.written, 1, "{at_ms}");
    }
    (shard, log)
}

const NEXT_RANGE_MS: i64 = 3 * CHUNK_RANGE_MS;

#[test]
fn what_is_left_after_many_late_samples_is_read_again_at_a_start() {
    let (shard, log) = filled_late();
    let before = held(&shard);
    let deleted = delete_range(&shard, &log, NEXT_RANGE_MS..=i64::MAX);
    assert_eq!(deleted, Deleted { series: 0, series_cut: 1, samples: 1 });
    let samples = &before[0].1;
    assert_eq!(held(&shard)[0].1, samples[..samples.len() - 1]);
    check_replays(&shard, &log);
    let next = append_to(&shard, EVER, &scrape(1, NEXT_RANGE_MS), &mut *log.journal());
    assert_eq!(next.written, 1);
    check_replays(&shard, &log);
}

#[test]
fn a_log_that_left_a_chunk_with_late_samples_open_is_read() {
    let (shard, log) = filled_late();
    let merged = shard.borrow_mut().store.without(SeriesRef(0), &(NEXT_RANGE_MS..=i64::MAX));
    let Without::Rest(rest) = merged else { panic!("much is left") };
    let mut samples =
        rest.sealed.iter().chain([&rest.open]).flat_map(SealedChunk::samples).map(Result::unwrap);
    let mut words = Vec::new();
    let mut open = OpenXor::start(samples.next().expect("much is left"), &mut words);
    samples.for_each(|sample| open.append(sample, &mut words));
    let open = open.seal(words.into_iter());
    assert!(open.count() > CHUNK_SAMPLES);
    log.journal().replaced(SeriesRef(0), &[], open.bytes());
    delete_range(&shard, &log, NEXT_RANGE_MS..=i64::MAX);
    check_replays(&shard, &log);
}

#[test]
fn a_range_without_samples_writes_nothing_to_the_log() {
    let (shard, log) = filled(3, 10);
    block_on(log.flush()).unwrap();
    let job = [("job", MatchOp::Equal, "node")];
    let empty = [STEP_MS + 1..=2 * STEP_MS - 1, i64::MIN..=-1, 10 * STEP_MS..=i64::MAX];
    let deleted = ask(&shard, &log, empty.map(|range_ms| selection(&job, range_ms)).to_vec());
    assert_eq!((deleted, log.payloads.borrow().len()), (Deleted::default(), 1));
}

#[test]
fn what_went_before_is_gone_from_the_disk_too_once_a_deletion_is_answered() {
    let (shard, log) = filled(3, 10);
    block_on(log.flush()).unwrap();
    let everything = ever(&[("job", MatchOp::Equal, "node")]);
    delete_in_group(&shard, &log, &everything);
    assert_eq!(replayed(&log, Refs::Kept).len(), 3, "not on disk yet");
    assert_eq!(ask(&shard, &log, vec![everything]), Deleted::default());
    assert_eq!(replayed(&log, Refs::Kept), []);
}

#[test]
fn a_large_deletion_waits_for_the_disk_again_and_again() {
    let (shard, log) = filled(300, 300);
    block_on(log.flush()).unwrap();
    let range_ms = 0..=STEP_MS;
    let deleted = ask(&shard, &log, vec![selection(&[("job", MatchOp::Equal, "node")], range_ms)]);
    assert_eq!(deleted.series_cut, 300);
    let groups: Vec<_> = log.payloads.borrow()[1..].iter().map(Vec::len).collect();
    assert!(groups.len() > 2, "{groups:?}");
    assert!(groups.iter().all(|bytes| *bytes < PIECE_BYTES + 16 * 1024), "{groups:?}");
    check_replays(&shard, &log);
}

#[test]
fn traffic_has_its_turn_before_each_series() {
    let (shard, log) = filled(500, 1);
    let host = Scripted::new(|_| {});
    let reply =
        ask_on(&shard, &log, host.clone(), usize::MAX, vec![ever(&[("job", MatchOp::Equal, "node")])]);
    assert_eq!((reply.deleted.series, host.steps() > 500), (500, true));
}

#[test]
fn a_deletion_that_can_t_go_on_tells_how_far_it_came() {
    let everything = || vec![ever(&[("job", MatchOp::Equal, "node")])];
    let (shard, log) = filled(100, 1);
    let reply = ask_on(&shard, &log, Alone, 64, everything());
    assert_eq!(reply.ended, Err(ShardReadError::TooLarge { bytes_max: 64 }.into()), "as a read of as much");
    let fault = LogError::Failed("an I/O error".into());
    *log.fault.borrow_mut() = Some(fault.clone());
    let reply = ask_on(&shard, &log, Alone, usize::MAX, everything());
    assert_eq!((reply.ended, reply.deleted), (Err(fault.into()), Deleted::default()));
    assert_eq!(held(&shard).len(), 100);
    *log.fault.borrow_mut() = None;
    let ticket = ReadTicket::issue();
    let at_step = {
        let (ticket, shard) = (ticket.clone(), Rc::clone(&shard));
        move |_| {
            if shard.borrow().index.all().len() == 60 {
                ticket.cancel()
            }
        }
    };
    let deletion = Deletion {
        ticket,
        epoch: Epoch::FIRST,
        selections: everything().into(),
        wait_max: DELETION_WAIT_MAX,
    };
    let deleting =
        delete(Rc::clone(&shard), Reads::new(usize::MAX), log.clone(), Scripted::new(at_step), deletion);
    let reply = block_on(deleting);
    assert_eq!((reply.ended, reply.deleted.series), (Err(ShardReadError::Cancelled.into()), 40));
    check_replays(&shard, &log);
}

/// The same number each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Deletes without an end of the group, as where other series' samples come between.
fn delete_in_group(shard: &Shared, log: &KeptLog, selection: &Selection) {
    let reads = Reads::new(usize::MAX);
    let ticket = ReadTicket::issue();
    let matched = reads.matched(Rc::clone(shard), Alone, &ticket, Epoch::FIRST, &selection.matchers);
    let range_ms = selection.min_ms..=selection.max_ms;
    for found in block_on(matched).unwrap().series {
        shard.borrow_mut().delete_in(found, Epoch::FIRST, &range_ms, &mut *log.journal());
    }
}

#[test]
fn a_replay_deletes_what_was_deleted_and_nothing_that_came_later() {
    for seed in 0..400 {
        let (mut dice, shard, log) = (Dice(seed), shard(), KeptLog::default());
        for _ in 0..60 {
            let now_ms = dice.below(40_000_000) as i64;
            match dice.below(8) {
                0 => drop(block_on(log.flush()).unwrap()),
                1 | 2 => {
                    let name = format!("s{}", dice.below(4));
                    let end_ms = now_ms + dice.below(10_000_000) as i64;
                    let one = selection(&[("__name__", MatchOp::Equal, &name)], now_ms..=end_ms);
                    let all = selection(&[("__name__", MatchOp::Regex, "s.")], now_ms..=i64::MAX);
                    delete_in_group(&shard, &log, if dice.below(4) == 0 { &all } else { &one });
                }
                _ => {
                    let samples = |dice: &mut Dice| {
                        let count = dice.below(200) as i64;
                        let value = f64::from_bits(dice.below(u64::MAX));
                        (0..count)
                            .map(|i| Sample::new(now_ms + i * 5000, value + i as f64))
                            .collect::<Vec<_>>()
                    };
                    let names = (0..4).filter(|_| dice.below(2) == 0).collect::<Vec<_>>();
                    let series: Vec<_> = names
                        .into_iter()
                        .map(|name| (labels(&[("__name__", &format!("s{name}"))]), samples(&mut dice)))
                        .filter(|(_, samples)| !samples.is_empty())
                        .collect();
                    append_to(&shard, EVER, &series, &mut *log.journal());
                }
            }
        }
        check_replays(&shard, &log);
    }
}

#[test]
fn the_memory_of_series_that_went_is_given_back_and_taken_again() {
    const SERIES: usize = 50_000;
    let shard = shard();
    let bytes = || shard.borrow().memory_bytes().total();
    let write =
        || assert_eq!(append_to(&shard, EVER, &scrape(SERIES, 0), &mut NoJournal).written, SERIES as u64);
    write();
    let full = bytes();
    let selections = [ever(&[("job", MatchOp::Equal, "node")])].into();
    let deletion = Deletion {
        ticket: ReadTicket::issue(),
        epoch: Epoch::FIRST,
        selections,
        wait_max: DELETION_WAIT_MAX,
    };
    let log = MemoryLog::default();
    let reply = block_on(delete(Rc::clone(&shard), Reads::new(usize::MAX), log, Alone, deletion));
    assert_eq!(reply.deleted.series, SERIES as u64);
    let host = Scripted::new(|_| {});
    block_on(maintenance::give_memory_back(&shard, &host));
    assert!(bytes() * 5 < full, "{} of {full} bytes are left", bytes());
    assert!(host.steps() > 100, "a page at a time");
    write();
    assert!(bytes() * 10 < full * 11, "{} bytes, and {full} before", bytes());
    assert_eq!(held(&shard).len(), SERIES);
}

#[test]
fn chunks_that_were_written_anew_are_read_by_all_that_read_chunks() {
    let (shard, log) = filled(1, 300);
    ask(&shard, &log, vec![selection(&[("job", MatchOp::Equal, "node")], 1_000_000..=2_000_000)]);
    let shard = shard.borrow();
    let series = SeriesRef(0);
    let mut newest_ms = i64::MIN;
    for chunk in shard.store.sealed(series) {
        assert!(chunk.min_timestamp_ms() > newest_ms && chunk.max_timestamp_ms() >= chunk.min_timestamp_ms());
        newest_ms = chunk.max_timestamp_ms();
        assert_eq!(XorIter::new(chunk.bytes()).count(), chunk.count());
    }
}

//! Native histograms on their way through a shard: what is accepted, what a replay and a checkpoint have, what is left
//! of them, and what their memory comes to.

use std::cell::RefCell;
use std::rc::Rc;

use futures::executor::block_on;

use super::*;
use crate::cell::SeriesRef;
use crate::cell::series::Retained;
use crate::message::{
    LabelSource, LabelSpan, MessageSpan, Read, ReadReply, ReadRequest, ReadTicket, Rows, Selection,
    SeriesWanted,
};
use crate::shard::Reads;
use crate::shard::delete::tests::{KeptLog, Shared, delete_range, replayed_shard};
use crate::shard::maintenance;
use crate::shard::restore::{Refs, Restorer};
use crate::shard::tests::{EVER, append_to, labels, shard};
use crate::wal::record::{CheckpointFrame, HistogramEntry, Record, records};
use crate::wal::replay::Restore;
use crate::wal::{Log, MemoryLog, NoJournal};
use silverback_host::Alone;
use silverback_model::histogram::wire::{HistogramTimes, Untimed};
use silverback_model::histogram::{Buckets, HistogramKind, ResetHint, Span};
use silverback_model::limits::CHUNK_RANGE_MS;
use silverback_model::{Epoch, Labels, SeriesIdHasher, ShardId};

mod late;

const STEP_MS: i64 = 15_000;

type Written = Vec<(Labels, Vec<(i64, Histogram)>)>;
/// Of a series: each chunk's encoding, times and bytes.
type Held = Vec<(Labels, Vec<(u8, i64, i64, Vec<u8>)>)>;

fn named(name: &str) -> Labels {
    labels(&[("__name__", name), ("job", "shop")])
}

/// Counters that grow with `n`, in more and more buckets.
fn counting(n: u64) -> Histogram {
    let buckets = 10 + n as u32 / 20;
    let mut words = vec![0; buckets as usize];
    words[0] = n;
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum_bits: (n as f64 * 1.5).to_bits(),
        count: n * u64::from(buckets),
        positive: Buckets { spans: vec![Span { offset: -2, length: buckets }], words },
        ..Histogram::default()
    }
}

fn float(n: u64) -> Histogram {
    let words = (0..5).map(|bucket| ((n + bucket) as f64 / 3.0).to_bits()).collect();
    Histogram {
        kind: HistogramKind::Float,
        count: (n as f64 * 5.0).to_bits(),
        positive: Buckets { spans: vec![Span { offset: 0, length: 5 }], words },
        ..Histogram::default()
    }
}

/// As a decoder hands them over.
fn part(series: &Written) -> (WriteBody, Vec<PartHistogram>) {
    let (mut bytes, mut histograms) = (Vec::new(), Vec::new());
    for (labels, own) in series {
        let block = labels.to_canonical();
        let span = LabelSpan::new(LabelSource::Wire, bytes.len(), block.len());
        bytes.extend_from_slice(&block);
        let id = SeriesIdHasher::new(1, "").hash_canonical(&block);
        for (timestamp_ms, histogram) in own {
            let start = bytes.len();
            let times = HistogramTimes { timestamp_ms: *timestamp_ms, ..HistogramTimes::default() };
            histogram.put_message(times, &mut bytes);
            let message = MessageSpan::of_body(start, bytes.len() - start);
            histograms.push(PartHistogram { id, labels: span, message });
        }
    }
    (WriteBody { bytes: bytes.into(), ..WriteBody::default() }, histograms)
}

fn take_to(shard: &Shared, bounds: TimeBounds, series: &Written, journal: &mut impl Journal) -> PartOutcome {
    let (body, histograms) = part(series);
    append_all(shard, &body, &histograms, bounds, journal)
}

/// Piece after piece.
fn append_all(
    shard: &Shared,
    body: &WriteBody,
    mut next: &[PartHistogram],
    bounds: TimeBounds,
    journal: &mut impl Journal,
) -> PartOutcome {
    let mut whole = PartOutcome::default();
    while !next.is_empty() {
        let (taken, outcome) = shard.borrow_mut().append_histograms(body, next, bounds, journal);
        whole.add(outcome);
        next = &next[taken..];
    }
    whole
}

fn take(shard: &Shared, series: &Written) -> PartOutcome {
    take_to(shard, EVER, series, &mut NoJournal)
}

fn refused(outcome: &PartOutcome) -> Vec<(RefusedReason, u64)> {
    outcome.refusals.iter().flat_map(|refusals| refusals.counts.iter()).collect()
}

/// All that a shard gives to a read.
fn held(shard: &Shared) -> Held {
    held_in_batches(shard, usize::MAX)
}

/// The same in batches of so many bytes.
fn held_in_batches(shard: &Shared, bytes: usize) -> Held {
    let (reads, selection) = (Reads::new(usize::MAX), Selection::everything());
    let mut request = ReadRequest::Open { selection, wanted: SeriesWanted::Chunks.into(), bytes };
    let mut held = Vec::new();
    loop {
        let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
        let answered = block_on(Rc::clone(&reads).answer(Rc::clone(shard), Alone, read)).unwrap();
        let ReadReply::Series(batch, next) = *answered else { panic!("no series") };
        let chunks = |at| {
            let chunks = batch.get(at).chunks();
            chunks.map(|chunk| (chunk.of.encoding(), chunk.min_ms, chunk.max_ms, chunk.bytes.to_vec()))
        };
        held.extend((0..batch.count()).map(|at| (batch.get(at).labels.into(), chunks(at).collect())));
        match next {
            Some(cursor) => request = ReadRequest::Fetch { cursor, bytes },
            None => return held,
        }
    }
}

/// The histograms among them.
fn histograms(shard: &Shared) -> Written {
    let read = |(encoding, _, _, bytes): &(u8, i64, i64, Vec<u8>)| {
        let Some(kind) = HistogramKind::of_chunk_encoding(*encoding) else { return Vec::new() };
        let mut iter = silverback_model::histogram::HistogramIter::new(kind, bytes);
        let mut all = Vec::new();
        while iter.samples_left() > 0 {
            let mut histogram = Histogram::default();
            all.push((iter.next_into(&mut histogram).unwrap(), histogram));
        }
        all
    };
    held(shard)
        .iter()
        .map(|(labels, chunks)| (labels.clone(), chunks.iter().flat_map(read).collect()))
        .collect()
}

#[track_caller]
fn check_same(found: &Written, expect: &Written) {
    assert_eq!(found.len(), expect.len());
    for ((labels, found), (expect_labels, expect)) in found.iter().zip(expect) {
        assert_eq!((labels, found.len()), (expect_labels, expect.len()));
        for ((at, found), (expect_at, expect)) in found.iter().zip(expect) {
            assert!(at == expect_at && found.is_same(expect), "{labels} at {at}: {found:?}\n{expect:?}");
        }
    }
}

#[test]
fn a_batch_that_is_full_before_a_series_histograms_ends_behind_them() {
    let shard = shard();
    let floats = (1..400).map(|n| Sample::new(n * STEP_MS + 1, n as f64 / 3.0)).collect();
    append_to(&shard, EVER, &[(named("b"), floats)], &mut NoJournal);
    take(&shard, &vec![run("a", 0..300, counting), run("b", 0..300, float), run("c", 0..2000, counting)]);
    let all = held(&shard);
    for bytes in [1, 100, 5_000, 40_000] {
        assert!(held_in_batches(&shard, bytes) == all, "{bytes} a batch");
    }
}

fn run(
    name: &str,
    steps: std::ops::Range<u64>,
    make: fn(u64) -> Histogram,
) -> (Labels, Vec<(i64, Histogram)>) {
    (named(name), steps.map(|n| (n as i64 * STEP_MS, make(n))).collect())
}

#[test]
fn histograms_of_new_and_of_known_series_are_read_as_they_came_beside_floats() {
    let shard = shard();
    let floats = vec![(named("b"), vec![Sample::new(0, 1.0), Sample::new(STEP_MS + 1, 2.0)])];
    append_to(&shard, EVER, &floats, &mut NoJournal);
    let series = vec![run("a", 0..300, counting), run("b", 1..301, float), run("c", 5..6, counting)];
    let outcome = take(&shard, &series);
    assert_eq!((outcome.histograms, outcome.written, refused(&outcome)), (601, 0, vec![]));
    check_same(&histograms(&shard), &series);
    let b = &held(&shard)[1].1;
    assert!(b[0].0 == 1 && b[0].3.len() > 10 && b.len() > 3, "its floats come first: {}", b.len());
    assert!(b.windows(2).all(|pair| pair[0].1 <= pair[1].1), "in the order of their first samples");
    // A float that comes later, to a series that has had none.
    append_to(&shard, EVER, &[(named("a"), vec![Sample::new(7, 7.0)])], &mut NoJournal);
    assert!(held(&shard)[0].1.iter().any(|chunk| (chunk.0, chunk.1) == (1, 7)));
    assert_eq!(shard.borrow().stats().samples, 604);
}

#[test]
fn a_piece_ends_by_number_by_bytes_and_by_what_its_histograms_took() {
    let shard = shard();
    let taken_at_first = |series: &Written| {
        let (body, histograms) = part(series);
        let taken = shard.borrow_mut().append_histograms(&body, &histograms, EVER, &mut NoJournal).0;
        (taken, piece_of(&histograms))
    };
    let most = PIECE_HISTOGRAMS;
    assert_eq!(taken_at_first(&vec![run("a", 0..20, float)]), (most, most));
    assert_eq!(taken_at_first(&vec![run("a", 20..23, float)]), (3, 3));
    assert_eq!(taken_at_first(&vec![run("b", 30_000..30_020, counting)]), (1, 1), "more than 1 KiB each");
    // Small ones at times of large ones: a whole chunk of these is read to find what is there.
    let wide = |n: u64| {
        let word = |bucket: u64| (n * 31 + bucket).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2;
        let buckets =
            Buckets { spans: vec![Span { offset: 0, length: 400 }], words: (0..400).map(word).collect() };
        Histogram { positive: buckets, ..float(n) }
    };
    take(&shard, &vec![run("c", 0..30, wide)]);
    let (taken, by_bytes) = taken_at_first(&vec![run("c", 5..25, float)]);
    assert!(taken < most && by_bytes == most, "{taken} of {by_bytes}");
    assert_eq!(piece_of(&[]), 0);
}

#[test]
fn a_refused_histogram_takes_nothing_of_its_neighbours_and_is_told_by_its_reason() {
    let shard = shard();
    let bounds = TimeBounds { oldest_ms: 1000, newest_ms: 2000, ..EVER };
    let valid = counting(3);
    let bad: [(i64, Histogram, RefusedReason); 6] = [
        (1000, Histogram { count: 1, ..valid.clone() }, RefusedReason::HistogramCounts),
        (1000, Histogram { schema: 60, ..valid.clone() }, RefusedReason::HistogramSchema),
        (1000, Histogram { bounds: vec![1.0], ..valid.clone() }, RefusedReason::HistogramBounds),
        (
            1000,
            Histogram {
                negative: Buckets { spans: vec![Span { offset: 0, length: 9 }], words: vec![] },
                ..valid.clone()
            },
            RefusedReason::HistogramSpans,
        ),
        (999, valid.clone(), RefusedReason::TooOld),
        (2001, valid.clone(), RefusedReason::TooFarInFuture),
    ];
    for (at, histogram, reason) in bad {
        let series = vec![
            (named("a"), vec![(1500, valid.clone())]),
            (named("b"), vec![(at, histogram)]),
            (named("c"), vec![(1500, valid.clone())]),
        ];
        let outcome = take_to(&shard, bounds, &series, &mut NoJournal);
        assert_eq!((outcome.histograms, refused(&outcome)), (2, vec![(reason, 1)]));
        let words = &outcome.refusals.unwrap().examples.iter().next().unwrap().words.clone();
        assert!(words.starts_with(&format!("{} {}", named("b"), reason.text())), "{words}");
    }
    assert_eq!(histograms(&shard).len(), 2, "no series was made for a refused one");
    let (body, mut broken) = part(&vec![(named("b"), vec![(1500, valid)])]);
    broken[0].message = MessageSpan::of_body(0, 1);
    let outcome = append_all(&shard, &body, &broken, bounds, &mut NoJournal);
    assert_eq!((outcome.histograms, refused(&outcome)), (0, vec![(RefusedReason::MalformedHistogram, 1)]));
}

#[test]
fn what_is_sent_again_is_accepted_wherever_it_lies_and_another_of_its_time_is_not() {
    let shard = shard();
    let series = vec![run("a", 0..300, counting), run("b", 0..100, float)];
    take(&shard, &series);
    let before = held(&shard);
    let again = take(&shard, &series);
    assert_eq!((again.histograms, refused(&again)), (400, vec![]));
    assert_eq!(shard.borrow().stats().already, 400);
    let others =
        vec![(named("a"), vec![(STEP_MS, counting(2)), (299 * STEP_MS, counting(9)), (7, counting(1))])];
    let outcome = take(&shard, &others);
    assert_eq!(refused(&outcome), [(RefusedReason::OutOfOrder, 1), (RefusedReason::Duplicate, 2)]);
    assert_eq!(held(&shard), before);
}

#[test]
fn a_replay_has_exactly_what_the_shard_has() {
    let (shard, log) = (shard(), KeptLog::default());
    for n in 0..200 {
        let step = n..n + 1;
        let series = vec![run("a", step.clone(), counting), run("b", step.clone(), float)];
        take_to(&shard, EVER, &series, &mut *log.journal());
        append_to(&shard, EVER, &[(named("b"), vec![Sample::new(n as i64, 1.0)])], &mut *log.journal());
        if n % 37 == 0 {
            block_on(log.flush()).unwrap();
        }
    }
    check_replays(&shard, &log);
}

#[track_caller]
fn check_replays(shard: &Shared, log: &KeptLog) {
    block_on(log.flush()).unwrap();
    assert!(held(&replayed_shard(log, Refs::Kept)) == held(shard), "with its own refs");
    assert!(held(&replayed_shard(log, Refs::Renumbered(Vec::new()))) == held(shard), "with others");
}

#[test]
fn a_checkpoint_and_the_log_behind_it_have_what_the_shard_has_and_go_on_as_it_does() {
    let (shard, log) = (shard(), KeptLog::default());
    let mut snapshot = CheckpointFrame::default();
    for n in 0..150 {
        let step = n..n + 1;
        take_to(
            &shard,
            EVER,
            &vec![run("a", step.clone(), counting), run("b", step, float)],
            &mut *log.journal(),
        );
        if n == 70 {
            (0..2).for_each(|at| _ = shard.borrow_mut().copy(SeriesRef(at), &mut snapshot));
        }
    }
    block_on(log.flush()).unwrap();
    let restored = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
    let mut restorer = Restorer::new(Rc::clone(&restored), Refs::Kept, |_| true);
    let checkpoint = snapshot.parts().concat();
    for payload in [&checkpoint].into_iter().chain(&log.payloads()) {
        records(payload).for_each(|record| restorer.record(record.unwrap()).unwrap());
    }
    restorer.finish().unwrap();
    assert!(held(&restored) == held(&shard));
    // The plans of open chunks came with them.
    for shard in [&shard, &restored] {
        take(shard, &vec![run("a", 150..400, counting), run("b", 150..400, float)]);
    }
    assert!(held(&restored) == held(&shard));
}

#[test]
fn a_deleted_range_goes_from_histograms_as_from_floats_and_stays_gone_after_a_replay() {
    let (shard, log) = (shard(), KeptLog::default());
    let series = vec![run("a", 0..200, counting), run("b", 0..200, float)];
    take_to(&shard, EVER, &series, &mut *log.journal());
    let floats: Vec<Sample> = (0..200).map(|n| Sample::new(n * STEP_MS + 1, 1.0)).collect();
    append_to(&shard, EVER, &[(named("b"), floats)], &mut *log.journal());
    let (from, to) = (50 * STEP_MS, 120 * STEP_MS + 1);
    assert_eq!(delete_range(&shard, &log, from..=to).samples, 3 * 71);
    let left = |series: &Written| -> Written {
        let outside = |(at, _): &&(i64, Histogram)| !(from..=to).contains(at);
        series
            .iter()
            .map(|(labels, own)| (labels.clone(), own.iter().filter(outside).cloned().collect()))
            .collect()
    };
    check_same(&histograms(&shard), &left(&series));
    check_replays(&shard, &log);
    // They go on after it.
    take_to(&shard, EVER, &vec![run("a", 200..210, counting)], &mut *log.journal());
    check_replays(&shard, &log);
    let all = delete_range(&shard, &log, i64::MIN..=i64::MAX);
    assert_eq!((all.series, all.samples), (2, 3 * 200 - 3 * 71 + 10));
    check_replays(&shard, &log);
    assert!(held(&shard).is_empty());
}

#[test]
fn floats_that_are_deleted_leave_the_histograms_beside_them() {
    let (shard, log) = (shard(), KeptLog::default());
    append_to(&shard, EVER, &[(named("a"), vec![Sample::new(1, 1.0)])], &mut *log.journal());
    take_to(&shard, EVER, &vec![run("a", 1..5, counting)], &mut *log.journal());
    assert_eq!(delete_range(&shard, &log, 0..=2).samples, 1);
    assert!(held(&shard)[0].1.iter().all(|chunk| chunk.0 == 2));
    check_replays(&shard, &log);
    append_to(&shard, EVER, &[(named("a"), vec![Sample::new(3, 1.0)])], &mut *log.journal());
    assert_eq!(held(&shard)[0].1.len(), 2);
    check_replays(&shard, &log);
    // And the other way round.
    assert_eq!(delete_range(&shard, &log, 4..=i64::MAX).samples, 4);
    assert!(held(&shard)[0].1.iter().all(|chunk| chunk.0 == 1));
    check_replays(&shard, &log);
}

#[test]
fn retention_drops_old_histograms_and_series_that_have_nothing_else() {
    let (shard, log) = (shard(), MemoryLog::default());
    take(&shard, &vec![run("a", 0..1000, counting), run("b", 0..10, float)]);
    append_to(&shard, EVER, &[(named("a"), vec![Sample::new(0, 1.0)])], &mut NoJournal);
    let horizon_ms = CHUNK_RANGE_MS + 1;
    block_on(maintenance::retain(&shard, &log, &Alone, horizon_ms));
    let left = held(&shard);
    assert_eq!(left.iter().map(|(labels, _)| labels.clone()).collect::<Vec<_>>(), [named("a")]);
    assert!(left[0].1.iter().all(|chunk| chunk.0 == 2 && chunk.2 >= horizon_ms));
    block_on(maintenance::retain(&shard, &log, &Alone, i64::MAX));
    assert!(held(&shard).is_empty());
}

/// Retention leaves a series that moves where it is: were it empty, a deletion would find nothing there that a restart
/// could bring back.
#[test]
fn a_series_that_is_expired_has_its_histograms_until_it_is_removed() {
    let (shard, log) = (shard(), KeptLog::default());
    take_to(&shard, EVER, &vec![run("a", 0..10, counting)], &mut *log.journal());
    let retained = shard.borrow_mut().store.drop_before(SeriesRef(0), i64::MAX);
    assert_eq!((retained, shard.borrow().store.samples(SeriesRef(0))), (Retained::Expired, 10));
    let deleted = delete_range(&shard, &log, i64::MIN..=i64::MAX);
    assert_eq!((deleted.series, deleted.samples), (1, 10));
    check_replays(&shard, &log);
    assert!(held(&shard).is_empty());
}

#[test]
fn histograms_count_as_memory_until_they_are_gone() {
    let shard = shard();
    let chunk_bytes = || shard.borrow().store.size().chunk_bytes;
    let before = chunk_bytes();
    take(&shard, &vec![run("a", 0..1000, counting)]);
    let own: usize = held(&shard)[0].1.iter().map(|chunk| chunk.3.len()).sum();
    assert!(chunk_bytes() - before > own, "{} of {own}", chunk_bytes() - before);
    block_on(maintenance::retain(&shard, &MemoryLog::default(), &Alone, i64::MAX));
    assert_eq!(chunk_bytes(), before);
}

fn floats_to(shard: &Shared, samples: &[Sample]) -> PartOutcome {
    append_to(shard, EVER, &[(named("a"), samples.to_vec())], &mut NoJournal)
}

#[test]
fn a_float_at_a_histogram_s_time_is_a_duplicate_wherever_that_lies_and_its_neighbours_are_kept() {
    let shard = shard();
    take(&shard, &vec![run("a", 0..300, counting)]);
    let before = histograms(&shard);
    let float = |step: i64, off_ms| Sample::new(step * STEP_MS + off_ms, 1.0);
    // In a chunk that is cut, in the open one, the newest; between them times that no histogram has.
    let mixed: Vec<Sample> =
        [0, 7, 150, 298, 299].iter().flat_map(|step| [float(*step, 0), float(*step, 1)]).collect();
    let outcome = floats_to(&shard, &mixed);
    assert_eq!((outcome.written, refused(&outcome)), (5, vec![(RefusedReason::Duplicate, 5)]));
    let words = &outcome.refusals.unwrap().examples.iter().next().unwrap().words.clone();
    assert!(words.ends_with("; a series has one sample at a time, a float or a native histogram"), "{words}");
    check_same(&histograms(&shard), &before);
    // Late ones, in a run that lies between two floats.
    let late = TimeBounds { late_window_ms: i64::MAX, ..EVER };
    let outcome =
        append_to(&shard, late, &[(named("a"), vec![float(8, 1), float(9, 0), float(9, 1)])], &mut NoJournal);
    assert_eq!((outcome.written, refused(&outcome)), (2, vec![(RefusedReason::Duplicate, 1)]));
    let kept = held(&shard)[0].1.iter().filter(|chunk| chunk.0 == 1).count();
    assert_eq!((kept, shard.borrow().store.samples(SeriesRef(0))), (1, 300 + 7));
}

#[test]
fn a_histogram_at_a_float_s_time_is_a_duplicate_and_the_float_sent_again_is_none() {
    let shard = shard();
    let floats: Vec<Sample> = (0..300).map(|step| Sample::new(step * STEP_MS, step as f64)).collect();
    floats_to(&shard, &floats);
    let two = |step: i64| vec![(step * STEP_MS, counting(1)), (step * STEP_MS + 1, counting(2))];
    for step in [0, 130, 299] {
        let outcome = take(&shard, &vec![(named("a"), two(step))]);
        assert_eq!((outcome.histograms, refused(&outcome)), (1, vec![(RefusedReason::Duplicate, 1)]));
    }
    let again = floats_to(&shard, &floats);
    assert_eq!((again.written, refused(&again)), (300, vec![]));
    assert_eq!(shard.borrow().store.samples(SeriesRef(0)), 303);
}

#[test]
fn a_staleness_marker_is_kept_beside_a_histogram_of_its_time_whichever_comes_first() {
    let shard = shard();
    let stale = |step: i64| Sample::new(step * STEP_MS, f64::from_bits(silverback_model::STALE_NAN_BITS));
    let (former, later) = (run("a", 0..5, counting), run("a", 5..6, counting));
    take(&shard, &vec![former]);
    let marked = floats_to(&shard, &[stale(3), stale(4), stale(5)]);
    assert_eq!((marked.written, refused(&marked)), (3, vec![]));
    let outcome = take(&shard, &vec![later]);
    assert_eq!((outcome.histograms, refused(&outcome)), (1, vec![]));
    assert_eq!(floats_to(&shard, &[stale(3), stale(5)]).written, 2);
    assert_eq!(shard.borrow().store.samples(SeriesRef(0)), 9);
}

#[test]
fn what_an_older_version_kept_at_one_time_is_accepted_again_and_replayed() {
    let (shard, log) = (shard(), KeptLog::default());
    let (float, histogram) = (Sample::new(STEP_MS, 1.0), counting(1));
    append_to(&shard, EVER, &[(named("a"), vec![float])], &mut *log.journal());
    shard.borrow_mut().store.append_histogram(SeriesRef(0), STEP_MS, &histogram, 0).unwrap();
    let times = HistogramTimes { timestamp_ms: STEP_MS, ..HistogramTimes::default() };
    log.journal().stored_histogram(SeriesRef(0), times, Untimed::Unwritten(&histogram));
    let again = take(&shard, &vec![(named("a"), vec![(STEP_MS, histogram)])]);
    assert_eq!((again.histograms, floats_to(&shard, &[float]).written), (1, 1));
    let another = floats_to(&shard, &[Sample::new(STEP_MS, 2.0)]);
    assert_eq!(refused(&another), [(RefusedReason::Duplicate, 1)]);
    check_replays(&shard, &log);
}

/// The messages that the log has after these came as they are, one a step.
fn logged(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (shard, log) = (shard(), KeptLog::default());
    for message in messages {
        let (mut body, mut histograms) = part(&vec![run("a", 0..1, counting)]);
        let span = MessageSpan::of_scratch(0, message.len());
        (body.scratch, histograms[0].message) = (message.clone(), span);
        let outcome = append_all(&shard, &body, &histograms, EVER, &mut *log.journal());
        assert_eq!((outcome.histograms, refused(&outcome)), (1, vec![]));
    }
    check_replays(&shard, &log);
    let mut logged = Vec::new();
    for payload in log.payloads() {
        for record in records(&payload) {
            let Record::Histograms(record) = record.unwrap() else { continue };
            for entry in &record {
                let HistogramEntry::Stored { message, .. } = entry.unwrap() else { panic!("chunks") };
                logged.push(message.to_vec());
            }
        }
    }
    logged
}

#[test]
fn the_log_has_a_message_as_it_came_but_for_its_timestamp_and_writes_anew_what_isn_t_all_read() {
    let message = |histogram: &Histogram, timestamp_ms, start_timestamp_ms| {
        let mut message = Vec::new();
        histogram.put_message(HistogramTimes { timestamp_ms, start_timestamp_ms }, &mut message);
        message
    };
    // Its sum first, which no other writer would.
    let sum = [&[0x19][..], &1.5_f64.to_le_bytes()].concat();
    let strange = |step: i64| [&sum[..], &message(&counting(3), step, 0)].concat();
    assert_eq!(logged(&[strange(1)]), [strange(0)]);
    // Since when it counts goes with it, unless that can't be.
    assert_eq!(logged(&[message(&counting(3), 20, 10)]), [message(&counting(3), 0, 10)]);
    assert_eq!(logged(&[[&sum[..], &message(&counting(3), 20, 30)].concat()]), [message(&counting(3), 0, 0)]);
    // A field of a later version.
    assert_eq!(logged(&[[&strange(1)[..], &[0xa0, 0x01, 7]].concat()]), [message(&counting(3), 0, 0)]);
    // A replay reduces none.
    let fine = |schema| Histogram { schema, ..counting(3) };
    let mut reduced = fine(9);
    reduced.accept().unwrap();
    assert_eq!(logged(&[message(&fine(9), 1, 0), message(&reduced, 2, 0)]), vec![message(&reduced, 0, 0); 2]);
}

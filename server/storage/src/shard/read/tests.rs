//! Reads as a worker has them answered: what is found, in which order, in how much memory, and when they
//! stop.

use std::cell::RefCell;
use std::rc::Rc;

use futures::FutureExt;
use futures::executor::block_on;

use crate::message::{
    CursorId, Read, ReadReply, ReadRequest, ReadTicket, Rows, Selection, SeriesBatch, SeriesWanted,
    ShardReadError, TextBatch, TextsWanted, Wanted,
};
use crate::shard::ownership::Ownership;
use crate::shard::scripted::Scripted;
use crate::shard::tests::{EVER, append, labels, scrape, shard};
use crate::shard::{Reads, Shard};
use crate::wal::NoJournal;
use silverback_host::Alone;
use silverback_model::limits::{CHUNK_RANGE_MS, CURSORS_MAX};
use silverback_model::{
    CellId, Epoch, Exemplar, LabelBlock, Labels, MatchOp, Matcher, Sample, SeriesIdHasher, SeriesRef,
};

type Shared = Rc<RefCell<Shard>>;
type Written = (Labels, Vec<Sample>);

fn ask_as(
    shard: &Shared,
    reads: &Rc<Reads>,
    ticket: &ReadTicket,
    request: ReadRequest,
) -> Result<ReadReply, ShardReadError> {
    let read = Read { ticket: ticket.clone(), epoch: Epoch::FIRST, request };
    block_on(Rc::clone(reads).answer(Rc::clone(shard), Alone, read)).map(|reply| *reply)
}

fn ask(shard: &Shared, reads: &Rc<Reads>, request: ReadRequest) -> Result<ReadReply, ShardReadError> {
    ask_as(shard, reads, &ReadTicket::issue(), request)
}

fn selection(matchers: &[(&str, MatchOp, &str)]) -> Selection {
    let matchers = matchers.iter().map(|(n, op, v)| Matcher::new(n, *op, v).unwrap());
    Selection { matchers: matchers.collect(), ..Selection::everything() }
}

fn open(selection: Selection, wanted: Wanted, bytes: usize) -> ReadRequest {
    ReadRequest::Open { selection, wanted, bytes }
}

/// All batches of a read.
fn batches(
    shard: &Shared,
    reads: &Rc<Reads>,
    selection: Selection,
    wanted: Wanted,
    bytes: usize,
) -> Vec<ReadReply> {
    let mut request = open(selection, wanted, bytes);
    let mut batches = Vec::new();
    loop {
        let reply = ask(shard, reads, request).unwrap();
        let next = next_of(&reply);
        batches.push(reply);
        match next {
            Some(cursor) => request = ReadRequest::Fetch { cursor, bytes },
            None => return batches,
        }
    }
}

fn next_of(reply: &ReadReply) -> Option<CursorId> {
    match reply {
        ReadReply::Series(_, next) | ReadReply::Texts(_, next) => *next,
        other => panic!("no batch: {other:?}"),
    }
}

fn series_of(reply: ReadReply) -> SeriesBatch {
    match reply {
        ReadReply::Series(batch, _) => batch,
        other => panic!("no series: {other:?}"),
    }
}

fn texts_of(reply: ReadReply) -> TextBatch {
    match reply {
        ReadReply::Texts(batch, _) => batch,
        other => panic!("no texts: {other:?}"),
    }
}

/// The series that match with the number of their samples.
pub(in crate::shard) fn select(
    shard: &Shared,
    reads: &Rc<Reads>,
    matchers: &[(&str, MatchOp, &str)],
    bytes: usize,
) -> Vec<(Labels, usize)> {
    let batches = batches(shard, reads, selection(matchers), SeriesWanted::Chunks.into(), bytes);
    let mut all = Vec::new();
    for batch in batches.into_iter().map(series_of) {
        for at in 0..batch.count() {
            let series = batch.get(at);
            let samples = series.chunks().flat_map(|chunk| chunk.samples());
            all.push((series.labels.into(), samples.map(Result::unwrap).count()));
        }
    }
    all
}

fn texts(
    shard: &Shared,
    reads: &Rc<Reads>,
    selection: Selection,
    wanted: Wanted,
    bytes: usize,
) -> Vec<String> {
    let batches = batches(shard, reads, selection, wanted, bytes);
    batches.into_iter().map(texts_of).flat_map(|b| b.iter().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn exemplars_come_back_whole_in_batches_and_within_the_range() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    append(&shard, EVER, &scrape(300, 1000));
    let series: Vec<SeriesRef> = shard.borrow().index.all().iter().map(SeriesRef).collect();
    // Many of one time, more than a step adds; and series without any.
    for (i, series) in series.iter().enumerate().filter(|(i, _)| i % 3 == 0) {
        for value in 0..200 {
            let timestamp_ms = if value < 150 { 500 } else { 600 + i as i64 };
            let exemplar = Exemplar { timestamp_ms, value: f64::from(value), labels: LabelBlock(b"") };
            shard.borrow_mut().exemplars.put(*series, &exemplar, i64::MAX).unwrap();
        }
    }
    for (bytes, range, expect) in
        [(1, (0, i64::MAX), 200), (20_000, (0, 599), 150), (usize::MAX, (600, 5000), 50)]
    {
        let selection =
            Selection { min_ms: range.0, max_ms: range.1, ..selection(&[("job", MatchOp::Equal, "node")]) };
        let batches = batches(&shard, &reads, selection, SeriesWanted::Exemplars.into(), bytes);
        let mut found: Vec<Labels> = Vec::new();
        for batch in batches.into_iter().map(series_of) {
            for at in 0..batch.count() {
                let one = batch.get(at);
                let values: Vec<_> = one.exemplars().map(|exemplar| exemplar.value).collect();
                assert_eq!(values.len(), expect);
                assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
                found.push(one.labels.into());
            }
        }
        assert!(found.len() == 100 && found.is_sorted(), "{} series", found.len());
    }
    let none = Selection { min_ms: 0, max_ms: 499, ..selection(&[]) };
    let batch = batches(&shard, &reads, none, SeriesWanted::Exemplars.into(), 1)
        .into_iter()
        .map(series_of)
        .next()
        .unwrap();
    assert_eq!((batch.count(), reads.cursors(), reads.bytes()), (0, 0, 0));
}

#[test]
fn series_come_back_sorted_whole_and_in_batches() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    for t in 0..200 {
        assert_eq!(append(&shard, EVER, &scrape(700, t * 15_000)).written, 700);
    }
    for bytes in [1, 10_000, usize::MAX] {
        let all = select(&shard, &reads, &[("job", MatchOp::Equal, "node")], bytes);
        assert_eq!(all.len(), 700);
        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        assert!(all.iter().all(|(_, samples)| *samples == 200));
    }
    assert_eq!((reads.cursors(), reads.bytes()), (0, 0));
}

#[test]
fn only_chunks_that_overlap_the_range_are_given_and_only_series_that_have_one() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    let times = |from: i64, count: i64| (0..count).map(|i| Sample::new(from + i * 15_000, 1.0)).collect();
    let old = (labels(&[("__name__", "old")]), times(0, 100));
    let long = (labels(&[("__name__", "long")]), times(0, 20_000));
    append(&shard, EVER, &[old, long]);
    let find = |min_ms, max_ms| {
        let selection = Selection { min_ms, max_ms, ..Selection::everything() };
        let batches = batches(&shard, &reads, selection.clone(), SeriesWanted::Chunks.into(), 1 << 20);
        let mut found = Vec::new();
        for batch in batches.into_iter().map(series_of) {
            for at in 0..batch.count() {
                let series = batch.get(at);
                let times: Vec<_> = series.chunks().map(|chunk| (chunk.min_ms, chunk.max_ms)).collect();
                assert!(times.iter().all(|(oldest, newest)| *oldest <= max_ms && *newest >= min_ms));
                found.push((Labels::from(series.labels).get("__name__").unwrap().to_owned(), times.len()));
            }
        }
        let names =
            texts(&shard, &reads, selection, TextsWanted::LabelValues("__name__".into()).into(), 1 << 20);
        assert_eq!(names, found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        found
    };
    let all = find(i64::MIN, i64::MAX);
    assert!(all[0].0 == "long" && all[0].1 > 20_000 / 120 && all[1].0 == "old", "{all:?}");
    assert_eq!(find(0, 0), [("long".to_owned(), 1), ("old".to_owned(), 1)]);
    assert_eq!(find(CHUNK_RANGE_MS, CHUNK_RANGE_MS + 1), [("long".to_owned(), 1)]);
    assert!(find(i64::MIN, -1).is_empty() && find(i64::MAX, i64::MAX).is_empty());
}

#[test]
fn matchers_mean_what_prometheus_means() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    let all = [
        labels(&[("__name__", "a"), ("env", "prod"), ("x", "1")]),
        labels(&[("__name__", "a"), ("env", "dev")]),
        labels(&[("__name__", "b")]),
    ];
    let one = |l: &Labels| (l.clone(), vec![Sample::new(1, 1.0)]);
    append(&shard, EVER, &all.iter().map(one).collect::<Vec<_>>());
    let check = |matchers: &[(&str, MatchOp, &str)], expect: &[usize]| {
        let found: Vec<Labels> =
            select(&shard, &reads, matchers, 1 << 20).into_iter().map(|(labels, _)| labels).collect();
        let mut expect: Vec<Labels> = expect.iter().map(|i| all[*i].clone()).collect();
        expect.sort();
        assert_eq!(found, expect, "{matchers:?}");
    };
    use MatchOp::*;
    check(&[("__name__", Equal, "a")], &[0, 1]);
    check(&[("__name__", Equal, "a"), ("env", Equal, "dev")], &[1]);
    check(&[("__name__", Equal, "c")], &[]);
    check(&[("env", Equal, "")], &[2]);
    check(&[("env", NotEqual, "")], &[0, 1]);
    check(&[("env", NotEqual, "prod")], &[1, 2]);
    check(&[("env", Regex, "prod|dev")], &[0, 1]);
    check(&[("env", Regex, "prod|none")], &[0]);
    check(&[("env", Regex, "|dev")], &[1, 2]);
    check(&[("env", NotRegex, "dev|none")], &[0, 2]);
    check(&[("env", NotRegex, "|dev")], &[0]);
    check(&[("env", NotRegex, "p.*")], &[1, 2]);
    check(&[("env", NotRegex, ".+"), ("__name__", Regex, "a|b")], &[2]);
    check(&[("nowhere", Regex, ".*")], &[0, 1, 2]);
    check(&[("nowhere", NotEqual, "")], &[]);
    check(&[], &[0, 1, 2]);
}

#[test]
fn many_expressions_search_each_value_that_is_still_in_question_once() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    append(&shard, EVER, &scrape(400, 0));
    let searched = |matchers: &[(&str, MatchOp, &str)], found: usize| {
        super::matching::SEARCHED.set(0);
        assert_eq!(select(&shard, &reads, matchers, 1 << 20).len(), found, "{matchers:?}");
        super::matching::SEARCHED.get()
    };
    use MatchOp::*;
    // Two hundred times the same is once.
    assert_eq!(searched(&[("instance", Regex, "i.*"); 200], 400), 400);
    // What names its values goes first, wherever it is; then one value is searched by each.
    let texts: Vec<String> = (0..200).map(|i| format!("i.{{5}}|x{i}.*")).collect();
    let mut many: Vec<_> = texts.iter().map(|text| ("instance", Regex, &**text)).collect();
    many.push(("instance", Regex, "i00001|none"));
    assert_eq!(searched(&many, 1), 200);
    many.push(("instance", Equal, "i00002"));
    assert_eq!(searched(&many, 0), 0);
    // The first takes all but ten away: the others search ten each.
    let mut narrowed = vec![("instance", Regex, "i0000..*")];
    narrowed.extend(&many[..200]);
    assert_eq!(searched(&narrowed, 10), 400 + 200 * 10);
}

#[test]
fn names_and_values_are_those_of_the_series_that_match() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    append(&shard, EVER, &scrape(300, 1000));
    append(&shard, EVER, &[(labels(&[("__name__", "late"), ("zone", "z")]), vec![Sample::new(9000, 1.0)])]);
    let some = selection(&[("instance", MatchOp::Regex, "i0000[12]")]);
    let early = Selection { max_ms: 2000, ..Selection::everything() };
    let late = Selection { min_ms: 2000, ..Selection::everything() };
    for bytes in [1, 100, 1 << 20] {
        let names = |selection: &Selection| {
            texts(&shard, &reads, selection.clone(), TextsWanted::LabelNames.into(), bytes)
        };
        let values = |name: &str, selection: &Selection| {
            texts(&shard, &reads, selection.clone(), TextsWanted::LabelValues(name.into()).into(), bytes)
        };
        let everything = Selection::everything();
        assert_eq!(names(&everything), ["__name__", "instance", "job", "zone"]);
        assert_eq!(names(&early), ["__name__", "instance", "job"]);
        assert_eq!(names(&late), ["__name__", "zone"]);
        assert_eq!(names(&some), ["__name__", "instance", "job"]);
        assert_eq!(values("job", &everything), ["node"]);
        assert_eq!(values("job", &late), [""; 0]);
        assert_eq!(values("zone", &early), [""; 0]);
        assert_eq!(values("nowhere", &everything), [""; 0]);
        assert_eq!(values("instance", &some), ["i00001", "i00002"]);
        let instances = values("instance", &early);
        assert!(instances.len() == 300 && instances.is_sorted());
        assert_eq!(values("instance", &everything), instances);
    }
    assert_eq!((reads.cursors(), reads.bytes()), (0, 0));
}

#[test]
fn a_cursor_s_list_keeps_its_memory_until_it_is_closed_and_the_next_one_waits_for_it() {
    let (shard, reads) = (shard(), Reads::new(64_000));
    append(&shard, EVER, &scrape(1000, 0));
    let (older, younger) = (ReadTicket::issue(), ReadTicket::issue());
    let all = || open(selection(&[("job", MatchOp::Equal, "node")]), SeriesWanted::Chunks.into(), 1);
    let first = next_of(&ask_as(&shard, &reads, &older, all()).unwrap()).unwrap();
    assert_eq!(reads.bytes(), 12_000);
    let read = Read { ticket: younger.clone(), epoch: Epoch::FIRST, request: all() };
    let mut waiting = Box::pin(Rc::clone(&reads).answer(Rc::clone(&shard), Alone, read));
    assert!((&mut waiting).now_or_never().is_none(), "twice as much while it is sorted");
    drop(ask_as(&shard, &reads, &older, ReadRequest::Close(vec![first])).unwrap());
    assert!(next_of(&waiting.now_or_never().unwrap().unwrap()).is_some());
    younger.cancel();
    reads.prune();
    assert_eq!((reads.cursors(), reads.bytes()), (0, 0));
}

#[test]
fn what_alone_takes_more_than_all_reads_may_is_refused() {
    let (shard, reads) = (shard(), Reads::new(13_000));
    append(&shard, EVER, &scrape(1000, 0));
    let all = open(Selection::everything(), SeriesWanted::Chunks.into(), 1);
    assert_eq!(ask(&shard, &reads, all).unwrap_err(), ShardReadError::TooLarge { bytes_max: 13_000 });
    assert_eq!((reads.cursors(), reads.bytes()), (0, 0));
}

#[test]
fn a_series_that_has_nothing_in_the_range_takes_no_memory_and_no_place_in_the_sort() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    append(&shard, EVER, &scrape(1000, 0));
    append(&shard, EVER, &scrape(5, 9000));
    for (min_ms, max_ms, expect) in [(i64::MIN, i64::MAX, 1000), (1, i64::MAX, 5), (9001, i64::MAX, 0)] {
        let selection = Selection { min_ms, max_ms, ..Selection::everything() };
        let reply = ask(&shard, &reads, open(selection, SeriesWanted::LabelSets.into(), 1)).unwrap();
        assert_eq!(reads.bytes(), if expect > 0 { expect * 12 } else { 0 });
        if let Some(cursor) = next_of(&reply) {
            ask(&shard, &reads, ReadRequest::Close(vec![cursor])).unwrap();
        }
    }
}

#[test]
fn series_that_have_nothing_in_the_range_are_not_looked_at_for_each_of_their_labels() {
    const SERIES: usize = 2000;
    const LABELS: usize = 12;
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    // Values differ enough to tell the series apart, and are few.
    let old = (0..SERIES).map(|i| {
        let pairs = (0..LABELS).map(|l| (format!("l{l:02}"), format!("v{}", i >> l & 1)));
        (Labels::from_pairs(pairs.chain([("__name__".into(), "old".into())])), vec![Sample::new(1, 1.0)])
    });
    append(&shard, EVER, &old.collect::<Vec<_>>());
    append(&shard, EVER, &[(labels(&[("__name__", "new"), ("l00", "v0")]), vec![Sample::new(9000, 1.0)])]);
    for (min_ms, names) in [(9000, &["__name__", "l00"][..]), (9001, &[])] {
        let selection = Selection { min_ms, ..Selection::everything() };
        let request = open(selection, TextsWanted::LabelNames.into(), 1 << 20);
        let (host, ticket) = (Scripted::new(|_| {}), ReadTicket::issue());
        let read = Read { ticket, epoch: Epoch::FIRST, request };
        let reply = block_on(Rc::clone(&reads).answer(Rc::clone(&shard), host.clone(), read)).unwrap();
        assert_eq!(texts_of(*reply).iter().collect::<Vec<_>>(), names);
        // Steps are of 32 series; each would be looked at 13 times.
        assert!(host.steps() < 4 * SERIES / 32, "{} steps", host.steps());
    }
}

#[test]
fn a_series_that_another_shard_answers_for_is_not_given_though_a_found_one_s_ref_serves_it() {
    const REUSED: SeriesRef = SeriesRef(90);
    let foreign = (labels(&[("__name__", "foreign")]), vec![Sample::new(1, 1.0)]);
    let cell = SeriesIdHasher::new(1, "").hash_canonical(&foreign.0.to_canonical()).cell();
    let mut comes_at = 0..;
    loop {
        let (shard, reads) = (shard(), Reads::new(usize::MAX));
        append(&shard, EVER, &scrape(100, 0));
        let owned = |of: CellId| (of != cell).then_some(Epoch::FIRST);
        shard.borrow_mut().ownership = Ownership::of(Epoch::FIRST, owned);
        let (at, foreign, changed) = (comes_at.next().unwrap(), foreign.clone(), Rc::clone(&shard));
        let host = Scripted::new(move |step| {
            if step == at {
                changed.borrow_mut().remove_series(REUSED, &mut NoJournal);
                append(&changed, EVER, std::slice::from_ref(&foreign));
                assert!(changed.borrow().store.holds(REUSED));
            }
        });
        let request = open(Selection::everything(), SeriesWanted::LabelSets.into(), 1 << 20);
        let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
        let reply = block_on(Rc::clone(&reads).answer(Rc::clone(&shard), host.clone(), read)).unwrap();
        let batch = series_of(*reply);
        let mut given = (0..batch.count()).map(|i| Labels::from(batch.get(i).labels));
        assert!(given.all(|labels| labels.get("__name__") == Some("up")), "at step {at}");
        if host.steps() < at {
            break;
        }
    }
}

/// Reads the label sets of 40 series of one name while at a step, at each in turn, `change` is done to the shard; gives each
/// answer to `check`.
fn read_while(
    change: impl Fn(&Shared, &[Written]) + Copy + 'static,
    check: impl Fn(Vec<Labels>, &[Written]),
) {
    let instance = |i: u32| {
        let labels = labels(&[("__name__", "up"), ("instance", &format!("i{i:02}"))]);
        (labels, vec![Sample::new(1, 1.0)])
    };
    let all: Vec<Written> = (0..40).map(instance).collect();
    for at in 0.. {
        let (shard, reads) = (shard(), Reads::new(usize::MAX));
        append(&shard, EVER, &all);
        let (changed, series) = (Rc::clone(&shard), all.clone());
        let host = Scripted::new(move |step| {
            if step == at {
                change(&changed, &series);
            }
        });
        let request = open(Selection::everything(), SeriesWanted::LabelSets.into(), 1 << 20);
        let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
        let reply = block_on(Rc::clone(&reads).answer(Rc::clone(&shard), host.clone(), read)).unwrap();
        let batch = series_of(*reply);
        check((0..batch.count()).map(|i| Labels::from(batch.get(i).labels)).collect(), &all);
        if host.steps() < at {
            break;
        }
    }
}

#[test]
fn a_series_that_goes_while_it_is_sorted_or_read_takes_no_other_with_it() {
    read_while(
        |shard, _| shard.borrow_mut().remove_series(SeriesRef(15), &mut NoJournal),
        |given, all| {
            let stayed = all.iter().enumerate().filter(|(at, _)| *at != 15).map(|(_, (labels, _))| labels);
            assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
            assert!(stayed.into_iter().all(|labels| given.contains(labels)), "{given:?}");
        },
    );
}

#[test]
fn a_series_that_came_again_meanwhile_has_its_own_labels_though_a_ref_is_now_what_another_one_s_was() {
    read_while(
        |shard, all| {
            let own_label = |series| shard.borrow().store.labels(SeriesRef(series))[1];
            let former = own_label(15);
            for gone in [16, 15] {
                shard.borrow_mut().remove_series(SeriesRef(gone), &mut NoJournal);
            }
            // It takes the place of the one, so that the other has its own again, and the one's label.
            let other = (labels(&[("__name__", "up")]), vec![Sample::new(1, 1.0)]);
            append(shard, EVER, &[other, all[16].clone()]);
            assert_eq!(own_label(16), former);
        },
        |given, all| {
            let stayed = all.iter().enumerate().filter(|(at, _)| ![15, 16].contains(at));
            assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
            assert!(stayed.map(|(_, (labels, _))| labels).all(|labels| given.contains(labels)), "{given:?}");
        },
    );
}

#[test]
fn a_bounded_number_of_cursors_is_open() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    append(&shard, EVER, &scrape(10, 0));
    let one_more = || ask(&shard, &reads, open(Selection::everything(), SeriesWanted::LabelSets.into(), 1));
    for _ in 0..CURSORS_MAX {
        one_more().unwrap();
    }
    assert_eq!(one_more().unwrap_err(), ShardReadError::TooManyCursors);
    assert_eq!(reads.cursors(), CURSORS_MAX);
}

/// Every kind of read, each over all series.
fn every_kind() -> Vec<(&'static str, ReadRequest)> {
    let everything = Selection::everything;
    let ranged = || Selection { min_ms: 500, ..everything() };
    let searched = || selection(&[("instance", MatchOp::Regex, "((i0*){9}.*)+")]);
    let values = || TextsWanted::LabelValues("instance".into()).into();
    vec![
        ("chunks", open(everything(), SeriesWanted::Chunks.into(), 1 << 20)),
        ("label sets of a range", open(ranged(), SeriesWanted::LabelSets.into(), 1 << 20)),
        ("searched", open(searched(), SeriesWanted::LabelSets.into(), 1 << 20)),
        ("names", open(everything(), TextsWanted::LabelNames.into(), 1 << 20)),
        ("names of a range", open(ranged(), TextsWanted::LabelNames.into(), 1 << 20)),
        ("values", open(everything(), values(), 1 << 20)),
        ("values of a range", open(ranged(), values(), 1 << 20)),
        ("values, searched", open(searched(), values(), 1 << 20)),
        ("cardinality", ReadRequest::Cardinality { limit: 10 }),
    ]
}

#[test]
fn a_read_that_is_cancelled_stops_at_its_next_step_and_gives_all_of_its_memory_back() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    append(&shard, EVER, &scrape(2000, 1000));
    for (kind, request) in every_kind() {
        let whole = Scripted::new(|_| {});
        let read = |ticket: &ReadTicket| Read {
            ticket: ticket.clone(),
            epoch: Epoch::FIRST,
            request: request.clone(),
        };
        block_on(Rc::clone(&reads).answer(Rc::clone(&shard), whole.clone(), read(&ReadTicket::issue())))
            .unwrap();
        let steps = whole.steps();
        assert!(steps >= 2, "{kind}: {steps} steps");
        for stop_at in
            [1, 2, steps / 3, steps / 2, steps - 1].into_iter().filter(|at| (1..steps).contains(at))
        {
            let ticket = ReadTicket::issue();
            let cancelled = ticket.clone();
            let host = Scripted::new(move |step| {
                if step == stop_at {
                    cancelled.cancel();
                }
            });
            let answer = block_on(Rc::clone(&reads).answer(Rc::clone(&shard), host.clone(), read(&ticket)));
            assert_eq!(answer.unwrap_err(), ShardReadError::Cancelled, "{kind} at {stop_at} of {steps}");
            assert_eq!(host.steps(), stop_at, "{kind}");
            assert_eq!((reads.cursors(), reads.bytes()), (0, 0), "{kind}");
        }
    }
}

#[test]
fn no_step_of_a_read_is_longer_for_more_series() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    let mut steps = Vec::new();
    for count in [1000, 8000] {
        append(&shard, EVER, &scrape(count, count as i64));
        let of_kinds = every_kind().into_iter().map(|(kind, request)| {
            let host = Scripted::new(|_| {});
            let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
            block_on(Rc::clone(&reads).answer(Rc::clone(&shard), host.clone(), read)).unwrap();
            reads.close_before(Epoch::FIRST.next());
            (kind, host.steps())
        });
        steps.push(of_kinds.collect::<Vec<_>>());
    }
    for ((kind, few), (_, many)) in steps[0].iter().zip(&steps[1]) {
        let is_bounded_by_names = kind.starts_with("names");
        assert!(
            is_bounded_by_names || *many > 4 * few,
            "{kind}: {few} steps, and {many} for 8 times as many series"
        );
    }
}

#[test]
fn values_that_come_and_go_while_they_are_read_leave_the_others_in_order_and_once() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    append(&shard, EVER, &scrape(500, 1000));
    let wanted = TextsWanted::LabelValues("instance".into()).into();
    let reply = ask(&shard, &reads, open(Selection::everything(), wanted, 200)).unwrap();
    let mut cursor = next_of(&reply);
    let mut found: Vec<String> = texts_of(reply).iter().map(str::to_owned).collect();
    // The last third goes, and other values take its slots.
    for series in 333..500 {
        shard.borrow_mut().remove_series(SeriesRef(series), &mut NoJournal);
    }
    let other = |i: i64| {
        let labels = labels(&[("__name__", "up"), ("instance", &format!("a{i}")), ("job", "x")]);
        (labels, vec![Sample::new(i, 0.0)])
    };
    append(&shard, EVER, &(0..167).map(other).collect::<Vec<_>>());
    while let Some(next) = cursor {
        let reply = ask(&shard, &reads, ReadRequest::Fetch { cursor: next, bytes: 200 }).unwrap();
        cursor = next_of(&reply);
        found.extend(texts_of(reply).iter().map(str::to_owned));
    }
    assert!(found.is_sorted_by(|a, b| a < b));
    for i in 0..333 {
        assert!(found.contains(&format!("i{i:05}")), "{i}");
    }
}

#[test]
fn a_fetch_that_fails_leaves_no_cursor() {
    let (shard, reads) = (shard(), Reads::new(usize::MAX));
    append(&shard, EVER, &scrape(500, 1000));
    let ticket = ReadTicket::issue();
    let reply =
        ask_as(&shard, &reads, &ticket, open(Selection::everything(), SeriesWanted::Chunks.into(), 1))
            .unwrap();
    let cursor = next_of(&reply).unwrap();
    ticket.cancel();
    let fetched = ask_as(&shard, &reads, &ticket, ReadRequest::Fetch { cursor, bytes: 1 << 20 });
    assert!(matches!(fetched, Err(ShardReadError::Cancelled | ShardReadError::UnknownCursor)), "{fetched:?}");
    assert_eq!((reads.cursors(), reads.bytes()), (0, 0));
    let again = ask(&shard, &reads, ReadRequest::Fetch { cursor, bytes: 1 });
    assert_eq!(again.unwrap_err(), ShardReadError::UnknownCursor);
}

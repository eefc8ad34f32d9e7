//! What a read allocates: a batch of series as often as it is one, however many series and chunks are in it; and
//! a question about a range nothing that grows with what it is about.

use std::cell::RefCell;
use std::rc::Rc;

use futures::executor::block_on;
use silverback_host::Alone;
use silverback_model::{Epoch, Labels, Sample, SeriesIdHasher, ShardId};
use silverback_storage::message::{
    CursorId, LabelSource, LabelSpan, PartSeries, Read, ReadReply, ReadRequest, ReadTicket, Rows, Selection,
    SeriesBatch, SeriesWanted, TextsWanted, Wanted, WriteBody,
};
use silverback_storage::shard::append::TimeBounds;
use silverback_storage::shard::{Reads, Shard};
use silverback_storage::wal::NoJournal;

use super::{allocated_bytes, allocations};

const BOUNDS: TimeBounds = TimeBounds { oldest_ms: 0, newest_ms: i64::MAX, late_window_ms: 0 };
const SAMPLES: i64 = 500;
const INTERVAL_MS: i64 = 15_000;
/// Chunks are cut at 120 samples.
const CHUNKS: usize = 5;

struct Filled {
    shard: Rc<RefCell<Shard>>,
    reads: Rc<Reads>,
}

/// So many series, of some chunks each.
fn filled(count: usize) -> Filled {
    let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
    let hasher = SeriesIdHasher::new(7, "");
    for i in 0..count {
        let (name, instance) = (format!("node_{}_total", i % 50), format!("host-{}", i / 50));
        let labels = Labels::from_pairs([("__name__", &*name), ("instance", &instance), ("job", "node")]);
        let block = labels.to_canonical();
        let series = PartSeries::new(
            hasher.hash_canonical(&block),
            LabelSpan::new(LabelSource::Wire, 0, block.len()),
            SAMPLES as u32,
        );
        let samples: Vec<Sample> =
            (0..SAMPLES).map(|t| Sample::new(t * INTERVAL_MS, (t * i as i64) as f64)).collect();
        let body = WriteBody { bytes: block.into(), ..WriteBody::default() };
        let outcome = shard.borrow_mut().append(&body, &[series], &samples, BOUNDS, &mut NoJournal);
        assert_eq!(outcome.written, SAMPLES as u64);
    }
    Filled { shard, reads: Reads::new(usize::MAX) }
}

impl Filled {
    fn ask(&self, request: ReadRequest) -> ReadReply {
        let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
        *block_on(Rc::clone(&self.reads).answer(Rc::clone(&self.shard), Alone, read)).unwrap()
    }

    fn open(&self, selection: Selection, wanted: Wanted, bytes: usize) -> ReadReply {
        self.ask(ReadRequest::Open { selection, wanted, bytes })
    }

    fn series(&self, request: ReadRequest) -> (SeriesBatch, Option<CursorId>) {
        match self.ask(request) {
            ReadReply::Series(batch, next) => (batch, next),
            other => panic!("no series: {other:?}"),
        }
    }
}

/// How often all but the first of so many series allocate that come in one batch.
fn check_batch(series: usize, wanted: Wanted, chunks_expect: usize) -> usize {
    let filled = filled(series);
    let first = ReadRequest::Open { selection: Selection::everything(), wanted, bytes: 1 };
    let (first, next) = filled.series(first);
    assert_eq!(first.count(), 1);
    let rest = ReadRequest::Fetch { cursor: next.unwrap(), bytes: 64 << 20 };
    let mut answer = None;
    let times = allocations(|| answer = Some(filled.series(rest)));
    let (batch, end) = answer.unwrap();
    assert_eq!((batch.count(), end), (series - 1, None));
    let chunks: usize = (0..batch.count()).map(|at| batch.get(at).chunks().len()).sum();
    assert_eq!(chunks, chunks_expect * (series - 1));
    times
}

#[test]
fn a_batch_is_allocated_as_often_whatever_is_in_it() {
    /// Of the read, the cursor, the batch's three lists and the reply; and of a list that grew a few times.
    const TIMES_MAX: usize = 16;

    for (wanted, chunks) in
        [(Wanted::from(SeriesWanted::Chunks), CHUNKS), (SeriesWanted::LabelSets.into(), 0)]
    {
        let [few, many] = [200, 2000].map(|series| check_batch(series, wanted.clone(), chunks));
        assert!(few <= TIMES_MAX && many <= TIMES_MAX, "{wanted:?}: {few} and {many} times");
    }
}

#[test]
fn a_question_about_a_range_copies_nothing_of_what_it_is_about() {
    /// Two sets of series, and the words of the answer.
    const BYTES_MAX: usize = 32 << 10;

    let filled = filled(2000);
    let wanted: [Wanted; 2] = [TextsWanted::LabelNames.into(), TextsWanted::LabelValues("job".into()).into()];
    let newest_ms = (SAMPLES - 1) * INTERVAL_MS;
    // The newest chunk, those before it, and what is after all of them.
    for (min_ms, max_ms) in [(newest_ms, i64::MAX), (1, INTERVAL_MS), (newest_ms + 1, i64::MAX)] {
        for wanted in wanted.clone() {
            let selection = Selection { min_ms, max_ms, ..Selection::everything() };
            let mut reply = None;
            let bytes = allocated_bytes(|| reply = Some(filled.open(selection, wanted.clone(), 1 << 20)));
            let Some(ReadReply::Texts(found, None)) = reply else { panic!("few texts: {reply:?}") };
            assert_eq!(found.count() > 0, min_ms <= newest_ms, "{wanted:?} from {min_ms}");
            assert!(bytes <= BYTES_MAX, "{wanted:?} from {min_ms}: {bytes} bytes");
        }
    }
}

//! The series that a plan's selectors match, from all shards, one after the other as the evaluation asks for them: chunks
//! of floats as they are in their batch, native histograms decoded. Only the series at hand is held; of a selector that
//! is in an expression several times also what is small enough to be kept for the next time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::super::params::bad;
use super::histograms::computed;
use super::outside::has_any_dropped;
use super::pace::SlicePace;
use super::room::{QueryRoom, QueryRoomPart};
use super::shares;
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::rows::RowStream;
use crate::routing::{EvaluationError, Outside, ReadLease};
use silverback_model::histogram::{self as stored, HistogramIter};
use silverback_model::limits::{QUERY_SELECTORS_MAX, READ_MATCHERS_MAX};
use silverback_model::{Epoch, Labels};
use silverback_promql::histogram::FloatHistogram;
use silverback_promql::{Fetched, Folded, NextSeries, Plan, QueryError, Run, Select, Share, Source};
use silverback_runtime::Slice;
use silverback_storage::message::{Selection, SeriesBatch, SeriesView, SeriesWanted};

/// A series' own parts beside its labels' and chunks' bytes, in bytes: pointers, lengths and counts.
const SERIES_BYTES: usize = 128;
/// As much again for each label and each chunk.
const PART_BYTES: usize = 48;
/// Of what queries may have, all that is kept for a selector's next time takes no more than this fraction.
const KEPT_SHARE: usize = 4;

/// Whether there are no more of them than a query may have, each of no more matchers than any read's.
pub(super) fn check_selects(selects: &[Select]) -> Result<(), ReadRejected> {
    if selects.len() > QUERY_SELECTORS_MAX {
        return Err(bad(format_args!("a query may have at most {QUERY_SELECTORS_MAX} selectors")));
    }
    match selects.iter().any(|select| select.matchers.len() > READ_MATCHERS_MAX) {
        true => Err(bad(format_args!("a selector may have at most {READ_MATCHERS_MAX} matchers"))),
        false => Ok(()),
    }
}

/// The series of all selects of a plan.
pub(super) struct Streams<'a> {
    reader: &'a Rc<Reader>,
    lease: &'a ReadLease,
    plan: &'a Arc<Plan>,
    /// How they are seen; `None`: as they are.
    outside: Option<&'a Arc<Outside>>,
    scope: SeriesScope,
    room: &'a QueryRoom,
    pace: &'a SlicePace,
    /// By select: the first that reads the same.
    firsts: Vec<usize>,
    /// By select: its stream, while it is in flight.
    open: RefCell<Vec<Option<Stream>>>,
    /// By select: what was kept, where it is the first of several.
    kept: RefCell<Vec<Option<Rc<Recording>>>>,
    fault: RefCell<Option<EvaluationError>>,
}

/// Whose series they are.
#[derive(Debug, Clone, Copy)]
pub(super) enum SeriesScope {
    /// Those of all shards, where each may fold its own.
    AllShards,
    /// Those of all shards, which are to come together here: two that are seen as one would be folded apart as two.
    AllTogether,
    /// Those of this core's shard, at an epoch.
    OwnShard(Epoch),
}

/// A select in flight.
enum Stream {
    Rows(Box<Rows>),
    /// What was kept of it, and how many of these were given.
    Kept(Rc<Recording>, usize),
}

/// Series from the shards.
struct Rows {
    rows: RowStream<SeriesBatch>,
    /// What the one takes that was given last.
    given: Option<QueryRoomPart>,
    /// Its labels, where others may be seen so, too.
    last: Option<Rc<Labels>>,
    recording: Option<Recording>,
}

/// Series that are kept until the query ends.
struct Recording {
    series: Vec<Fetched>,
    taken: QueryRoomPart,
}

impl<'a> Streams<'a> {
    pub(super) fn new(
        reader: &'a Rc<Reader>,
        lease: &'a ReadLease,
        plan: &'a Arc<Plan>,
        outside: Option<&'a Arc<Outside>>,
        scope: SeriesScope,
        room: &'a QueryRoom,
        pace: &'a SlicePace,
    ) -> Self {
        let selects = plan.selects();
        let first_of = |(at, select): (usize, &Select)| {
            selects[..at].iter().position(|other| is_same(other, select)).unwrap_or(at)
        };
        Self {
            reader,
            lease,
            plan,
            outside,
            scope,
            room,
            pace,
            firsts: selects.iter().enumerate().map(first_of).collect(),
            open: RefCell::new(selects.iter().map(|_| None).collect()),
            kept: RefCell::new(selects.iter().map(|_| None).collect()),
            fault: RefCell::default(),
        }
    }

    /// What an evaluation's error is to the one who asked.
    pub(super) fn error_of(&self, error: QueryError) -> EvaluationError {
        match (&error, self.fault.borrow_mut().take()) {
            (QueryError::Source, Some(fault)) => fault,
            (_, _) => error.into(),
        }
    }

    async fn advance(&self, select: usize) -> Result<Option<Fetched>, EvaluationError> {
        let open = self.open.borrow_mut()[select].take();
        let mut stream = match open {
            Some(stream) => stream,
            None => match self.begin(select).await? {
                Some(stream) => stream,
                None => return Ok(None),
            },
        };
        let next = match &mut stream {
            Stream::Rows(rows) => self.advance_rows(rows).await?,
            Stream::Kept(recording, given) => {
                *given += 1;
                recording.series.get(*given - 1).cloned()
            }
        };
        match (&next, stream) {
            (Some(_), stream) => self.open.borrow_mut()[select] = Some(stream),
            (None, Stream::Rows(rows)) => {
                self.kept.borrow_mut()[self.firsts[select]] = rows.recording.map(Rc::new);
            }
            (None, Stream::Kept(..)) => {}
        }
        Ok(next)
    }

    /// Whether anything is read from blocks: a shard has its own series of memory alone.
    fn reads_blocks(&self) -> bool {
        let blocks = &self.reader.node.local_blocks;
        let of_blocks = |select: &Select| blocks.border_for(select.after_ms, select.until_ms).is_some();
        self.plan.selects().iter().any(of_blocks)
    }

    /// `None`: there can be no series.
    async fn begin(&self, select: usize) -> Result<Option<Stream>, EvaluationError> {
        let first = self.firsts[select];
        if let Some(kept) = &self.kept.borrow()[first] {
            return Ok(Some(Stream::Kept(Rc::clone(kept), 0)));
        }
        let Select { matchers, after_ms, until_ms } = &self.plan.selects()[select];
        if after_ms >= until_ms {
            return Ok(None);
        }
        let (matchers, wanted) = match self.outside {
            None => (matchers.clone().into(), SeriesWanted::Chunks),
            Some(outside) => match &outside.matchers[select] {
                None => return Ok(None),
                Some(own) => (Arc::clone(own), SeriesWanted::ExternalChunks(Arc::clone(&outside.view))),
            },
        };
        let selection = Selection { matchers, min_ms: after_ms.saturating_add(1), max_ms: *until_ms };
        // Shards are awaited without a slice.
        drop(self.pace.take());
        let (reader, lease) = (self.reader, self.lease);
        let rows = match self.scope {
            SeriesScope::AllShards | SeriesScope::AllTogether => {
                RowStream::open_all(reader, lease, selection, wanted, 1).await?
            }
            SeriesScope::OwnShard(epoch) => {
                RowStream::open_own(reader, lease, epoch, selection, wanted).await?
            }
        };
        self.pace.put(self.reader.slicer.begin().await);
        let is_read_again = self.firsts[select + 1..].contains(&first);
        let recording = is_read_again.then(|| Recording { series: Vec::new(), taken: self.room.part() });
        Ok(Some(Stream::Rows(Box::new(Rows { rows, given: None, last: None, recording }))))
    }

    async fn advance_rows(&self, of: &mut Rows) -> Result<Option<Fetched>, EvaluationError> {
        of.given = None;
        let Some(mut slice) = of.rows.advance(self.pace.take()).await? else {
            self.pace.put(self.reader.slicer.begin().await);
            return Ok(None);
        };
        let mut given = self.room.part();
        let fetched = given_of(of.rows.series(), &mut given, &mut slice).await?;
        self.pace.put(slice);
        if self.outside.is_some() {
            let labels = Rc::clone(&fetched.labels);
            if of.last.as_ref() == Some(&labels) {
                return Err(seen_as_one(&labels).into());
            }
            of.last = Some(labels);
        }
        self.record(&mut of.recording, &fetched, given.bytes());
        of.given = Some(given);
        Ok(Some(fetched))
    }

    /// What an evaluation learns of an error; the rest of it is kept for [`Self::error_of`].
    fn noted(&self, error: EvaluationError) -> QueryError {
        match error {
            EvaluationError::Query(error) => error,
            other => {
                *self.fault.borrow_mut() = Some(other);
                QueryError::Source
            }
        }
    }

    /// Whether what shards folded holds: since the scope was found, a series may have come that is seen as another one.
    /// Where it doesn't, the series are folded together here.
    async fn is_apart(&self) -> Result<bool, EvaluationError> {
        let Some(outside) = self.outside else { return Ok(true) };
        Ok(!has_any_dropped(self.reader, self.lease, &outside.view).await?)
    }

    /// Keeps a series for the select's next time; where they come to be too many, none of them.
    fn record(&self, recording: &mut Option<Recording>, fetched: &Fetched, bytes: usize) {
        let Some(kept) = recording else { return };
        let kept_max = self.reader.read_bytes.bytes_max() / KEPT_SHARE;
        if kept.taken.bytes() + bytes > kept_max || kept.taken.grow(bytes).is_err() {
            *recording = None;
            return;
        }
        kept.series.push(apart(fetched));
    }
}

impl Source for Streams<'_> {
    fn next(&self, select: usize) -> NextSeries<'_> {
        Box::pin(async move { self.advance(select).await.map_err(|error| self.noted(error)) })
    }

    fn folded(&self, share: Share) -> Folded<'_> {
        let shards = self.reader.router.shards().count();
        let is_whole = matches!(self.scope, SeriesScope::AllShards) && !self.reads_blocks();
        if !is_whole || shards == 1 {
            return Box::pin(std::future::ready(Ok(None)));
        }
        Box::pin(async move {
            // Cores are awaited without a slice.
            drop(self.pace.take());
            let (plan, outside) = (self.plan, self.outside);
            let folded = shares::folded(self.reader, self.lease, plan, outside, share, self.room).await;
            let checked = match folded {
                Ok(rows) => self.is_apart().await.map(|is_apart| is_apart.then_some(rows)),
                Err(error) => Err(error),
            };
            self.pace.put(self.reader.slicer.begin().await);
            checked.map_err(|error| self.noted(error))
        })
    }
}

/// Two series of which none knows which counts at a time.
fn seen_as_one(labels: &Labels) -> QueryError {
    QueryError::Execution(format!(
        "several series of this node are {labels} once replica labels are left out and external labels are put in the \
         place of their own, and it keeps no copies apart: ask its StoreAPI, which leaves that to the caller"
    ))
}

fn is_same(left: &Select, right: &Select) -> bool {
    let same_matchers = || {
        left.matchers
            .iter()
            .zip(&right.matchers)
            .all(|(left, right)| (&left.name, left.op, &left.value) == (&right.name, right.op, &right.value))
    };
    (left.after_ms, left.until_ms, left.matchers.len())
        == (right.after_ms, right.until_ms, right.matchers.len())
        && same_matchers()
}

fn bytes_of(view: SeriesView<'_>) -> usize {
    let labels: usize = view.labels.iter().map(|(name, value)| name.len() + value.len() + PART_BYTES).sum();
    let chunks: usize = view.chunks().map(|chunk| chunk.bytes.len() + PART_BYTES).sum();
    SERIES_BYTES + labels + chunks
}

/// A series for an evaluation: its chunks are the batch's own bytes, which are freed with the last series of it.
async fn given_of(
    view: SeriesView<'_>,
    taken: &mut QueryRoomPart,
    slice: &mut Slice,
) -> Result<Fetched, EvaluationError> {
    taken.grow(bytes_of(view))?;
    let mut runs = Vec::with_capacity(view.chunks().len());
    for chunk in view.chunks() {
        runs.push(match chunk.histograms() {
            None => Run::Xor(view.shared_bytes(chunk)),
            Some(histograms) => Run::Histograms(decoded(histograms, taken)?),
        });
        if slice.is_spent() {
            slice.yield_now().await;
        }
    }
    Ok(Fetched { labels: Rc::new(Labels::from(view.labels)), runs })
}

/// The same with bytes of its own: those of a batch keep all of it, and no more than the chunks is counted.
fn apart(fetched: &Fetched) -> Fetched {
    let apart = |run: &Run| match run {
        Run::Xor(bytes) => Run::Xor(Bytes::copy_from_slice(bytes)),
        Run::Floats(_) | Run::Histograms(_) => run.clone(),
    };
    Fetched { labels: Rc::clone(&fetched.labels), runs: fetched.runs.iter().map(apart).collect() }
}

/// A chunk's histograms, which is some 10 µs of work: chunks are cut by their bytes.
fn decoded(
    mut chunk: HistogramIter<'_>,
    taken: &mut QueryRoomPart,
) -> Result<Vec<(i64, Rc<FloatHistogram>)>, EvaluationError> {
    let (mut stored, mut decoded) = (stored::Histogram::default(), Vec::with_capacity(chunk.samples_left()));
    while chunk.samples_left() > 0 {
        let timestamp_ms = chunk.next_into(&mut stored)?;
        let (histogram, bytes) = computed(&stored);
        taken.grow(bytes)?;
        decoded.push((timestamp_ms, histogram));
    }
    Ok(decoded)
}

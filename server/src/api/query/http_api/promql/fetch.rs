//! The series that a plan's selectors match, from all shards, in this read's memory: chunks of floats as they lie
//! there, native histograms decoded.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;

use super::super::params::bad;
use super::histograms::computed;
use crate::api::query::Reader;
use crate::api::query::read_fault::ReadFault;
use crate::api::query::rows::RowStream;
use crate::routing::{ReadInFlight, Reservation};
use silverback_model::Labels;
use silverback_model::histogram::{self as stored, HistogramIter};
use silverback_model::limits::{QUERY_SELECTORS_MAX, READ_MATCHERS_MAX};
use silverback_promql::histogram::Histogram;
use silverback_promql::{Fetched, Plan, QueryError, Run, Select};
use silverback_runtime::Slice;
use silverback_storage::message::{Selection, SeriesBatch, SeriesView, SeriesWanted};

/// A series' own parts beside its labels' and chunks' bytes, in bytes: pointers, lengths and counts.
const SERIES_BYTES: usize = 128;
/// As much again for each label and each chunk.
const PART_BYTES: usize = 48;

/// The series of each select, in the plan's order.
pub(super) async fn fetch(
    reader: &Rc<Reader>,
    read: &ReadInFlight,
    plan: &Plan,
    room: &RefCell<Reservation>,
) -> Result<Vec<Vec<Fetched>>, ReadFault> {
    let selects = plan.selects();
    check_selects(selects)?;
    let mut fetched: Vec<Vec<Fetched>> = Vec::with_capacity(selects.len());
    for (at, select) in selects.iter().enumerate() {
        // The same selector over the same time is fetched once.
        let same = selects[..at].iter().position(|other| is_same(other, select));
        let series = match same {
            Some(same) => fetched[same].clone(),
            None => fetch_select(reader, read, select, room).await?,
        };
        fetched.push(series);
    }
    Ok(fetched)
}

/// Whether there are no more of them than a query may have, each of no more matchers than any read's.
pub(super) fn check_selects(selects: &[Select]) -> Result<(), ReadFault> {
    if selects.len() > QUERY_SELECTORS_MAX {
        return Err(bad(format_args!("a query may have at most {QUERY_SELECTORS_MAX} selectors")));
    }
    match selects.iter().any(|select| select.matchers.len() > READ_MATCHERS_MAX) {
        true => Err(bad(format_args!("a selector may have at most {READ_MATCHERS_MAX} matchers"))),
        false => Ok(()),
    }
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

async fn fetch_select(
    reader: &Rc<Reader>,
    read: &ReadInFlight,
    select: &Select,
    room: &RefCell<Reservation>,
) -> Result<Vec<Fetched>, ReadFault> {
    if select.after_ms >= select.until_ms {
        return Ok(Vec::new());
    }
    let selection = Selection {
        matchers: select.matchers.clone().into(),
        min_ms: select.after_ms.saturating_add(1),
        max_ms: select.until_ms,
    };
    let mut rows: RowStream<SeriesBatch> =
        RowStream::open(reader, read.lease(), selection, SeriesWanted::Chunks, 1).await?;
    let (mut series, mut held) = (Vec::new(), None);
    while let Some(mut slice) = rows.advance(held).await? {
        let view = rows.series();
        take(room, bytes_of(view))?;
        series.push(copied(view, room, &mut slice).await?);
        held = Some(slice);
    }
    Ok(series)
}

fn bytes_of(view: SeriesView<'_>) -> usize {
    let labels: usize = view.labels.iter().map(|(name, value)| name.len() + value.len() + PART_BYTES).sum();
    let chunks: usize = view.chunks().map(|chunk| chunk.bytes.len() + PART_BYTES).sum();
    SERIES_BYTES + labels + chunks
}

fn take(room: &RefCell<Reservation>, bytes: usize) -> Result<(), QueryError> {
    room.borrow_mut().grow(bytes).map_err(|_| QueryError::NoRoom)
}

async fn copied(
    view: SeriesView<'_>,
    room: &RefCell<Reservation>,
    slice: &mut Slice,
) -> Result<Fetched, ReadFault> {
    let mut runs = Vec::with_capacity(view.chunks().len());
    for chunk in view.chunks() {
        runs.push(match chunk.histograms() {
            None => Run::Xor(Bytes::copy_from_slice(chunk.bytes)),
            Some(histograms) => Run::Histograms(decoded(histograms, room)?),
        });
        if slice.is_spent() {
            slice.yield_now().await;
        }
    }
    Ok(Fetched { labels: Rc::new(Labels::from(view.labels)), runs })
}

/// A chunk's histograms, which is some 10 µs of work: chunks are cut by their bytes.
fn decoded(
    mut chunk: HistogramIter<'_>,
    room: &RefCell<Reservation>,
) -> Result<Vec<(i64, Rc<Histogram>)>, ReadFault> {
    let (mut stored, mut decoded) = (stored::Histogram::default(), Vec::with_capacity(chunk.samples_left()));
    while chunk.samples_left() > 0 {
        let timestamp_ms = chunk.next_into(&mut stored)?;
        let (histogram, bytes) = computed(&stored);
        take(room, bytes)?;
        decoded.push((timestamp_ms, histogram));
    }
    Ok(decoded)
}

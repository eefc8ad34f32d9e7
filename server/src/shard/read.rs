//! Answers reads on the shard, in slices beside its traffic.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use roaring::RoaringBitmap;

use crate::cell::SeriesRef;
use crate::message::{ReadError, ReadReply, ReadRequest, Selection};
use crate::model::{CellId, Epoch, Matcher};
use crate::shard::matching::{matching, pairs_of};
use crate::shard::{Host, Shard, cardinality, select};

/// Answers one read.
pub async fn answer<H: Host>(
    shard: Rc<RefCell<Shard>>,
    host: H,
    epoch: Epoch,
    request: ReadRequest,
) -> Result<Box<ReadReply>, ReadError> {
    shard.borrow_mut().begin_read(host.monotonic_us(), epoch, &request)?;
    let _reading = Reading { shard: Rc::clone(&shard), epoch };
    answer_begun(&shard, &host, epoch, request).await.map(Box::new)
}

/// A read that is under way, until it ends in whichever way: a handoff waits for those of former epochs.
struct Reading {
    shard: Rc<RefCell<Shard>>,
    epoch: Epoch,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.shard.borrow_mut().end_read(self.epoch);
    }
}

async fn answer_begun<H: Host>(
    shard: &Rc<RefCell<Shard>>,
    host: &H,
    epoch: Epoch,
    request: ReadRequest,
) -> Result<ReadReply, ReadError> {
    Ok(match request {
        ReadRequest::Select(selection, content) => {
            let (id, count) = select::open(shard, host, epoch, selection, content).await?;
            ReadReply::Selected(id, count)
        }
        ReadRequest::Fetch { select, bytes } => {
            let (series, remaining) = select::fetch(shard, host, select, bytes).await?;
            ReadReply::Series(series, remaining)
        }
        ReadRequest::Close(select) => {
            shard.borrow_mut().selects.close(select);
            ReadReply::Closed
        }
        ReadRequest::LabelNames(selection) => {
            ReadReply::Strings(label_names(shard, host, epoch, &selection).await)
        }
        ReadRequest::LabelValues(name, selection) => {
            ReadReply::Strings(label_values(shard, host, epoch, &name, &selection).await)
        }
        ReadRequest::Cardinality { limit } => {
            ReadReply::Cardinality(cardinality::measure(shard, host, limit).await)
        }
        ReadRequest::Cells => ReadReply::Cells(shard.borrow().cells(epoch)),
    })
}

impl Shard {
    fn begin_read(&mut self, now_us: u64, epoch: Epoch, request: &ReadRequest) -> Result<(), ReadError> {
        self.counters.reads += 1;
        self.selects.expire(now_us);
        let is_new = match request {
            ReadRequest::Fetch { .. } | ReadRequest::Close(_) => false,
            ReadRequest::Select(..)
            | ReadRequest::LabelNames(_)
            | ReadRequest::LabelValues(..)
            | ReadRequest::Cardinality { .. }
            | ReadRequest::Cells => true,
        };
        if is_new && self.ownership.is_past(epoch) {
            return Err(ReadError::Moved);
        }
        self.reading.push(epoch);
        Ok(())
    }

    fn end_read(&mut self, epoch: Epoch) {
        let place = self.reading.iter().position(|reading| *reading == epoch);
        self.reading.swap_remove(place.expect("a read ends once"));
    }

    /// Takes out of some series those that another shard answers for.
    fn keep_answered(&self, series: &mut RoaringBitmap, epoch: Epoch) {
        let foreign = (0..).map(CellId).zip(&self.cells);
        let foreign = foreign.filter(|(cell, _)| !self.ownership.answers(*cell, epoch));
        for held in foreign.flat_map(|(_, cell)| cell.table.iter()) {
            series.remove(held.0);
        }
    }

    fn overlaps(&self, series: SeriesRef, selection: &Selection) -> bool {
        self.store.holds(series) && !self.store.chunks(series, selection.min_ms, selection.max_ms).is_empty()
    }
}

/// The series that match, of the cells that the shard answers for.
pub async fn answered<H: Host>(
    shard: &Rc<RefCell<Shard>>,
    host: &H,
    epoch: Epoch,
    matchers: &[Matcher],
) -> RoaringBitmap {
    let mut series = matching(shard, host, matchers).await;
    shard.borrow().keep_answered(&mut series, epoch);
    series
}

async fn label_names<H: Host>(
    shard: &Rc<RefCell<Shard>>,
    host: &H,
    epoch: Epoch,
    selection: &Selection,
) -> Vec<Box<str>> {
    let mut names: BTreeSet<Box<str>> = BTreeSet::new();
    if selection.is_everything() {
        names.extend(shard.borrow().index.names().map(Box::from));
        return names.into_iter().collect();
    }
    for series in &answered(shard, host, epoch, &selection.matchers).await {
        {
            let shard = shard.borrow();
            let series = SeriesRef(series);
            if shard.overlaps(series, selection) {
                for label in shard.store.labels(series) {
                    let (name, _) = shard.index.text(*label);
                    if !names.contains(name) {
                        names.insert(name.into());
                    }
                }
            }
        }
        host.breathe().await;
    }
    names.into_iter().collect()
}

/// One value at a time: a label has far fewer values than the shard has series.
async fn label_values<H: Host>(
    shard: &Rc<RefCell<Shard>>,
    host: &H,
    epoch: Epoch,
    name: &str,
    selection: &Selection,
) -> Vec<Box<str>> {
    let everything = selection.is_everything();
    let series = answered(shard, host, epoch, &selection.matchers).await;
    let pairs = pairs_of(shard, host, name).await;
    let mut values = BTreeSet::new();
    for pair in pairs {
        {
            let shard = shard.borrow();
            let (held_name, value) = shard.index.text(pair);
            let owners = shard.index.postings(pair) & &series;
            let wanted = everything || owners.iter().any(|s| shard.overlaps(SeriesRef(s), selection));
            if held_name == name && wanted && !value.is_empty() {
                values.insert(Box::from(value));
            }
        }
        host.breathe().await;
    }
    values.into_iter().collect()
}

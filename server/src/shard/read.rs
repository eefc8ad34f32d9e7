//! Answers reads on the shard, in slices beside its traffic.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::cell::SeriesRef;
use crate::message::{ReadError, ReadReply, ReadRequest, Selection};
use crate::shard::matching::matching;
use crate::shard::{Host, Shard, cardinality, select};

/// Answers one read.
pub async fn answer<H: Host>(
    shard: Rc<RefCell<Shard>>,
    host: H,
    request: ReadRequest,
) -> Result<Box<ReadReply>, ReadError> {
    shard.borrow_mut().begin_read(host.monotonic_us());
    let reply = match request {
        ReadRequest::Select(selection, content) => {
            let (id, count) = select::open(&shard, &host, selection, content).await?;
            ReadReply::Selected(id, count)
        }
        ReadRequest::Fetch { select, bytes } => {
            let (series, remaining) = select::fetch(&shard, &host, select, bytes).await?;
            ReadReply::Series(series, remaining)
        }
        ReadRequest::Close(select) => {
            shard.borrow_mut().selects.close(select);
            ReadReply::Closed
        }
        ReadRequest::LabelNames(selection) => {
            ReadReply::Strings(label_names(&shard, &host, &selection).await)
        }
        ReadRequest::LabelValues(name, selection) => {
            ReadReply::Strings(label_values(&shard, &host, &name, &selection).await)
        }
        ReadRequest::Cardinality { limit } => {
            ReadReply::Cardinality(cardinality::measure(&shard, &host, limit).await)
        }
        ReadRequest::Cells => ReadReply::Cells(shard.borrow().cells()),
    };
    Ok(Box::new(reply))
}

impl Shard {
    fn begin_read(&mut self, now_us: u64) {
        self.counters.reads += 1;
        self.selects.expire(now_us);
    }

    fn overlaps(&self, series: SeriesRef, selection: &Selection) -> bool {
        !self.store.chunks(series, selection.min_ms, selection.max_ms).is_empty()
    }
}

async fn label_names<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H, selection: &Selection) -> Vec<Box<str>> {
    let mut names: BTreeSet<Box<str>> = BTreeSet::new();
    if selection.is_everything() {
        names.extend(shard.borrow().index.names().map(Box::from));
        return names.into_iter().collect();
    }
    for series in &matching(shard, host, &selection.matchers).await {
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
    name: &str,
    selection: &Selection,
) -> Vec<Box<str>> {
    let everything = selection.is_everything();
    let series = matching(shard, host, &selection.matchers).await;
    let pairs = shard.borrow().index.pairs_of(name);
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

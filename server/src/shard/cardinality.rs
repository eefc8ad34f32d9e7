//! What makes a shard's index large, as Prometheus' `/api/v1/status/tsdb` tells it.

use std::cell::RefCell;
use std::rc::Rc;

use crate::cell::series::LabelRef;
use crate::message::{Cardinality, NameCount};
use crate::shard::matching::pairs_of;
use crate::shard::{Host, Shard};

/// Label pairs that are looked at between two looks at the slice.
const STEP: usize = 256;

/// Counts series, values and bytes by label, in slices.
pub async fn measure<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H, limit: usize) -> Cardinality {
    let mut found = shard.borrow().sizes();
    let names: Vec<Box<str>> = shard.borrow().index.names().map(Box::from).collect();
    for name in names {
        let pairs = pairs_of(shard, host, &name).await;
        let mut bytes = 0;
        for step in pairs.chunks(STEP) {
            bytes += shard.borrow().measure_pairs(step, &mut found);
            keep_largest(&mut found.series_by_metric, limit);
            keep_largest(&mut found.series_by_pair, limit);
            host.breathe().await;
        }
        found.values_by_name.push(NameCount { name: name.clone(), count: pairs.len() as u64 });
        found.bytes_by_name.push(NameCount { name, count: bytes });
    }
    found
}

/// The `limit` largest, the largest first; equal ones by name.
pub fn keep_largest(counts: &mut Vec<NameCount>, limit: usize) {
    counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    counts.truncate(limit);
}

impl Shard {
    /// Adds some pairs to the lists; gives the bytes of their values.
    fn measure_pairs(&self, pairs: &[LabelRef], found: &mut Cardinality) -> u64 {
        let mut bytes = 0;
        for pair in pairs {
            let (name, value) = self.index.text(*pair);
            let count = self.index.postings(*pair).len();
            bytes += value.len() as u64;
            if name == "__name__" {
                found.series_by_metric.push(NameCount { name: value.into(), count });
            }
            found.series_by_pair.push(NameCount { name: format!("{name}={value}").into(), count });
        }
        bytes
    }

    fn sizes(&self) -> Cardinality {
        let (size, series) = (self.store.size(), self.owned_series());
        Cardinality {
            series: series as u64,
            pairs: self.index.pair_count() as u64,
            chunks: (series + size.sealed_chunks) as u64,
            range_ms: self.range_ms,
            ..Cardinality::default()
        }
    }
}

//! What makes a shard's index large, as Prometheus' `/api/v1/status/tsdb` reports it.

use super::OrEnds;
use crate::cell::series::LabelRef;
use crate::message::{Cardinality, NameCount};
use crate::shard::index::{IndexMoment, LabelIndex, NameRef};
use crate::shard::read::job::ReadJob;
use crate::shard::read::labels::all_names;
use crate::shard::read::largest::Largest;
use crate::shard::read::matching::{Pairs, pairs_of};
use crate::shard::read::memory::ReadReservation;
use crate::shard::{Host, Shard};

/// Label pairs that are looked at between two looks at the slice: some 10 µs.
const STEP: usize = 64;

/// Names, by values and by bytes, are so many at least: nodes with more are rare, and up to here the
/// counts of all shards add up exactly.
const NAMES_MIN: usize = 10_000;

/// What an entry takes beside its text.
const ENTRY_BYTES: usize = size_of::<NameCount>();

/// Counts series, values and bytes by label, in slices.
pub(super) async fn measure<H: Host>(job: &ReadJob<H>, limit: usize) -> OrEnds<Cardinality> {
    let names_limit = limit.max(NAMES_MIN);
    let (names_held, pairs_held) = job.shard.borrow().index_size();
    let entries = 2 * limit.min(pairs_held) + 2 * names_limit.min(names_held);
    let counted_bytes = entries * ENTRY_BYTES + names_held * size_of::<NameRef>();
    let mut reserved = job.reserve(counted_bytes).await?;
    job.yield_if_needed().await?;
    let moment = job.shard.borrow().index.now();
    let mut metrics = Largest::new(limit);
    let mut pairs = Largest::new(limit);
    let (mut values, mut bytes) = (Largest::new(names_limit), Largest::new(names_limit));
    for name in all_names(job).await? {
        let text: Box<str> = job.shard.borrow().index.name(name).into();
        let Pairs { pairs: of_name, .. } = pairs_of(job, &text).await?;
        let mut value_bytes = 0;
        for step in of_name.chunks(STEP) {
            {
                let shard = job.shard.borrow();
                for pair in step {
                    let series = shard.index.postings(*pair).len();
                    value_bytes += shard.index.text(*pair).1.len() as u64;
                    pairs.add(series, pair.0);
                    if &*text == "__name__" {
                        metrics.add(series, pair.0);
                    }
                }
            }
            job.yield_if_needed().await?;
        }
        values.add(of_name.len() as u64, name.0);
        bytes.add(value_bytes, name.0);
    }
    let sizes = job.shard.borrow().sizes();
    let mut texts = Texts { job, moment, reserved: &mut reserved, bytes: counted_bytes };
    Ok(Cardinality {
        series_by_metric: texts.of(metrics, metric_text).await?,
        series_by_pair: texts.of(pairs, pair_text).await?,
        values_by_name: texts.of(values, name_text).await?,
        bytes_by_name: texts.of(bytes, name_text).await?,
        ..sizes
    })
}

fn metric_text(index: &LabelIndex, pair: u32, moment: IndexMoment) -> Option<Box<str>> {
    index.value_since(LabelRef(pair), moment).map(Box::from)
}

fn pair_text(index: &LabelIndex, pair: u32, moment: IndexMoment) -> Option<Box<str>> {
    let value = index.value_since(LabelRef(pair), moment)?;
    let name = index.name(index.name_of(LabelRef(pair)));
    Some(format!("{name}={value}").into())
}

fn name_text(index: &LabelIndex, name: u32, moment: IndexMoment) -> Option<Box<str>> {
    index.name_since(NameRef(name), moment).map(Box::from)
}

/// Makes texts of what was counted, and pays for them: one may have a hundred times what an entry usually has.
struct Texts<'a, H> {
    job: &'a ReadJob<H>,
    moment: IndexMoment,
    reserved: &'a mut ReadReservation,
    bytes: usize,
}

impl<H: Host> Texts<'_, H> {
    async fn of(
        &mut self,
        largest: Largest<u32>,
        text: impl Fn(&LabelIndex, u32, IndexMoment) -> Option<Box<str>>,
    ) -> OrEnds<Vec<NameCount>> {
        let mut counts = Vec::new();
        for (count, of) in largest.into_counts() {
            // What went meanwhile has no text any more.
            let name = text(&self.job.shard.borrow().index, of, self.moment);
            if let Some(name) = name {
                self.bytes += name.len();
                counts.push(NameCount { name, count });
            }
            self.job.pay(self.reserved, self.bytes).await?;
            self.job.yield_if_needed().await?;
        }
        Ok(counts)
    }
}

impl Shard {
    /// Names and pairs.
    fn index_size(&self) -> (usize, usize) {
        (self.index.name_count(), self.index.pair_count())
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

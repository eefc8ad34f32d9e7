//! `/api/v1/status/tsdb`: what makes the index large, added up over all shards.
//!
//! Exact are series, chunks, times, bytes and the values of a label. A metric or a pair whose series
//! lie on several shards is found if it is among the largest of some shard; each shard is asked for
//! more than is shown, so that few are missed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use serde::Serialize;

use super::params::{Params, bad};
use super::{json, whole};
use crate::api::core::Core;
use crate::api::endpoints::NodeResponse;
use crate::api::fanout::{FanoutError, read_all, wrong_kind};
use crate::api::read_fault::ReadFault;
use crate::api::rows::RowStream;
use crate::limits::TSDB_STATUS_ENTRIES_MAX;
use crate::message::{Cardinality, NameCount, ReadReply, ReadRequest, Selection, TextBatch, Wanted};
use crate::routing::ReadInFlight;
use crate::runtime::Slice;

/// Entries of each list where no limit is given, as in Prometheus.
const ENTRIES_DEFAULT: usize = 10;
/// Shards are asked for so many times the entries that are shown.
const ASKED_PER_SHOWN: usize = 10;
/// No shard is asked for more.
const ASKED_MAX: usize = 2 * TSDB_STATUS_ENTRIES_MAX;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeadStats {
    num_series: u64,
    /// Pairs as the shards hold them: one that several hold counts for each.
    num_label_pairs: u64,
    chunk_count: u64,
    min_time: i64,
    max_time: i64,
}

#[derive(Serialize)]
struct Entry {
    name: Box<str>,
    value: u64,
}

/// Answers for the whole node.
pub async fn respond(
    core: &Rc<Core>,
    read: &ReadInFlight,
    params: &Params,
) -> Result<NodeResponse, ReadFault> {
    let limit = params.limit()?.map_or(ENTRIES_DEFAULT, std::num::NonZeroUsize::get);
    if limit > TSDB_STATUS_ENTRIES_MAX {
        return Err(bad(format_args!("limit={limit}: at most {TSDB_STATUS_ENTRIES_MAX} are allowed")));
    }
    let asked = (limit * ASKED_PER_SHOWN).min(ASKED_MAX);
    let mut room = core.read_bytes.begin();
    let of_shards = cardinalities(core, read, asked).await?;
    room.grow_within(of_shards.iter().map(entry_bytes).sum())?;
    let head_stats = head_stats(&of_shards);
    let is_alone = of_shards.len() == 1;
    let [metrics, values, bytes, pairs] = sums(core, of_shards).await;
    let values = match is_alone {
        true => values,
        false => distinct_values(core, read, values, limit).await?,
    };
    let lists = [
        ("seriesCountByMetricName", metrics),
        ("labelValueCountByLabelName", values),
        ("memoryInBytesByLabelName", bytes),
        ("seriesCountByLabelValuePair", pairs),
    ];
    let mut slice = core.slicer.begin().await;
    let mut out = Vec::new();
    json::put_begin(&mut out);
    out.extend_from_slice(b"{\"headStats\":");
    json::put(&mut out, &head_stats);
    for (key, counts) in lists {
        put_entries(&mut out, key, counts.into_iter().take(limit), &mut slice).await;
    }
    out.push(b'}');
    json::put_end(&mut out, &[]);
    Ok(whole(out))
}

/// Appends `,"key":[…]`.
async fn put_entries(
    out: &mut Vec<u8>,
    key: &str,
    counts: impl Iterator<Item = NameCount>,
    slice: &mut Slice,
) {
    out.push(b',');
    json::put_text(out, key);
    out.extend_from_slice(b":[");
    for (at, NameCount { name, count }) in counts.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        json::put(out, &Entry { name, value: count });
        slice.breathe().await;
    }
    out.push(b']');
}

async fn cardinalities(
    core: &Core,
    read: &ReadInFlight,
    limit: usize,
) -> Result<Vec<Cardinality>, FanoutError> {
    let cardinality = |reply| match reply {
        ReadReply::Cardinality(cardinality) => cardinality,
        ReadReply::Series(..) | ReadReply::Texts(..) | ReadReply::Closed | ReadReply::Cells(_) => {
            wrong_kind()
        }
    };
    let replies = read_all(core, read.lease(), &ReadRequest::Cardinality { limit }).await?;
    Ok(replies.into_iter().map(cardinality).collect())
}

/// What the lists of a shard take, once more while they are added up, and as the answer.
fn entry_bytes(of_shard: &Cardinality) -> usize {
    let entries = lists_of(of_shard).into_iter().flatten();
    3 * entries.map(|entry| size_of::<NameCount>() + entry.name.len()).sum::<usize>()
}

/// Metrics, values, bytes, pairs.
fn lists_of(of_shard: &Cardinality) -> [&Vec<NameCount>; 4] {
    let Cardinality { series_by_metric, values_by_name, bytes_by_name, series_by_pair, .. } = of_shard;
    [series_by_metric, values_by_name, bytes_by_name, series_by_pair]
}

fn head_stats(of_shards: &[Cardinality]) -> HeadStats {
    let total = |of: fn(&Cardinality) -> u64| of_shards.iter().map(of).sum();
    let ranges = || of_shards.iter().filter_map(|c| c.range_ms);
    HeadStats {
        num_series: total(|c| c.series),
        num_label_pairs: total(|c| c.pairs),
        chunk_count: total(|c| c.chunks),
        // As Prometheus tells that there is none.
        min_time: ranges().map(|(min, _)| min).min().unwrap_or(i64::MAX),
        max_time: ranges().map(|(_, max)| max).max().unwrap_or(i64::MIN),
    }
}

/// Each list of all shards, the counts of a name added up, the largest first.
async fn sums(core: &Core, of_shards: Vec<Cardinality>) -> [Vec<NameCount>; 4] {
    let mut slice = core.slicer.begin().await;
    let mut lists: [Vec<Vec<NameCount>>; 4] = Default::default();
    for of_shard in of_shards {
        let Cardinality { series_by_metric, values_by_name, bytes_by_name, series_by_pair, .. } = of_shard;
        let own = [series_by_metric, values_by_name, bytes_by_name, series_by_pair];
        lists.iter_mut().zip(own).for_each(|(list, own)| list.push(own));
    }
    let mut summed: [Vec<NameCount>; 4] = Default::default();
    for (into, lists) in summed.iter_mut().zip(lists) {
        *into = sum(lists, &mut async || slice.breathe().await).await;
    }
    summed
}

async fn sum(
    lists: impl IntoIterator<Item = Vec<NameCount>>,
    yield_if_needed: &mut impl AsyncFnMut(),
) -> Vec<NameCount> {
    let mut sums: HashMap<Box<str>, u64> = HashMap::new();
    for NameCount { name, count } in lists.into_iter().flatten() {
        *sums.entry(name).or_default() += count;
        yield_if_needed().await;
    }
    let mut sorted = BTreeSet::new();
    for (name, count) in sums {
        sorted.insert((Reverse(count), name));
        yield_if_needed().await;
    }
    sorted.into_iter().map(|(Reverse(count), name)| NameCount { name, count }).collect()
}

/// Labels by their values, where a value may lie on several shards and counts once. A sum over the
/// shards, descending here, is never too small; so the search ends at the first one that is smaller
/// than all that is to be shown.
async fn distinct_values(
    core: &Rc<Core>,
    read: &ReadInFlight,
    sums: Vec<NameCount>,
    limit: usize,
) -> Result<Vec<NameCount>, FanoutError> {
    let mut found: BTreeSet<(Reverse<u64>, Box<str>)> = BTreeSet::new();
    for NameCount { name, count: at_most } in sums {
        if found.len() == limit && found.last().is_some_and(|(Reverse(least), _)| *least > at_most) {
            break;
        }
        let wanted = Wanted::LabelValues(name.clone());
        let mut values: RowStream<TextBatch> =
            RowStream::open(core, read.lease(), Selection::everything(), wanted, 1).await?;
        let mut count = 0;
        let mut held = None;
        while let Some(slice) = values.advance(held).await? {
            held = Some(slice);
            count += 1;
        }
        found.insert((Reverse(count), name));
        if found.len() > limit {
            found.pop_last();
        }
    }
    Ok(found.into_iter().map(|(Reverse(count), name)| NameCount { name, count }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, u64)]) -> Vec<NameCount> {
        list.iter().map(|(name, count)| NameCount { name: (*name).into(), count: *count }).collect()
    }

    #[test]
    fn counts_of_shards_are_added_up_and_ordered() {
        let lists = [counts(&[("a", 5), ("b", 1)]), counts(&[("b", 4), ("c", 9)])];
        let summed = futures::executor::block_on(sum(lists, &mut async || {}));
        assert_eq!(summed, counts(&[("c", 9), ("a", 5), ("b", 5)]));
    }

    #[test]
    fn a_node_without_samples_has_prometheus_empty_range() {
        let stats = head_stats(&[Cardinality::default()]);
        assert_eq!((stats.min_time, stats.max_time), (i64::MAX, i64::MIN));
    }
}

//! `/api/v1/status/tsdb`: what makes the index large, added up over all shards.
//!
//! Exact are series, chunks, times, bytes and the values of a label. A metric or a pair whose series
//! lie on several shards is found if it is among the largest of some shard; each shard is asked for
//! more than is shown, so that few are missed.

use std::collections::HashMap;

use serde::Serialize;

use super::params::{Params, bad};
use super::{json, whole};
use crate::api::core::Core;
use crate::api::endpoints::NodeResponse;
use crate::api::fanout::{self, FanoutError, ask_all};
use crate::api::read_fault::ReadFault;
use crate::limits::TSDB_STATUS_ENTRIES_MAX;
use crate::message::{Cardinality, NameCount, ReadReply, ReadRequest, Selection};

/// Entries of each list where no limit is given, as in Prometheus.
const ENTRIES_DEFAULT: usize = 10;
/// Shards are asked for so many times the entries that are shown.
const ASKED_PER_SHOWN: usize = 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TsdbStatus {
    head_stats: HeadStats,
    series_count_by_metric_name: Vec<Entry>,
    label_value_count_by_label_name: Vec<Entry>,
    memory_in_bytes_by_label_name: Vec<Entry>,
    series_count_by_label_value_pair: Vec<Entry>,
}

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

impl From<NameCount> for Entry {
    fn from(NameCount { name, count }: NameCount) -> Self {
        Self { name, value: count }
    }
}

/// Answers for the whole node.
pub async fn respond(core: &Core, params: &Params) -> Result<NodeResponse, ReadFault> {
    let limit = params.limit()?.map_or(ENTRIES_DEFAULT, std::num::NonZeroUsize::get);
    if limit > TSDB_STATUS_ENTRIES_MAX {
        return Err(bad(format_args!("limit={limit}: at most {TSDB_STATUS_ENTRIES_MAX} are allowed")));
    }
    let of_shards = cardinalities(core, limit * ASKED_PER_SHOWN).await?;
    let values_by_name = match of_shards.len() {
        1 => largest(sum(&of_shards, |c| &c.values_by_name), limit),
        _several => distinct_values(core, sum(&of_shards, |c| &c.values_by_name), limit).await?,
    };
    let list = |of: fn(&Cardinality) -> &Vec<NameCount>| entries(largest(sum(&of_shards, of), limit));
    let status = TsdbStatus {
        head_stats: head_stats(&of_shards),
        series_count_by_metric_name: list(|c| &c.series_by_metric),
        label_value_count_by_label_name: entries(values_by_name),
        memory_in_bytes_by_label_name: list(|c| &c.bytes_by_name),
        series_count_by_label_value_pair: list(|c| &c.series_by_pair),
    };
    Ok(whole(json::success(status, &[])))
}

async fn cardinalities(core: &Core, limit: usize) -> Result<Vec<Cardinality>, FanoutError> {
    let cardinality = |reply| match reply {
        ReadReply::Cardinality(cardinality) => cardinality,
        ReadReply::Selected(..)
        | ReadReply::Series(..)
        | ReadReply::Closed
        | ReadReply::Strings(_)
        | ReadReply::Cells(_) => unreachable!("a shard answered another question"),
    };
    let replies = ask_all(core, &ReadRequest::Cardinality { limit }).await?;
    Ok(replies.into_iter().map(cardinality).collect())
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

/// One list of all shards, the counts of a name added up, the largest first.
fn sum(of_shards: &[Cardinality], of: impl Fn(&Cardinality) -> &Vec<NameCount>) -> Vec<NameCount> {
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for NameCount { name, count } in of_shards.iter().flat_map(of) {
        *sums.entry(name).or_default() += count;
    }
    let counts = sums.into_iter().map(|(name, count)| NameCount { name: name.into(), count });
    largest(counts.collect(), usize::MAX)
}

/// The largest first; equal ones by name.
fn largest(mut counts: Vec<NameCount>, limit: usize) -> Vec<NameCount> {
    counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    counts.truncate(limit);
    counts
}

fn entries(counts: Vec<NameCount>) -> Vec<Entry> {
    counts.into_iter().map(Entry::from).collect()
}

/// Labels by their values, where a value may lie on several shards and counts once. A sum over the
/// shards, descending here, is never too small; so the search ends at the first one that is smaller
/// than all that is to be shown.
async fn distinct_values(
    core: &Core,
    sums: Vec<NameCount>,
    limit: usize,
) -> Result<Vec<NameCount>, FanoutError> {
    let mut found: Vec<NameCount> = Vec::new();
    for NameCount { name, count: at_most } in sums {
        if found.len() == limit && found.last().is_some_and(|least| least.count > at_most) {
            break;
        }
        let everything = Selection { matchers: [].into(), min_ms: i64::MIN, max_ms: i64::MAX };
        let values = fanout::strings(core, &ReadRequest::LabelValues(name.clone(), everything)).await?;
        found.push(NameCount { name, count: values.len() as u64 });
        found = largest(found, limit);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, u64)]) -> Vec<NameCount> {
        list.iter().map(|(name, count)| NameCount { name: (*name).into(), count: *count }).collect()
    }

    #[test]
    fn counts_of_shards_are_added_up_and_ordered() {
        let of_shard = |list| Cardinality { series_by_metric: counts(list), ..Cardinality::default() };
        let shards = [of_shard(&[("a", 5), ("b", 1)]), of_shard(&[("b", 4), ("c", 9)])];
        let summed = sum(&shards, |c| &c.series_by_metric);
        assert_eq!(summed, counts(&[("c", 9), ("a", 5), ("b", 5)]));
        assert_eq!(largest(summed, 2), counts(&[("c", 9), ("a", 5)]));
    }

    #[test]
    fn a_node_without_samples_has_prometheus_empty_range() {
        let stats = head_stats(&[Cardinality::default()]);
        assert_eq!((stats.min_time, stats.max_time), (i64::MAX, i64::MIN));
    }
}

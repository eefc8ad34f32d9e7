//! `/api/v1/status/tsdb`: what makes the index large, added up over all shards.
//!
//! Exact are series, chunks, times, bytes and the values of a label. A metric or a pair whose series
//! are on several shards is found if it is among the largest of some shard; each shard is asked for
//! more than is shown, so that few are missed. The lists are held once: what is sent of them is given back.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use http::StatusCode;
use serde::Serialize;

use super::json;
use super::params::{Params, bad};
use crate::api::query::Reader;
use crate::api::query::read_rejected::{ReadAnswer, ReadRejected};
use crate::api::query::rows::RowStream;
use crate::api::query::stream::{AnswerSender, StreamError, streamed};
use crate::api::response::with_type;
use crate::routing::fanout::{FanoutError, read_all};
use crate::routing::{ReadInFlight, ReservationError};
use silverback_model::limits::TSDB_STATUS_ENTRIES_MAX;
use silverback_runtime::Slicer;
use silverback_storage::message::{
    Cardinality, CardinalityRequest, NameCount, Selection, ShardReadError, TextBatch, TextsWanted,
};

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
pub(crate) async fn respond(reader: &Rc<Reader>, read: ReadInFlight, params: &Params) -> ReadAnswer {
    let limit = params.limit()?.map_or(ENTRIES_DEFAULT, std::num::NonZeroUsize::get);
    if limit > TSDB_STATUS_ENTRIES_MAX {
        return Err(bad(format_args!("limit={limit}: at most {TSDB_STATUS_ENTRIES_MAX} are allowed")));
    }
    let asked = match reader.router.shards().count() {
        // It has all there is.
        1 => limit,
        _ => (limit * ASKED_PER_SHOWN).min(ASKED_MAX),
    };
    let too_large = |bytes_max| ReadRejected::ListsTooLarge { limit, asked, bytes_max };
    let mut room = reader.read_bytes.begin();
    let of_shards = cardinalities(reader, &read, asked).await.map_err(|fault| match fault {
        FanoutError::Refused(ShardReadError::TooLarge { bytes_max }) => too_large(bytes_max),
        fault => fault.into(),
    })?;
    room.grow_within(of_shards.iter().map(entry_bytes).sum()).map_err(|no_room| match no_room {
        ReservationError::TooMuch { bytes_max } => too_large(bytes_max),
        ReservationError::Full => ReadRejected::BudgetExceeded,
    })?;
    let head_stats = head_stats(&of_shards);
    let is_alone = of_shards.len() == 1;
    let [metrics, values, bytes, pairs] = sums(reader, of_shards).await;
    let values = match is_alone {
        true => values,
        false => distinct_values(reader, &read, values, limit).await?,
    };
    let lists = [
        ("seriesCountByMetricName", metrics),
        ("labelValueCountByLabelName", values),
        ("memoryInBytesByLabelName", bytes),
        ("seriesCountByLabelValuePair", pairs),
    ];
    let slicer = reader.slicer.clone();
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        let _room = room;
        json::put_begin(outgoing.made());
        outgoing.made().extend_from_slice(b"{\"headStats\":");
        json::put(outgoing.made(), &head_stats);
        for (key, counts) in lists {
            send_entries(outgoing, key, counts.into_iter().take(limit), &slicer).await?;
        }
        outgoing.made().push(b'}');
        json::put_end(outgoing.made(), &[]);
        Ok(())
    });
    Ok(with_type(StatusCode::OK, json::CONTENT_TYPE, body))
}

/// Sends `,"key":[…]`.
async fn send_entries(
    outgoing: &mut AnswerSender,
    key: &str,
    counts: impl Iterator<Item = NameCount>,
    slicer: &Slicer,
) -> Result<(), StreamError> {
    outgoing.made().push(b',');
    json::put_text(outgoing.made(), key);
    outgoing.made().extend_from_slice(b":[");
    let (mut is_first, mut held) = (true, None);
    for NameCount { name, count } in counts {
        let mut slice = match held.take() {
            Some(slice) => slice,
            None => slicer.begin().await,
        };
        if !std::mem::take(&mut is_first) {
            outgoing.made().push(b',');
        }
        json::put(outgoing.made(), &Entry { name, value: count });
        slice.yield_if_needed().await;
        held = outgoing.send_if_full(slice).await?;
    }
    outgoing.made().push(b']');
    Ok(())
}

async fn cardinalities(
    reader: &Reader,
    read: &ReadInFlight,
    limit: usize,
) -> Result<Vec<Cardinality>, FanoutError> {
    read_all(&reader.router, read.lease(), &CardinalityRequest { limit }).await
}

/// What the lists of a shard take: texts once, and what holds these twice more while they are added up.
fn entry_bytes(of_shard: &Cardinality) -> usize {
    let entries = lists_of(of_shard).into_iter().flatten();
    entries.map(|entry| 3 * size_of::<NameCount>() + entry.name.len()).sum()
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
        // As Prometheus says that there is none.
        min_time: ranges().map(|(min, _)| min).min().unwrap_or(i64::MAX),
        max_time: ranges().map(|(_, max)| max).max().unwrap_or(i64::MIN),
    }
}

/// Each list of all shards, the counts of a name added up, the largest first.
async fn sums(reader: &Reader, of_shards: Vec<Cardinality>) -> [Vec<NameCount>; 4] {
    let mut slice = reader.slicer.begin().await;
    let mut lists: [Vec<Vec<NameCount>>; 4] = Default::default();
    for of_shard in of_shards {
        let Cardinality { series_by_metric, values_by_name, bytes_by_name, series_by_pair, .. } = of_shard;
        let own = [series_by_metric, values_by_name, bytes_by_name, series_by_pair];
        lists.iter_mut().zip(own).for_each(|(list, own)| list.push(own));
    }
    let mut summed: [Vec<NameCount>; 4] = Default::default();
    for (into, lists) in summed.iter_mut().zip(lists) {
        *into = sum(lists, &mut async || slice.yield_if_needed().await).await;
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

/// Labels by their values, where a value may be on several shards and counts once. A sum over the
/// shards, descending here, is never too small; so the search ends at the first one that is smaller
/// than all that is to be shown.
async fn distinct_values(
    reader: &Rc<Reader>,
    read: &ReadInFlight,
    sums: Vec<NameCount>,
    limit: usize,
) -> Result<Vec<NameCount>, FanoutError> {
    let mut found: BTreeSet<(Reverse<u64>, Box<str>)> = BTreeSet::new();
    for NameCount { name, count: at_most } in sums {
        if found.len() == limit && found.last().is_some_and(|(Reverse(least), _)| *least > at_most) {
            break;
        }
        let wanted = TextsWanted::LabelValues(name.clone());
        let mut values: RowStream<TextBatch> =
            RowStream::open(reader, read.lease(), Selection::everything(), wanted, 1).await?;
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

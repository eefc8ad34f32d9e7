//! `Info`: what Thanos Query has to know to ask this node, and not to ask it in vain.

use silverback_proto::thanos::info::{ExemplarsInfo, InfoResponse, QueryApiInfo, StoreInfo, TsdbInfo};
use silverback_proto::thanos::{Label, ZLabelSet};

use crate::api::query::Reader;
use crate::api::query::read_rejected::{ReadRejected, check_replayed};
use crate::config::ThanosQueryApi;
use silverback_model::limits::CHUNK_RANGE_MS;

/// The oldest times that are reported are multiples of this, in ms. Of nodes that say different ones, Thanos'
/// distributed engine leaves all but the oldest out of expressions that look back to before they begin.
const BEGIN_GRID_MS: i64 = CHUNK_RANGE_MS;

/// What Thanos Query takes for a store of newest samples.
const COMPONENT: &str = "receive";

/// What the node is, once all its data is back.
pub(super) fn answer(reader: &Reader) -> Result<InfoResponse, ReadRejected> {
    check_replayed(reader)?;
    let label =
        |(name, value): &(Box<str>, Box<str>)| Label { name: name.to_string(), value: value.to_string() };
    let labels = ZLabelSet { labels: reader.external.labels().0.iter().map(label).collect() };
    let retention_ms = reader.config.retention.as_millis() as i64;
    // No shard is asked: what is older is dropped at the next pass of retention.
    let kept_ms = reader.clock.now_ms().saturating_sub(retention_ms);
    let (in_memory_ms, max_time) = (on_grid(kept_ms), i64::MAX);
    let min_time = in_memory_ms.min(on_grid(reader.node.local_blocks.oldest_ms()));
    Ok(InfoResponse {
        label_sets: vec![labels.clone()],
        component_type: COMPONENT.to_owned(),
        store: Some(StoreInfo {
            min_time,
            max_time,
            supports_sharding: true,
            supports_without_replica_labels: true,
            tsdb_infos: vec![TsdbInfo { labels: Some(labels), min_time, max_time }],
        }),
        exemplars: Some(ExemplarsInfo { min_time: in_memory_ms, max_time }),
        query: match reader.config.thanos_query_api {
            ThanosQueryApi::Announced => Some(QueryApiInfo {}),
            ThanosQueryApi::Hidden => None,
        },
    })
}

/// The last time on the grid that isn't after this one.
fn on_grid(time_ms: i64) -> i64 {
    time_ms.saturating_sub(time_ms.rem_euclid(BEGIN_GRID_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begin_is_a_multiple_of_two_hours_and_never_later() {
        const GRID: i64 = 7_200_000;
        for (time_ms, expect) in [
            (0, 0),
            (1, 0),
            (GRID - 1, 0),
            (GRID, GRID),
            (2 * GRID + 5, 2 * GRID),
            (-1, -GRID),
            (-GRID, -GRID),
        ] {
            assert_eq!(on_grid(time_ms), expect, "{time_ms}");
        }
        assert!(on_grid(i64::MAX) > i64::MAX - GRID && on_grid(i64::MIN) == i64::MIN);
    }
}

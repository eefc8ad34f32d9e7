//! `Info`: what Thanos Query has to know to ask this node, and not to ask it in vain.

use silverback_proto::thanos::info::{ExemplarsInfo, InfoResponse, QueryApiInfo, StoreInfo, TsdbInfo};
use silverback_proto::thanos::{Label, ZLabelSet};

use crate::api::query::Reader;
use crate::api::query::read_fault::{ReadFault, check_replayed};
use crate::config::ThanosQueryApi;

/// What Thanos Query takes for a store of newest samples.
const COMPONENT: &str = "receive";

/// What the node is, once all its data is back.
pub(super) fn answer(reader: &Reader) -> Result<InfoResponse, ReadFault> {
    check_replayed(reader)?;
    let label =
        |(name, value): &(Box<str>, Box<str>)| Label { name: name.to_string(), value: value.to_string() };
    let labels = ZLabelSet { labels: reader.external.labels().0.iter().map(label).collect() };
    let retention_ms = reader.config.retention.as_millis() as i64;
    // No shard is asked: what is older is dropped at the next pass of retention.
    let (in_memory_ms, max_time) = (reader.clock.now_ms().saturating_sub(retention_ms), i64::MAX);
    let min_time = in_memory_ms.min(reader.node.local_blocks.oldest_ms());
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

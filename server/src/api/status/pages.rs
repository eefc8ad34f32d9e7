//! The node's own pages: metrics, status, health, readiness.

use std::net::SocketAddr;
use std::path::Path;

use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};

use crate::api::core::CoreContext;
use crate::api::host_name::host_name;
use crate::api::ingest::write_status::WriteStatus;
use crate::api::query::local_blocks::OpenBlockCounts;
use crate::api::response::cause::Cause;
use crate::api::response::{NodeResponse, text, with_type};
use crate::api::status::cells_status::CellsStatus;
use crate::api::status::node_status::{self, LogStatus, NodeStatus, OwnMetrics, ShardStatus};
use crate::api::status::{memory_metrics, migration_metrics, node_metrics, rebalance_metrics};
use crate::blocks::BlockCounts;
use crate::routing::fanout::{self, FanoutError};
use silverback_host::disk::room::FileSystemRoom;
use silverback_host::metrics::{self, Family};
use silverback_model::{Labels, RefusedCounts};
use silverback_runtime::Pinning;
use silverback_shipper::{Shipper, ShipperCounts};
use silverback_storage::message::CoreStats;

/// `/`
pub(crate) fn status_page() -> NodeResponse {
    let mut page = with_type(StatusCode::OK, node_status::PAGE_CONTENT_TYPE, node_status::PAGE);
    let policy = HeaderValue::from_static(node_status::PAGE_SECURITY_POLICY);
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    page
}

/// `/-/healthy`
pub(crate) fn healthy(core: &CoreContext) -> NodeResponse {
    match core.unhealthy() {
        None => text(StatusCode::OK, "silverback is healthy\n"),
        Some(why) => text(Cause::NotReady.http(), format!("not healthy: {why}\n")),
    }
}

/// `/-/ready`
pub(crate) fn ready(core: &CoreContext) -> NodeResponse {
    match core.not_ready() {
        None => text(StatusCode::OK, "silverback is ready\n"),
        Some(why) => text(Cause::NotReady.http(), format!("not ready: {why}\n")),
    }
}

/// `/-/replayed`
pub(crate) fn replayed(core: &CoreContext) -> NodeResponse {
    match core.replaying() {
        None => text(StatusCode::OK, "silverback has its data back\n"),
        Some(replaying) => text(Cause::NotReady.http(), format!("{replaying}\n")),
    }
}

/// `/metrics`
pub(crate) async fn metrics(core: &CoreContext) -> NodeResponse {
    match families(core).await {
        Ok(mut families) => {
            families.push(node_metrics::refusals(&core.node.refusals.entries()));
            with_type(StatusCode::OK, metrics::CONTENT_TYPE, metrics::render(&families))
        }
        Err(error) => text(Cause::NotReady.http(), format!("{error}\n")),
    }
}

async fn families(core: &CoreContext) -> Result<Vec<Family>, FanoutError> {
    let cores = fanout::stats(&core.router).await?;
    let mut families = vec![metrics::build_info()];
    families.extend(metrics::process_families(Path::new(metrics::PROC)));
    families.extend(node_metrics::families(&cores, core.not_ready().is_none()));
    match core.node.pinning {
        Pinning::Pinned => families.push(node_metrics::placement(&core.node.cpus, &core.node.nodes)),
        Pinning::Free => {}
    }
    families.extend(core.node.reloads.iter().flat_map(|reloads| node_metrics::reloads(reloads)));
    let shipper = core.node.shipper.as_deref().map(Shipper::counts);
    families.extend(shipper.iter().flat_map(|counts| metrics::families(ShipperCounts::METRICS, counts)));
    families.extend(migration_metrics::families(core.node.steering.migrations.counts(), &cores));
    families.extend(memory_metrics::families(&core.node.memory, &cores));
    // One that doesn't say its room has none: a metric that is missing is seen, a zero is believed.
    let room = core.node.room.get();
    families.extend(room.iter().flat_map(|room| metrics::families(FileSystemRoom::METRICS, room)));
    let blocks = core.node.blocks.iter().map(|blocks| &blocks.counts);
    families.extend(blocks.flat_map(|counts| metrics::families(BlockCounts::METRICS, counts)));
    families.extend(metrics::families(OpenBlockCounts::METRICS, &core.node.local_blocks.counts()));
    families.extend(rebalance_metrics::families(core.config.rebalance, &core.node.steering, &cores));
    Ok(families)
}

/// The node's metrics as a scrape of itself would store them, but for those with labels that senders choose: what is
/// refused makes no series here.
pub(crate) async fn own_series(core: &CoreContext) -> Result<Vec<(Labels, f64)>, FanoutError> {
    let instance = instance(core);
    let target = [("job", "silverback"), ("instance", instance.as_str())];
    let families = families(core).await?;
    let mut series: Vec<_> = families.iter().flat_map(|family| family.series(&target)).collect();
    series.push((Labels::from_pairs([("__name__", "up")].into_iter().chain(target)), 1.0));
    Ok(series)
}

/// Of this node's own metrics.
fn instance(core: &CoreContext) -> String {
    instance_of(&core.node.listen, &host_name())
}

/// What tells this node from others: an address, or the host's name where that is every node's alike.
fn instance_of(listen: &[SocketAddr], host: &str) -> String {
    match listen.first() {
        Some(address) if address.ip().is_unspecified() && !host.is_empty() => {
            format!("{host}:{}", address.port())
        }
        Some(address) => address.to_string(),
        None => host.to_owned(),
    }
}

/// `/api/v1/status/node`
pub(crate) async fn node_status(core: &CoreContext) -> NodeResponse {
    let cores = match fanout::stats(&core.router).await {
        Ok(cores) => cores,
        Err(error) => return text(Cause::NotReady.http(), format!("{error}\n")),
    };
    let json = serde_json::to_string(&status_of(core, &cores)).expect("the status is plain numbers and text");
    with_type(StatusCode::OK, "application/json", json)
}

/// `/api/v1/status/cells`
pub(crate) async fn cells_status(core: &CoreContext) -> NodeResponse {
    match CellsStatus::gather(core).await {
        Ok(cells) => {
            let json = serde_json::to_string(&cells).expect("the status is plain numbers");
            with_type(StatusCode::OK, "application/json", json)
        }
        Err(error) => text(Cause::NotReady.http(), format!("{error}\n")),
    }
}

/// `/api/v1/status/refusals`
pub(crate) fn refusals(core: &CoreContext) -> NodeResponse {
    let json = serde_json::json!({ "status": "success", "data": core.node.refusals.entries() });
    with_type(StatusCode::OK, "application/json", json.to_string())
}

fn status_of(core: &CoreContext, cores: &[CoreStats]) -> NodeStatus {
    let sum = |of: fn(&CoreStats) -> u64| cores.iter().map(of).sum::<u64>();
    let time_ms = core.clock.now_ms();
    let uptime_ms = time_ms.saturating_sub(core.node.started_ms);
    let cpu_of = |shard: usize| core.node.pinned_cpu(shard).map(|cpu| cpu as u32);
    NodeStatus {
        name: host_name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time_ms,
        uptime_s: uptime_ms as f64 / 1000.0,
        ready: core.not_ready().is_none(),
        not_ready: core.not_ready().unwrap_or_default(),
        listen: core.node.listen.iter().map(ToString::to_string).collect(),
        retention_s: core.config.retention.as_secs(),
        series: sum(|c| c.shard.series as u64),
        samples_total: sum(|c| c.shard.samples),
        writes: WriteStatus::new(cores),
        received_bytes_total: sum(|c| c.acceptor.write_bytes),
        reads_total: sum(|c| c.acceptor.reads),
        resident_bytes: resident_bytes(),
        memory: node_status::MemoryStatus::new(&core.node.memory, cores),
        log: LogStatus::new(cores),
        disk: core.node.room.get(),
        own_metrics: core
            .config
            .self_scrape_interval
            .map(|interval| OwnMetrics { instance: instance(core), interval_s: interval.as_secs_f64() }),
        connections: sum(|c| c.executor.connections_open),
        refused: node_status::refused_by_reason(&refused(cores)),
        shards: cores.iter().enumerate().map(|(i, c)| ShardStatus::new(&c.shard, cpu_of(i))).collect(),
    }
}

/// Samples refused by decoders and shards.
pub(crate) fn refused(cores: &[CoreStats]) -> RefusedCounts {
    let mut refused = RefusedCounts::default();
    for core in cores {
        refused.merge(&core.acceptor.refused);
        refused.merge(&core.shard.refused);
    }
    refused
}

fn resident_bytes() -> u64 {
    metrics::resident_bytes(Path::new(metrics::PROC)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_listen_on_all_addresses_are_told_apart_by_their_hosts() {
        let check = |listen: &[&str], host, instance| {
            let listen: Vec<SocketAddr> = listen.iter().map(|address| address.parse().unwrap()).collect();
            assert_eq!(instance_of(&listen, host), instance, "{listen:?} {host:?}");
        };
        check(&["0.0.0.0:9009"], "silverback-0", "silverback-0:9009");
        check(&["[::]:9009", "10.0.0.1:9010"], "silverback-0", "silverback-0:9009");
        check(&["10.0.0.1:9009", "0.0.0.0:9010"], "silverback-0", "10.0.0.1:9009");
        check(&["0.0.0.0:9009"], "", "0.0.0.0:9009");
        check(&[], "silverback-0", "silverback-0");
    }
}

//! `silverback.v1.Admin`: the shards and cells of the node, with their counters and sizes.

use std::rc::Rc;

use send_wrapper::SendWrapper;
use silverback_proto::v1::admin_server::{Admin, AdminServer};
use silverback_proto::v1::{Cell, CellsRequest, CellsResponse, Shard, ShardsRequest, ShardsResponse};
use tonic::{Request, Response, Status};

use super::status;
use crate::api::core::Core;
use crate::api::fanout::{self, FanoutError};
use crate::api::read_fault::ReadFault;
use crate::limits::CELL_COUNT;
use crate::message::{CellStats, CoreStats};
use crate::model::{CellId, ShardId};
use crate::routing::RoutingTable;
use crate::runtime::timeout;

/// The admin service of a core.
pub fn service(core: &Rc<Core>) -> AdminServer<NodeAdmin> {
    AdminServer::new(NodeAdmin { core: SendWrapper::new(Rc::clone(core)) })
}

/// Answers what an operator asks.
pub struct NodeAdmin {
    // tonic asks for `Send`; a request stays on its core.
    core: SendWrapper<Rc<Core>>,
}

#[tonic::async_trait]
impl Admin for NodeAdmin {
    async fn shards(&self, _request: Request<ShardsRequest>) -> Result<Response<ShardsResponse>, Status> {
        let stats = SendWrapper::new(asked(&self.core, fanout::stats(&self.core))).await?;
        let shards = stats.iter().map(|core| shard(&self.core, core)).collect();
        Ok(Response::new(ShardsResponse {
            shards,
            uptime_ms: self.core.node.started.elapsed().as_millis() as u64,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }))
    }

    async fn cells(&self, request: Request<CellsRequest>) -> Result<Response<CellsResponse>, Status> {
        let wanted = request.into_inner().shard;
        let count = self.core.router.shards().count();
        if let Some(shard) = wanted.filter(|shard| *shard as usize >= count) {
            return Err(Status::not_found(format!("there is no shard {shard}: the node has {count}")));
        }
        let of_shards = SendWrapper::new(asked(&self.core, fanout::cells(&self.core))).await?;
        let is_wanted = |shard: &ShardId| wanted.is_none_or(|wanted| wanted == u32::from(shard.0));
        let of_shards = of_shards.into_iter().filter(|(shard, _)| is_wanted(shard));
        let mut cells: Vec<_> = of_shards
            .flat_map(|(shard, cells)| cells.into_iter().map(move |one| cell(shard, &one)))
            .collect();
        cells.sort_unstable_by_key(|cell| cell.number);
        Ok(Response::new(CellsResponse { cells }))
    }
}

/// Refused until all data is back: what is told of a half-filled shard would be wrong.
async fn asked<T>(core: &Core, asking: impl Future<Output = Result<T, FanoutError>>) -> Result<T, Status> {
    let limit = core.config.request_timeout;
    let answer = async {
        core.check_replayed()?;
        Ok(asking.await?)
    };
    let answer = timeout(limit, answer).await.unwrap_or(Err(ReadFault::TimedOut(limit)));
    answer.map_err(|fault| status::of_read_fault(&fault))
}

fn shard(core: &Core, stats: &CoreStats) -> Shard {
    let shard = &stats.shard;
    let cpu = core.node.cpus.get(usize::from(shard.shard.0)).map_or(0, |cpu| *cpu as u32);
    Shard {
        number: shard.shard.0.into(),
        cpu,
        series: shard.series as u64,
        cells: owned_cells(&core.router.table(), shard.shard),
        samples: shard.samples,
        samples_refused: shard.refused.total(),
        series_created: shard.series_created,
        busy_us: shard.busy_us,
        commits: shard.commits,
        queued: shard.queued as u64,
        memory_bytes: shard.memory.total() as u64,
        memory_bytes_max: shard.memory_budget_bytes as u64,
        wal_bytes: shard.log.counts.segment_bytes + shard.log.counts.checkpoint_bytes,
    }
}

fn owned_cells(table: &RoutingTable, shard: ShardId) -> u32 {
    let cells = (0..CELL_COUNT as u16).map(CellId);
    cells.filter(|cell| table.owner(*cell) == shard).count() as u32
}

fn cell(shard: ShardId, stats: &CellStats) -> Cell {
    Cell {
        number: stats.cell.0.into(),
        shard: shard.0.into(),
        series: stats.series as u64,
        samples: stats.samples,
    }
}

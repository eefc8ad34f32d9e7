//! `silverback.v1.Admin`: the shards and cells of the node, and what an operator says about where
//! cells go.

mod look;
mod steer;

use std::rc::Rc;

use send_wrapper::SendWrapper;
use silverback_proto::v1::admin_server::{Admin, AdminServer};
use silverback_proto::v1::{
    CellsRequest, CellsResponse, DrainShardRequest, DrainShardResponse, GetRebalanceRequest,
    GetRebalanceResponse, MoveCellRequest, MoveCellResponse, PauseRebalanceRequest, PauseRebalanceResponse,
    PinCellRequest, PinCellResponse, ResumeRebalanceRequest, ResumeRebalanceResponse, ShardsRequest,
    ShardsResponse, UndrainShardRequest, UndrainShardResponse, UnpinCellRequest, UnpinCellResponse,
    WriteCheckpointRequest, WriteCheckpointResponse,
};
use tonic::{Request, Response, Status};

use crate::api::cell_mover::CellMover;
use crate::api::grpc::status::Replied;
use crate::api::response::cause::Cause;
use crate::rebalance::Motion;
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, ShardId};

/// The admin service of a core.
pub(crate) fn service(mover: &Rc<CellMover>) -> AdminServer<NodeAdmin> {
    AdminServer::new(NodeAdmin { mover: SendWrapper::new(Rc::clone(mover)) })
}

/// Answers what an operator asks, and does what they say.
pub(crate) struct NodeAdmin {
    // tonic asks for `Send`; a request stays on its core.
    mover: SendWrapper<Rc<CellMover>>,
}

#[tonic::async_trait]
impl Admin for NodeAdmin {
    async fn shards(&self, _request: Request<ShardsRequest>) -> Replied<ShardsResponse> {
        SendWrapper::new(look::shards(&self.mover)).await.map(Response::new)
    }

    async fn cells(&self, request: Request<CellsRequest>) -> Replied<CellsResponse> {
        let wanted = request.into_inner().shard.map(|shard| self.shard(shard)).transpose()?;
        SendWrapper::new(look::cells(&self.mover, wanted)).await.map(Response::new)
    }

    async fn pin_cell(&self, request: Request<PinCellRequest>) -> Replied<PinCellResponse> {
        steer::check_access(&self.mover)?;
        steer::pin(&self.mover, cell(request.into_inner().cell)?);
        Ok(Response::new(PinCellResponse {}))
    }

    async fn unpin_cell(&self, request: Request<UnpinCellRequest>) -> Replied<UnpinCellResponse> {
        steer::check_access(&self.mover)?;
        steer::unpin(&self.mover, cell(request.into_inner().cell)?);
        Ok(Response::new(UnpinCellResponse {}))
    }

    async fn move_cell(&self, request: Request<MoveCellRequest>) -> Replied<MoveCellResponse> {
        steer::check_access(&self.mover)?;
        let request = request.into_inner();
        let (cell, to) = (cell(request.cell)?, self.shard(request.shard)?);
        SendWrapper::new(steer::move_cell(&self.mover, cell, to)).await.map(Response::new)
    }

    async fn get_rebalance(&self, _request: Request<GetRebalanceRequest>) -> Replied<GetRebalanceResponse> {
        Ok(Response::new(look::rebalance(&self.mover)))
    }

    async fn pause_rebalance(
        &self,
        _request: Request<PauseRebalanceRequest>,
    ) -> Replied<PauseRebalanceResponse> {
        steer::check_access(&self.mover)?;
        steer::set_motion(&self.mover, Motion::Paused)?;
        Ok(Response::new(PauseRebalanceResponse {}))
    }

    async fn resume_rebalance(
        &self,
        _request: Request<ResumeRebalanceRequest>,
    ) -> Replied<ResumeRebalanceResponse> {
        steer::check_access(&self.mover)?;
        steer::set_motion(&self.mover, Motion::Running)?;
        Ok(Response::new(ResumeRebalanceResponse {}))
    }

    async fn drain_shard(&self, request: Request<DrainShardRequest>) -> Replied<DrainShardResponse> {
        steer::check_access(&self.mover)?;
        let shard = self.shard(request.into_inner().shard)?;
        steer::drain(&self.mover, shard).map(Response::new)
    }

    async fn undrain_shard(&self, request: Request<UndrainShardRequest>) -> Replied<UndrainShardResponse> {
        steer::check_access(&self.mover)?;
        steer::undrain(&self.mover, self.shard(request.into_inner().shard)?);
        Ok(Response::new(UndrainShardResponse {}))
    }

    async fn write_checkpoint(
        &self,
        request: Request<WriteCheckpointRequest>,
    ) -> Replied<WriteCheckpointResponse> {
        steer::check_access(&self.mover)?;
        let shard = self.shard(request.into_inner().shard)?;
        SendWrapper::new(steer::write_checkpoint(&self.mover, shard)).await.map(Response::new)
    }
}

impl NodeAdmin {
    fn shard(&self, number: u32) -> Result<ShardId, Status> {
        let shards = || self.mover.router.shards();
        shards().find(|shard| u32::from(shard.0) == number).ok_or_else(|| {
            let count = shards().count();
            Cause::NotFound.status(format!("there is no shard {number}: the node has {count}"))
        })
    }
}

fn cell(number: u32) -> Result<CellId, Status> {
    let number = u16::try_from(number).ok().filter(|number| usize::from(*number) < CELL_COUNT);
    number
        .map(CellId)
        .ok_or_else(|| Cause::Invalid.status(format!("cells are numbered from 0 to {}", CELL_COUNT - 1)))
}

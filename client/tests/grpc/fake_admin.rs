//! The made up node's admin service: one shard, one cell, and a note of all that it is asked.

use std::fmt::Debug;

use silverback_proto::v1;
use silverback_proto::v1::admin_server::Admin;
use tonic::{Request, Response, Status};

use crate::fake::Fake;

impl Fake {
    /// Notes what it is asked, and answers as planned.
    fn steer<Q: Debug, A>(&self, request: &Request<Q>, answer: A) -> Result<Response<A>, Status> {
        self.check(request)?;
        let mut state = self.state();
        state.steered.push(format!("{:?}", request.get_ref()));
        state.steering_refused.clone().map_or(Ok(Response::new(answer)), Err)
    }
}

#[tonic::async_trait]
impl Admin for Fake {
    async fn shards(
        &self,
        request: Request<v1::ShardsRequest>,
    ) -> Result<Response<v1::ShardsResponse>, Status> {
        self.check(&request)?;
        let checkpoints = self.state().checkpoints;
        let shards = vec![v1::Shard {
            number: 0,
            samples: 7,
            drained: true,
            checkpoints,
            wal_since_checkpoint_bytes: 3 << 20,
            ..Default::default()
        }];
        Ok(Response::new(v1::ShardsResponse { shards, uptime_ms: 1500, version: "1".to_owned() }))
    }

    async fn cells(&self, request: Request<v1::CellsRequest>) -> Result<Response<v1::CellsResponse>, Status> {
        let shard = request.get_ref().shard.unwrap_or(9);
        let cell = v1::Cell { number: 417, shard, busy_us_per_s: 12_300, pinned: true, ..Default::default() };
        Ok(Response::new(v1::CellsResponse { cells: vec![cell] }))
    }

    async fn pin_cell(
        &self,
        request: Request<v1::PinCellRequest>,
    ) -> Result<Response<v1::PinCellResponse>, Status> {
        self.steer(&request, v1::PinCellResponse {})
    }

    async fn unpin_cell(
        &self,
        request: Request<v1::UnpinCellRequest>,
    ) -> Result<Response<v1::UnpinCellResponse>, Status> {
        self.steer(&request, v1::UnpinCellResponse {})
    }

    async fn move_cell(
        &self,
        request: Request<v1::MoveCellRequest>,
    ) -> Result<Response<v1::MoveCellResponse>, Status> {
        let moved = v1::MoveCellResponse {
            from_shard: 1,
            series: 1200,
            bytes: 3 << 20,
            took_us: 12_345,
            paused_us: 678,
        };
        self.steer(&request, moved)
    }

    async fn get_rebalance(
        &self,
        request: Request<v1::GetRebalanceRequest>,
    ) -> Result<Response<v1::GetRebalanceResponse>, Status> {
        self.check(&request)?;
        Ok(Response::new(v1::GetRebalanceResponse {
            state: v1::RebalanceState::Paused.into(),
            imbalance: 1.25,
            imbalance_max: 1.1,
            drained_shards: vec![0],
            pinned_cells: vec![417],
            moves_planned: 3,
            moves_done: 2,
            moves_failed: 1,
        }))
    }

    async fn pause_rebalance(
        &self,
        request: Request<v1::PauseRebalanceRequest>,
    ) -> Result<Response<v1::PauseRebalanceResponse>, Status> {
        self.steer(&request, v1::PauseRebalanceResponse {})
    }

    async fn resume_rebalance(
        &self,
        request: Request<v1::ResumeRebalanceRequest>,
    ) -> Result<Response<v1::ResumeRebalanceResponse>, Status> {
        self.steer(&request, v1::ResumeRebalanceResponse {})
    }

    async fn drain_shard(
        &self,
        request: Request<v1::DrainShardRequest>,
    ) -> Result<Response<v1::DrainShardResponse>, Status> {
        self.steer(&request, v1::DrainShardResponse { cells: 512, pinned_cells: 1 })
    }

    async fn undrain_shard(
        &self,
        request: Request<v1::UndrainShardRequest>,
    ) -> Result<Response<v1::UndrainShardResponse>, Status> {
        self.steer(&request, v1::UndrainShardResponse {})
    }
    async fn write_checkpoint(
        &self,
        request: Request<v1::WriteCheckpointRequest>,
    ) -> Result<Response<v1::WriteCheckpointResponse>, Status> {
        let checkpoints = {
            let mut state = self.state();
            state.checkpoints += 1;
            state.checkpoints
        };
        self.steer(&request, v1::WriteCheckpointResponse { checkpoints })
    }
}

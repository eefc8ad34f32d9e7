//! `Admin`, what changes something: cells pinned and moved by hand, shards drained, the rebalance paused.

use std::time::Duration;

use silverback::config::{AdminAccess, RebalanceMode};
use silverback_node_test_support::Node;
use silverback_proto::v1::admin_client::AdminClient;
use silverback_proto::v1::{
    Cell, CellsRequest, DrainShardRequest, GetRebalanceRequest, MoveCellRequest, PauseRebalanceRequest,
    PinCellRequest, RebalanceState, ResumeRebalanceRequest, Shard, ShardsRequest, UndrainShardRequest,
    UnpinCellRequest, WriteCheckpointRequest,
};
use silverback_test_support::Waiting;
use tonic::{Code, Response, Status};

use crate::grpc::admin::{client, write_some};
use crate::grpc::channel::Channel;

/// Two shards with 100 series, that take changes and look at their loads all the time.
async fn steered() -> (Node, AdminClient<Channel>) {
    let node = Node::start_with(2, |config| {
        config.admin_api = AdminAccess::Full;
        config.rebalance_interval = Duration::from_millis(100);
    });
    write_some(&node);
    let client = client(&node).await;
    (node, client)
}

async fn shard(client: &mut AdminClient<Channel>, number: usize) -> Shard {
    client.shards(ShardsRequest {}).await.unwrap().into_inner().shards[number]
}

async fn cells(client: &mut AdminClient<Channel>) -> Vec<Cell> {
    client.cells(CellsRequest { shard: None }).await.unwrap().into_inner().cells
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(answer: Result<Response<T>, Status>, code: Code, words: &str) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(words), "{status}");
}

#[tokio::test]
async fn a_node_takes_no_changes_unless_it_was_told_to() {
    let node = Node::start(2);
    let mut client = client(&node).await;
    let denied = Code::PermissionDenied;
    check_refused(client.pin_cell(PinCellRequest { cell: 1 }).await, denied, "--admin-api=full");
    check_refused(client.move_cell(MoveCellRequest { cell: 1, shard: 1 }).await, denied, "--admin-api");
    check_refused(client.pause_rebalance(PauseRebalanceRequest {}).await, denied, "--admin-api");
    check_refused(client.drain_shard(DrainShardRequest { shard: 0 }).await, denied, "--admin-api");
    let checkpoint = WriteCheckpointRequest { shard: 0 };
    check_refused(client.write_checkpoint(checkpoint).await, denied, "--admin-api");
    let status = client.get_rebalance(GetRebalanceRequest {}).await.unwrap().into_inner();
    assert_eq!(status.state(), RebalanceState::Running);
}

#[tokio::test]
async fn a_cell_is_moved_with_all_that_it_has() {
    let (_node, mut client) = steered().await;
    let before = cells(&mut client).await;
    let cell = before.iter().find(|cell| cell.shard == 0).copied().unwrap();
    let request = MoveCellRequest { cell: cell.number, shard: 1 };
    let moved = client.move_cell(request).await.unwrap().into_inner();
    assert_eq!((moved.from_shard, moved.series), (0, cell.series));
    assert!(moved.bytes > 0 && moved.took_us >= moved.paused_us, "{moved:?}");
    let after = cells(&mut client).await;
    let place = |cells: &[Cell]| cells.iter().map(|c| (c.number, c.series)).collect::<Vec<_>>();
    assert_eq!(place(&after), place(&before));
    assert_eq!(after.iter().find(|c| c.number == cell.number).unwrap().shard, 1);
    check_refused(client.move_cell(request).await, Code::AlreadyExists, "already");
}

#[tokio::test]
async fn a_checkpoint_that_is_asked_for_is_written_and_shortens_the_log() {
    let (_node, mut client) = steered().await;
    let before = shard(&mut client, 1).await;
    assert!(before.wal_since_checkpoint_bytes > 0, "{before:?}");
    let asked = client.write_checkpoint(WriteCheckpointRequest { shard: 1 }).await.unwrap().into_inner();
    assert!(asked.checkpoints > before.checkpoints, "{asked:?} after {before:?}");
    let waiting = Waiting::begin();
    let after = loop {
        let now = shard(&mut client, 1).await;
        if now.checkpoints >= asked.checkpoints {
            break now;
        }
        waiting.check(|| format!("{now:?}"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(after.wal_since_checkpoint_bytes < before.wal_since_checkpoint_bytes, "{after:?}");
    // It is not asked for again and again, nor of a shard that nobody named.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shard(&mut client, 1).await.checkpoints, asked.checkpoints);
    assert_eq!(shard(&mut client, 0).await.checkpoints, before.checkpoints);
    let missing = WriteCheckpointRequest { shard: 2 };
    check_refused(client.write_checkpoint(missing).await, Code::NotFound, "the node has 2");
}

#[tokio::test]
async fn cells_and_shards_that_are_not_there_are_refused() {
    let (_node, mut client) = steered().await;
    for cell in [1024, u32::MAX] {
        let invalid = Code::InvalidArgument;
        check_refused(client.pin_cell(PinCellRequest { cell }).await, invalid, "0 to 1023");
        check_refused(client.unpin_cell(UnpinCellRequest { cell }).await, invalid, "0 to 1023");
        check_refused(client.move_cell(MoveCellRequest { cell, shard: 1 }).await, invalid, "0 to 1023");
    }
    let missing = Code::NotFound;
    check_refused(client.move_cell(MoveCellRequest { cell: 1, shard: 2 }).await, missing, "no shard 2");
    check_refused(client.drain_shard(DrainShardRequest { shard: 2 }).await, missing, "the node has 2");
    check_refused(client.undrain_shard(UndrainShardRequest { shard: 9 }).await, missing, "no shard 9");
}

#[tokio::test]
async fn a_pinned_cell_is_listed_as_one_even_without_series() {
    let (_node, mut client) = steered().await;
    let with_series = cells(&mut client).await;
    let empty = (0..1024).find(|number| with_series.iter().all(|cell| cell.number != *number)).unwrap();
    for cell in [empty, with_series[0].number] {
        client.pin_cell(PinCellRequest { cell }).await.unwrap();
        client.pin_cell(PinCellRequest { cell }).await.unwrap();
    }
    let listed = cells(&mut client).await;
    let pinned: Vec<u32> = listed.iter().filter(|cell| cell.pinned).map(|cell| cell.number).collect();
    let mut expect = vec![empty, with_series[0].number];
    expect.sort_unstable();
    assert_eq!(pinned, expect);
    assert!(listed.is_sorted_by(|a, b| a.number < b.number));
    client.unpin_cell(UnpinCellRequest { cell: empty }).await.unwrap();
    let status = client.get_rebalance(GetRebalanceRequest {}).await.unwrap().into_inner();
    assert_eq!(status.pinned_cells, [with_series[0].number]);
}

#[tokio::test]
async fn a_drained_shard_gives_all_but_pinned_cells_away() {
    let (_node, mut client) = steered().await;
    client.pin_cell(PinCellRequest { cell: 3 }).await.unwrap();
    let stays: u64 = cells(&mut client).await.iter().filter(|c| c.number == 3).map(|c| c.series).sum();
    let draining = client.drain_shard(DrainShardRequest { shard: 0 }).await.unwrap().into_inner();
    assert_eq!((draining.cells, draining.pinned_cells), (512, 1));
    check_refused(
        client.drain_shard(DrainShardRequest { shard: 1 }).await,
        Code::FailedPrecondition,
        "no other shard",
    );
    let back = MoveCellRequest { cell: 700, shard: 0 };
    check_refused(client.move_cell(back).await, Code::FailedPrecondition, "undrain");
    let waiting = Waiting::begin();
    loop {
        let shards = client.shards(ShardsRequest {}).await.unwrap().into_inner().shards;
        assert!(shards[0].drained && !shards[1].drained);
        if shards[0].cells == 1 {
            assert_eq!((shards[0].series, shards[1].series), (stays, 100 - stays));
            assert_eq!(shards[1].cells, 1023);
            break;
        }
        waiting.check(|| format!("{shards:?}"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    client.undrain_shard(UndrainShardRequest { shard: 0 }).await.unwrap();
    client.move_cell(back).await.unwrap();
    let status = client.get_rebalance(GetRebalanceRequest {}).await.unwrap().into_inner();
    assert_eq!((status.moves_done, status.moves_failed), (511, 0));
    assert!(status.drained_shards.is_empty());
}

#[tokio::test]
async fn a_pause_holds_a_drain_until_it_is_over() {
    let (_node, mut client) = steered().await;
    client.pause_rebalance(PauseRebalanceRequest {}).await.unwrap();
    client.drain_shard(DrainShardRequest { shard: 0 }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let status = client.get_rebalance(GetRebalanceRequest {}).await.unwrap().into_inner();
    assert_eq!((status.state(), status.moves_planned), (RebalanceState::Paused, 0));
    assert_eq!(status.drained_shards, [0]);
    client.resume_rebalance(ResumeRebalanceRequest {}).await.unwrap();
    let waiting = Waiting::begin();
    while client.get_rebalance(GetRebalanceRequest {}).await.unwrap().into_inner().moves_done == 0 {
        waiting.check(|| "no cell has left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn where_no_cell_moves_by_itself_one_is_moved_by_hand_alone() {
    let node = Node::start_with(2, |config| {
        config.admin_api = AdminAccess::Full;
        config.rebalance = RebalanceMode::Off;
    });
    let mut client = client(&node).await;
    let precondition = Code::FailedPrecondition;
    check_refused(client.pause_rebalance(PauseRebalanceRequest {}).await, precondition, "--rebalance=off");
    check_refused(client.resume_rebalance(ResumeRebalanceRequest {}).await, precondition, "--rebalance");
    check_refused(client.drain_shard(DrainShardRequest { shard: 0 }).await, precondition, "--rebalance");
    client.move_cell(MoveCellRequest { cell: 5, shard: 1 }).await.unwrap();
    let status = client.get_rebalance(GetRebalanceRequest {}).await.unwrap().into_inner();
    assert_eq!(status.state(), RebalanceState::Off);
}

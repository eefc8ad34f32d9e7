//! `Admin`: shards and cells add up to what was written.

use silverback_node_test_support::Node;
use silverback_node_test_support::written::{series, start_ms, write};
use silverback_proto::v1::admin_client::AdminClient;
use silverback_proto::v1::{CellsRequest, ShardsRequest};
use tonic::Code;

use crate::grpc::channel::{Channel, origin};

pub(super) async fn client(node: &Node) -> AdminClient<Channel> {
    AdminClient::with_origin(Channel::open(node.address).await, origin(node.address))
}

pub(super) fn write_some(node: &Node) {
    let start = start_ms();
    let one = |i: i32| series(&[("__name__", "up"), ("i", &i.to_string())], start, [1.0, 2.0, 3.0]);
    write(node, &(0..100).map(one).collect::<Vec<_>>());
}

#[tokio::test]
async fn shards_tell_what_they_hold() {
    let node = Node::start(2);
    write_some(&node);
    let answer = client(&node).await.shards(ShardsRequest {}).await.unwrap().into_inner();
    assert_eq!(answer.version, env!("CARGO_PKG_VERSION"));
    let shards = &answer.shards;
    assert_eq!(shards.iter().map(|shard| shard.number).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(shards.iter().map(|shard| shard.cells).sum::<u32>(), 1024);
    assert_eq!(shards.iter().map(|shard| shard.series).sum::<u64>(), 100);
    assert_eq!(shards.iter().map(|shard| shard.samples).sum::<u64>(), 300);
    for shard in shards {
        assert!(shard.memory_bytes > 0 && shard.memory_bytes < shard.memory_bytes_max, "{shard:?}");
        assert!(
            shard.wal_bytes > 0 && shard.commits > 0 && shard.series == shard.series_created,
            "{shard:?}"
        );
    }
}

#[tokio::test]
async fn cells_add_up_to_their_shards() {
    let node = Node::start(2);
    write_some(&node);
    let mut client = client(&node).await;
    let cells = client.cells(CellsRequest { shard: None }).await.unwrap().into_inner().cells;
    assert!(cells.is_sorted_by(|a, b| a.number < b.number));
    assert!(cells.iter().all(|cell| cell.number < 1024 && cell.shard == cell.number / 512), "{cells:?}");
    assert_eq!(cells.iter().map(|cell| cell.series).sum::<u64>(), 100);
    assert_eq!(cells.iter().map(|cell| cell.samples).sum::<u64>(), 300);
    let of_one = client.cells(CellsRequest { shard: Some(1) }).await.unwrap().into_inner().cells;
    let expect: Vec<_> = cells.into_iter().filter(|cell| cell.shard == 1).collect();
    assert_eq!(of_one, expect);
}

#[tokio::test]
async fn a_shard_that_is_not_there_has_no_cells() {
    let node = Node::start(1);
    let status = client(&node).await.cells(CellsRequest { shard: Some(1) }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

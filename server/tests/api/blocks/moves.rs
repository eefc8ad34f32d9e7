//! Cells that move by hand.

use silverback_proto::v1::admin_client::AdminClient;
use silverback_proto::v1::{CellsRequest, MoveCellRequest};
use silverback_test_support::home::NodeProcess;
use tonic::transport::Endpoint;

/// Has all cells with series move to a shard.
pub(super) fn move_all_cells(node: &mut NodeProcess, to: u32) {
    let address = node.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let moved = runtime.block_on(async {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let mut admin = AdminClient::new(channel);
        let cells = admin.cells(CellsRequest::default()).await.unwrap().into_inner().cells;
        let mut moved = 0;
        for cell in cells.into_iter().filter(|cell| cell.shard != to) {
            admin.move_cell(MoveCellRequest { cell: cell.number, shard: to }).await.unwrap();
            moved += 1;
        }
        moved
    });
    assert!(moved > 0, "all were there");
}

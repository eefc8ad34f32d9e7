//! Kill -9 while cells move from shard to shard under load, to and fro: each comes back once, with all
//! that was acknowledged.

use std::net::SocketAddr;

use silverback_proto::v1::MoveCellRequest;
use silverback_proto::v1::admin_client::AdminClient;
use silverback_test_support::random::Random;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::kills::Trial;

const RESTARTS: usize = 25;
/// The number of shards is another one after so many restarts.
const SHARDS_CHANGE: usize = 6;

/// Moves random cells to random shards until the node is gone. Returns how many it moved.
fn move_cells(address: SocketAddr, shards: u64, mut random: Random) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut moved = 0;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let Ok(channel) = endpoint.connect().await else { return moved };
        let mut admin = AdminClient::new(channel);
        loop {
            // Few cells, so that each is moved again and again.
            let (cell, shard) = (random.below(16) as u32 * 64, random.below(shards) as u32);
            match admin.move_cell(MoveCellRequest { cell, shard }).await {
                Ok(_) => moved += 1,
                Err(status) if [Code::AlreadyExists, Code::Aborted].contains(&status.code()) => {}
                Err(_) => return moved,
            }
        }
    })
}

#[test]
fn whatever_was_acknowledged_is_there_once_after_kills_while_cells_move() {
    // Many exemplars: one that comes between two passes over its cell goes with the second, though no sample does.
    let mut trial = Trial::new("moves", &["--admin-api=full"]).with_exemplar_in(2);
    let mut moved = 0;
    for restart in 0..RESTARTS {
        if restart % SHARDS_CHANGE == SHARDS_CHANGE - 1 {
            trial.change_shards();
        }
        let mut node = trial.start_ready();
        trial.compare_all(&mut node).check();
        trial.check_nothing_refused();
        let (address, shards, random) = (node.address(), trial.shards(), Random::new(trial.draw()));
        std::thread::scope(|scope| {
            let mover = scope.spawn(move || move_cells(address, shards, random));
            trial.kill_under_load(node);
            moved += mover.join().unwrap();
        });
    }
    let mut node = trial.start_ready();
    trial.compare_all(&mut node).check();
    node.kill();
    let (code, told, complaint) = trial.look_at_logs(&["verify"]);
    assert!(code == 0 && told.ends_with("no damage\n"), "{told}{complaint}");
    println!("{moved} cells moved");
    assert!(moved > RESTARTS as u64, "{moved} cells moved");
    trial.start_ready().stop();
}

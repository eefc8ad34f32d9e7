//! Exemplars and metadata through kills, checkpoints, other numbers of shards, and cells that move.

use serde_json::{Value, json};
use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{PATH, compress, headers};
use silverback_proto::v1::MoveCellRequest;
use silverback_proto::v1::admin_client::AdminClient;
use silverback_test_support::home::{Home, NodeProcess};
use silverback_test_support::wire::{field, label, number, sample, series_v1};
use tonic::transport::Endpoint;

use crate::exemplars::{data, exemplar_v1, exemplars_path, histogram, start_ms};

const SERIES: usize = 200;

/// A round of exemplars, two of each series, and metadata of a metric of its own.
fn write(node: &mut NodeProcess, start_ms: i64, round: i64) {
    let mut body = Vec::new();
    for number in 0..SERIES {
        let at = start_ms + round * 1000;
        let name = format!("m{number}");
        let (first, second) = (format!("{round}"), format!("{round}-again"));
        body.extend(series_v1(&[
            label(b"__name__", name.as_bytes()),
            // Half of the series have native histograms alone.
            if number % 2 == 0 { sample(at, 1.0) } else { field(4, &histogram(at)) },
            exemplar_v1("trace_id", &first, round as f64, at),
            exemplar_v1("trace_id", &second, round as f64, at - 1500),
        ]));
    }
    let name = format!("metric{round}");
    body.extend(field(3, &[number(1, 2), field(2, name.as_bytes()), field(4, b"help")].concat()));
    let answer = node.post(PATH, &headers(Version::V1), &compress(&body));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

fn check_all(node: &mut NodeProcess, rounds: i64, when: &str) {
    let found = data(&node.get(&exemplars_path("{__name__=~\"m.+\"}")));
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), SERIES, "{when}");
    for series in found {
        let exemplars = series["exemplars"].as_array().unwrap();
        assert_eq!(exemplars.len() as i64, 2 * rounds, "{when}: {series}");
        let times: Vec<f64> = exemplars.iter().map(|one| one["timestamp"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{when}: {times:?}");
    }
    let said = data(&node.get("/api/v1/metadata"));
    let metrics: Vec<&String> = said.as_object().unwrap().keys().collect();
    assert_eq!(metrics.len() as i64, rounds, "{when}: {metrics:?}");
    let expect: Value = json!([{"type": "gauge", "unit": "", "help": "help"}]);
    assert!(said.as_object().unwrap().values().all(|one| *one == expect), "{when}: {said}");
}

fn admin<T>(node: &mut NodeProcess, ask: impl AsyncFnOnce(AdminClient<tonic::transport::Channel>) -> T) -> T {
    let address = node.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        ask(AdminClient::new(channel)).await
    })
}

fn move_cells(node: &mut NodeProcess, shard: u32) {
    let moved = admin(node, async |mut admin| {
        let mut moved = 0;
        for cell in 0..1024 {
            moved += u32::from(admin.move_cell(MoveCellRequest { cell, shard }).await.is_ok());
        }
        moved
    });
    assert!(moved > 100, "{moved} cells moved to shard {shard}");
}

#[test]
fn exemplars_and_metadata_survive_kills_other_numbers_of_shards_and_moves() {
    let home = Home::new(env!("CARGO_BIN_EXE_silverback"), env!("CARGO_TARGET_TMPDIR"), "exemplars-are-kept");
    let (start, arguments) = (start_ms(), ["--admin-api=full", "--rebalance=off", "--checkpoint-bytes=1MiB"]);
    let run = |shards: &str| home.start_ready(&[&arguments[..], &[shards]].concat());
    let mut node = run("--shards=2");
    write(&mut node, start, 0);
    check_all(&mut node, 1, "at once");
    node.kill();
    let mut node = run("--shards=2");
    check_all(&mut node, 1, "out of the log");
    move_cells(&mut node, 1);
    check_all(&mut node, 1, "after all cells moved");
    write(&mut node, start, 1);
    move_cells(&mut node, 0);
    check_all(&mut node, 2, "after they moved back");
    node.kill();
    let mut node = run("--shards=3");
    check_all(&mut node, 2, "with another number of shards");
    write(&mut node, start, 2);
    node.kill();
    let mut node = run("--shards=1");
    check_all(&mut node, 3, "out of checkpoints and logs of three");
    node.stop();
    let (code, told, complaint) = home.look_at_logs(&["verify"]);
    assert!(code == 0 && told.ends_with("no damage\n"), "{told}{complaint}");
    check_all(&mut run("--shards=1"), 3, "after a clean stop");
}

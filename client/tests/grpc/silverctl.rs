//! `silverctl load` over gRPC and `silverctl top`, as whole programs.

use std::collections::BTreeSet;
use std::process::Output;

use silverback_proto::v1::{RefusalReason, Terms};
use tokio::process::Command;

use crate::fake::{Fake, Plan, WIDE_TERMS};

/// Runs it against the fake, and gives what it printed and its report.
async fn silverctl(fake: &Fake, words: &[&str]) -> Output {
    let address = format!("http://{}", fake.address);
    let mut command = Command::new(env!("CARGO_BIN_EXE_silverctl"));
    let ran = command.arg("--address").arg(address).args(words).output();
    tokio::time::timeout(crate::fake::TEST_TIMEOUT, ran).await.expect("it ends").expect("it runs")
}

/// Loads 6 targets of 50 series over two connections, and ends with this exit code; what it printed.
async fn load(fake: &Fake, code: i32, words: &[&str]) -> String {
    const SMALL: [&str; 9] = [
        "load",
        "--protocol=grpc",
        "--targets=6",
        "--series-per-target=50",
        "--batch=40",
        "--connections=2",
        "--closed",
        "--start=-1h",
        "--interval=15s",
    ];
    let output = silverctl(fake, &[&SMALL, words].concat()).await;
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{printed}");
    printed
}

fn stored(fake: &Fake) -> (usize, usize) {
    let state = fake.state();
    (state.stored.len(), state.stored.values().map(|samples| samples.len()).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_stores_every_sample_and_defines_each_series_once() {
    let fake = Fake::start([]);
    let printed = load(&fake, 0, &["--rounds=20"]).await;
    assert_eq!(stored(&fake), (300, 6000));
    let state = fake.state();
    assert_eq!(state.came.iter().map(|came| came.definitions).sum::<usize>(), 300);
    assert!(state.came.iter().all(|came| came.batch.values.len() <= 40));
    assert!(printed.contains("samples   acknowledged           6,000"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn churn_begins_new_streams_rather_than_remember_what_is_gone() {
    let fake = Fake::start([]);
    // 80 rounds are 20 minutes: each target is replaced about 40 times.
    load(&fake, 0, &["--rounds=80", "--churn=200%"]).await;
    let (series, samples) = stored(&fake);
    assert!((11_000..=13_500).contains(&series), "{series} series");
    assert_eq!(samples, 300 * 80);
    let streams: BTreeSet<_> = fake.state().came.iter().map(|came| came.stream).collect();
    assert!(streams.len() > 2, "{streams:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_told_by_reason_and_a_broken_stream_loses_nothing() {
    let unavailable = tonic::Status::unavailable("as planned");
    let fake = Fake::start([Plan::silent_until(3, unavailable), Plan::default()]);
    fake.state().refused_value = Some(("10.16.0.0:9100".to_owned(), RefusalReason::SeriesLimit));
    let printed = load(&fake, 1, &["--rounds=20"]).await;
    // One target of the six.
    assert_eq!(stored(&fake), (250, 5000));
    assert!(printed.contains("series_limit: 1,000"), "{printed}");
    assert!(printed.contains("sent again"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn top_prints_shards_and_cells_once() {
    let fake = Fake::start([]);
    let output = silverctl(&fake, &["top", "--once", "--interval=100ms"]).await;
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(printed.contains("samples/s") && printed.contains("cell  shard"), "{printed}");
    let to_a_pipe = silverctl(&fake, &["top"]).await;
    assert_eq!(to_a_pipe.status.code(), Some(2), "{to_a_pipe:?}");
}

async fn check(fake: &Fake, words: &[&str], printed: &str) {
    let output = silverctl(fake, words).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{words:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_is_told_reaches_the_node_and_what_came_of_it_is_told() {
    let fake = Fake::start([]);
    check(&fake, &["cell", "pin", "417"], "cell 417 is pinned\n").await;
    check(&fake, &["cell", "unpin", "417"], "cell 417 is not pinned\n").await;
    let moved = "cell 417 moved from shard 1 to shard 0: 1,200 series, 3.00 MiB in 12.3ms; its writes waited \
                 678.0µs\n";
    check(&fake, &["cell", "move", "417", "--to", "0"], moved).await;
    check(&fake, &["rebalance", "pause"], "no cell moves by itself now\n").await;
    check(&fake, &["rebalance", "resume"], "cells move by themselves again\n").await;
    let draining = "511 cells leave shard 0; one is pinned and stays\n";
    check(&fake, &["shard", "drain", "0"], draining).await;
    check(&fake, &["shard", "undrain", "0"], "shard 0 takes cells again\n").await;
    let written = "shard 0: the checkpoint is on disk, with 3.00 MiB of log after it\n";
    check(&fake, &["shard", "checkpoint"], written).await;
    check(&fake, &["shard", "checkpoint", "0"], written).await;
    let told = [
        "PinCellRequest { cell: 417 }",
        "UnpinCellRequest { cell: 417 }",
        "MoveCellRequest { cell: 417, shard: 0 }",
        "PauseRebalanceRequest",
        "ResumeRebalanceRequest",
        "DrainShardRequest { shard: 0 }",
        "UndrainShardRequest { shard: 0 }",
        "WriteCheckpointRequest { shard: 0 }",
        "WriteCheckpointRequest { shard: 0 }",
    ];
    assert_eq!(fake.state().steered, told);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_cells_and_the_rebalance_are_listed_as_tables_and_as_json() {
    let fake = Fake::start([]);
    let listed = async |words: &[&str]| {
        let output = silverctl(&fake, words).await;
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let cells = listed(&["cells", "--shard", "3", "--sort", "load"]).await;
    let row: Vec<&str> = cells.lines().nth(1).expect("a cell").split_whitespace().collect();
    assert_eq!(row, ["417", "3", "1.23", "%", "0", "0", "0", "B", "yes"]);
    let status = listed(&["rebalance", "status"]).await;
    let row: Vec<&str> = status.lines().nth(1).expect("its state").split_whitespace().collect();
    assert_eq!(row, ["paused", "1.25", "1.10", "3", "2", "1", "1", "0"]);
    assert!(listed(&["shards"]).await.contains("drained"));
    let json = async |words: &[&str]| {
        serde_json::from_str::<serde_json::Value>(&listed(words).await).expect("one line of JSON")
    };
    let cell = json(&["cells", "--format", "json"]).await;
    assert_eq!((&cell["cell"], &cell["busy_us_per_s"]), (&417.into(), &12_300.into()));
    assert_eq!(json(&["shards", "--output", "json"]).await["drained"], true);
    assert_eq!(json(&["rebalance", "status", "--format", "json"]).await["state"], "paused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_no_changes_is_told_in_its_words() {
    let fake = Fake::start([]);
    fake.state().steering_refused = Some(tonic::Status::permission_denied("start it otherwise"));
    for words in [&["cell", "pin", "1"][..], &["rebalance", "pause"], &["shard", "drain", "0"]] {
        let output = silverctl(&fake, words).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(told, "error: access denied: start it otherwise\n");
    }
    fake.state().steering_refused = Some(tonic::Status::permission_denied("\u{1b}[2J\nforged\u{202e}"));
    let output = silverctl(&fake, &["rebalance", "pause"]).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(told, "error: access denied: \\u001b[2J\\nforged\\u202e\n", "its words stay on their line");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_a_table_for_people_and_json_for_programs() {
    let fake = Fake::start([]);
    let text = "up{a=\"\u{1b}[2J\u{202e}\"} is out of order";
    let data = serde_json::json!([
        {"peer": "10.0.0.1", "job": "node", "reason": "out_of_order", "count": 12_000,
         "first": {"time": "2026-11-22T18:00:00.123Z", "text": text}, "lastTime": "2026-11-22T18:01:00.000Z"},
        {"peer": "10.0.0.2", "job": "", "reason": "too_old", "count": 1,
         "first": {"time": "2026-11-22T17:00:00.000Z", "text": "x"}, "lastTime": "2026-11-22T17:00:00.000Z"},
    ]);
    fake.state().refusals = Some((200, serde_json::json!({"status": "success", "data": data}).to_string()));
    let shown = "peer      job   reason         count  last seen                 first example\n\
        10.0.0.1  node  out_of_order  12,000  2026-11-22T18:01:00.000Z  up{a=\"\\u001b[2J\\u202e\"} is out of order\n\
        10.0.0.2  –     too_old            1  2026-11-22T17:00:00.000Z  x\n";
    check(&fake, &["refusals"], shown).await;
    for words in [["refusals", "--output", "json"], ["refusals", "--format", "jsonl"]] {
        let printed = String::from_utf8(silverctl(&fake, &words).await.stdout).expect("text");
        let rows = printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        assert_eq!(
            rows.collect::<Vec<serde_json::Value>>(),
            *data.as_array().expect("two rows"),
            "{printed}"
        );
        assert!(!printed.contains(['\u{1b}', '\u{202e}']), "{printed:?}");
    }
    fake.state().refusals = Some((200, r#"{"status":"success","data":[]}"#.to_owned()));
    let none = silverctl(&fake, &["refusals"]).await;
    assert!(none.status.success() && none.stderr == b"nothing was refused\n", "{none:?}");
    for broken in [(404, "no such page"), (200, "{"), (200, r#"{"data":[{"count":"many"}]}"#)] {
        fake.state().refusals = Some((broken.0, broken.1.to_owned()));
        let ended = silverctl(&fake, &["refusals"]).await;
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.starts_with(b"error: the node"), "{ended:?}");
    }
}

/// A file of so many samples of one series, a line each.
fn file_of(dir: &tempfile::TempDir, lines: u64) -> String {
    let file = dir.path().join("samples.txt");
    let text: String = (0..lines).map(|n| format!("a {n} {}\n", 1_700_000_000_000 + n)).collect();
    std::fs::write(&file, text).expect("a file");
    file.to_str().expect("text").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_many_batches_ahead_of_what_is_acknowledged() {
    let (plan, permits) = Plan::held();
    let (fake, dir) = (Fake::start([plan]), tempfile::tempdir().expect("a directory"));
    let file = file_of(&dir, 60_000);
    let (words, ahead) = (["write", &file, "--format=prometheus"], async {
        // As many as the node allows, and no more.
        fake.until("eight batches come", |state| state.came.len() == 8).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        assert_eq!(fake.state().came.len(), 8);
        permits.add_permits(100);
    });
    let (output, ()) = tokio::join!(silverctl(&fake, &words), ahead);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.starts_with(b"60,000 samples written"), "{output:?}");
    assert_eq!(stored(&fake), (1, 60_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_fails_tells_up_to_which_line_the_node_has_answered() {
    // One batch at a time: three are acknowledged when the fourth fails.
    let terms = Terms { batches_in_flight_max: 1, ..WIDE_TERMS };
    let invalid = tonic::Status::invalid_argument("as planned");
    let fake = Fake::start([Plan { ends: Some((4, invalid)), ..Plan::with_terms(terms) }]);
    let dir = tempfile::tempdir().expect("a directory");
    let output = silverctl(&fake, &["write", &file_of(&dir, 60_000), "--format=prometheus"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    let (_, line) = told.split_once("all lines up to line ").expect("a line");
    let line: u64 = line.lines().next().expect("a number").replace(',', "").parse().expect("a number");
    // Lines are counted by batches of a thousand.
    assert!((14_000..=15_000).contains(&line), "{told}");
    assert!(told.contains("as planned"), "{told}");
}

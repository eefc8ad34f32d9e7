//! `silverctl load` over gRPC and `silverctl top`, as whole programs.

use std::collections::BTreeSet;
use std::process::Output;

use silverback_proto::v1::RefusalReason;
use tokio::process::Command;

use crate::fake::{Fake, Plan};

/// Runs it against the fake, and gives what it printed and its report.
async fn silverctl(fake: &Fake, words: &[&str]) -> Output {
    let address = format!("http://{}", fake.address);
    let mut command = Command::new(env!("CARGO_BIN_EXE_silverctl"));
    let ran = command.arg("--address").arg(address).args(words).output();
    tokio::time::timeout(crate::fake::PATIENCE, ran).await.expect("it ends").expect("it runs")
}

/// Loads 6 targets of 50 series over two connections; what it printed.
async fn load(fake: &Fake, words: &[&str]) -> String {
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
    assert!(output.status.success(), "{printed}");
    printed
}

fn stored(fake: &Fake) -> (usize, usize) {
    let state = fake.state();
    (state.stored.len(), state.stored.values().map(|samples| samples.len()).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_stores_every_sample_and_defines_each_series_once() {
    let fake = Fake::start([]);
    let printed = load(&fake, &["--rounds=20"]).await;
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
    load(&fake, &["--rounds=80", "--churn=200%"]).await;
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
    let printed = load(&fake, &["--rounds=20"]).await;
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

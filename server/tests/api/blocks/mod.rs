//! Ranges of two hours that a node cuts to blocks: what is in them, when they come and go, and what a crash leaves.

mod beyond;
mod cleaned;
mod cut;
mod deletes;
mod disk;
mod float_chunks;
mod kills;
mod late;
mod moves;
mod unique;
mod unread;

use std::path::{Path, PathBuf};

use silverback_node_test_support::blocks::RANGE_MS;
use silverback_node_test_support::written::{
    READ_HEADERS, Series, frames_of, query, read_body, series_of, write_body,
};
use silverback_proto::prometheus::label_matcher::Type;
use silverback_test_support::home::{Home, NodeProcess};
use silverback_test_support::now_ms;

/// A node cuts a range at most so long after its end, where it waits for no late samples.
const SPREAD_MS: i64 = 5 * 60 * 1000;
const STEP_MS: i64 = 30_000;

fn home(name: &str) -> Home {
    Home::new(env!("CARGO_BIN_EXE_silverback"), env!("CARGO_TARGET_TMPDIR"), name)
}

/// A node that makes no blocks, and takes samples however late they are.
fn start(home: &Home, shards: usize) -> NodeProcess {
    home.start_ready(&[&format!("--shards={shards}"), "--out-of-order-window=26h"])
}

/// One that cuts ranges as soon as they are over.
fn start_cutting(home: &Home, shards: usize) -> NodeProcess {
    start_cutting_with(home, shards, &[])
}

/// Likewise, with further flags.
fn start_cutting_with(home: &Home, shards: usize, flags: &[&str]) -> NodeProcess {
    let shards = format!("--shards={shards}");
    let usual = [&*shards, "--out-of-order-window=26h", "--blocks=on", "--blocks-delay=0s"];
    home.start_ready(&[&usual, flags].concat())
}

fn write(node: &mut NodeProcess, written: &[Series]) {
    let answer = node.post("/api/v1/write", &[], &write_body(written));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

fn blocks_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("blocks")
}

/// So many hours of a metric on a host, up to now.
fn hours(name: &str, host: usize, hours: i64) -> Series {
    let labels = vec![("__name__".to_owned(), name.to_owned()), ("host".to_owned(), format!("h{host:03}"))];
    let end_ms = now_ms();
    let times = (0..hours * 3_600_000 / STEP_MS).map(|step| end_ms - hours * 3_600_000 + step * STEP_MS);
    (labels, times.map(|at_ms| (at_ms, ((at_ms % 9973) as f64).to_bits())).collect())
}

/// All that reads find.
fn read_all(node: &mut NodeProcess) -> Vec<Series> {
    let asked = vec![query(&[("__name__", Type::Re, ".+")], (0, i64::MAX))];
    series_of(&frames_of(&node.post("/api/v1/read", &READ_HEADERS, &read_body(asked, &[1]))))
}

/// One number of the node's metrics.
fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok()
}

/// Whether a node must have cut a range by now.
fn is_over(range: i64) -> bool {
    (range + 1) * RANGE_MS + SPREAD_MS <= now_ms()
}

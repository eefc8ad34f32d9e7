//! A disk that doesn't answer under a running node: a file system that is frozen, and thawed again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_test_support::home::NodeProcess;
use silverback_test_support::http::Answer;

use crate::command::{output, run};
use crate::home;
use crate::machine::Machine;

/// Thawed when it is dropped: whoever waits for it can't even be killed.
struct Frozen(PathBuf);

impl Frozen {
    fn new(path: &Path) -> Self {
        run("fsfreeze", ["--freeze".as_ref(), path.as_os_str()]);
        Self(path.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = output("fsfreeze", ["--unfreeze".as_ref(), self.0.as_os_str()]);
    }
}

fn write(node: &mut NodeProcess, timestamp_ms: i64) -> Answer {
    let series = Series::new([("__name__", "up"), ("job", "frozen")]).sample(timestamp_ms, 1.0);
    node.post(PATH, &headers(Version::V1), &body(Version::V1, &[series]))
}

/// Longer than a task may be given another waker at each poll: 32,767 of them ended a shard for good.
#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn a_disk_that_hangs_refuses_writes_and_nothing_else_until_it_answers() {
    const READS: usize = 40_000;

    let machine = Machine::new(64 << 20);
    let mut home = home("frozen");
    home.move_data_dir(machine.path().join("data"));
    let arguments = ["--shards=1", "--wal-segment-bytes=1MiB", "--checkpoint-bytes=1GiB"];
    let mut node = home.start_ready(&arguments);
    let now_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    assert_eq!(write(&mut node, now_ms - 3000).status, 204);

    let frozen = Frozen::new(machine.path());
    let began = Instant::now();
    let refused = write(&mut node, now_ms - 2000);
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("has not answered for"), "{}", refused.text());
    assert!(began.elapsed() >= Duration::from_secs(5));
    assert_eq!((node.get("/-/ready").status, node.get("/-/healthy").status), (503, 200));
    for _ in 0..READS {
        assert_eq!(node.get("/api/v1/label/job/values").status, 200);
    }
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_wal_unavailable{shard=\"0\"} 1"), "{metrics}");

    drop(frozen);
    node.wait_until_ready();
    assert_eq!(write(&mut node, now_ms - 1000).status, 204);
    let answer = node.get("/api/v1/export?match[]=up").text();
    for ago_ms in [3000, 2000, 1000] {
        assert!(answer.contains(&(now_ms - ago_ms).to_string()), "{answer}");
    }
    node.stop();
}

//! A disk that fills up under a running node, and has room again later.

use std::fs;
use std::path::{Path, PathBuf};

use silverback_test_support::home::{Home, NodeProcess, get};
use silverback_test_support::{Mount, Waiting};

use crate::counted::Counted;
use crate::home;

const DISK_BYTES: usize = 16 << 20;
const ARGUMENTS: [&str; 3] = ["--shards=1", "--wal-segment-bytes=1MiB", "--checkpoint-bytes=1GiB"];

/// Room that somebody else takes: all there is.
fn fill(home: &Home) -> PathBuf {
    let path = home.data_dir().join("somebody-else-s");
    let error = fs::write(&path, vec![0; 2 * DISK_BYTES]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    path
}

/// Writes until the node says no. Returns the numbers that it took and its words.
fn write_until_refused(counted: &mut Counted, node: &mut NodeProcess) -> (u16, String) {
    let waiting = Waiting::begin();
    loop {
        waiting.check(|| "the disk is full and the node takes everything");
        let answer = counted.try_write(node);
        if answer.status != 204 {
            return (answer.status, answer.text());
        }
    }
}

/// A disk for the data that is soon full, where file systems may be mounted.
fn small_disk(at: &Path) -> Option<Mount<'_>> {
    let mount = Mount::tmpfs(at, DISK_BYTES);
    if mount.is_none() {
        println!("tmpfs can't be mounted here");
    }
    mount
}

/// Needs the right to mount a file system; without it this says so and tests nothing.
#[test]
fn a_full_disk_refuses_writes_and_nothing_else_until_there_is_room() {
    let (home, mut counted) = (home("full"), Counted::new());
    let data_dir = home.data_dir();
    let Some(_mount) = small_disk(&data_dir) else { return };
    let mut node = home.start_ready(&ARGUMENTS);
    counted.write(&mut node, 10);
    let others = fill(&home);

    let (status, words) = write_until_refused(&mut counted, &mut node);
    assert_eq!(status, 503, "{words}");
    assert!(words.contains("the disk of the write-ahead log is full"), "{words}");
    let acknowledged = counted.read(&mut node);
    assert!(acknowledged.len() >= 10, "reads go on");
    let ready = node.get("/-/ready");
    assert_eq!(ready.status, 503);
    let expected = "1 of 1 write-ahead logs accept nothing: the disk of the write-ahead log is full";
    assert!(ready.text().contains(expected), "{}", ready.text());
    assert_eq!(node.get("/-/healthy").status, 200);
    assert_eq!(node.get("/-/replayed").status, 200);

    fs::remove_file(others).unwrap();
    node.wait_until_ready();
    counted.write(&mut node, 10);
    let written = counted.read(&mut node);
    assert!(written.starts_with(&acknowledged[..acknowledged.len() - 1]));
    node.kill();
    assert_eq!(counted.read(&mut home.start_ready(&ARGUMENTS)), written);
}

/// As the test above, for a start.
#[test]
fn a_node_that_starts_on_a_full_disk_answers_reads_and_takes_writes_once_there_is_room() {
    let (home, mut counted) = (home("full-start"), Counted::new());
    let data_dir = home.data_dir();
    let Some(_mount) = small_disk(&data_dir) else { return };
    let mut node = home.start_ready(&ARGUMENTS);
    counted.write(&mut node, 10);
    let written = counted.read(&mut node);
    node.kill();
    let others = fill(&home);

    let mut node = home.start(&ARGUMENTS);
    let address = node.wait_until_listening();
    node.wait_until("replay", |_| (get(address, "/-/replayed").ok()?.status == 200).then_some(()));
    assert_eq!(counted.read(&mut node), written);
    write_until_refused(&mut counted, &mut node);
    assert_eq!(node.get("/-/ready").status, 503);

    fs::remove_file(others).unwrap();
    node.wait_until_ready();
    counted.write(&mut node, 1);
}

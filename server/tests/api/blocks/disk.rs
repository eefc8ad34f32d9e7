//! A disk that is full while ranges are to be cut.

use std::fs;

use silverback_node_test_support::blocks::names;
use silverback_test_support::Mount;

use crate::blocks::cut::{cut_all, of_blocks, ranges_over, wait_for};
use crate::blocks::{blocks_dir, home, hours, read_all, start_cutting_with, write};

const DISK_BYTES: usize = 24 << 20;
const SMALL_LOG: [&str; 2] = ["--wal-segment-bytes=1MiB", "--checkpoint-bytes=1GiB"];

/// Needs the right to mount a file system; without it this says so and tests nothing.
#[test]
fn on_a_full_disk_nothing_is_cut_and_writes_go_on_until_there_is_room() {
    let home = home("blocks-full");
    let data_dir = home.data_dir();
    let Some(_mount) = Mount::tmpfs(&data_dir, DISK_BYTES) else {
        return println!("tmpfs can't be mounted here");
    };
    let dir = blocks_dir(&data_dir);
    // A twentieth is left to the log.
    let others = data_dir.join("somebody-else-s");
    let mut node = home.start_ready(&[&["--shards=1", "--out-of-order-window=26h"], &SMALL_LOG[..]].concat());
    write(&mut node, &(0..20).map(|host| hours("load", host, 8)).collect::<Vec<_>>());
    node.stop();
    let node = home.start_ready(&[&["--shards=1", "--out-of-order-window=26h"], &SMALL_LOG[..]].concat());
    let free_bytes = free_bytes(&data_dir);
    fs::write(&others, vec![0; (free_bytes - DISK_BYTES as u64 / 25) as usize]).unwrap();
    node.stop();
    let mut node = start_cutting_with(&home, 1, &SMALL_LOG);
    wait_for(&mut node, "silverback_blocks_failed_total", 2.0);
    assert!(node.told().contains("there is no room for blocks"), "{}", node.told());
    assert_eq!(names(&dir), [""; 0]);
    write(&mut node, &[hours("up", 0, 1)]);
    let all = read_all(&mut node);
    fs::remove_file(others).unwrap();
    let blocks = cut_all(&mut node, &dir, &ranges_over(&all));
    let (found, expect) = of_blocks(&blocks, &all);
    assert!(found == expect);
    node.stop();
}

pub(super) fn free_bytes(path: &std::path::Path) -> u64 {
    let told = std::process::Command::new("df").args(["--output=avail", "-B1"]).arg(path).output().unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    text.lines().nth(1).unwrap().trim().parse().unwrap()
}

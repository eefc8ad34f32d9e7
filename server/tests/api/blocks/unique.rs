//! Series whose label values nobody shares, in little memory: texts and postings are sorted on disk.

use std::path::Path;
use std::time::Duration;

use silverback_node_test_support::blocks::names;
use silverback_node_test_support::written::Series;
use silverback_test_support::Mount;
use silverback_test_support::home::{Home, NodeProcess};
use silverback_test_support::random::Random;

use crate::blocks::cut::{cut_all, of_blocks, ranges_over, wait_for};
use crate::blocks::{blocks_dir, home, now_ms, start, start_cutting_with, write};

const LITTLE_MEMORY: [&str; 3] =
    ["--memory-limit=128MiB", "--wal-segment-bytes=1MiB", "--checkpoint-bytes=1GiB"];
/// What takes in so much that a node of little memory would refuse some of it, by how large its program is.
const MORE_MEMORY: [&str; 3] =
    ["--memory-limit=192MiB", "--wal-segment-bytes=1MiB", "--checkpoint-bytes=1GiB"];
/// Labels of a series whose values are of it alone.
const LABELS: usize = 10;
/// Series of one request.
const LOT: usize = 500;

/// So many series with a sample four hours ago, and one of now, so that the range of the other is over.
fn unique(series: usize) -> Vec<Series> {
    let (now_ms, mut random) = (now_ms(), Random::new(5));
    let one = |number: usize| {
        let own = |at: usize| (format!("label_{at}"), format!("{:016x}", random.next()));
        let name = ("__name__".to_owned(), "unique".to_owned());
        let labels = std::iter::once(name).chain((0..LABELS).map(own)).collect();
        (labels, [now_ms - 4 * 3_600_000, now_ms].map(|at_ms| (at_ms, (number as f64).to_bits())).to_vec())
    };
    (0..series).map(one).collect()
}

/// A node that has so many, and makes no blocks.
fn written(home: &Home, series: usize) -> Vec<Series> {
    let flags = ["--shards=1", "--out-of-order-window=26h"];
    let mut node = home.start_ready(&[&flags, &MORE_MEMORY[..]].concat());
    let all = unique(series);
    all.chunks(LOT).for_each(|lot| write(&mut node, lot));
    node.stop();
    all
}

fn check_cut(node: &mut NodeProcess, dir: &Path, all: &[Series]) {
    let blocks = cut_all(node, dir, &ranges_over(all));
    let (found, expect) = of_blocks(&blocks, all);
    assert!(found == expect, "{} series of {}", found.len(), expect.len());
    assert_eq!(found.len(), all.len());
    assert_eq!(names(dir).len(), blocks.len(), "nothing is left unfinished: {:?}", names(dir));
}

#[test]
fn as_many_texts_as_a_node_of_128_mib_has_are_cut() {
    let home = home("blocks-unique");
    let dir = blocks_dir(&home.data_dir());
    let all = written(&home, 10_000);
    let mut node = start_cutting_with(&home, 1, &LITTLE_MEMORY);
    check_cut(&mut node, &dir, &all);
    assert!(node.get("/metrics").text().contains("silverback_blocks_failed_total 0"));
    node.stop();
}

#[test]
fn reads_with_less_memory_than_a_writer_takes_are_told_what_to_raise() {
    let home = home("blocks-unique-refused");
    let dir = blocks_dir(&home.data_dir());
    let mut node = start(&home, 2);
    let all = unique(10);
    write(&mut node, &all);
    node.stop();
    // Half of it on each core.
    let mut node = start_cutting_with(&home, 2, &["--query-memory=1MiB"]);
    wait_for(&mut node, "silverback_blocks_failed_total", 1.0);
    let told = node.told();
    assert!(told.contains("start the node with a larger --query-memory, or --memory-limit"), "{told}");
    assert_eq!(names(&dir), [""; 0]);
    node.stop();
    let mut node = start_cutting_with(&home, 2, &["--query-memory=2MiB"]);
    check_cut(&mut node, &dir, &all);
    node.stop();
}

#[test]
fn kills_while_texts_are_sorted_leave_nothing_of_it() {
    let home = home("blocks-unique-kills");
    let dir = blocks_dir(&home.data_dir());
    let all = written(&home, 5_000);
    let (mut random, mut sorting) = (Random::new(3), 0);
    // Until some came in time: the index of so few is written within some ten milliseconds.
    for _kill in 0..40 {
        let mut node = start_cutting_with(&home, 1, &LITTLE_MEMORY);
        let unfinished = || names(&dir).into_iter().find(|name| name.ends_with(".tmp-for-creation"));
        node.wait_until("the index begins, or all is done", |_| {
            let has_index = unfinished().is_some_and(|name| dir.join(name).join("index").exists());
            (has_index || names(&dir).iter().any(|name| !name.contains('.'))).then_some(())
        });
        std::thread::sleep(Duration::from_millis(random.below(30)));
        node.kill();
        sorting += usize::from(unfinished().is_some());
        if sorting == 3 {
            break;
        }
    }
    assert!(sorting > 0, "no kill came while the index was written");
    let mut node = start_cutting_with(&home, 1, &LITTLE_MEMORY);
    check_cut(&mut node, &dir, &all);
    node.stop();
}

/// Needs the right to mount a file system; without it this says so and tests nothing.
#[test]
fn what_is_sorted_leaves_the_log_its_room() {
    const DISK_BYTES: usize = 48 << 20;
    let home = home("blocks-unique-full");
    let data_dir = home.data_dir();
    let Some(_mount) = Mount::tmpfs(&data_dir, DISK_BYTES) else {
        return println!("tmpfs can't be mounted here");
    };
    let dir = blocks_dir(&data_dir);
    let all = written(&home, 10_000);
    // Enough for a block to begin: a twentieth is left to the log. Its texts alone take more.
    let others = data_dir.join("somebody-else-s");
    let free_bytes = crate::blocks::disk::free_bytes(&data_dir);
    let room_bytes = DISK_BYTES as u64 / 20 + (2 << 20);
    assert!(free_bytes > room_bytes, "{free_bytes}");
    std::fs::write(&others, vec![0; (free_bytes - room_bytes) as usize]).unwrap();
    let mut node = start_cutting_with(&home, 1, &LITTLE_MEMORY);
    wait_for(&mut node, "silverback_blocks_failed_total", 2.0);
    assert!(node.told().contains("there is no room for blocks"), "{}", node.told());
    assert_eq!(names(&dir), [""; 0], "nothing is left of what failed");
    std::fs::remove_file(others).unwrap();
    check_cut(&mut node, &dir, &all);
    node.stop();
}

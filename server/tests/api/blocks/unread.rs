//! Blocks that reads can't be answered from: what they have stays in memory, or is cut again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use silverback_node_test_support::blocks::names;
use silverback_node_test_support::written::Series;
use silverback_test_support::home::{Home, get};

use crate::blocks::cut::{cut_all, of_blocks, ranges_over, wait_for};
use crate::blocks::{blocks_dir, home, hours, metric, read_all, start, start_cutting, write};

const DELETE: &str = "/api/v1/admin/tsdb/delete_series?match[]=up%7Bhost=%22h001%22%7D";

/// Blocks that a node has cut before it was stopped, and all that reads find.
fn cut(home: &Home) -> (PathBuf, Vec<Series>) {
    let dir = blocks_dir(&home.data_dir());
    let mut node = start(home, 2);
    write(&mut node, &[hours("up", 0, 8), hours("up", 1, 8)]);
    let all = read_all(&mut node);
    node.stop();
    let mut node = start_cutting(home, 2);
    cut_all(&mut node, &dir, &ranges_over(&all));
    node.stop();
    (dir, all)
}

#[test]
fn a_range_whose_block_is_damaged_is_cut_again_while_memory_has_it() {
    let home = home("blocks-damaged");
    let (dir, all) = cut(&home);
    let before = names(&dir);
    let damaged = dir.join(&before[0]);
    let index = fs::File::options().write(true).open(damaged.join("index")).unwrap();
    index.set_len(index.metadata().unwrap().len() / 2).unwrap();
    let mut node = start_cutting(&home, 2);
    wait_for(&mut node, "silverback_blocks_set_aside_total", 1.0);
    wait_for(&mut node, "silverback_blocks", (before.len() + 1) as f64);
    assert!(read_all(&mut node) == all, "other samples than before");
    // One that is set aside says nothing of what was cut, so there are two of its range.
    fs::remove_dir_all(damaged).unwrap();
    let blocks = cut_all(&mut node, &dir, &ranges_over(&all));
    let (found, expect) = of_blocks(&blocks, &all);
    assert!(found == expect, "other samples than reads find");
}

#[test]
fn of_a_block_that_cannot_be_opened_memory_keeps_the_range_and_nothing_is_deleted() {
    let home = home("blocks-unopened");
    let (dir, all) = cut(&home);
    // Too many levels of links: what may pass, as too many open files do.
    let block = dir.join(&names(&dir)[0]);
    let (index, kept) = (block.join("index"), block.join("kept"));
    fs::rename(&index, &kept).unwrap();
    symlink("index", &index).unwrap();
    // Retention would drop most of it.
    let flags = ["--shards=2", "--blocks=on", "--blocks-delay=0s", "--admin-api=full", "--retention=150m"];
    let mut node = home.start_ready(&flags);
    wait_for(&mut node, "silverback_blocks_failed_total", 2.0);
    let wait_s = metric(&node.get("/metrics").text(), "silverback_blocks_retention_wait_seconds");
    assert!(
        wait_s.is_some_and(|wait_s| wait_s > 3600.0),
        "{wait_s:?}: memory keeps what is in no open block"
    );
    assert!(node.told().contains("can't be opened: memory keeps what it has"), "{}", node.told());
    assert!(read_all(&mut node) == all, "other samples than before");
    let refused = node.post(DELETE, &[], b"");
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(refused.text().contains("a block on disk could not be read"), "{}", refused.text());
    fs::rename(&kept, &index).unwrap();
    let tombstones = || fs::read(block.join("tombstones")).unwrap_or_default();
    let before = tombstones();
    assert_eq!(node.post(DELETE, &[], b"").status, 204);
    assert_ne!(tombstones(), before, "the block itself says what was deleted");
    let is_left = |labels: &[(String, String)]| labels.iter().all(|(_, value)| value != "h001");
    let left: Vec<_> = all.into_iter().filter(|(labels, _)| is_left(labels)).collect();
    assert!(read_all(&mut node) == left, "other samples than those that were not deleted");
    let address = node.address();
    node.wait_until("retention goes on", |_| {
        let text = get(address, "/metrics").ok()?.text();
        (metric(&text, "silverback_blocks_retention_wait_seconds")? == 0.0).then_some(())
    });
}

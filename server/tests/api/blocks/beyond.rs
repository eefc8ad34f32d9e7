//! What is older than memory goes back is read from the blocks that the node has cut.

use silverback_node_test_support::blocks::RANGE_MS;
use silverback_node_test_support::written::Series;
use silverback_test_support::home::{NodeProcess, get};

use crate::blocks::cut::{cut_all, of_blocks, ranges_over, wait_for};
use crate::blocks::{blocks_dir, home, hours, metric, now_ms, read_all, start, start_cutting, write};

/// What a query over all that was written comes to.
fn samples_by_promql(node: &mut NodeProcess) -> String {
    let answer = node.get("/api/v1/query?query=sum(count_over_time(load%5B10h%5D))%20by%20(host)");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let mut counts: Vec<_> = text
        .split("{\"metric\"")
        .map(|one| {
            let host = one.split("\"host\":\"").nth(1).and_then(|rest| rest.split('"').next());
            let count = one.rsplit(",\"").next().and_then(|rest| rest.split('"').next());
            (host.unwrap_or_default().to_owned(), count.unwrap_or_default().to_owned())
        })
        .collect();
    counts.sort();
    format!("{counts:?}")
}

#[test]
fn what_is_older_than_memory_goes_back_is_read_of_blocks_without_a_seam() {
    let home = home("blocks-beyond");
    let mut node = start_cutting(&home, 2);
    let written: Vec<Series> = (0..10).map(|host| hours("load", host, 8)).collect();
    write(&mut node, &written);
    let all = read_all(&mut node);
    let ranges = ranges_over(&all);
    cut_all(&mut node, &blocks_dir(&home.data_dir()), &ranges);
    let counted = samples_by_promql(&mut node);
    assert_eq!(metric(&node.get("/metrics").text(), "silverback_block_reads_total"), Some(0.0));
    node.stop();
    // Memory has it all at first, and drops what is older than three hours a little later: reads take that of blocks.
    let mut node = home.start_ready(&["--shards=2", "--retention=3h", "--blocks=on", "--blocks-delay=0s"]);
    assert!(read_all(&mut node) == all, "other samples than memory had");
    assert_eq!(samples_by_promql(&mut node), counted);
    let metrics = node.get("/metrics").text();
    assert!(metric(&metrics, "silverback_block_reads_total") >= Some(2.0), "{metrics}");
    // Without the blocks what memory goes back to is left.
    node.stop();
    std::fs::rename(blocks_dir(&home.data_dir()), home.data_dir().join("elsewhere")).unwrap();
    let mut node = home.start_ready(&["--shards=2", "--retention=3h"]);
    let oldest_ms =
        read_all(&mut node).iter().flat_map(|(_, samples)| samples).map(|(at_ms, _)| *at_ms).min();
    assert!(oldest_ms.is_some_and(|oldest_ms| oldest_ms > now_ms() - 8 * RANGE_MS), "{oldest_ms:?}");
}

#[test]
fn what_a_shorter_retention_would_drop_is_cut_first() {
    let home = home("blocks-shorter");
    let dir = blocks_dir(&home.data_dir());
    let mut node = start(&home, 2);
    write(&mut node, &(0..10).map(|host| hours("load", host, 8)).collect::<Vec<_>>());
    let all = read_all(&mut node);
    node.stop();
    // Nothing can be cut while this is there.
    std::fs::write(&dir, "in the way").unwrap();
    let flags =
        ["--shards=2", "--retention=3h", "--out-of-order-window=3h", "--blocks=on", "--blocks-delay=0s"];
    let mut node = home.start_ready(&flags);
    wait_for(&mut node, "silverback_blocks_failed_total", 1.0);
    std::fs::remove_file(&dir).unwrap();
    let ranges = ranges_over(&all);
    assert!(ranges.iter().any(|range| (range + 1) * RANGE_MS < now_ms() - 3 * 3_600_000), "{ranges:?}");
    let blocks = cut_all(&mut node, &dir, &ranges);
    let (found, expect) = of_blocks(&blocks, &all);
    assert!(found == expect, "other samples than memory had");
    assert!(
        node.told().contains("memory's retention waits for ranges that are in no block yet"),
        "{}",
        node.told()
    );
    let address = node.address();
    node.wait_until("retention goes on", |_| {
        let text = get(address, "/metrics").ok()?.text();
        (metric(&text, "silverback_blocks_retention_wait_seconds")? == 0.0).then_some(())
    });
    assert!(read_all(&mut node) == all);
}

//! The log of slow queries, of a node in a process of its own.

use silverback_test_support::eventually_found;
use silverback_test_support::home::{Home, NodeProcess};

use crate::queries::slow_for;

const TOLD: &str = "a query took longer than --log-queries-longer-than";

fn start(name: &str, options: &[&str]) -> (Home, NodeProcess) {
    let home = Home::new(env!("CARGO_BIN_EXE_silverback"), env!("CARGO_TARGET_TMPDIR"), name);
    let node = home.start_ready(options);
    (home, node)
}

fn lines(node: &NodeProcess) -> Vec<String> {
    node.told().lines().filter(|line| line.contains(TOLD)).map(str::to_owned).collect()
}

#[test]
fn a_slow_query_is_one_line_with_what_it_took_and_a_quick_one_is_none() {
    let (_home, mut node) = start("slow-queries", &["--log-queries-longer-than", "200ms", "--shards", "1"]);
    assert_eq!(node.get("/api/v1/query?query=1").status, 200);
    // Of one line, whatever is in the expression, which is cut.
    let odd = format!("+%23%1B%5B2J%0A%23{}&start=", "x".repeat(2000));
    let path = slow_for("500ms").replace("&start=", &odd);
    assert_eq!(node.get(&path).status, 503);
    let line = eventually_found(|| lines(&node).into_iter().next().ok_or("no line"));
    let parts = [
        " WARN ",
        "query=\"stddev_over_time(vector(time()*7919%1013)[100h:1s]) #\\u{1b}[2J\\n#x",
        "kind=\"query_range\" start=9.0 end=9999.0 step=1.0 took_ms=",
        "queued_ms=0 ",
        "samples_read=0 ",
        "memory_bytes=",
        "outcome=\"query timed out in expression evaluation\"",
        "peer=\"127.0.0.1\"",
    ];
    for part in parts {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(line.len() < 2000 && !line.contains('\u{1b}'), "{line}");
    let took: u64 = line.split_once("took_ms=").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert!((500..60_000).contains(&took), "{took}");
    let held: u64 = line.split_once("memory_bytes=").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert!(held > 36_000 * 8, "{held}");
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_queries_slow_total{shard=\"0\"} 1\n"), "{metrics}");
    // No more than ten lines a minute.
    for _ in 0..12 {
        assert_eq!(node.get(&slow_for("201ms")).status, 503);
    }
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_queries_slow_total{shard=\"0\"} 13\n"), "{metrics}");
    assert_eq!(lines(&node).len(), 10);
}

#[test]
fn a_node_that_was_told_so_logs_no_query() {
    let (_home, mut node) = start("no-slow-queries", &["--log-queries-longer-than", "0", "--shards", "1"]);
    assert_eq!(node.get(&slow_for("1s")).status, 503);
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_queries_slow_total{shard=\"0\"} 0\n"), "{metrics}");
    assert!(lines(&node).is_empty());
}

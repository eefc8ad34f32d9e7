//! Requests that take their shard long, beside small ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use silverback_node_test_support::Node;
use silverback_node_test_support::written::{self, Series, start_ms, write_body};
use silverback_test_support::eventually;

const LARGE: usize = 6;
const SAMPLES: usize = 15_000;

/// Samples of two series in turn, in no order: nothing is more expensive to ingest.
fn shuffled(name: &str, from_ms: i64) -> Vec<Series> {
    let sample = |i: usize| (from_ms + (i * 6_211 % SAMPLES) as i64 * 200, 1f64.to_bits());
    let labels =
        |i: usize| vec![("__name__".to_owned(), name.to_owned()), ("side".to_owned(), (i % 2).to_string())];
    (0..SAMPLES).map(|i| (labels(i), vec![sample(i)])).collect()
}

/// The sum of a metric over all shards.
fn metric(node: &Node, name: &str) -> f64 {
    let text = node.get("/metrics").text();
    let of_shards =
        text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split(' ').nth(1));
    of_shards.map(|value| value.parse::<f64>().unwrap()).sum()
}

#[test]
fn a_small_request_waits_for_no_large_one_s_end() {
    let node = Node::start(1);
    let from_ms = start_ms();
    let bodies: Vec<_> = (0..LARGE).map(|i| write_body(&shuffled(&format!("large_{i}"), from_ms))).collect();
    let ended = AtomicUsize::new(0);
    let small = std::thread::scope(|scope| {
        for body in &bodies {
            scope.spawn(|| {
                let answer = node.post("/api/v1/write", &[], body);
                assert_eq!(answer.status, 204, "{}", answer.text());
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        eventually("a large part is set aside", || {
            metric(&node, "silverback_shard_parts_set_aside_total") > 0.0
        });
        let mut small = 0;
        while ended.load(Ordering::Relaxed) < LARGE {
            written::write(
                &node,
                &[written::series(&[("__name__", "small")], from_ms + small * 1000, [1.0])],
            );
            small += 1;
        }
        small
    });
    assert!(small > 4, "{small} small ones while {LARGE} large ones were accepted");
    let stored = metric(&node, "silverback_samples_total");
    assert!(stored >= (LARGE * SAMPLES) as f64 + small as f64, "{stored}");
}

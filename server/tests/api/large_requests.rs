//! Requests that take their shard long, beside small ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use silverback_node_test_support::Node;
use silverback_node_test_support::written::{self, Series, start_ms, write_body};

const LARGE: usize = 6;
const SAMPLES: usize = 15_000;

/// A series' samples, each for itself and in no order: nothing is dearer to take in.
fn shuffled(name: &str, from_ms: i64) -> Vec<Series> {
    let sample = |i: usize| (from_ms + (i * 6_211 % SAMPLES) as i64 * 200, 1f64.to_bits());
    (0..SAMPLES).map(|i| (vec![("__name__".to_owned(), name.to_owned())], vec![sample(i)])).collect()
}

#[test]
fn a_small_request_waits_for_no_large_one_s_end() {
    let node = Node::start(1);
    let from_ms = start_ms();
    let bodies: Vec<_> = (0..LARGE).map(|i| write_body(&shuffled(&format!("large_{i}"), from_ms))).collect();
    let (ended, began) = (AtomicUsize::new(0), Instant::now());
    let mut slowest = Duration::ZERO;
    let mut small = 0;
    std::thread::scope(|scope| {
        for body in &bodies {
            scope.spawn(|| {
                let answer = node.post("/api/v1/write", &[], body);
                assert_eq!(answer.status, 204, "{}", answer.text());
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        while ended.load(Ordering::Relaxed) < LARGE {
            let began = Instant::now();
            written::write(
                &node,
                &[written::series(&[("__name__", "small")], from_ms + small * 1000, [1.0])],
            );
            slowest = slowest.max(began.elapsed());
            small += 1;
        }
    });
    let all = began.elapsed();
    assert!(small > 10 && slowest * 4 < all, "{small} small ones, the slowest {slowest:?} of {all:?}");
    let metrics = node.get("/metrics").text();
    let of = |name: &str| -> f64 {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.split(' ').nth(1)?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name}"))
    };
    assert!(of("silverback_shard_parts_set_aside_total{") > 0.0);
    assert!(of("silverback_samples_total{") >= (LARGE * SAMPLES) as f64 + small as f64);
}

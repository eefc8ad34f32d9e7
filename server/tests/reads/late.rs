//! Samples that come late, in any order, are read back in the order of time by every way of reading.

use silverback_node_test_support::Node;
use silverback_node_test_support::written::{
    Series, query, read_frames, read_samples, series, series_of, start_ms, write,
};
use silverback_test_support::random::Random;

const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);
/// Samples that are sent together.
const PIECE: usize = 7;

fn fleet() -> Vec<Series> {
    let own = |i: usize| (0..300 + i * 10).map(move |s| (s * (i + 1)) as f64 / 3.0);
    let one = |i: usize| series(&[("__name__", "late"), ("host", &format!("h{i:02}"))], start_ms(), own(i));
    (0..20).map(one).collect()
}

/// Sends all of a fleet in pieces, each series' in an order of its own.
fn write_shuffled(node: &Node, fleet: &[Series], seed: u64) {
    let mut random = Random::new(seed);
    let mut pieces: Vec<Series> = fleet
        .iter()
        .flat_map(|(labels, samples)| samples.chunks(PIECE).map(|piece| (labels.clone(), piece.to_vec())))
        .collect();
    while !pieces.is_empty() {
        let together = (1 + random.below(10) as usize).min(pieces.len());
        let part: Vec<Series> =
            (0..together).map(|_| pieces.swap_remove(random.below(pieces.len() as u64) as usize)).collect();
        write(node, &part);
        if random.once_in(20) {
            // A read among them changes nothing.
            read_samples(node, vec![query(&[], ALWAYS)]);
        }
    }
}

#[test]
fn samples_in_any_order_are_read_back_in_theirs() {
    for (shards, seed) in [(1, 7), (3, 8)] {
        let (node, fleet) = (Node::start(shards), fleet());
        write_shuffled(&node, &fleet, seed);
        assert!(read_samples(&node, vec![query(&[], ALWAYS)]) == [fleet.clone()], "samples");
        assert!(series_of(&read_frames(&node, vec![query(&[], ALWAYS)])) == fleet, "chunks");
        let late = total(&node, "silverback_out_of_order_samples_total");
        assert!(late > 1000.0, "{late} were late");
        // All of it once more, in another order, is all stored already.
        write_shuffled(&node, &fleet, seed + 100);
        assert!(read_samples(&node, vec![query(&[], ALWAYS)]) == [fleet], "sent again");
        assert_eq!(total(&node, "silverback_out_of_order_samples_total"), late);
    }
}

fn total(node: &Node, name: &str) -> f64 {
    let metrics = node.get("/metrics").text();
    let of_name = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    of_name.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[test]
fn a_window_of_nothing_takes_no_late_sample() {
    let node = Node::start_with(1, |config| config.out_of_order_window = std::time::Duration::ZERO);
    let start = start_ms();
    let sent = |at_ms: i64| node.post("/api/v1/import/prometheus", &[], format!("up 1 {at_ms}\n").as_bytes());
    assert_eq!(sent(start + 1).status, 204);
    let refused = sent(start);
    assert!(refused.status == 400 && refused.text().contains("out_of_order 1"), "{}", refused.text());
}

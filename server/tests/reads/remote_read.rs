//! Remote read: both kinds of answers hold what was written, sorted, bit for bit.

use silverback_model::STALE_NAN_BITS;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{
    Series, query, read_frames, read_samples, series, series_of, start_ms, write,
};
use silverback_proto::prometheus::label_matcher::Type;

const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);

/// 40 series over all shards, some of several chunks, one that ends in a staleness marker.
fn fleet(start_ms: i64) -> Vec<Series> {
    let mut fleet: Vec<Series> = (0..40)
        .map(|i| {
            let (host, zone) = (format!("h{i:02}"), if i % 2 == 0 { "a" } else { "b" });
            let values = (0..100 + i * 7).map(|s| f64::from(s) * 0.5 + f64::from(i));
            series(&[("__name__", "load"), ("host", &host), ("zone", zone)], start_ms, values)
        })
        .collect();
    let odd = [1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-300, f64::from_bits(STALE_NAN_BITS)];
    fleet.push(series(&[("__name__", "odd"), ("höhe", "\"ü\"")], start_ms, odd));
    fleet.sort();
    fleet
}

fn check_reads_back(shards: usize) {
    let node = Node::start(shards);
    let fleet = fleet(start_ms());
    write(&node, &fleet);
    assert!(read_samples(&node, vec![query(&[], ALWAYS)]) == [fleet.clone()], "samples");
    let frames = read_frames(&node, vec![query(&[], ALWAYS)]);
    assert!(series_of(&frames) == fleet, "chunks");
    assert!(frames.iter().all(|frame| frame.chunked_series.len() == 1), "one series a frame");
}

#[test]
fn one_shard_gives_back_what_was_written_bit_for_bit() {
    check_reads_back(1);
}

#[test]
fn three_shards_give_back_what_was_written_in_one_order() {
    check_reads_back(3);
}

#[test]
fn samples_are_trimmed_to_the_range_and_chunks_are_not() {
    let (node, start) = (Node::start(2), start_ms());
    let written = series(&[("__name__", "up")], start, (0..300).map(f64::from));
    write(&node, std::slice::from_ref(&written));
    let check = |from: i64, to: i64, expect: &[(i64, u64)]| {
        let range = (start + from, start + to);
        let expect: Vec<Series> =
            if expect.is_empty() { vec![] } else { vec![(written.0.clone(), expect.to_vec())] };
        assert_eq!(read_samples(&node, vec![query(&[], range)]), [expect], "{from}..={to}");
    };
    check(0, 299_000, &written.1);
    check(5000, 7000, &written.1[5..=7]);
    check(5001, 5999, &[]);
    check(119_000, 121_000, &written.1[119..=121]);
    check(-10, -1, &[]);
    check(299_001, 400_000, &[]);
    check(7000, 5000, &[]);
    let frames = read_frames(&node, vec![query(&[], (start + 5000, start + 7000))]);
    let chunk = &frames[0].chunked_series[0].chunks[0];
    assert!(frames[0].chunked_series[0].chunks.len() == 1 && chunk.min_time_ms == start);
    assert!(chunk.max_time_ms >= start + 7000);
}

#[test]
fn matchers_of_all_four_kinds_narrow_the_answer() {
    let (node, start) = (Node::start(2), start_ms());
    write(&node, &fleet(start));
    let check = |matchers: &[(&str, Type, &str)], expect: &[&str]| {
        let found = read_samples(&node, vec![query(matchers, ALWAYS)]).remove(0);
        let hosts: Vec<_> = found.iter().map(|(labels, _)| labels[1].1.as_str()).collect();
        assert_eq!(hosts, expect, "{matchers:?}");
    };
    check(&[("host", Type::Eq, "h07")], &["h07"]);
    check(&[("host", Type::Re, "h0[1-3]"), ("zone", Type::Neq, "b")], &["h02"]);
    check(&[("host", Type::Nre, "h[0-2].|h3[0-8]"), ("__name__", Type::Eq, "load")], &["h39"]);
    check(&[("host", Type::Re, "h0")], &[]);
    check(&[("host", Type::Eq, "")], &["\"ü\""]);
}

#[test]
fn each_query_has_its_own_result() {
    let (node, start) = (Node::start(2), start_ms());
    let fleet = fleet(start);
    write(&node, &fleet);
    let of = |host| query(&[("host", Type::Eq, host)], ALWAYS);
    let results = read_samples(&node, vec![of("h01"), of("nobody"), of("h00")]);
    assert_eq!(results, [vec![fleet[1].clone()], vec![], vec![fleet[0].clone()]]);
    let frames = read_frames(&node, vec![of("h01"), of("nobody"), of("h00")]);
    let (first, last): (Vec<_>, Vec<_>) = frames.into_iter().partition(|frame| frame.query_index == 0);
    assert_eq!(series_of(&first), [fleet[1].clone()]);
    assert!(last.iter().all(|frame| frame.query_index == 2));
    assert_eq!(series_of(&last), [fleet[0].clone()]);
    assert!(read_samples(&node, vec![]).is_empty());
    assert_eq!(read_frames(&node, vec![]).len(), 0);
}

#[test]
fn an_answer_of_many_snappy_runs_is_whole() {
    let (node, start) = (Node::start(1), start_ms());
    // About 1 MB before compression, in values that don't compress.
    let noise = |i: i32| (0..3000).map(move |s| f64::from(s * 7919 % 1013).sin() * f64::from(i + 1));
    let mut written: Vec<_> = (0..20)
        .map(|i| series(&[("__name__", "noise"), ("i", &format!("{i:02}"))], start, noise(i)))
        .collect();
    written.sort();
    write(&node, &written);
    let results = read_samples(&node, vec![query(&[], ALWAYS), query(&[], ALWAYS)]);
    assert!(results == [written.clone(), written]);
}

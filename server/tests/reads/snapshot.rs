//! Snapshots over HTTP: what is refused, and that the blocks have all that reads find.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use silverback::config::AdminAccess;
use silverback_model::STALE_NAN_BITS;
use silverback_model::gorilla::FloatEncoding;
use silverback_node_test_support::Node;
use silverback_node_test_support::blocks::{AllSamples, RANGE_MS, ReadBlock, names, read_blocks, together};
use silverback_node_test_support::written::{Series, query, read_samples, start_ms, write};
use silverback_proto::prometheus::label_matcher::Type;
use silverback_test_support::http::Answer;

const PATH: &str = "/api/v1/admin/tsdb/snapshot";
const DELETE: &str = "/api/v1/admin/tsdb/delete_series";
const STEP_MS: i64 = 30_000;

/// A node that writes snapshots, and its data directory.
fn start(shards: usize) -> (Node, PathBuf) {
    start_with(shards, FloatEncoding::Xor)
}

/// Likewise, with chunks of floats in this encoding.
fn start_with(shards: usize, floats: FloatEncoding) -> (Node, PathBuf) {
    let mut data_dir = PathBuf::new();
    let node = Node::start_with(shards, |config| {
        config.admin_api = AdminAccess::Full;
        config.float_chunks = floats;
        data_dir.clone_from(&config.data_dir);
    });
    (node, data_dir)
}

/// Five hours of a metric on so many hosts, up to an hour ago, and a sample that comes half an hour late.
fn write_hours(node: &Node, hosts: usize) {
    let begin_ms = start_ms() - 5 * 3_600_000;
    let one = |name: &str, host: usize| -> Series {
        let labels = vec![("__name__".to_owned(), name.to_owned()), ("host".to_owned(), format!("h{host}"))];
        let times = (0..600).map(|step| begin_ms + step * STEP_MS);
        (labels, times.map(|at_ms| (at_ms, ((at_ms % 9973) as f64).to_bits())).collect())
    };
    for host in 0..hosts {
        write(node, &[one("load", host), one("up", host)]);
    }
    let (labels, samples) = one("up", 0);
    write(node, &[(labels, vec![(samples[540].0 + 1, 0.5_f64.to_bits())])]);
}

fn take(node: &Node, parameters: &str) -> String {
    let answer = node.post(&format!("{PATH}{parameters}"), &[], b"");
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("success")), "{}", answer.text());
    answer.json()["data"]["name"].as_str().unwrap().to_owned()
}

/// All samples of a snapshot; each block is of one range.
fn read(snapshot: &Path) -> (AllSamples, usize) {
    let blocks = read_blocks(snapshot);
    let mut ranges: Vec<_> = blocks.values().map(ReadBlock::range).collect();
    ranges.sort_unstable();
    assert!(ranges.is_sorted_by(|range, next| range < next));
    (together(blocks.values()), blocks.len())
}

fn read_node(node: &Node) -> AllSamples {
    let asked = query(&[("__name__", Type::Re, ".+")], (0, i64::MAX));
    read_samples(node, vec![asked]).remove(0).into_iter().collect()
}

fn metric(node: &Node, name: &str) -> f64 {
    let text = node.get("/metrics").text();
    let values = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

fn check_refused(answer: &Answer, status: u16, words: &str) {
    assert_eq!((answer.status, &answer.json()["status"]), (status, &json!("error")), "{}", answer.text());
    assert!(answer.text().contains(words), "{}", answer.text());
}

#[test]
fn a_snapshot_has_all_samples_that_reads_find_and_none_that_was_deleted() {
    for shards in [1, 3] {
        let (node, data_dir) = start(shards);
        write_hours(&node, 20);
        assert_eq!(node.post(&format!("{DELETE}?match[]=load%7Bhost=%22h7%22%7D"), &[], b"").status, 204);
        let name = take(&node, "");
        let (found, blocks) = read(&data_dir.join("snapshots").join(&name));
        let expect = read_node(&node);
        assert_eq!(found.len(), 39);
        assert!(found == expect, "other samples than reads find");
        assert!((3..=4).contains(&blocks), "{blocks}");
        assert_eq!(names(&data_dir.join("snapshots")), [name.as_str()], "and nothing that is unfinished");
        assert_eq!(metric(&node, "silverback_snapshots_total"), 1.0);
        assert_eq!(metric(&node, "silverback_snapshots_failed_total"), 0.0);
        assert!(metric(&node, "silverback_snapshot_bytes_total") > 10_000.0);
        assert!(metric(&node, "silverback_snapshot_seconds_total") > 0.0);
        assert_ne!(take(&node, ""), name, "each has a name of its own");
    }
}

#[test]
fn a_snapshot_in_either_encoding_has_the_same_samples_and_a_node_reads_them_of_it() {
    for encoding in [FloatEncoding::Xor, FloatEncoding::Xor2] {
        let (node, data_dir) = start_with(2, encoding);
        write_hours(&node, 5);
        let values = [STALE_NAN_BITS, STALE_NAN_BITS + 1, f64::NAN.to_bits(), u64::MAX, 1, 0];
        let times = (0..1000).map(|nth| start_ms() - 7_200_000 + nth * 7000 + nth % 7 * nth);
        let odd = times.zip(values.into_iter().cycle()).collect();
        write(&node, &[(vec![("__name__".to_owned(), "odd".to_owned())], odd)]);
        let snapshot = data_dir.join("snapshots").join(take(&node, ""));
        let (found, _) = read(&snapshot);
        let expect = read_node(&node);
        assert!(found == expect, "other samples than reads find, as {encoding:?}");
        let floats: Vec<_> = read_blocks(&snapshot).into_values().flat_map(|block| block.floats).collect();
        assert!(floats.len() > 50 && floats.iter().all(|found| *found == encoding), "{encoding:?}");
        // A node that keeps an hour in memory, and has nothing there.
        let reader = Node::start_with(2, |config| {
            config.retention = Duration::from_secs(3600);
            fs::create_dir_all(&config.data_dir).unwrap();
            fs::rename(&snapshot, config.data_dir.join("blocks")).unwrap();
        });
        assert!(read_node(&reader) == expect, "other samples than the node had, as {encoding:?}");
    }
}

#[test]
fn without_the_head_what_is_young_is_left_out() {
    let (node, data_dir) = start(2);
    write_hours(&node, 2);
    let newest_ms = *read_node(&node).values().flatten().map(|(at_ms, _)| at_ms).max().unwrap();
    let name = take(&node, "?skip_head=true");
    let (mut found, blocks) = read(&data_dir.join("snapshots").join(name));
    assert!(blocks >= 1, "{blocks}");
    let end_ms = (newest_ms - RANGE_MS / 2).div_euclid(RANGE_MS) * RANGE_MS;
    let mut expect = read_node(&node);
    expect.values_mut().for_each(|samples| samples.retain(|(at_ms, _)| *at_ms < end_ms));
    assert!(found == expect, "all ranges that ended before {end_ms}, and no other");
    found.clear();
}

#[test]
fn a_node_without_samples_has_a_snapshot_without_blocks() {
    let (node, data_dir) = start(2);
    let name = take(&node, "?skip_head=0");
    assert_eq!(names(&data_dir.join("snapshots").join(name)), [""; 0]);
}

#[test]
fn who_may_not_asks_wrongly_or_has_no_disk_is_told() {
    let node = Node::start(1);
    check_refused(&node.post(PATH, &[], b""), 403, "--admin-api=full");
    let (node, data_dir) = start(1);
    write_hours(&node, 1);
    check_refused(&node.get(PATH), 405, "POST, PUT");
    check_refused(&node.post(&format!("{PATH}?skip_head=maybe"), &[], b""), 400, "skip_head");
    fs::write(data_dir.join("snapshots"), b"in the way").unwrap();
    check_refused(&node.post(PATH, &[], b""), 500, "can't be written");
    assert_eq!(metric(&node, "silverback_snapshots_failed_total"), 3.0);
    fs::remove_file(data_dir.join("snapshots")).unwrap();
    take(&node, "");
}

//! A node that is written to by lines, and what it exports.

use flate2::Compression;
use flate2::write::GzEncoder;
use silverback_node_test_support::Node;
use silverback_test_support::http::Answer;
pub(super) use silverback_test_support::now_ms;

/// A time that isn't a whole second, within retention.
pub(super) fn start_ms() -> i64 {
    now_ms() / 1000 * 1000 - 3_600_000 + 123
}

/// Writes lines as curl does.
pub(super) fn post(node: &Node, path: &str, lines: &str) -> Answer {
    node.post(path, &[("content-type", "application/x-www-form-urlencoded")], lines.as_bytes())
}

/// Writes lines that are all stored.
pub(super) fn write(node: &Node, path: &str, lines: &str) {
    let answer = post(node, path, lines);
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.text());
}

/// What a node holds of a selector: a line for each series, sorted.
pub(super) fn export(node: &Node, selector: &str) -> Vec<String> {
    let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
    let answer = node.get(&format!("/api/v1/export?match[]={selector}"));
    assert_eq!((answer.status, answer.is_cut), (200, false));
    let mut lines: Vec<String> = answer.text().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A series as it is exported.
pub(super) fn exported(labels: &[(&str, &str)], samples: &[(i64, &str)]) -> String {
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("\"{name}\":\"{value}\"")).collect();
    let values: Vec<_> = samples.iter().map(|(_, value)| (*value).to_owned()).collect();
    let times: Vec<_> = samples.iter().map(|(time, _)| time.to_string()).collect();
    let (labels, values, times) = (labels.join(","), values.join(","), times.join(","));
    format!("{{\"metric\":{{{labels}}},\"values\":[{values}],\"timestamps\":[{times}]}}")
}

/// A counter of the node, over all of its cores.
pub(super) fn count(node: &Node, metric: &str) -> u64 {
    let metrics = node.get("/metrics").text();
    let lines: Vec<_> = metrics.lines().filter(|line| line.starts_with(metric)).collect();
    assert!(!lines.is_empty(), "{metric} is not among the metrics");
    lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

/// Compressed by gzip.
pub(super) fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

//! `silverctl write`: every format, bad lines, refused samples, Ctrl-C.

use std::io::{BufRead, BufReader, Write};
use std::process::Command;

use super::*;

fn exported(node: &Node, selector: &str) -> String {
    run(node, &["query", selector, "--output", "json"], "").out
}

#[test]
fn every_format_is_written_and_read_back() {
    let node = Node::start(2);
    let at = now_ms() - 60_000;
    let check_format = |format: &str, input: &str| {
        check(&run(&node, &["write"], input), 0, "2 samples written, on disk and synced", "");
        let expect = format!(
            "{{\"metric\":{{\"__name__\":\"{format}\",\"job\":\"a\"}},\"values\":[1.5,2.0],\"timestamps\":[{at},{}]}}\n",
            at + 1
        );
        assert_eq!(exported(&node, format), expect);
    };
    let seconds = |at_ms: i64| format!("{}.{:03}", at_ms / 1000, at_ms % 1000);
    let (first, second) = (seconds(at), seconds(at + 1));
    check_format(
        "openmetrics",
        &format!(
            "# TYPE openmetrics gauge\nopenmetrics{{job=\"a\"}} 1.5 {first}\nopenmetrics{{job=\"a\"}} 2 {second}\n# EOF\n"
        ),
    );
    check_format(
        "prometheus",
        &format!("prometheus{{job=\"a\"}} 1.5 {at}\nprometheus{{job=\"a\"}} 2 {}", at + 1),
    );
    check_format("csv", &format!("timestamp,value,name,job\n{at},1.5,csv,a\n{},2,csv,a\n", at + 1));
    check_format(
        "jsonl",
        &format!(
            "{{\"metric\":{{\"__name__\":\"jsonl\",\"job\":\"a\"}},\"values\":[1.5,2],\"timestamps\":[{at},{}]}}\n",
            at + 1
        ),
    );
}

#[test]
fn what_was_queried_can_be_written_to_another_node() {
    let (from, to) = (Node::start(1), Node::start(2));
    check(&run(&from, &["write"], "a{x=\"1\"} 1\nb{y=\"é,\\\"\"} NaN\n"), 0, "2 samples", "");
    for output in ["json", "csv"] {
        let read = run(&from, &["query", r#"{__name__=~".+"}"#, "--output", output], "").out;
        check(&run(&to, &["write"], &read), 0, "2 samples written", "");
        assert_eq!(run(&to, &["query", r#"{__name__=~".+"}"#, "--output", output], "").out, read);
    }
}

#[test]
fn a_bad_line_is_told_and_costs_no_other() {
    let node = Node::start(1);
    let ended = run(&node, &["write", "-"], "a 1\na{ 1\nb 2\n");
    check(&ended, 1, "2 samples written", "line 2: expected =, found the end\n");
    check(&ended, 1, "1 bad line of 3", "");
    let ended = run(&node, &["write", "--strict"], "c 1\nc{ 1\nd 2\n");
    check(&ended, 1, "1 sample written", "line 2: ");
    check(&ended, 1, "ended at the first bad line", "");
    assert_eq!(exported(&node, "d"), "");
}

#[test]
fn refused_samples_are_told_by_reason_with_their_series() {
    let node = Node::start(1);
    let at = now_ms() - 60_000;
    let input = format!("a 1 {at}\na 2 {at}\nb 1 {at}\nb 1 {}\nc 1 1000\n", at - 3_601_000);
    let ended = run(&node, &["write", "--format", "prometheus"], &input);
    check(&ended, 1, "2 samples written", "");
    for (reason, series) in [("duplicate", "a"), ("out_of_order", "b"), ("too_old", "c")] {
        let is_told = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            words == [reason, "1", series]
        };
        assert!(ended.out.lines().any(is_told), "{reason}: {ended:?}");
        // The node remembers it, and of whom.
        let refusals = run(&node, &["refusals"], "");
        let is_kept = |line: &str| line.starts_with("127.0.0.1") && line.contains(reason);
        assert!(refusals.code == Some(0) && refusals.out.lines().any(is_kept), "{reason}: {refusals:?}");
    }
}

#[test]
fn a_file_is_read_as_standard_input_is() {
    let node = Node::start(1);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("metrics.txt");
    std::fs::write(&file, "a 1\n").unwrap();
    check(&run(&node, &["write", file.to_str().unwrap()], ""), 0, "1 sample written", "");
    let missing = dir.path().join("missing");
    check(&run(&node, &["write", missing.to_str().unwrap()], ""), 1, "", "error: can't open");
}

/// The first line proves that what comes down a pipe isn't held back until the pipe ends.
#[test]
fn ctrl_c_ends_a_write_with_what_was_read_so_far() {
    let node = Node::start(1);
    let mut child = start(&node, &["write"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"a 1\n").unwrap();
    let began = std::time::Instant::now();
    while exported(&node, "a").is_empty() {
        assert!(began.elapsed().as_secs() < 20, "the sample isn't written");
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "1 sample written, on disk and synced");
    assert_eq!(lines.next().unwrap().unwrap(), "interrupted after line 1");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(input);
}

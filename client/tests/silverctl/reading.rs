//! `silverctl query`, `labels` and `series`.

use std::io::Read;

use super::*;

fn filled() -> Node {
    let node = Node::start(2);
    let input = "up{job=\"a\",instance=\"1\"} 1\nup{job=\"b\",instance=\"1\"} 0\ndown{job=\"a\"} 5\n";
    check(&run(&node, &["write"], input), 0, "3 samples written", "");
    node
}

#[test]
fn a_query_is_shown_as_it_was_asked_for() {
    let node = filled();
    let query = |output: &str| run(&node, &["query", "up{job=\"a\"}", "--output", output], "");
    check(&query("table"), 0, "up{instance=\"1\", job=\"a\"}  (1 sample)\n  20", "");
    check(&query("json"), 0, r#"{"metric":{"__name__":"up","instance":"1","job":"a"},"values":[1.0],"#, "");
    check(&query("csv"), 0, "timestamp,value,__name__,instance,job\n", "");
    check(&query("csv"), 0, ",1,up,1,a\n", "");
    check(&query("plot"), 0, "● up{instance=\"1\", job=\"a\"}  last 1 at 20", "");
}

#[test]
fn a_query_has_a_range_and_a_limit() {
    let node = filled();
    let query = |more: &[&str]| run(&node, &[&["query", r#"{job=~".+"}"#, "-o", "json"], more].concat(), "");
    assert_eq!(query(&[]).out.lines().count(), 3);
    let limited = query(&["--limit", "2"]);
    assert_eq!(limited.out.lines().count(), 2);
    check(&limited, 0, "", "there are more series than the 2 shown");
    check(&query(&["--start", "-3h", "--end", "-2h"]), 0, "", "no series");
    check(&query(&["--start", "now", "--end", "-2h"]), 2, "", "is later than --end");
}

#[test]
fn labels_their_values_and_series_are_listed() {
    let node = filled();
    check(&run(&node, &["labels"], ""), 0, "__name__\ninstance\njob\n", "");
    check(&run(&node, &["labels", "job"], ""), 0, "a\nb\n", "");
    assert_eq!(run(&node, &["labels", "job", "--match", "down"], "").out, "a\n");
    let listed = run(&node, &["series", "{job=\"a\"}"], "");
    assert_eq!(listed.out, "down{job=\"a\"}\nup{instance=\"1\", job=\"a\"}\n");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let node = Node::start(1);
    let lines: String = (0..20_000).map(|index| format!("a{{index=\"{index}\"}} 1\n")).collect();
    check(&run(&node, &["write"], &lines), 0, "20,000 samples written", "");
    let mut child = start(&node, &["query", "a"]);
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    drop(out);
    check(&child.wait_with_output().unwrap().into(), 0, "", "");
}

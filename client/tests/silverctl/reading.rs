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
fn json_and_jsonl_are_one_format_in_every_command() {
    let node = filled();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("samples");
    for (name, metric) in [("json", "x"), ("jsonl", "y")] {
        let line = |job: &str| format!(r#"{{"name":"{metric}","labels":{{"job":"{job}"}},"value":1}}"#);
        check(&run(&node, &["write", "--format", name], &line("w")), 0, "1 sample written", "");
        std::fs::write(&file, line("i")).unwrap();
        let import = ["import", file.to_str().unwrap(), "--format", name, "--state"];
        let state = dir.path().join(name);
        let import = [&import[..], &[state.to_str().unwrap()]].concat();
        check(&run(&node, &import, ""), 0, "1 sample written", "");
        for option in ["--output", "--format"] {
            let queried = run(&node, &["query", metric, option, name], "");
            check(
                &queried,
                0,
                &format!(r#"{{"metric":{{"__name__":"{metric}","job":"i"}},"values":[1.0],"#),
                "",
            );
            assert_eq!(queried.out.lines().count(), 2);
            check(
                &run(&node, &["labels", "job", "--match", metric, option, name], ""),
                0,
                "\"i\"\n\"w\"\n",
                "",
            );
            check(&run(&node, &["shards", option, name], ""), 0, r#""shard":1"#, "");
        }
    }
}

#[test]
fn a_counter_is_shown_as_its_rate() {
    let node = Node::start(1);
    let at = now_ms() - 60_000;
    let input = format!("c_total 5 {at}\nc_total 25 {}\nc_total 3 {}\n", at + 10_000, at + 20_000);
    check(&run(&node, &["write", "--format", "prometheus"], &input), 0, "3 samples written", "");
    let rate = |output: &str| run(&node, &["query", "c_total", "--rate", "--output", output], "");
    let expect = format!(
        "{{\"metric\":{{\"__name__\":\"c_total:rate\"}},\"values\":[2.0,0.3],\"timestamps\":[{},{}]}}\n",
        at + 10_000,
        at + 20_000
    );
    check(&rate("json"), 0, &expect, "");
    check(&rate("table"), 0, "c_total:rate  (2 samples)\n", "");
    check(&rate("csv"), 0, ",0.3,c_total:rate\n", "");
    check(&rate("plot"), 0, "● c_total:rate  last 0.3 at ", "");
}

#[test]
fn a_plot_holds_several_series_and_their_legend() {
    let node = filled();
    let plotted = run(&node, &["query", "{job=~\".+\"}", "--output", "plot"], "");
    check(&plotted, 0, "\n* down{job=\"a\"}  last 5 at 20", "");
    check(&plotted, 0, "\n+ up{instance=\"1\", job=\"a\"}  last 1 at 20", "");
    check(&plotted, 0, "\no up{instance=\"1\", job=\"b\"}  last 0 at 20", "");
    assert_eq!(plotted.out.matches('└').count(), 1, "{plotted:?}");
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

/// A terminal's escape in each of its forms, a line of its own, and text that is shown backwards.
const ODD: &str = "\u{1b}[2J\u{9b}31m\u{7f}\nforged\u{202e}drow\u{2066}";
const ODD_SHOWN: &str = r"\u001b[2J\u009b31m\u007f\nforged\u202edrow\u2066";

/// A node with a series that has it for its name, a label's name and a label's value.
fn odd() -> Node {
    let node = Node::start(1);
    let line = serde_json::json!({
        "metric": {"__name__": ODD, ODD: ODD}, "values": [1.5], "timestamps": [now_ms()],
    });
    check(&run(&node, &["write", "--format", "jsonl"], &line.to_string()), 0, "1 sample written", "");
    node
}

#[test]
fn what_labels_hold_is_printed_as_escapes_to_people() {
    let node = odd();
    let is_plain =
        |text: &str| text.chars().all(|c| c == '\n' || silverback_model::printable::is_printable(c));
    for words in [
        &["labels"][..],
        &["labels", "__name__"],
        &["labels", ODD],
        &["series", "{__name__=~\".+\"}"],
        &["query", "{__name__=~\".+\"}"],
        &["query", "{__name__=~\".+\"}", "--output", "plot"],
        &["query", "{__name__=~\".+\"}", "--output", "json"],
        &["labels", ODD, "--output", "json"],
    ] {
        let ended = run(&node, words, "");
        check(&ended, 0, ODD_SHOWN, "");
        assert!(is_plain(&ended.out) && is_plain(&ended.err), "{words:?}: {ended:?}");
    }
    let refused = run(&node, &["write"], &format!("x{{a=\"{}\"}} 1 1\n", ODD.replace('\n', "\\n")));
    check(&refused, 1, ODD_SHOWN, "");
    assert!(is_plain(&refused.out), "{refused:?}");
}

#[test]
fn what_labels_hold_is_exact_for_programs() {
    let node = odd();
    let json = run(&node, &["query", "{__name__=~\".+\"}", "--output", "json"], "").out;
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["metric"], serde_json::json!({"__name__": ODD, ODD: ODD}));
    let values = run(&node, &["labels", ODD, "--output", "json"], "").out;
    assert_eq!(serde_json::from_str::<String>(&values).unwrap(), ODD);
    let csv = run(&node, &["query", "{__name__=~\".+\"}", "--output", "csv"], "").out;
    assert!(csv.contains(&format!("\"{ODD}\"")), "{csv:?}");
    // A selector that is printed finds what it was printed of.
    let series = run(&node, &["series", "{__name__=~\".+\"}"], "").out;
    check(&run(&node, &["series", series.trim_end()], ""), 0, &series, "");
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

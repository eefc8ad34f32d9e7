//! `silverctl load` against a node: where a run begins, and how one ends of which something was refused.

use super::*;

const SMALL: [&str; 9] = [
    "load",
    "--closed",
    "--targets=4",
    "--series-per-target=20",
    "--batch=50",
    "--connections=2",
    "--interval=15s",
    "--label",
    "run=1",
];

fn load(node: &Node, more: &[&str]) -> Ended {
    load_rounds(node, "--rounds=3", more)
}

fn load_rounds(node: &Node, rounds: &str, more: &[&str]) -> Ended {
    run(node, &[&SMALL[..], &[rounds], more].concat(), "")
}

fn count_samples(node: &Node) -> usize {
    let far = ["--start", "-2h", "--end", "2100-01-01T00:00:00Z", "--output", "csv"];
    run(node, &[&["query", "{run=~\".+\"}"], &far[..]].concat(), "").out.lines().count() - 1
}

#[track_caller]
fn check_stored(ended: &Ended, samples: &str) {
    check(ended, 0, &format!("samples   acknowledged{samples:>16}"), "");
    check(ended, 0, "          refused                    0\n", "");
}

#[test]
fn a_second_run_begins_where_the_first_ended() {
    for protocol in ["--protocol=rw2", "--protocol=grpc"] {
        let node = Node::start(2);
        let first = load(&node, &[protocol]);
        check_stored(&first, "240");
        assert!(!first.err.contains("the node has samples of these series"), "{first:?}");
        let second = load(&node, &[protocol]);
        check_stored(&second, "240");
        check(&second, 0, "", "the node has samples of these series until 20");
        assert_eq!(count_samples(&node), 480);
        // Other series start over.
        let other = load(&node, &[protocol, "--first-target=4"]);
        check_stored(&other, "240");
        assert!(!other.err.contains("the node has samples of these series"), "{other:?}");
    }
}

#[test]
fn a_part_of_the_series_are_histograms_where_that_is_asked_for() {
    let node = Node::start(2);
    let ended = load(&node, &["--protocol=grpc", "--histograms=25%"]);
    check_stored(&ended, "240");
    let told = node.get("/api/v1/query?query=%7Brun%3D%221%22%7D").json();
    let series = told["data"]["result"].as_array().unwrap();
    let histograms = series.iter().filter(|series| series.get("histogram").is_some()).count();
    assert_eq!((series.len(), histograms), (80, 20), "{told}");
    check(&load(&node, &["--histograms=25%"]), 2, "", "--histograms takes --protocol grpc");
}

#[test]
fn a_run_without_room_before_the_clock_is_told_what_helps() {
    let node = Node::start(1);
    check(&load_rounds(&node, "--rounds=24", &["--start=now"]), 0, "timestamps came up to the clock", "");
    let ended = load(&node, &[]);
    check(&ended, 1, "", "about as far ahead of the clock as it takes them");
    check(&ended, 1, "", "--label run=2");
    check_stored(&load(&node, &["--label=other=2"]), "240");
}

#[test]
fn a_run_of_which_something_was_refused_fails_and_compares_with_what_was() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    check_stored(&load(&node, &["--start=-10m", "--report", &a]), "240");
    // As many rounds again, later than the window; and then some of which the first are.
    let ended = load(&node, &["--start=-2h", "--report", &b]);
    check(&ended, 1, "out_of_order: 240", "no sample was acknowledged");
    let ended = load(&node, &["--start=-1h10m", "--seed=2", "--report", &b]);
    check(&ended, 1, "          refused", "");
    let compared = run(&node, &["load", "compare", &a, &b], "");
    let row = compared.out.lines().find(|line| line.starts_with("refused")).expect("a row");
    let words: Vec<_> = row.split_whitespace().collect();
    assert!(words[1] == "0" && words[2] != "0" && row.contains("B: "), "{compared:?}");
}

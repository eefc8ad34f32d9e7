//! `silverctl queries`.

use silverback_test_support::{eventually, eventually_found};

use super::*;

/// It sorts 36,000 values at each of 10,000 steps, and that ten times: it goes on for as long as it takes to see it.
fn slow() -> String {
    let sorted = ["quantile_over_time(0.9,vector(time()*7919%251013)%5B10h:1s%5D)"; 10].join("%2B");
    format!("/api/v1/query_range?query={sorted}&start=9&end=9999&step=1")
}

#[test]
fn active_queries_are_listed_and_one_is_cancelled() {
    let node = Node::start(2);
    check(
        &run(&node, &["queries"], ""),
        0,
        "id  state  for  samples  memory  from  query\n",
        "no query is active",
    );
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| node.get(&slow()));
        let line = eventually_found(|| {
            let listed = run(&node, &["queries"], "").out;
            listed.lines().nth(1).map(str::to_owned).ok_or(listed)
        });
        assert!(
            line.contains("  running  ") && line.contains("  127.0.0.1  quantile_over_time(0.9,"),
            "{line}"
        );
        let json = run(&node, &["queries", "--output", "json"], "");
        check(&json, 0, r#""kind":"query_range""#, "");
        let id = line.split(' ').next().unwrap();
        let cancelled = run(&node, &["queries", "cancel", id], "");
        check(&cancelled, 0, &format!("query {id} is cancelled: quantile_over_time(0.9,"), "");
        assert_eq!(asked.join().unwrap().json()["errorType"], "canceled");
        eventually("it is active", || run(&node, &["queries"], "").err.contains("no query is active"));
        let again = run(&node, &["queries", "cancel", id], "");
        check(&again, 1, "", &format!("error: no active query has the id \"{id}\""));
    });
    for wrong in ["", "0/1", "../-/ready", "0-1?x"] {
        check(&run(&node, &["queries", "cancel", wrong], ""), 2, "", "isn't a query's id");
    }
}

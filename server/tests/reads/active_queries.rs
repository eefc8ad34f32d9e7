//! The queries that are evaluated or wait: listed, and ended by whoever may.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use silverback::config::AdminAccess;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{series, start_ms, write};
use silverback_test_support::eventually_found;
use silverback_test_support::http::request;
use silverback_test_support::http2::{self, END_HEADERS, END_STREAM, HEADERS, Http2, frame};

use crate::queries::{ask, check_nothing_is_left, refused, slow_for, wait_for_metric};

const PATH: &str = "/api/v1/status/active_queries";

fn listed(node: &Node) -> Vec<Value> {
    let (status, answer) = ask(node, PATH);
    assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
    answer["data"]["queries"].as_array().unwrap().clone()
}

/// Those that are active, once as many are as should be.
fn wait_for(node: &Node, state: &str, count: usize) -> Vec<Value> {
    eventually_found(|| {
        let found: Vec<_> = listed(node).into_iter().filter(|query| query["state"] == state).collect();
        if found.len() == count { Ok(found) } else { Err(format!("{count} {state}: {found:?}")) }
    })
}

fn cancel(node: &Node, query: &Value) -> (u16, Value) {
    let path = format!("{PATH}/{}", query["id"].as_str().unwrap());
    let answer = node.ask("DELETE", &path, &[], b"");
    (answer.status, answer.json())
}

fn number(query: &Value, name: &str) -> f64 {
    query[name].as_f64().unwrap_or_else(|| panic!("{name} of {query}"))
}

/// A sum that each shard folds for far longer than a test waits: of 60 series at 10,000 steps, over 3,000 samples each.
fn slow_sum(node: &Node) -> String {
    let start = start_ms();
    for lot in 0..6 {
        let one = |i: usize| {
            let host = format!("{}", lot * 10 + i);
            series(
                &[("__name__", "slow"), ("host", &host)],
                start,
                (0..3000).map(|i| f64::from(i * 7919 % 3001)),
            )
        };
        write(node, &(0..10).map(one).collect::<Vec<_>>());
    }
    let from = start / 1000;
    format!(
        "/api/v1/query_range?query=sum(stddev_over_time(slow%5B50m%5D))&start={from}&end={}&step=1",
        from + 10_000
    )
}

#[test]
fn a_query_that_runs_is_listed_and_cancelled_on_all_cores_and_leaves_nothing() {
    for shards in [1, 3] {
        let node = Node::start(shards);
        let path = slow_sum(&node);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&node, &path));
            let query = wait_for(&node, "running", 1).remove(0);
            assert_eq!(query["query"], "sum(stddev_over_time(slow[50m]))");
            assert_eq!(
                (&query["kind"], &query["isCut"], &query["peer"]),
                (&json!("query_range"), &json!(false), &json!("127.0.0.1"))
            );
            assert_eq!(
                (number(&query, "step"), number(&query, "end") - number(&query, "start")),
                (1.0, 10_000.0)
            );
            assert_eq!(number(&query, "timeoutSeconds"), 120.0);
            // Each core has begun with its part, and what they read and hold is reported together.
            let parts = shards - 1;
            let running = format!("silverback_reads_in_flight{{shard=\"{parts}\"}} 1\n");
            wait_for_metric(&node, &running);
            let progress = eventually_found(|| {
                let query = listed(&node).into_iter().next().ok_or("it has ended")?;
                let has_read =
                    number(&query, "samplesRead") >= 3000.0 && number(&query, "memoryBytes") > 10_000.0;
                if has_read { Ok(query) } else { Err("it has read nothing") }
            });
            assert!(number(&progress, "activeSeconds") > 0.0, "{progress}");
            let (status, told) = cancel(&node, &query);
            assert_eq!((status, &told["data"]["id"]), (200, &query["id"]), "{told}");
            let began = Instant::now();
            let words = "query was canceled in expression evaluation";
            assert_eq!(asked.join().unwrap(), (503, refused("canceled", words)));
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
            check_nothing_is_left(&node, shards);
            assert!(listed(&node).is_empty());
            let (status, told) = cancel(&node, &query);
            assert_eq!((status, &told["errorType"]), (404, &json!("not_found")), "{told}");
        });
        let metrics = node.get("/metrics").text();
        assert!(metrics.contains("silverback_queries_refused_total{reason=\"canceled\"} 1\n"), "{metrics}");
    }
}

#[test]
fn a_query_that_waits_is_cancelled_before_its_turn_on_whichever_core_it_waits() {
    for shards in [1, 3] {
        let node = Node::start_with(shards, |config| config.max_queries = 1);
        // Which core a connection comes to is the kernel's to say: as many as are needed for one to wait.
        let mut many = Http2::begin(node.connect()).unwrap();
        let slow = http2::head("GET", &slow_for("60s"), &[]);
        many.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &slow)).unwrap();
        let running = wait_for(&node, "running", 1).remove(0);
        let quick = http2::head("GET", "/api/v1/query?query=up&time=7", &[]);
        many.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &quick)).unwrap();
        let queued = wait_for(&node, "queued", 1).remove(0);
        assert_eq!((&queued["query"], &queued["kind"]), (&json!("up"), &json!("query")));
        assert_eq!(
            (number(&queued, "start"), number(&queued, "end"), number(&queued, "step")),
            (7.0, 7.0, 0.0)
        );
        assert_eq!((number(&queued, "samplesRead"), number(&queued, "memoryBytes")), (0.0, 0.0));
        let order: Vec<_> = listed(&node).iter().map(|query| query["state"].clone()).collect();
        assert_eq!(order, ["running", "queued"]);
        assert_eq!(cancel(&node, &queued).0, 200);
        wait_for_metric(&node, "silverback_queries_refused_total{reason=\"canceled\"} 1\n");
        assert_eq!(wait_for(&node, "running", 1)[0]["id"], running["id"], "the other one goes on");
        assert!(wait_for(&node, "queued", 0).is_empty());
        assert_eq!(cancel(&node, &running).0, 200);
        wait_for_metric(&node, "silverback_queries_refused_total{reason=\"canceled\"} 2\n");
        check_nothing_is_left(&node, shards);
        drop(many);
    }
}

#[test]
fn who_waits_is_told_that_it_was_cancelled_there() {
    let node = Node::start_with(1, |config| config.max_queries = 1);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(&node, &slow_for("60s")).0);
        let running = wait_for(&node, "running", 1).remove(0);
        let waiting = scope.spawn(|| node.get("/api/v1/query?query=up"));
        let queued = wait_for(&node, "queued", 1).remove(0);
        cancel(&node, &queued);
        let answer = waiting.join().unwrap();
        let told = (answer.status, answer.header("retry-after"));
        assert_eq!(told, (503, ""), "who is cancelled is not called back");
        assert_eq!(answer.json(), refused("canceled", "query was canceled in query queue"));
        cancel(&node, &running);
        assert_eq!(slow.join().unwrap(), 503);
    });
}

#[test]
fn an_id_that_no_query_has_is_told_in_words() {
    let node = Node::start(2);
    for id in
        ["0-1", "1-99", "2-1", "65535-1", "99999-1", "nonsense", "", "0-1/x", "%00", "0-18446744073709551616"]
    {
        let answer = node.ask("DELETE", &format!("{PATH}/{id}"), &[], b"");
        let told = answer.json();
        assert_eq!((answer.status, &told["errorType"]), (404, &json!("not_found")), "{id}: {told}");
        let words = told["error"].as_str().unwrap();
        assert!(words.contains(&format!("{id:?}")) && words.contains(PATH), "{id}: {words}");
    }
    let long = node.ask("DELETE", &format!("{PATH}/{}", "9".repeat(4000)), &[], b"");
    assert_eq!((long.status, long.body.len() < 500), (404, true));
    for (method, path) in [("GET", "/0-1"), ("POST", "/0-1"), ("POST", ""), ("DELETE", "")] {
        assert_eq!(node.ask(method, &format!("{PATH}{path}"), &[], b"").status, 405, "{method} {path}");
    }
}

#[test]
fn many_queries_with_long_expressions_are_listed_within_bounds_also_where_no_read_has_a_turn() {
    let node = Node::start_with(1, |config| (config.max_queries, config.max_reads) = (1, 1));
    let path = slow_for("60s").replace("&start=", &format!("+%23{}&start=", "x".repeat(2000)));
    let many = std::iter::repeat_with(|| {
        let mut stream = node.connect();
        stream.write_all(&request("GET", &path, &[], b"")).unwrap();
        stream
    });
    let many: Vec<_> = many.take(65).collect();
    wait_for(&node, "queued", 64);
    let answer = node.get(PATH);
    let queries = answer.json()["data"]["queries"].as_array().unwrap().clone();
    assert_eq!((queries.len(), answer.json()["data"]["omitted"].clone()), (65, json!(0)));
    assert!(answer.body.len() < 65 * 2048, "{}", answer.body.len());
    for query in queries {
        assert_eq!((query["query"].as_str().unwrap().len(), &query["isCut"]), (1024, &json!(true)));
    }
    drop(many);
    check_nothing_is_left(&node, 1);
    assert!(listed(&node).is_empty());
}

#[test]
fn to_cancel_a_query_takes_no_more_than_the_admin_s_scope() {
    // The node deletes nothing on demand, which is another thing.
    let node = Node::start_with(1, |config| config.admin_api = AdminAccess::ReadOnly);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&node, &slow_for("60s")).0);
        let query = wait_for(&node, "running", 1).remove(0);
        assert_eq!(cancel(&node, &query).0, 200);
        assert_eq!(asked.join().unwrap(), 503);
    });
}

//! Deletions over HTTP: what is refused, what goes, and what is read and counted afterwards.

use std::io::BufReader;
use std::num::NonZeroU64;

use serde_json::{Value, json};
use silverback::config::AdminAccess;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{query, read_samples, series, start_ms, write, write_body};
use silverback_proto::prometheus::label_matcher::Type;
use silverback_test_support::http::{Answer, read_answer, send};
use silverback_test_support::{eventually, eventually_found};

const PATH: &str = "/api/v1/admin/tsdb/delete_series";
const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];

fn start(shards: usize) -> Node {
    Node::start_with(shards, |config| config.admin_api = AdminAccess::Full)
}

/// Two metrics on so many hosts, with ten samples each.
fn with_hosts(node: &Node, hosts: usize, start_ms: i64) {
    let mut written = Vec::new();
    for host in 0..hosts {
        for name in ["up", "load"] {
            let labels = [("__name__", name), ("host", &*format!("h{host}"))];
            written.push(series(&labels, start_ms, (0..10).map(f64::from)));
        }
    }
    write(node, &written);
}

fn hosts_of(node: &Node, metric: &str) -> usize {
    let values = node.get(&format!("/api/v1/label/host/values?match[]={metric}")).json();
    values["data"].as_array().expect("a list").len()
}

fn samples_of(node: &Node, metric: &str) -> usize {
    let asked = query(&[("__name__", Type::Eq, metric)], (0, i64::MAX));
    read_samples(node, vec![asked])[0].iter().map(|(_, samples)| samples.len()).sum()
}

/// The sum of a metric over the shards.
fn metric(node: &Node, name: &str) -> f64 {
    let text = node.get("/metrics").text();
    let values = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

fn check_refused(answer: &Answer, status: u16, kind: &str, words: &str) {
    assert_eq!((answer.status, &answer.json()["errorType"]), (status, &json!(kind)), "{}", answer.text());
    assert_eq!(answer.json()["status"], json!("error"));
    let error = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(error.contains(words), "{error}");
}

#[test]
fn series_go_at_once_on_all_shards_and_are_counted() {
    for shards in [1, 3] {
        let (node, start_ms) = (start(shards), start_ms());
        with_hosts(&node, 40, start_ms);
        let answer = node.post(PATH, &FORM, b"match[]=up%7Bhost=~%22h1.%22%7D&match[]=nothing");
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.text());
        assert_eq!((hosts_of(&node, "up"), hosts_of(&node, "load")), (30, 40));
        assert_eq!((samples_of(&node, "up"), samples_of(&node, "load")), (300, 400));
        let answer = node.ask("PUT", &format!("{PATH}?match[]=up"), &[], b"");
        assert_eq!(answer.status, 204, "{}", answer.text());
        let names: Value = node.get("/api/v1/label/__name__/values").json();
        assert_eq!(names["data"], json!(["load"]));
        assert_eq!(metric(&node, "silverback_series"), 40.0);
        assert_eq!(metric(&node, "silverback_series_deleted_total"), 40.0);
        assert_eq!(metric(&node, "silverback_samples_deleted_total"), 400.0);
        assert_eq!(metric(&node, "silverback_delete_requests_total"), 2.0);
        assert_eq!(metric(&node, "silverback_delete_requests_failed_total"), 0.0);
        with_hosts(&node, 1, start_ms);
        assert_eq!((hosts_of(&node, "up"), samples_of(&node, "up")), (1, 10), "they may come again");
    }
}

#[test]
fn a_range_goes_with_both_its_ends() {
    let (node, start_ms) = (start(2), start_ms());
    with_hosts(&node, 5, start_ms);
    let [from, to] = [2, 6].map(|second| (start_ms + second * 1000) as f64 / 1000.0);
    let form = format!("match[]=up&start={from}&end={to}");
    assert_eq!(node.post(PATH, &FORM, form.as_bytes()).status, 204);
    let asked = query(&[("__name__", Type::Eq, "up")], (0, i64::MAX));
    for (_, samples) in &read_samples(&node, vec![asked])[0] {
        let seconds: Vec<i64> = samples.iter().map(|(at_ms, _)| (at_ms - start_ms) / 1000).collect();
        assert_eq!(seconds, [0, 1, 7, 8, 9]);
    }
    assert_eq!(samples_of(&node, "load"), 50);
    assert_eq!(metric(&node, "silverback_series_deleted_total"), 0.0);
    assert_eq!(metric(&node, "silverback_samples_deleted_total"), 25.0);
    // The tail goes, and what was refused as out of order before is accepted.
    let form = format!("match[]=up&start={from}");
    assert_eq!(node.post(PATH, &FORM, form.as_bytes()).status, 204);
    write(&node, &[series(&[("__name__", "up"), ("host", "h0")], start_ms + 2500, [1.0])]);
    assert_eq!(samples_of(&node, "up"), 5 * 2 + 1);
}

#[test]
fn what_went_makes_room_for_other_series() {
    let node = Node::start_with(1, |config| {
        config.admin_api = AdminAccess::Full;
        config.max_series = NonZeroU64::new(100);
    });
    let start_ms = start_ms();
    let many = |name: &str| {
        let one = |i: usize| series(&[("__name__", name), ("i", &i.to_string())], start_ms, [1.0]);
        write_body(&(0..100).map(one).collect::<Vec<_>>())
    };
    assert_eq!(node.post("/api/v1/write", &[], &many("first")).status, 204);
    assert_eq!(node.post("/api/v1/write", &[], &many("second")).status, 400, "there is no room");
    assert_eq!(node.post(PATH, &FORM, b"match[]=first").status, 204);
    // A checkpoint frees what the log named them by.
    eventually("there is no room yet", || node.post("/api/v1/write", &[], &many("second")).status == 204);
    assert_eq!(samples_of(&node, "second"), 100);
}

const MANY: usize = 50_000;

/// A node with so many series that their deletion takes its time.
fn start_with_many(shards: usize) -> Node {
    const LOT: usize = 5000;
    let node = start(shards);
    for lot in 0..MANY / LOT {
        let one = |i: usize| {
            series(&[("__name__", "many"), ("i", &(lot * LOT + i).to_string())], start_ms(), [1.0])
        };
        write(&node, &(0..LOT).map(one).collect::<Vec<_>>());
    }
    node
}

#[test]
fn a_node_runs_one_deletion_at_a_time_and_says_so_to_others() {
    let node = start_with_many(2);
    let mut clients: Vec<_> = (0..8).map(|_| node.connect()).collect();
    for client in &mut clients {
        send(client, "POST", &format!("{PATH}?match[]=many"), &[], b"");
    }
    let answers = clients.into_iter().map(|client| read_answer(&mut BufReader::new(client)));
    let (done, refused): (Vec<_>, Vec<_>) = answers.partition(|answer| answer.status == 204);
    assert!(!done.is_empty() && !refused.is_empty(), "{} were done, {} refused", done.len(), refused.len());
    for answer in &refused {
        check_refused(answer, 429, "too_many_requests", "another deletion is in progress");
        assert!(!answer.header("retry-after").is_empty());
    }
    assert_eq!(metric(&node, "silverback_samples_deleted_total"), MANY as f64);
    assert_eq!(metric(&node, "silverback_delete_requests_failed_total"), refused.len() as f64);
    assert_eq!(node.post(PATH, &FORM, b"match[]=many").status, 204, "the turn is given back");
}

#[test]
fn a_deletion_that_has_begun_goes_on_to_its_end_without_its_client() {
    let node = start_with_many(2);
    let mut client = node.connect();
    send(&mut client, "POST", &format!("{PATH}?match[]=many"), &[], b"");
    let wait_for = |name: &str, is_there: &dyn Fn(f64) -> bool| {
        eventually_found(|| match metric(&node, name) {
            now if is_there(now) => Ok(()),
            now => Err(format!("{name} is {now}")),
        });
    };
    wait_for("silverback_samples_deleted_total", &|samples| samples > 0.0);
    drop(client);
    wait_for("silverback_series", &|series| series == 0.0);
    assert_eq!(metric(&node, "silverback_samples_deleted_total"), MANY as f64);
}

#[test]
fn what_means_nothing_is_refused_and_deletes_nothing() {
    let node = start(1);
    with_hosts(&node, 3, start_ms());
    let post = |form: &str| node.post(PATH, &FORM, form.as_bytes());
    check_refused(&post(""), 400, "bad_data", "no match[]");
    check_refused(&post("match[]=%7B%7D"), 400, "bad_data", "match[]={}");
    check_refused(&post("match[]=up%7B"), 400, "bad_data", "match[]=up{");
    check_refused(&post("match[]=up&start=yesterday"), 400, "bad_data", "start=yesterday");
    check_refused(&post("match[]=up&start=7&end=6"), 400, "bad_data", "end is before start");
    check_refused(&post("match[]=up&start="), 400, "bad_data", "start is empty");
    check_refused(&post("match[]=up&start=1&start=2"), 400, "bad_data", "start is given more than once");
    check_refused(&post("match[]=up&begin=1"), 400, "bad_data", "begin is unknown");
    check_refused(&node.get(&format!("{PATH}?match[]=up")), 405, "bad_data", "POST, PUT");
    assert_eq!(samples_of(&node, "up"), 30);
    assert_eq!(metric(&node, "silverback_delete_requests_failed_total"), 9.0);
}

#[test]
fn a_node_that_takes_no_changes_says_which_option_allows_them() {
    let node = Node::start(1);
    with_hosts(&node, 3, start_ms());
    let answer = node.post(PATH, &FORM, b"match[]=up");
    check_refused(&answer, 403, "unavailable", "--admin-api=full");
    assert_eq!(samples_of(&node, "up"), 30);
}

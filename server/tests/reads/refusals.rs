//! Reads that are refused: each with its status and clear words, and the node goes on.

use silverback_node_test_support::written::{ask, compress, query, series, start_ms, write};
use silverback_node_test_support::{Node, OUT_OF_REACH};
use silverback_proto::prometheus::label_matcher::Type;
use silverback_test_support::http::Answer;

const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);

fn check_refused(answer: &Answer, status: u16, words: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(answer.text().contains(words), "{}", answer.text());
}

#[test]
fn hostile_remote_reads_are_refused() {
    let node = Node::start(2);
    let post = |body: &[u8]| node.post("/api/v1/read", &[], body);
    check_refused(&post(b""), 400, "snappy");
    check_refused(&post(b"no snappy at all"), 400, "snappy");
    check_refused(&post(&[0xff, 0xff, 0xff, 0xff, 0x0f]), 400, "at most 524288");
    check_refused(&post(&compress(&[0xff; 64])), 400, "ReadRequest");
    check_refused(&post(&vec![0; (512 << 10) + 1]), 413, "larger than");
    let wide = vec![query(&[("a", Type::Neq, "b"); 300], ALWAYS)];
    check_refused(&ask(&node, wide, &[]), 400, "too many matchers");
    check_refused(&ask(&node, vec![query(&[], ALWAYS); 33], &[1]), 400, "too many queries");
    check_refused(&ask(&node, vec![query(&[("a", Type::Re, "(")], ALWAYS)], &[]), 400, "\"(\"");
    let nested = "((x?){1000}){10}";
    check_refused(&ask(&node, vec![query(&[("a", Type::Re, nested)], ALWAYS)], &[]), 400, "repeat count");
    let wide = vec![query(&[("a", Type::Re, "[^a]{1000}"); 250], ALWAYS)];
    check_refused(&ask(&node, wide, &[]), 400, "exceeds the size");
    check_refused(&ask(&node, vec![], &[9]), 400, "response types");
    assert_eq!(node.get("/-/healthy").status, 200);
}

#[test]
fn another_protocol_s_client_is_told_so_before_its_body_is_looked_at() {
    let node = Node::start(1);
    let with = |name, value| node.post("/api/v1/read", &[(name, value)], b"x");
    check_refused(&with("content-type", "application/json"), 415, "only application/x-protobuf");
    check_refused(&with("content-encoding", "gzip"), 415, "only snappy");
    check_refused(&node.get("/api/v1/read"), 405, "POST");
    assert_eq!(node.get("/api/v1/read").header("allow"), "POST");
}

#[test]
fn questions_that_mean_nothing_are_refused_in_prometheus_shape() {
    let node = Node::start(1);
    let check = |path: &str, words: &str| {
        let answer = node.get(path);
        check_refused(&answer, 400, words);
        let json = answer.json();
        assert_eq!((json["status"].as_str(), json["errorType"].as_str()), (Some("error"), Some("bad_data")));
    };
    check("/api/v1/series", "no match[]");
    check("/api/v1/series?match[]=%7B%7D", "at least one matcher");
    check("/api/v1/series?match[]=up%7B", "at position 4");
    check("/api/v1/export?match[]=up&start=yesterday", "start=yesterday");
    check("/api/v1/labels?limit=some", "limit=some");
    check(&format!("/api/v1/labels?{}", "a&".repeat(300)), "at most 256 parameters");
    let wide = "a=~%22%5B%5Ea%5D%7B1000%7D%22,".repeat(250);
    check(&format!("/api/v1/series?match[]=%7B{wide}%7D"), "exceeds the size");
    check("/api/v1/label/%ff/values", "not a label name");
    check("/api/v1/status/tsdb?limit=10001", "at most 10000");
    let answer = node.ask("DELETE", "/api/v1/series?match[]=up", &[], b"");
    assert_eq!((answer.status, answer.header("allow")), (405, "GET, POST"));
}

#[test]
fn a_samples_read_beyond_its_limit_is_refused_and_chunks_are_not() {
    let node = Node::start_with(1, |config| config.max_read_samples = 10);
    let start = start_ms();
    write(&node, &[series(&[("__name__", "up")], start, (0..11).map(f64::from))]);
    check_refused(&ask(&node, vec![query(&[], ALWAYS)], &[0]), 400, "more than 10 samples");
    assert_eq!(ask(&node, vec![query(&[], (start, start + 9000))], &[0]).status, 200);
    assert_eq!(ask(&node, vec![query(&[], ALWAYS)], &[1]).status, 200);
}

#[test]
fn statistics_of_long_values_take_their_size_once_and_a_refusal_tells_what_to_lower() {
    let node = Node::start_with(1, |config| {
        config.memory_limit = OUT_OF_REACH;
        config.query_memory = Some(16 << 20);
    });
    let write_values = |range: std::ops::Range<usize>| {
        for from in range.step_by(100) {
            let one = |i| series(&[("__name__", "up"), ("v", &format!("{i:0>8000}"))], start_ms(), [1.0]);
            write(&node, &(from..from + 100).map(one).collect::<Vec<_>>());
        }
    };
    let statistics = || node.get("/api/v1/status/tsdb?limit=10000");
    // Half of what reads have for such answers.
    write_values(0..1000);
    let answer = statistics();
    assert_eq!((answer.status, answer.is_cut), (200, false), "{}", answer.text());
    assert_eq!(answer.json()["data"]["seriesCountByLabelValuePair"].as_array().unwrap().len(), 1001);
    write_values(1000..2500);
    check_refused(&statistics(), 400, "lower limit=10000");
    assert_eq!(node.get("/api/v1/status/tsdb?limit=1000").status, 200);
}

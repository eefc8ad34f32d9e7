//! `/api/v1/import/prometheus`: what is written is read back, and what isn't stored is reported by line.

use silverback_node_test_support::Node;

use crate::lines::node::{count, export, exported, gzip, now_ms, post, start_ms, write};

const PATH: &str = "/api/v1/import/prometheus";
const REQUESTS: &str = "silverback_write_requests_total{protocol=\"prometheus_text\"}";
const MALFORMED_LINES: &str = "silverback_samples_refused_total{reason=\"malformed_line\"}";

#[test]
fn what_is_written_is_read_back_exactly() {
    let node = Node::start(2);
    let start = start_ms();
    let lines = format!(
        "# HELP room_temperature In degrees.\n# TYPE room_temperature gauge\n\
         room_temperature{{room=\"kitchen\"}} 21.5 {start}\n\
         room_temperature{{room=\"kitchen\"}} -1e-3 {}\r\n\n\
         room_temperature{{ room = \"a \\\"b\\\" \\\\\", empty=\"\" , }} NaN {start}\n\
         {{\"room.temperature\", \"höhe\"=\"日本\"}} +Inf {start}\n\
         requests_total 3 {}.123 # {{trace_id=\"x\"}} 0.5\n# EOF",
        start + 1000,
        start / 1000,
    );
    write(&node, PATH, &lines);
    let kitchen = [("__name__", "room_temperature"), ("room", "kitchen")];
    let odd = [("__name__", "room_temperature"), ("room", "a \\\"b\\\" \\\\")];
    let expect = [
        exported(&odd, &[(start, "\"NaN\"")]),
        exported(&kitchen, &[(start, "21.5"), (start + 1000, "-0.001")]),
    ];
    assert_eq!(export(&node, "room_temperature"), expect);
    let utf8 = exported(&[("__name__", "room.temperature"), ("höhe", "日本")], &[(start, "\"+Inf\"")]);
    assert_eq!(export(&node, "{__name__=\"room.temperature\"}"), [utf8]);
    assert_eq!(
        export(&node, "requests_total"),
        [exported(&[("__name__", "requests_total")], &[(start, "3")])]
    );
    assert_eq!(count(&node, REQUESTS), 1);
    assert_eq!(count(&node, "silverback_exemplars_appended_total"), 1);
    assert_eq!(count(&node, "silverback_samples_total"), 5);
}

#[test]
fn a_sample_without_a_time_has_that_of_its_arrival() {
    let node = Node::start(1);
    let before = now_ms();
    write(&node, PATH, "now 1");
    let after = now_ms();
    let told = start_ms();
    write(&node, &format!("{PATH}?timestamp={told}"), &format!("told 1\nown 1 {}", told + 5));
    let times = |name: &str| -> Vec<i64> {
        let line: serde_json::Value = serde_json::from_str(&export(&node, name)[0]).unwrap();
        line["timestamps"].as_array().unwrap().iter().map(|time| time.as_i64().unwrap()).collect()
    };
    assert!((before..=after).contains(&times("now")[0]));
    assert_eq!((times("told"), times("own")), (vec![told], vec![told + 5]));
}

#[test]
fn gzip_extra_labels_and_paths_of_groups_are_taken() {
    let node = Node::start(2);
    let start = start_ms();
    let body = gzip(&format!("up{{job=\"own\"}} 1 {start}\n"));
    let path = format!("{PATH}?extra_label=job=a%20b&extra_label=zone=eu");
    assert_eq!(node.post(&path, &[("content-encoding", "gzip")], &body).status, 204);
    let grouped = format!("{PATH}/metrics/job@base64/YmFjay91cA/instance/h%C3%B6he");
    let put = node.ask("PUT", &grouped, &[], format!("up 2 {start}").as_bytes());
    assert_eq!(put.status, 204, "{}", put.text());
    let expect = [
        exported(&[("__name__", "up"), ("instance", "höhe"), ("job", "back/up")], &[(start, "2")]),
        exported(&[("__name__", "up"), ("job", "a b"), ("zone", "eu")], &[(start, "1")]),
    ];
    assert_eq!(export(&node, "up"), expect);
}

#[test]
fn a_bad_line_is_told_and_costs_no_other() {
    let node = Node::start(2);
    let start = start_ms();
    let series = |i: i64| format!("good{{i=\"{i}\"}} {i} {start}\n");
    let lines = format!("{}bad{{\n{}bad 1 2 3\nbad one\n{}", series(1), series(2), series(3));
    let answer = post(&node, PATH, &lines);
    let words = "3 of 6 samples refused, 3 stored: malformed_line 3; first: line 2: a label's name is missing: \"bad{\"\n";
    assert_eq!((answer.status, answer.text().as_str()), (400, words));
    let good = |i: i64| exported(&[("__name__", "good"), ("i", &i.to_string())], &[(start, &i.to_string())]);
    assert_eq!(export(&node, "good"), [good(1), good(2), good(3)]);
    assert_eq!(count(&node, MALFORMED_LINES), 3);
}

#[test]
fn what_the_shards_refuse_is_told_by_line_too() {
    let node = Node::start(2);
    let start = start_ms();
    let line = |time: i64, value: i64| format!("up {value} {time}\n");
    write(&node, PATH, &line(start, 1));
    // The same again counts as stored, other values don't.
    write(&node, PATH, &line(start, 1));
    let lines =
        [line(start + 2, 2), line(start + 2, 3), line(start - 3_600_000, 4), "x\n".to_owned()].concat();
    let answer = post(&node, PATH, &lines);
    let words = "3 of 4 samples refused, 1 stored: out_of_order 1, duplicate 1, malformed_line 1; \
                 first: line 2: duplicate sample for timestamp with another value; for example {__name__=\"up\"} ";
    assert_eq!((answer.status, answer.text().starts_with(words)), (400, true), "{}", answer.text());
    assert_eq!(export(&node, "up"), [exported(&[("__name__", "up")], &[(start, "1"), (start + 2, "2")])]);
    let full = Node::start_with(1, |config| config.max_series = Some(std::num::NonZeroU64::MIN));
    write(&full, PATH, &format!("first 1 {start}"));
    let answer = post(&full, PATH, &format!("first 2 {}\nsecond 1 {start}", start + 1));
    assert_eq!((answer.status, answer.header("retry-after")), (400, "30"));
    assert!(
        answer.text().contains("series_limit 1; first: line 2: no room for new series"),
        "{}",
        answer.text()
    );
}

#[test]
fn requests_that_are_no_lines_are_told_so() {
    let node = Node::start_with(1, |config| {
        config.max_body_bytes = 10_000;
        config.max_decoded_bytes = 10_000;
    });
    let check =
        |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8], status: u16, words: &str| {
            let answer = node.ask(method, path, headers, body);
            assert_eq!(answer.status, status, "{}", answer.text());
            assert!(answer.text().contains(words), "{}", answer.text());
            answer
        };
    let get = check("GET", PATH, &[], b"", 405, "writes take POST requests alone");
    assert_eq!(get.header("allow"), "POST");
    let protobuf =
        "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
    check("POST", PATH, &[("content-type", protobuf)], b"", 415, "send lines of text");
    check("POST", PATH, &[("content-encoding", "snappy")], b"", 415, "send gzip, or none");
    check("POST", PATH, &[("content-encoding", "gzip")], b"up 1", 400, "the body is not gzip");
    check("POST", PATH, &[], &[b'x'; 10_001], 413, "larger than 10000 bytes");
    let bomb = gzip(&"up 1\n".repeat(10_000));
    check("POST", PATH, &[("content-encoding", "gzip")], &bomb, 413, "larger than 10000 bytes");
    check("POST", &format!("{PATH}?timestamp=now"), &[], b"", 400, "timestamp=\"now\": whole milliseconds");
    check("POST", &format!("{PATH}?extra_label=x"), &[], b"", 400, "extra_label=\"x\": name=value is wanted");
    check("POST", &format!("{PATH}/metrics/instance/a"), &[], b"", 400, "/metrics/job/<job>");
    check("POST", PATH, &[("origin", "http://evil.example")], b"up 1", 403, "web pages");
    assert_eq!(count(&node, "silverback_write_requests_malformed_total"), 9);
    assert_eq!(count(&node, "silverback_series{"), 0);
    write(&node, PATH, "");
    write(&node, PATH, "up 1");
}

#[test]
fn a_large_request_is_stored_whole() {
    let node = Node::start(2);
    let start = start_ms();
    let line = |i: usize| {
        format!("many{{i=\"{}\",text=\"some more of it\"}} {i} {}\n", i % 1000, start + (i / 1000) as i64)
    };
    let lines: String = (0..200_000).map(line).collect();
    write(&node, PATH, &lines);
    assert_eq!(count(&node, "silverback_samples_total"), 200_000);
    let values: Vec<_> = (0..200).map(|round| (start + round, (round * 1000 + 7).to_string())).collect();
    let values: Vec<_> = values.iter().map(|(time, value)| (*time, &**value)).collect();
    let labels = [("__name__", "many"), ("i", "7"), ("text", "some more of it")];
    assert_eq!(export(&node, "many{i=\"7\"}"), [exported(&labels, &values)]);
}

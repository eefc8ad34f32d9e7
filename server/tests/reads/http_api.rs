//! Prometheus' HTTP API and the export, over shards.

use std::io::Write;

use serde_json::{Value, json};
use silverback_model::STALE_NAN_BITS;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{series, start_ms, write};
use silverback_test_support::http::{read_answer, request};
use silverback_test_support::http2;

/// Two metrics on three hosts, and a name that isn't an identifier.
fn with_hosts(shards: usize, start_ms: i64) -> Node {
    let node = Node::start(shards);
    let mut written = Vec::new();
    for host in ["a", "b", "c"] {
        written.push(series(&[("__name__", "up"), ("host", host)], start_ms, [1.0, 0.5]));
        written.push(series(&[("__name__", "load"), ("host", host)], start_ms + 60_000, [2.0]));
    }
    written.push(series(&[("__name__", "my.name"), ("härte", "x y")], start_ms, [3.0]));
    write(&node, &written);
    node
}

fn check_on(node: &Node, path: &str, expect: &Value) {
    let answer = node.get(path);
    assert_eq!((answer.status, answer.is_cut), (200, false), "{path}: {}", answer.text());
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.json(), *expect, "{path}");
}

fn success(data: Value) -> Value {
    json!({"status": "success", "data": data})
}

fn truncated(data: Value) -> Value {
    json!({"status": "success", "data": data, "warnings": ["results truncated due to limit"]})
}

#[test]
fn series_are_the_union_of_the_selectors_each_once() {
    for shards in [1, 3] {
        let start = start_ms();
        let node = with_hosts(shards, start);
        let check = |query: &str, expect| check_on(&node, &format!("/api/v1/series?{query}"), &expect);
        let up = |host| json!({"__name__": "up", "host": host});
        let load = |host| json!({"__name__": "load", "host": host});
        check("match[]=up", success(json!([up("a"), up("b"), up("c")])));
        check("match[]=up%7Bhost=~%22a|b%22%7D&match[]=%7Bhost=%22a%22%7D", {
            success(json!([load("a"), up("a"), up("b")]))
        });
        check("match[]=up&match[]=up&limit=3", success(json!([up("a"), up("b"), up("c")])));
        check("match[]=up&limit=2", truncated(json!([up("a"), up("b")])));
        check("match[]=nothing", success(json!([])));
        check("match[]=%7B%22my.name%22%7D", success(json!([{"__name__": "my.name", "härte": "x y"}])));
        let until = (start + 30_000) as f64 / 1000.0;
        check(&format!("match[]=%7Bhost=%22a%22%7D&end={until}"), success(json!([up("a")])));
        check(&format!("match[]=%7Bhost=%22a%22%7D&start={until}"), success(json!([load("a")])));
    }
}

/// As Prometheus' documents show queries, and `curl -g` sends them.
#[test]
fn a_query_may_have_raw_quotes_and_braces() {
    let node = with_hosts(2, start_ms());
    let up = |host| json!({"__name__": "up", "host": host});
    let check = |query: &str, expect| check_on(&node, &format!("/api/v1/series?{query}"), &expect);
    check(r#"match[]=up{host="a"}"#, success(json!([up("a")])));
    check(
        r#"match[]=up&match[]=up{host=~"^(b|c)$",host!="<#>`"}"#,
        success(json!([up("a"), up("b"), up("c")])),
    );
    // A percent sign stays what it is.
    check(r#"match[]=up{host=%22b"}"#, success(json!([up("b")])));
    check(r#"match[]={"my.name"}"#, success(json!([{"__name__": "my.name", "härte": "x y"}])));
}

/// However it comes, and after what came before it on its connection; what looks like it in a body is left alone.
#[test]
fn raw_quotes_are_read_in_pieces_and_nowhere_else() {
    let node = with_hosts(1, start_ms());
    let mut kept = node.keep();
    for piece in [1, 3, 30, 1000] {
        let line: &[u8] = b"lines,host=a text=\"GET /?a=\\\"b\\\" HTTP/1.1\",v=1 1\n";
        assert_eq!(kept.ask("POST", "/write?precision=s", &[], line).status, 400, "one sample is too old");
        let asked = request("GET", r#"/api/v1/series?match[]=up{host="a"}"#, &[("x-quoted", "\"a\"")], b"");
        for piece in asked.chunks(piece) {
            kept.0.get_mut().write_all(piece).unwrap();
            kept.0.get_mut().flush().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let answer = read_answer(&mut kept.0);
        let expect = success(json!([{"__name__": "up", "host": "a"}]));
        assert_eq!((answer.status, answer.json()), (200, expect), "in pieces of {piece}");
    }
}

/// Wherever a request is cut in two, its headers reach the node as they were sent: `Host` with its quotes is none.
#[test]
fn a_request_line_that_is_cut_anywhere_is_read_as_one_and_headers_stay_as_they_are() {
    let node = with_hosts(1, start_ms());
    let asked = request("GET", r#"/api/v1/series?match[]=up{host="a"}"#, &[], b"");
    let line = asked.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let quoted = b"GET /api/v1/labels HTTP/1.1\r\nhost: \"a\"\r\n\r\n";
    let in_two = |bytes: &[u8], cut: usize| {
        let mut kept = node.keep();
        for part in [&bytes[..cut], &bytes[cut..]] {
            kept.0.get_mut().write_all(part).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        read_answer(&mut kept.0)
    };
    for cut in 1..line + 2 {
        assert_eq!(in_two(&asked, cut).status, 200, "cut after {cut} bytes");
    }
    for cut in [20, 27, 28, 29] {
        let answer = in_two(quoted, cut);
        assert!(answer.text().contains("the host \"\\\"a"), "cut after {cut} bytes: {}", answer.text());
    }
}

#[test]
fn series_can_be_asked_for_in_a_form() {
    let node = with_hosts(2, start_ms());
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let answer = node.post("/api/v1/series?limit=1", &headers, b"match[]=load");
    assert_eq!(answer.json(), truncated(json!([{"__name__": "load", "host": "a"}])));
}

#[test]
fn labels_and_their_values_are_listed() {
    for shards in [1, 3] {
        let start = start_ms();
        let node = with_hosts(shards, start);
        let check = |path: &str, expect| check_on(&node, &format!("/api/v1/{path}"), &expect);
        check("labels", success(json!(["__name__", "host", "härte"])));
        check("labels?match[]=up", success(json!(["__name__", "host"])));
        check("labels?limit=1", truncated(json!(["__name__"])));
        check("label/host/values", success(json!(["a", "b", "c"])));
        check("label/host/values?match[]=up%7Bhost!=%22b%22%7D", success(json!(["a", "c"])));
        check("label/host/values?match[]=up%7Bhost=%22c%22%7D&match[]=%7Bhost=%22a%22%7D", {
            success(json!(["a", "c"]))
        });
        check("label/h%C3%A4rte/values", success(json!(["x y"])));
        check("label/U__h_e4_rte/values", success(json!(["x y"])));
        check("label/nobody/values", success(json!([])));
        let until = (start + 30_000) as f64 / 1000.0;
        check(&format!("label/__name__/values?end={until}"), success(json!(["my.name", "up"])));
    }
}

#[test]
fn the_index_statistics_are_added_up_over_shards() {
    for shards in [1, 3] {
        let start = start_ms();
        let data = with_hosts(shards, start).get("/api/v1/status/tsdb?limit=2").json()["data"].take();
        assert_eq!(data["headStats"]["numSeries"], 7);
        assert_eq!(data["headStats"]["minTime"], start);
        assert_eq!(data["headStats"]["maxTime"], start + 60_000);
        let entry = |name, value| json!({"name": name, "value": value});
        assert_eq!(data["seriesCountByMetricName"], json!([entry("load", 3), entry("up", 3)]));
        assert_eq!(data["labelValueCountByLabelName"], json!([entry("__name__", 3), entry("host", 3)]));
        let pairs = json!([entry("__name__=load", 3), entry("__name__=up", 3)]);
        assert_eq!(data["seriesCountByLabelValuePair"], pairs);
    }
}

#[test]
fn the_build_is_told() {
    let build = Node::start(1).get("/api/v1/status/buildinfo").json();
    assert_eq!(build["status"], "success");
    assert_eq!(build["data"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_node_s_time_options_and_configuration_are_told_in_prometheus_shapes() {
    let before_ms = start_ms() + 3_600_000;
    let node = Node::start_with(2, |config| {
        config.retention = std::time::Duration::from_secs(30 * 3600);
        config.max_queries = 3;
    });
    let data = |path: &str| {
        let mut answer = node.get(&format!("/api/v1/status/{path}")).json();
        assert_eq!(answer["status"], "success", "{path}");
        answer["data"].take()
    };
    let info = data("runtimeinfo");
    assert_eq!((&info["GOMAXPROCS"], &info["storageRetention"]), (&json!(2), &json!("30h")));
    assert_eq!((&info["reloadConfigSuccess"], &info["lastConfigTime"]), (&json!(true), &info["startTime"]));
    assert!(info["GOMEMLIMIT"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{info}");
    let [started, now] = ["startTime", "serverTime"]
        .map(|name| silverback_model::utc::parse_rfc3339_ms(info[name].as_str().unwrap()).expect("a time"));
    assert!(before_ms <= started && started <= now && now < before_ms + 600_000, "{info}");
    let flags = data("flags");
    assert_eq!((&flags["max-queries"], &flags["retention"]), (&json!("3"), &json!("30h")));
    let yaml = data("config")["yaml"].as_str().unwrap().to_owned();
    assert!(yaml.contains("\nmax-queries: 3\n") && yaml.contains("\nretention: 30h\n"), "{yaml}");
    assert_eq!(yaml.lines().count(), flags.as_object().unwrap().len());
    assert_eq!(node.post("/api/v1/status/flags", &[], b"").status, 405);
}

#[test]
fn head_over_http_2_is_answered_without_a_body() {
    let node = Node::start(1);
    for path in ["/api/v1/status/flags", "/-/healthy", "/metrics", "/", "/api/v1/labels", "/nothing"] {
        let mut connection = http2::Http2::begin(node.connect()).unwrap();
        let head = http2::head("HEAD", path, &[]);
        connection
            .send(&http2::frame(http2::HEADERS, http2::END_HEADERS | http2::END_STREAM, 1, &head))
            .unwrap();
        let flags = loop {
            if let (http2::HEADERS, flags, 1, _) = connection.receive().unwrap() {
                break flags;
            }
        };
        assert!(flags & http2::END_STREAM != 0, "{path}: something follows the head");
    }
}

#[test]
fn an_export_has_a_line_for_each_series() {
    for shards in [1, 3] {
        let (node, start) = (Node::start(shards), start_ms());
        let odd = [1.0, f64::NAN, f64::INFINITY, 0.1, -2.0, f64::from_bits(STALE_NAN_BITS)];
        write(
            &node,
            &[
                series(&[("__name__", "odd")], start, odd),
                series(&[("__name__", "long")], start, (0..500).map(f64::from)),
            ],
        );
        let answer = node.get("/api/v1/export?match[]=odd&match[]=%7B__name__=~%22long|odd%22%7D");
        assert_eq!(answer.header("content-type"), "application/stream+json");
        let lines: Vec<Value> = answer.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let times = |count: i64| (0..count).map(|i| start + i * 1000).collect::<Vec<_>>();
        let long: Vec<_> = (0..500).collect();
        let values = json!([1, "NaN", "+Inf", 0.1, -2, "StaleNaN"]);
        assert_eq!(
            lines,
            [
                json!({"metric": {"__name__": "long"}, "values": long, "timestamps": times(500)}),
                json!({"metric": {"__name__": "odd"}, "values": values, "timestamps": times(6)}),
            ]
        );
        let (from, to) = ((start + 2000) as f64 / 1000.0, (start + 3000) as f64 / 1000.0);
        let trimmed = node.get(&format!("/api/v1/export?match[]=odd&start={from}&end={to}")).text();
        let expect = format!(
            "{{\"metric\":{{\"__name__\":\"odd\"}},\"values\":[\"+Inf\",0.1],\"timestamps\":[{},{}]}}\n",
            start + 2000,
            start + 3000
        );
        assert_eq!(trimmed, expect);
    }
}

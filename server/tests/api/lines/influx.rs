//! InfluxDB's endpoints: what is written is read back, errors look as InfluxDB's, and Telegraf gets what it asks for.

use silverback_node_test_support::Node;

use crate::lines::node::{count, export, exported, gzip, post, start_ms, write};

const REQUESTS: &str = "silverback_write_requests_total{protocol=\"influx\"}";

#[test]
fn what_is_written_is_read_back_exactly() {
    let node = Node::start(2);
    let start = start_ms();
    let lines = format!(
        "# of two rooms\nroom,room=kitchen,höhe=1\\ m temperature=21.5,people=2i,open=true,note=\"warm\" {start}999999\n\
         room,room=bath temperature=-1e-3 {start}000000\r\n"
    );
    let answer = post(&node, "/write?db=home&rp=a_week", &lines);
    assert_eq!(
        (answer.status, answer.header("x-silverback-string-fields-skipped")),
        (204, "1"),
        "{}",
        answer.text()
    );
    let kitchen = |name: &str, value: &str| {
        let labels = [("__name__", name), ("db", "home"), ("höhe", "1 m"), ("room", "kitchen")];
        exported(&labels, &[(start, value)])
    };
    assert_eq!(export(&node, "room_people"), [kitchen("room_people", "2")]);
    assert_eq!(export(&node, "room_open"), [kitchen("room_open", "1")]);
    let bath =
        exported(&[("__name__", "room_temperature"), ("db", "home"), ("room", "bath")], &[(start, "-0.001")]);
    let mut expect = [kitchen("room_temperature", "21.5"), bath];
    expect.sort();
    assert_eq!(export(&node, "room_temperature"), expect);
    assert_eq!(count(&node, "silverback_samples_total"), 4);
    assert_eq!((count(&node, REQUESTS), count(&node, "silverback_string_fields_ignored_total")), (1, 1));
}

#[test]
fn version_2_and_every_precision_are_taken() {
    let node = Node::start(2);
    let start = start_ms() / 3_600_000 * 3_600_000;
    let units = [
        ("ns", 1_000_000, 1),
        ("us", 1000, 1),
        ("ms", 1, 1),
        ("s", 1, 1000),
        ("m", 1, 60_000),
        ("h", 1, 3_600_000),
    ];
    for (unit, times, over) in units {
        let line = format!("v1,unit={unit} f=1 {}", start * times / over);
        write(&node, &format!("/write?precision={unit}"), &line);
    }
    for (unit, times, over) in &units[..4] {
        let headers = [
            ("content-encoding", "gzip"),
            ("authorization", "Token x"),
            ("content-type", "text/plain; charset=utf-8"),
        ];
        let line = gzip(&format!("v2,unit={unit} f=1 {}", start * times / over));
        let path = format!("/api/v2/write?bucket=b&org=o&precision={unit}");
        assert_eq!(node.post(&path, &headers, &line).status, 204);
    }
    let expect = |name: &str, units: &[(&str, i64, i64)]| -> Vec<String> {
        let series = |unit: &str| exported(&[("__name__", name), ("unit", unit)], &[(start, "1")]);
        let mut series: Vec<_> = units.iter().map(|(unit, ..)| series(unit)).collect();
        series.sort();
        series
    };
    assert_eq!(export(&node, "v1_f"), expect("v1_f", &units));
    assert_eq!(export(&node, "v2_f"), expect("v2_f", &units[..4]));
}

#[test]
fn partial_writes_are_told_in_each_version_s_shape() {
    let node = Node::start(2);
    let start = start_ms();
    let lines =
        |series: &str| format!("{series} f=1 {start}\nbad\n{series} f=2 {start}\n{series} g=3 {start}");
    let words = "partial write: 2 of 4 samples refused, 2 stored: duplicate 1, malformed_line 1; \
                 first: line 2: the fields are missing: \"bad\" dropped=2";
    let v1 = post(&node, "/write?precision=ms", &lines("a"));
    assert_eq!((v1.status, v1.header("content-type")), (400, "application/json"));
    assert_eq!(v1.json(), serde_json::json!({"error": words}));
    let v2 = post(&node, "/api/v2/write?precision=ms", &lines("b"));
    assert_eq!((v2.status, v2.header("content-type")), (400, "application/json"));
    assert_eq!(v2.json(), serde_json::json!({"code": "invalid", "message": words}));
    for name in ["a", "b"] {
        let series =
            |field: &str, value| exported(&[("__name__", &format!("{name}_{field}"))], &[(start, value)]);
        assert_eq!(
            export(&node, &format!("{{__name__=~\"{name}_.\"}}")),
            [series("f", "1"), series("g", "3")]
        );
    }
}

#[test]
fn refusals_are_json_of_their_version() {
    let node = Node::start_with(1, |config| config.max_body_bytes = 1000);
    let v1 = post(&node, "/write?precision=d", "m f=1");
    let error = "invalid precision \"d\"; valid are n, ns, u, us, ms, s, m and h";
    assert_eq!((v1.status, v1.json()), (400, serde_json::json!({ "error": error })));
    let v2 = post(&node, "/api/v2/write?precision=m", "m f=1");
    assert_eq!((v2.status, &v2.json()["code"]), (400, &"invalid".into()));
    let large = post(&node, "/api/v2/write", &"m f=1\n".repeat(1000));
    assert_eq!((large.status, &large.json()["code"]), (413, &"request too large".into()));
    let get = node.get("/write");
    assert_eq!((get.status, get.header("allow")), (405, "POST"));
    assert_eq!(get.json(), serde_json::json!({"error": "writes take POST requests alone"}));
}

#[test]
fn telegraf_gets_what_it_asks_for() {
    let node = Node::start(1);
    for method in ["GET", "HEAD"] {
        let ping = node.ask(method, "/ping", &[], b"");
        assert_eq!((ping.status, ping.header("x-influxdb-version")), (204, "1.8.10"));
    }
    assert_eq!(node.post("/ping", &[], b"").status, 405);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let created = node.post("/query", &form, b"q=CREATE+DATABASE+%22telegraf%22");
    assert_eq!((created.status, created.text().trim()), (200, r#"{"results":[{"statement_id":0}]}"#));
    let by_query = node.post("/query?q=CREATE%20DATABASE%20x", &[], b"");
    assert_eq!(by_query.status, 200);
    let other = node.get("/query?q=SHOW+DATABASES");
    assert_eq!((other.status, other.header("content-type")), (400, "application/json"));
    assert!(other.json()["error"].as_str().unwrap().contains("only CREATE DATABASE"));
    assert_eq!(node.ask("DELETE", "/query", &[], b"").status, 405);
    assert_eq!(node.post("/query", &form, b"q=%ff").status, 400);
}

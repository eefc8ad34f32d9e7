//! Requests that a web page of another site makes a browser send, on every endpoint: refused before
//! anything is read of them, counted, and without a trace in what is stored.

use std::io::Write;

use silverback::api::ingest::remote_write::Version;
use silverback::config::{AllowedHosts, HostPattern};
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_test_support::http::{Answer, read_answer};

use crate::bad_input::bystander::Scene;
use crate::bad_input::metrics::Reading;

const BY_HOST: &str = "silverback_http_requests_refused_total{reason=\"host\"";
const BY_ORIGIN: &str = "silverback_http_requests_refused_total{reason=\"origin\"";

/// Every path that answers over HTTP, and some that don't. The check is before all of them.
const ENDPOINTS: &[(&str, &str)] = &[
    ("POST", "/api/v1/write"),
    ("POST", "/api/v1/receive"),
    ("POST", "/api/v1/push"),
    ("POST", "/v1/metrics"),
    ("POST", "/api/v1/otlp/v1/metrics"),
    ("POST", "/api/v1/read"),
    ("GET", "/api/v1/export"),
    ("GET", "/api/v1/series"),
    ("POST", "/api/v1/series"),
    ("GET", "/api/v1/labels"),
    ("GET", "/api/v1/label/job/values"),
    ("GET", "/api/v1/status/tsdb"),
    ("GET", "/api/v1/status/buildinfo"),
    ("GET", "/api/v1/status/runtimeinfo"),
    ("GET", "/api/v1/status/flags"),
    ("GET", "/api/v1/status/config"),
    ("GET", "/api/v1/status/node"),
    ("GET", "/api/v1/status/cells"),
    ("GET", "/api/v1/status/active_queries"),
    ("DELETE", "/api/v1/status/active_queries/0-1"),
    ("GET", "/metrics"),
    ("GET", "/"),
    ("GET", "/-/healthy"),
    ("GET", "/-/ready"),
    ("GET", "/-/replayed"),
    ("GET", "/no/such/endpoint"),
    ("OPTIONS", "/api/v1/write"),
    ("DELETE", "/"),
];

/// The answer to a request whose body is announced and never sent.
fn ask(node: &Node, method: &str, path: &str, headers: &[&str]) -> Answer {
    let mut stream = node.connect();
    let announced = if method == "POST" { "content-length: 100000\r\n" } else { "connection: close\r\n" };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    stream.write_all(format!("{method} {path} HTTP/1.1\r\n{headers}{announced}\r\n").as_bytes()).unwrap();
    read_answer(&mut std::io::BufReader::new(stream))
}

/// Every endpoint refuses requests with these headers, and counts them by this metric.
fn check_refused(node: &Node, headers: &[&str], status: u16, metric: &str, words: &str) {
    let before = Reading::of(node).sum(metric);
    for (method, path) in ENDPOINTS {
        let answer = ask(node, method, path, headers);
        assert_eq!(answer.status, status, "{method} {path} {headers:?}: {}", answer.text());
        assert!(answer.text().contains(words), "{method} {path}: {}", answer.text());
        assert_eq!(answer.header("connection"), "close", "the rest of the body isn't waited for");
    }
    assert_eq!(Reading::of(node).sum(metric) - before, ENDPOINTS.len() as u64);
}

/// No endpoint refuses requests with these headers for where they come from.
fn check_let_in(node: &Node, headers: &[&str]) {
    let refused = |reading: Reading| reading.sum(BY_HOST) + reading.sum(BY_ORIGIN);
    let before = refused(Reading::of(node));
    for (_, path) in ENDPOINTS {
        assert_ne!(ask(node, "HEAD", path, headers).status, 403, "{path} {headers:?}");
    }
    assert_eq!(refused(Reading::of(node)), before);
}

#[test]
fn a_host_that_isn_t_the_node_s_is_refused_on_every_endpoint() {
    let node = Node::start(1);
    let check = |host: &str, status, words| check_refused(&node, &[host], status, BY_HOST, words);
    check("host: evil.example", 403, "list it in --allowed-hosts");
    check("host: evil.example:9009", 403, "\"evil.example:9009\"");
    check("host: 127.0.0.1.evil.example", 403, "--allowed-hosts");
    check("host: localhost.evil.example", 403, "--allowed-hosts");
    check("host: evil.localhost:9009\r\norigin: http://evil.localhost:9009", 403, "\"evil.localhost:9009\"");
    check("host: user@127.0.0.1", 403, "--allowed-hosts");
    check("host: evil\u{202e}\u{1f600}", 403, "\"evil\\u202e");
    check("host:", 400, "one Host header");
    check("x-host: 127.0.0.1", 400, "one Host header");
    check_refused(&node, &["host: 127.0.0.1", "host: evil.example"], 400, BY_HOST, "one Host header");
}

#[test]
fn addresses_and_localhost_are_let_in() {
    let node = Node::start(1);
    for host in ["127.0.0.1", "127.0.0.1:9009", "10.1.2.3:80", "[::1]:9009", "localhost:9009", "LOCALHOST"] {
        check_let_in(&node, &[&format!("host: {host}")]);
    }
}

#[test]
fn names_that_are_listed_are_let_in_and_no_others() {
    let patterns = vec![
        HostPattern::Exact("silverback.ingest.svc".into()),
        HostPattern::Below(".silverback-pods.ingest.svc".into()),
    ];
    let node = Node::start_with(1, |config| config.allowed_hosts = AllowedHosts::Listed(patterns));
    check_let_in(&node, &["host: silverback.ingest.svc:9009"]);
    check_let_in(&node, &["host: silverback-0.silverback-pods.ingest.svc"]);
    check_refused(&node, &["host: silverback.other.svc"], 403, BY_HOST, "--allowed-hosts");
    let any = Node::start_with(1, |config| config.allowed_hosts = AllowedHosts::Any);
    check_let_in(&any, &["host: whatever.example"]);
    let origin = ["host: whatever.example", "origin: http://evil.example"];
    check_refused(&any, &origin, 403, BY_ORIGIN, "evil.example");
}

#[test]
fn a_page_of_another_site_is_refused_on_every_endpoint() {
    let node = Node::start(1);
    let own = format!("host: {}", node.address);
    let check = |header: &str, words| check_refused(&node, &[&own, header], 403, BY_ORIGIN, words);
    check("origin: http://evil.example", "\"http://evil.example\"");
    check("origin: null", "\"null\"");
    check("origin: http://127.0.0.1:1", "--allowed-hosts");
    check("origin: http://localhost:9009", "--allowed-hosts");
    check("origin: http://evil.localhost", "--allowed-hosts");
    check("sec-fetch-site: cross-site", "open the node's own page");
    check("sec-fetch-site: same-site", "open the node's own page");
    check("sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\nsec-fetch-dest: empty", "Sec-Fetch-Site");
}

#[test]
fn the_node_s_own_page_and_programs_are_let_in() {
    let node = Node::start(1);
    let own = format!("host: {}", node.address);
    let page = format!("origin: http://{}", node.address);
    check_let_in(&node, &[&own, &page, "sec-fetch-site: same-origin"]);
    check_let_in(&node, &[&own, "sec-fetch-site: none"]);
    check_let_in(&node, &[&own]);
}

#[test]
fn a_link_to_the_status_page_is_followed() {
    let node = Node::start(1);
    let own = format!("host: {}", node.address);
    let link = [&own, "sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"];
    assert_eq!(ask(&node, "GET", "/", &link).status, 200);
    assert_eq!(ask(&node, "GET", "/metrics", &link).status, 403);
}

/// A page whose name was made to point to the node's address is of one origin with it, as its browser sees it.
#[test]
fn a_rebound_name_reads_and_writes_nothing() {
    let scene = Scene::start(1);
    let sample = body(Version::V1, &[Series::new([("__name__", "rebound")]).sample(scene.start_ms, 1.0)]);
    let port = scene.node.address.port();
    let send = |host: &str, origin: &str| {
        let mut head =
            format!("POST {PATH} HTTP/1.1\r\nhost: {host}:{port}\r\norigin: http://{origin}:{port}\r\n");
        for (name, value) in headers(Version::V1) {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("sec-fetch-site: same-origin\r\ncontent-length: {}\r\n\r\n", sample.len());
        let mut stream = scene.node.connect();
        stream.write_all(&[head.as_bytes(), &sample].concat()).unwrap();
        read_answer(&mut std::io::BufReader::new(stream))
    };
    let refused = send("rebound.evil.example", "rebound.evil.example");
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(scene.samples("rebound").is_empty());
    let stored = send("127.0.0.1", "127.0.0.1");
    assert_eq!(stored.status, 204, "{}", stored.text());
    assert_eq!(scene.samples("rebound").len(), 1);
    scene.check_goes_on();
}

#[test]
fn a_request_without_a_host_is_http_1_0_s() {
    let node = Node::start(1);
    let mut stream = node.connect();
    stream.write_all(b"GET /-/healthy HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut std::io::BufReader::new(stream)).status, 200);
}

#[test]
fn every_answer_forbids_to_guess_its_type() {
    let node = Node::start(1);
    let own = format!("host: {}", node.address);
    for (_, path) in ENDPOINTS {
        for (method, headers) in
            [("HEAD", &[&*own][..]), ("GET", &[&own]), ("OPTIONS", &[&own]), ("GET", &["host: x"])]
        {
            let answer = ask(&node, method, path, headers);
            assert_eq!(
                answer.header("x-content-type-options"),
                "nosniff",
                "{method} {path} {}",
                answer.status
            );
        }
    }
    let written = node.post(PATH, &headers(Version::V1), &body(Version::V1, &[]));
    assert_eq!((written.status, written.header("x-content-type-options")), (204, "nosniff"));
    let grpc = node.post("/silverback.v1.Query/Select", &[("content-type", "application/grpc")], b"");
    assert_eq!(grpc.header("x-content-type-options"), "nosniff");
}

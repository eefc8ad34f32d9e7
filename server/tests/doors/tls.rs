//! Encrypted connections: both versions of HTTP, certificates of clients, and clients that do not what they should.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use silverback::config::Config;
use silverback_client::{Client, Series};
use silverback_test_support::http::{request, try_read_answer};
use silverback_test_support::{Process, Scratch, eventually, eventually_found};

use crate::certificates::{Authority, Encrypted, Holds, connect};
use crate::handshakes::connect_from;
use crate::scene::{Scene, answer_to, bearer, get_on, sum, token_of, write};

const WEB: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
const KNOWN: &str = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";

fn start(web: &str, authority: &Authority, change: impl FnOnce(&Scratch, &mut Config)) -> Scene {
    Scene::start_with(web, |dir, config| {
        authority.write_server(dir);
        write(dir, "ca.pem", &authority.pem());
        change(dir, config);
    })
}

/// Whether a client gets an answer.
fn is_let_in(scene: &Scene, config: ClientConfig) -> bool {
    let mut stream = connect(scene.node.address, &Arc::new(config));
    ask(&mut stream).is_ok()
}

fn ask(stream: &mut Encrypted) -> std::io::Result<u16> {
    let asked = request("GET", "/metrics", &[("authorization", &bearer("metrics"))], b"");
    stream.get_mut().write_all(&asked)?;
    try_read_answer(stream).map(|answer| answer.status)
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_over_tls() {
    let authority = Authority::new();
    let scene = start(WEB, &authority, |_, _| {});
    let mut config = authority.client(None);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut stream = connect(scene.node.address, &Arc::new(config));
    for _ in 0..3 {
        assert_eq!(get_on(&mut stream, "/metrics", &bearer("metrics")).status, 200);
    }
    assert_eq!(stream.get_ref().conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(get_on(&mut stream, "/metrics", &bearer("read")).status, 403);

    let builder = Client::builder(format!("https://localhost:{}", scene.node.address.port()))
        .ca_certificate(authority.pem());
    let client = builder.clone().bearer_token(token_of("write")).connect().await.unwrap();
    let series: Vec<_> = (0..2000)
        .map(|n| Series::new("t", [("n", n.to_string())]).sample(scene_now_ms(), f64::from(n)))
        .collect();
    assert_eq!(client.write(&series).await.unwrap().samples_written, 2000);
    let refused = builder.bearer_token(token_of("read")).connect().await.unwrap().write(&series).await;
    assert!(refused.unwrap_err().to_string().contains("for-read"));
    let metrics = get_on(&mut stream, "/metrics", &bearer("metrics")).text();
    assert!(sum(&metrics, "silverback_tls_handshakes_total") >= 3.0);
}

fn scene_now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

#[test]
fn a_large_answer_and_a_large_body_come_whole_over_tls() {
    let authority = Authority::new();
    let scene = start(WEB, &authority, |_, _| {});
    let mut stream = connect(scene.node.address, &Arc::new(authority.client(None)));
    let lines: String = (0..20_000).map(|n| format!("large{{n=\"{n}\"}} {n}\n")).collect();
    let path = "/api/v1/import/prometheus";
    let asked = request("POST", path, &[("authorization", &bearer("write"))], lines.as_bytes());
    stream.get_mut().write_all(&asked).unwrap();
    let answer = try_read_answer(&mut stream).unwrap();
    assert!(answer.status < 300, "{}", answer.text());
    let answer = get_on(&mut stream, "/api/v1/label/n/values", &bearer("read"));
    assert_eq!((answer.status, answer.json()["data"].as_array().unwrap().len()), (200, 20_000));
}

#[test]
fn only_clients_whom_the_ca_vouches_for_come_in_where_it_has_to() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let sans = "  client_allowed_sans: [agent.test, other.test]\n";
    let scene = start(&format!("{WEB}{KNOWN}{sans}"), &authority, |_, _| {});
    let with = |issued| authority.client(Some(&issued));
    assert!(is_let_in(&scene, with(authority.issue("agent.test"))));
    assert!(!is_let_in(&scene, authority.client(None)));
    assert!(!is_let_in(&scene, with(stranger.issue("agent.test"))));
    assert!(!is_let_in(&scene, with(authority.issue("third.test"))), "its name isn't among the allowed ones");
    assert!(!is_let_in(&scene, with(authority.issue_holding("agent.test", Holds::NoMore))));
    assert!(!is_let_in(&scene, with(authority.issue_holding("agent.test", Holds::NotYet))));
    assert!(is_let_in(&scene, with(authority.issue("other.test"))));
}

#[test]
fn a_client_whose_certificate_itself_stands_among_the_cas_comes_in_and_no_other_of_that_kind() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let scene = start(&format!("{WEB}{KNOWN}"), &authority, |_, _| {});
    assert!(is_let_in(&scene, authority.client(Some(&authority.itself()))));
    assert!(!is_let_in(&scene, authority.client(Some(&stranger.itself()))));
}

#[test]
fn other_kinds_of_client_certificates_are_taken_as_prometheus_takes_them() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let check = |kind: &str, expect: [bool; 3]| {
        let scene = start(&format!("{WEB}  client_auth_type: {kind}\n"), &authority, |_, _| {});
        let known = authority.client(Some(&authority.issue("agent.test")));
        let unknown = authority.client(Some(&stranger.issue("agent.test")));
        let found = [authority.client(None), known, unknown].map(|config| is_let_in(&scene, config));
        assert_eq!(found, expect, "{kind}");
    };
    check("NoClientCert", [true, true, true]);
    check("RequestClientCert", [true, true, true]);
    check("RequireAnyClientCert", [false, true, true]);
    check("VerifyClientCertIfGiven\n  client_ca_file: ca.pem", [true, true, false]);
    // Nobody says whose certificates would do.
    check("VerifyClientCertIfGiven", [true, false, false]);
}

#[test]
fn versions_and_protocols_that_the_file_rules_out_are_not_spoken() {
    let authority = Authority::new();
    let web = format!("{WEB}  max_version: TLS12\nhttp_server_config:\n  http2: false\n");
    let scene = start(&web, &authority, |_, _| {});
    let mut stream = connect(scene.node.address, &Arc::new(authority.client(None)));
    assert_eq!(ask(&mut stream).unwrap(), 200);
    assert_eq!(stream.get_ref().conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    let mut http2 = authority.client(None);
    http2.alpn_protocols = vec![b"h2".to_vec()];
    assert!(!is_let_in(&scene, http2), "nothing in common");
    let mut stream = connect(scene.node.address, &Arc::new(authority.client(None)));
    stream.get_mut().write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut answer = Vec::new();
    let _end = stream.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|frame| frame == b"\0\0\0\x04"), "it speaks HTTP/2: {answer:?}");
}

#[test]
fn what_is_no_tls_is_turned_away_and_counted_and_others_are_served_on() {
    let authority = Authority::new();
    let scene = start(WEB, &authority, |_, _| {});
    let mut served = connect(scene.node.address, &Arc::new(authority.client(None)));
    assert_eq!(ask(&mut served).unwrap(), 200);
    let plain = answer_to(&scene.node, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(!plain.starts_with(b"HTTP"), "{plain:?}");
    for garbage in [
        &b"\x16\x03\x01\xff\xff"[..],
        &[0; 300],
        &[0xff; 70_000],
        b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff",
    ] {
        // A record that claims more than comes waits for it: until the time of a head is over.
        let mut stream = scene.node.connect();
        let _sent = stream.write_all(garbage);
        drop(stream);
    }
    eventually("failed handshakes are counted", || {
        let metrics = get_on(&mut served, "/metrics", &bearer("metrics")).text();
        sum(&metrics, "silverback_tls_handshakes_failed_total") >= 3.0
    });
    assert_eq!(ask(&mut served).unwrap(), 200);
}

#[test]
fn a_handshake_that_fails_is_a_line_of_the_audit_log_with_its_peer_and_a_flood_is_a_few() {
    let (authority, dir) = (Authority::new(), Scratch::new());
    authority.write_server(&dir);
    write(&dir, "ca.pem", &authority.pem());
    write(&dir, "web.yml", &format!("{WEB}{KNOWN}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_silverback"));
    command.args(["--listen", "127.0.0.1:0", "--shards", "1", "--no-self-scrape", "--data-dir"]);
    command.arg(dir.join("data")).arg("--web-config-file").arg(dir.join("web.yml"));
    let mut node = Process::start(command, dir.join("log"));
    let address = node.address();
    let line = |words: &'static str| {
        move |node: &Process| {
            let told = node.told();
            let is_it = |line: &&str| line.contains("audit: a TLS handshake failed") && line.contains(words);
            told.lines().find(is_it).map(str::to_owned)
        }
    };
    let come = |bytes: &[u8], from| {
        let mut stream = eventually_found(|| connect_from(from, address));
        let _sent = stream.write_all(bytes);
        let _end = stream.read_to_end(&mut Vec::new());
    };
    come(b"GET / HTTP/1.1\r\n\r\n", Ipv4Addr::new(127, 0, 0, 3));
    let told = node.wait_until("line of what is no TLS", line("peer=\"127.0.0.3\""));
    assert!(told.contains("WARN"), "{told}");
    let mut stranger = connect(address, &Arc::new(authority.client(None)));
    assert!(ask(&mut stranger).is_err());
    node.wait_until("line of a client without a certificate", line("peer=\"127.0.0.1\""));
    (0..30).for_each(|_| come(b"GET / HTTP/1.1\r\n\r\n", Ipv4Addr::LOCALHOST));
    let lines = node.told().matches("audit: a TLS handshake failed").count();
    assert!((2..=20).contains(&lines), "{lines}");
}

#[test]
fn handshakes_that_stand_still_keep_nobody_out_and_end_with_the_time_of_a_head() {
    let authority = Authority::new();
    let scene = start(WEB, &authority, |_, config| config.header_timeout = Duration::from_secs(4));
    let begin = |_| {
        let mut stream = scene.node.connect();
        stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").unwrap();
        stream
    };
    let half_open: Vec<_> = (0..800).map(begin).collect();
    let began = Instant::now();
    let mut stream = connect(scene.node.address, &Arc::new(authority.client(None)));
    assert_eq!(ask(&mut stream).unwrap(), 200);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let mut last = half_open.into_iter().next_back().unwrap();
    assert!(matches!(last.read(&mut [0; 64]), Ok(0) | Err(_)), "it is closed");
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
}

#[test]
fn clients_that_say_hello_and_no_more_give_way_to_others() {
    let authority = Authority::new();
    let scene = start(WEB, &authority, |_, config| config.header_timeout = Duration::from_secs(20));
    let config = Arc::new(authority.client(None));
    let say_hello = |_| {
        let mut connection = connect(scene.node.address, &config).into_inner();
        connection.conn.write_tls(&mut connection.sock).unwrap();
        connection
    };
    let silent: Vec<_> = (0..600).map(say_hello).collect();
    let began = Instant::now();
    let mut stream = connect(scene.node.address, &config);
    let metrics = get_on(&mut stream, "/metrics", &bearer("metrics")).text();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(sum(&metrics, "silverback_tls_handshakes_evicted_total") >= 1.0);
    drop(silent);
}

#[test]
fn a_session_is_resumed() {
    let authority = Authority::new();
    let scene = start(WEB, &authority, |_, _| {});
    let config = Arc::new(authority.client(None));
    for _ in 0..2 {
        let mut stream = connect(scene.node.address, &config);
        assert_eq!(ask(&mut stream).unwrap(), 200);
    }
    let mut stream = connect(scene.node.address, &config);
    let metrics = get_on(&mut stream, "/metrics", &bearer("metrics")).text();
    assert!(sum(&metrics, "silverback_tls_handshakes_resumed_total") >= 1.0);
}

//! Random expressions over random data, asked of the node and of a Prometheus that has the same: no answer may differ.
//!
//! `EXPRESSIONS` says how many (2,000), `EXPRESSIONS_SEED` from which on (1): number 17 is `EXPRESSIONS=1
//! EXPRESSIONS_SEED=17`. A Prometheus before 3.0 is asked what it knows; another also for native histograms, and for
//! the words of its warnings and errors.

mod answers;
mod data;
mod expressions;

use std::io::BufReader;
use std::net::TcpStream;

use serde_json::Value;
use silverback_test_support::Scratch;
use silverback_test_support::http::Kept;
use silverback_test_support::random::Random;

use crate::http::escape;
use crate::prometheus::{Prometheus, Role};
use crate::start_node;
use answers::Verdict;
use data::Data;
use expressions::{Asked, Expressions, Knowledge};

/// Of what a former Prometheus is asked, at most one in so many may be unknown to it.
const UNKNOWN_SHARE: u64 = 20;
/// Differences that are shown.
const SHOWN: usize = 20;

/// A server with PromQL.
struct Peer(Kept);

impl Peer {
    fn connect(port: u16) -> Self {
        Self(Kept(BufReader::new(TcpStream::connect(("127.0.0.1", port)).expect("a server that listens"))))
    }

    fn ask(&mut self, Asked { text, times }: &Asked) -> Value {
        self.0.ask("GET", &format!("/api/v1/{}&query={}", times.path(), escape(text)), &[], b"").json()
    }

    fn write(&mut self, body: &[u8]) {
        let headers = [
            ("content-type", "application/x-protobuf"),
            ("content-encoding", "snappy"),
            ("x-prometheus-remote-write-version", "0.1.0"),
        ];
        let answer = self.0.ask("POST", "/api/v1/write", &headers, body);
        assert!(answer.status < 300, "{}: {}", answer.status, answer.text());
    }

    fn knows(&mut self) -> Knowledge {
        let told = self.0.ask("GET", "/api/v1/status/buildinfo", &[], b"").json();
        match told["data"]["version"].as_str() {
            Some(version) if version.starts_with("2.") => Knowledge::Former,
            _newer_or_built_by_hand => Knowledge::Current,
        }
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
#[ignore = "needs a Prometheus"]
fn random_expressions_have_the_answers_that_prometheus_gives() {
    let (count, first) = (number("EXPRESSIONS", 2000), number("EXPRESSIONS_SEED", 1));
    let scratch = Scratch::new();
    let (_node_daemon, node_port) = start_node(&scratch, &["--out-of-order-window=2h", "--shards=2"]);
    let prometheus = Prometheus::start(&scratch, Role::Peer);
    let (mut node, mut peer) = (Peer::connect(node_port), Peer::connect(prometheus.port));
    let knows = peer.knows();
    let data = Data::new(knows);
    for body in &data.bodies {
        node.write(body);
        peer.write(body);
    }
    let (mut unknown, mut empty, mut errors, mut differences) = (0, 0, 0, Vec::new());
    for seed in first..first + count {
        let asked = Expressions::new(Random::new(seed), knows, &data).next();
        let (ours, theirs) = (node.ask(&asked), peer.ask(&asked));
        match answers::compare(&ours, &theirs, knows) {
            Ok(Verdict::Unknown) => unknown += 1,
            Ok(Verdict::Error) => errors += 1,
            Ok(Verdict::Empty) => empty += 1,
            Ok(Verdict::Same) => {}
            Err(difference) => {
                println!("seed {seed}: {}\n  {}: {difference}", asked.text, asked.times.path());
                differences.push(seed);
                assert!(differences.len() < SHOWN, "too many differences: {differences:?}");
            }
        }
    }
    println!(
        "{count} expressions from seed {first}: {} differences, {errors} the same errors, {empty} without series, \
         {unknown} that it doesn't know",
        differences.len()
    );
    assert!(differences.is_empty(), "{differences:?}");
    assert!(unknown * UNKNOWN_SHARE <= count.max(UNKNOWN_SHARE), "{unknown} of {count} are unknown to it");
    assert!(count < 100 || (errors + empty) * 2 < count, "{errors} errors and {empty} empty of {count}");
}

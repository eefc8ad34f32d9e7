//! A real Prometheus writes into the node, another reads back from it, and nothing may differ.
//!
//! ```text
//! sender ── scrapes itself every second ── remote write ── node ── remote read ── reader (empty)
//!   └────────────── the same PromQL on both, sample for sample ──────────────────────┘
//! ```
//!
//! It is ignored unless asked for, as it needs a Prometheus:
//! `cargo test -p silverback --test interop -- --ignored --nocapture`. By the environment:
//! `PROMETHEUS` is the binary (default: in the path), `RW2=1` makes it send remote write 2.0,
//! `NODE_PROMETHEUS` is a Prometheus to put in the node's place, which shows that the test is right; `SILVERBACK` is another
//! build of the node; `PROMTOOL` is the tool that reads a snapshot's blocks.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use silverback_test_support::{Scratch, eventually_found, free_port};

mod compare;
mod daemon;
mod differential;
mod http;
mod prometheus;
mod remote_read;
mod snapshot;

use compare::{Answer, compare, compare_sets};
use daemon::Daemon;
use prometheus::{Prometheus, Role};
use remote_read::{ReadKind, read};

/// How long the sender scrapes before anything is compared.
const SCRAPED_S: u64 = 25;
/// What the comparisons look back over: more than was scraped.
const WINDOW_S: u64 = 60;

/// PromQL, evaluated at one moment. Raw selectors show every sample; the rest is what dashboards ask.
const QUERIES: [&str; 14] = [
    "{__name__=~\".+\"}[1m]",
    "up[1m]",
    "up",
    "rate(prometheus_http_requests_total[20s])",
    "sum by (handler) (increase(prometheus_http_requests_total{code=\"200\"}[20s]))",
    "histogram_quantile(0.9, sum by (le) (rate(prometheus_http_request_duration_seconds_bucket[20s])))",
    "{__name__=~\"prometheus_tsdb_.*\", job!~\"other.*\"}",
    "prometheus_http_requests_total{handler=~\"/(metrics|-/ready)\", code!=\"500\"}",
    "{__name__=\"prometheus_http_requests_total\", no_such_label=\"\"}",
    "count by (__name__) ({__name__!=\"\"})",
    "max_over_time(go_goroutines[20s] offset 2s)",
    "avg_over_time(rate(process_cpu_seconds_total[10s])[10s:1s])",
    "topk(5, go_memstats_heap_alloc_bytes or process_resident_memory_bytes)",
    "absent(no_such_metric)",
];

#[test]
#[ignore = "needs a Prometheus and half a minute"]
fn prometheus_reads_back_every_sample_that_it_wrote() {
    let scratch = Scratch::new();
    let (_node_daemon, node_port) = start_node(&scratch, &[]);
    let node = format!("http://127.0.0.1:{node_port}");
    let sender = Prometheus::start(&scratch, Role::Sender { node: &node });
    println!("the sender scrapes itself for {SCRAPED_S} s");
    for _ in 0..SCRAPED_S {
        thread::sleep(Duration::from_secs(1));
        // Something to count in its own request metrics: of every kind that comes below, or else that would
        // make series of its own meanwhile.
        let now_s = now_s();
        sender.query("up", now_s);
        sender.query_range("up", now_s - 1, now_s);
        prometheus::label_values(sender.port, "job", now_s - 1, now_s);
    }
    let reader = Prometheus::start(&scratch, Role::Reader { node: &node });

    let end_s = now_s();
    wait_until_sent(&sender, end_s);
    let mut failures = Vec::new();
    let mut check = |what: &str, outcome: Result<usize, String>| match outcome {
        Ok(samples) => println!("same: {what} ({samples} samples)"),
        Err(difference) => failures.push(format!("{what}: {difference}")),
    };
    for query in QUERIES {
        check(query, compare(&sender.query(query, end_s), &reader.query(query, end_s)));
    }
    let range = "sum by (code) (rate(prometheus_http_requests_total[5s]))";
    let steps = |prometheus: &Prometheus| prometheus.query_range(range, end_s - 15, end_s);
    check("a range query", compare(&steps(&sender), &steps(&reader)));
    for kind in [ReadKind::Samples, ReadKind::StreamedXorChunks] {
        check(&format!("{kind:?}"), check_read_kind(kind, &sender, node_port, end_s));
    }
    for label in ["__name__", "handler", "job"] {
        let values = |port| prometheus::label_values(port, label, end_s - WINDOW_S, end_s);
        check(&format!("values of {label}"), compare_sets(&values(sender.port), &values(node_port)));
    }
    check("samples that the sender gave up", sender.lost_samples());
    assert!(failures.is_empty(), "\n{}\nthe sender's log:\n{}", failures.join("\n"), sender.log());
}

/// What the comparison is worth: on a real answer, each way of losing or changing a sample is seen.
#[test]
fn a_lost_or_changed_sample_is_a_difference() {
    let answer = |series: &[(&str, &[&str])]| -> Answer {
        series.iter().map(|(k, v)| ((*k).to_owned(), v.iter().map(|s| (*s).to_owned()).collect())).collect()
    };
    let whole = answer(&[("a", &["[1,1]", "[2,2]"]), ("b", &["[1,3]"])]);
    assert_eq!(compare(&whole, &whole), Ok(3));
    for other in [
        answer(&[("a", &["[1,1]"]), ("b", &["[1,3]"])]),
        answer(&[("a", &["[1,1]", "[2,2.5]"]), ("b", &["[1,3]"])]),
        answer(&[("a", &["[1,1]", "[2,2]", "[3,3]"]), ("b", &["[1,3]"])]),
        answer(&[("a", &["[1,1]", "[2,2]"])]),
        answer(&[("a", &["[1,1]", "[2,2]"]), ("c", &["[1,3]"])]),
    ] {
        assert!(compare(&whole, &other).is_err(), "{other:?}");
    }
    let nothing = answer(&[]);
    assert!(compare(&nothing, &nothing).is_err(), "nothing to compare proves nothing");
}

/// The node, or what stands in for it; and its port.
fn start_node(scratch: &Scratch, options: &[&str]) -> (Daemon, u16) {
    if std::env::var_os("NODE_PROMETHEUS").is_some() {
        let stand_in = Prometheus::start(scratch, Role::Node);
        return (stand_in.daemon, stand_in.port);
    }
    let port = free_port();
    let data_dir = scratch.join("node");
    // What the node stores of itself would be a surplus over what Prometheus wrote.
    let own_metrics = "--no-self-scrape".to_owned();
    let own =
        [own_metrics, format!("--listen=127.0.0.1:{port}"), format!("--data-dir={}", data_dir.display())];
    let arguments: Vec<_> = own.into_iter().chain(options.iter().map(|option| option.to_string())).collect();
    let binary = std::env::var("SILVERBACK").unwrap_or_else(|_| env!("CARGO_BIN_EXE_silverback").to_owned());
    let mut daemon = Daemon::start("node", binary, &arguments, scratch);
    daemon.wait_until_ready(port);
    (daemon, port)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970").as_secs()
}

/// Waits until all up to `end_s` is acknowledged: the sender has one queue, which sends in order.
fn wait_until_sent(sender: &Prometheus, end_s: u64) {
    eventually_found(|| match sender.sent_until_s() {
        sent_s if sent_s > end_s as f64 => Ok(()),
        sent_s => Err(format!("sent until {sent_s}, wanted {end_s}\n{}", sender.log())),
    });
}

/// What our own client reads in one of the two kinds, against what the sender itself holds.
fn check_read_kind(kind: ReadKind, sender: &Prometheus, node_port: u16, end_s: u64) -> Result<usize, String> {
    let metrics = "prometheus_http_.*|up|go_.*";
    let held = sender.query(&format!("{{__name__=~\"{metrics}\"}}[{WINDOW_S}s]"), end_s);
    let read = read(kind, node_port, metrics, (end_s - WINDOW_S) * 1000, end_s * 1000)?;
    match kind {
        ReadKind::Samples => compare(&held, &read),
        // Chunks may exceed the range that was asked for, and reading them is the reader's part.
        ReadKind::StreamedXorChunks => compare_sets(&held.into_keys().collect(), &read.into_keys().collect()),
    }
}

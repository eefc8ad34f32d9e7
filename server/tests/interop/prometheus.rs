//! A Prometheus in one of its roles, and its query API.

use std::collections::BTreeSet;
use std::fs;

use silverback_test_support::{Scratch, free_port};

use serde_json::Value;

use crate::compare::Answer;
use crate::daemon::Daemon;
use crate::http::{self, escape};

/// What a Prometheus is for.
pub(crate) enum Role<'a> {
    /// Scrapes itself and writes to the node.
    Sender {
        /// Its address.
        node: &'a str,
    },
    /// Holds nothing and reads from the node.
    Reader {
        /// Its address.
        node: &'a str,
    },
    /// Stands in for the node.
    Node,
    /// Is written what the node is written, late samples too.
    Peer,
}

impl Role<'_> {
    fn name(&self) -> &'static str {
        match self {
            Role::Sender { .. } => "sender",
            Role::Reader { .. } => "reader",
            Role::Node => "stand-in",
            Role::Peer => "peer",
        }
    }

    fn binary(&self) -> String {
        let variable = match self {
            Role::Sender { .. } | Role::Reader { .. } | Role::Peer => "PROMETHEUS",
            Role::Node => "NODE_PROMETHEUS",
        };
        std::env::var(variable).unwrap_or_else(|_| "prometheus".to_owned())
    }

    fn configuration(&self, own_port: u16) -> String {
        match self {
            Role::Sender { node } => {
                let version = match std::env::var("RW2").as_deref() {
                    Ok("1") => "\n    protobuf_message: io.prometheus.write.v2.Request",
                    Ok(_) | Err(_) => "",
                };
                // One queue sends in order: what was sent last tells what was sent.
                format!(
                    "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\n\
                     scrape_configs:\n  - job_name: self\n    static_configs:\n      - targets: ['127.0.0.1:{own_port}']\n\
                     remote_write:\n  - url: {node}/api/v1/write{version}\n    queue_config:\n      max_shards: 1\n      \
                     batch_send_deadline: 1s\n"
                )
            }
            Role::Reader { node } => {
                format!("remote_read:\n  - url: {node}/api/v1/read\n    read_recent: true\n")
            }
            Role::Node => String::new(),
            Role::Peer => "storage:\n  tsdb:\n    out_of_order_time_window: 2h\n".to_owned(),
        }
    }
}

/// A running Prometheus.
pub(crate) struct Prometheus {
    /// Its process.
    pub daemon: Daemon,
    /// Where it listens.
    pub port: u16,
}

impl Prometheus {
    /// Starts one with empty storage and waits until it is ready.
    pub(crate) fn start(scratch: &Scratch, role: Role<'_>) -> Self {
        let (name, port) = (role.name(), free_port());
        let configuration = scratch.join(&format!("{name}.yml"));
        fs::write(&configuration, role.configuration(port)).expect("a file in the scratch directory");
        let mut arguments = vec![
            format!("--config.file={}", configuration.display()),
            format!("--storage.tsdb.path={}", scratch.join(name).display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn".to_owned(),
        ];
        if matches!(role, Role::Node | Role::Peer) {
            arguments.push("--web.enable-remote-write-receiver".to_owned());
        }
        let mut daemon = Daemon::start(name, role.binary(), &arguments, scratch);
        daemon.wait_until_ready(port);
        Self { daemon, port }
    }

    /// PromQL at one moment.
    pub(crate) fn query(&self, query: &str, time_s: u64) -> Answer {
        self.ask(&format!("/api/v1/query?query={}&time={time_s}", escape(query)))
    }

    /// PromQL at each second of a range.
    pub(crate) fn query_range(&self, query: &str, start_s: u64, end_s: u64) -> Answer {
        self.ask(&format!("/api/v1/query_range?query={}&start={start_s}&end={end_s}&step=1", escape(query)))
    }

    fn ask(&self, path: &str) -> Answer {
        let answer = get_json(self.port, path);
        assert!(answer["warnings"].is_null(), "{path}: {}", answer["warnings"]);
        let series = answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{path}: {answer}"));
        series.iter().map(|series| (series["metric"].to_string(), samples(series))).collect()
    }

    /// Until when remote write has sent all, by its own metric.
    pub(crate) fn sent_until_s(&self) -> f64 {
        self.metric("prometheus_remote_storage_queue_highest_sent_timestamp_seconds")
    }

    /// Fails when remote write dropped samples or had them refused.
    pub(crate) fn lost_samples(&self) -> Result<usize, String> {
        let lost = ["failed", "dropped"]
            .map(|how| self.metric(&format!("prometheus_remote_storage_samples_{how}_total")));
        let sent = self.metric("prometheus_remote_storage_samples_total");
        if lost == [0.0, 0.0] && sent > 0.0 { Ok(sent as usize) } else { Err(format!("{lost:?} of {sent}")) }
    }

    /// The sum of one of its own metrics now.
    fn metric(&self, name: &str) -> f64 {
        let page = http::get(self.port, "/metrics").expect("a Prometheus that runs").body;
        let page = String::from_utf8_lossy(&page).into_owned();
        let of_metric =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        page.lines().filter(of_metric).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        self.daemon.log()
    }
}

/// A label's values, from whatever speaks Prometheus' API on this port.
pub(crate) fn label_values(port: u16, label: &str, start_s: u64, end_s: u64) -> BTreeSet<String> {
    let answer = get_json(port, &format!("/api/v1/label/{label}/values?start={start_s}&end={end_s}"));
    let values = answer["data"].as_array().into_iter().flatten();
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

fn get_json(port: u16, path: &str) -> Value {
    let answer = http::get(port, path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| {
        Value::String(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)))
    })
}

/// A vector's one sample, or a matrix' many, histograms included.
fn samples(series: &Value) -> Vec<String> {
    let many = ["values", "histograms"].iter().filter_map(|many| series[many].as_array()).flatten();
    let one = ["value", "histogram"].iter().map(|one| &series[one]).filter(|sample| !sample.is_null());
    one.chain(many).map(Value::to_string).collect()
}

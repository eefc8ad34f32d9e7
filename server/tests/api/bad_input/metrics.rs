//! What a node counts, read from its `/metrics`.

use silverback_node_test_support::Node;
use silverback_test_support::eventually_found;
use silverback_test_support::http::Kept;

use crate::bad_input::bystander::Scene;

/// Requests refused whole.
pub(super) const MALFORMED: &str = "silverback_write_requests_malformed_total";

/// One reading of all counters.
pub(super) struct Reading(String);

impl Reading {
    /// Reads a node's now.
    pub(super) fn of(node: &Node) -> Self {
        Self(node.get("/metrics").text())
    }

    /// Reads them on an open connection.
    pub(super) fn on(connection: &mut Kept) -> Self {
        Self(connection.ask("GET", "/metrics", &[], b"").text())
    }

    /// The sum over the node's cores of a metric, `name` or `name{label="value"`.
    pub(super) fn sum(&self, metric: &str) -> u64 {
        let ends = |rest: &str| rest.starts_with(['{', ',', '}', ' ']);
        let lines = self.0.lines().filter(|line| line.strip_prefix(metric).is_some_and(ends));
        let values: Vec<f64> = lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert!(!values.is_empty(), "{metric} is not among the metrics");
        values.iter().sum::<f64>() as u64
    }
}

/// Samples refused for a reason.
pub(super) fn refused(reason: &str) -> String {
    format!("silverback_samples_refused_total{{reason=\"{reason}\"")
}

/// Waits until a metric has a value.
pub(super) fn wait_for(node: &Node, metric: &str, expect: u64) {
    wait_with(|| Reading::of(node), metric, expect);
}

/// The same, each reading got this way.
pub(super) fn wait_with(mut read: impl FnMut() -> Reading, metric: &str, expect: u64) {
    eventually_found(|| match read().sum(metric) {
        now if now == expect => Ok(()),
        now => Err(format!("{metric} is {now}, not {expect}")),
    });
}

#[test]
fn writes_and_the_commits_that_they_wait_for_are_timed() {
    let scene = Scene::start(1);
    scene.check_goes_on();
    let reading = Reading::of(&scene.node);
    for metric in ["silverback_write_request_seconds", "silverback_wal_commit_seconds"] {
        let timed = reading.sum(&format!("{metric}_count"));
        assert!(timed > 0, "{metric}");
        assert!(reading.sum(&format!("{metric}_bucket")) >= timed, "{metric}");
    }
}

//! What is asked. All of it over the whole extent, a step a minute.

use crate::report::side::Side;

/// One expression of the table.
#[derive(Debug, Clone, Copy)]
pub struct Expression {
    /// As it is in the table.
    pub text: &'static str,
    /// How many times less CPU time it must take than Prometheus.
    pub beside_prometheus: f64,
    /// How many times less than VictoriaMetrics, where that is promised.
    pub beside_victoria_metrics: Option<f64>,
    /// Whether what a server gives must be what the node gives, value for value.
    pub agreement: Agreement,
}

/// Who gives the same values as the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// Prometheus. VictoriaMetrics has other rates, and looks back another time: as many series.
    Prometheus,
    /// Prometheus 3; what Prometheus 2 does is another thing.
    Prometheus3,
}

impl Expression {
    const fn new(text: &'static str) -> Self {
        Self { text, beside_prometheus: 4.0, beside_victoria_metrics: None, agreement: Agreement::Prometheus }
    }

    const fn of_prometheus_3(self) -> Self {
        Self { agreement: Agreement::Prometheus3, ..self }
    }

    /// Whether the values of a side are compared, not the count of its series alone.
    pub const fn has_same_values(&self, side: Side) -> bool {
        match side {
            Side::PrometheusCurrent => true,
            Side::Prometheus => matches!(self.agreement, Agreement::Prometheus),
            _other => false,
        }
    }
}

/// The one that has bounds of its own: a rate over all counters.
pub const RATE: Expression = Expression {
    beside_prometheus: 10.0,
    beside_victoria_metrics: Some(3.0),
    ..Expression::new("sum by (job) (rate(requests_total[5m]))")
};

/// The same over those of one rack, a thousand.
pub const RATE_OF_RACK: Expression =
    Expression::new("sum by (job) (rate(requests_total{rack=\"rack-0\"}[5m]))");

/// All of the table.
pub const ALL: [Expression; 20] = [
    RATE,
    RATE_OF_RACK,
    Expression::new("sum by (job) (increase(requests_total[1h]))"),
    Expression::new("sum by (job) (irate(requests_total[5m]))"),
    // Which of equal ones are chosen is each server's own: their sum is the same.
    Expression::new("sum(topk(5, rate(requests_total[5m])))"),
    // These counters begin at 0, to which Prometheus 3 extrapolates less far.
    Expression::new("histogram_quantile(0.99, sum by (le, job) (rate(latency_seconds_bucket[5m])))")
        .of_prometheus_3(),
    Expression::new("max(histogram_quantile(0.9, rate(latency_seconds_bucket[5m])))").of_prometheus_3(),
    Expression::new("max by (job) (max_over_time(memory_bytes[1h]))"),
    Expression::new("sum by (job) (avg_over_time(memory_bytes[30m]))"),
    Expression::new("max by (job) (quantile_over_time(0.9, memory_bytes[10m]))"),
    Expression::new("max by (job) (stddev_over_time(memory_bytes[15m]))"),
    Expression::new("max by (job) (deriv(memory_bytes[15m]))"),
    Expression::new("max by (job) (max_over_time(rate(requests_total{rack=\"rack-0\"}[5m])[1h:1m]))")
        .of_prometheus_3(),
    Expression::new("max(memory_bytes / on (instance, container) limit_bytes)"),
    Expression::new(
        "sum by (job) (rate(requests_total{code=~\"5..\"}[5m])) / sum by (job) (rate(requests_total[5m]))",
    ),
    Expression::new("count by (instance, path) (requests_total)"),
    Expression::new("sum by (job) (memory_bytes)"),
    Expression::new("quantile by (job) (0.95, memory_bytes)"),
    Expression::new("memory_bytes{rack=\"rack-0\"} > 1e8"),
    Expression::new("sum by (path) (rate(requests_total{method=\"get\"}[5m])) > 0"),
];

/// Ten panels of a dashboard, about a rack each where there are so many.
pub fn panels(instances: usize) -> Vec<String> {
    let racks = (instances / super::dataset::RACK_INSTANCES).max(1);
    (0..10).map(|panel| RATE_OF_RACK.text.replace("rack-0", &format!("rack-{}", panel % racks))).collect()
}

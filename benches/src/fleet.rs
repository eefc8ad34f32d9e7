//! Write requests as a fleet of node_exporters makes them: 326 metric names, nine labels, about
//! 210 bytes of remote write 1 for a series with one sample.

use std::collections::HashMap;

use silverback_proto::{prometheus, write_v2};

/// Series of one host, by the share of its names.
const NAMES: usize = 326;

/// What a series of the fleet is called: sorted labels.
pub fn labels(series: usize) -> Vec<(String, String)> {
    const FAMILIES: [&str; 6] =
        ["cpu_seconds", "disk_io_time", "filesystem_avail", "memory", "netstat", "vmstat"];
    const MODES: [&str; 8] = ["idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"];
    let (host, metric) = (series / NAMES, series % NAMES);
    let family = FAMILIES[metric % FAMILIES.len()];
    let labels = [
        ("__name__", format!("node_{family}_{:03}_total", metric / MODES.len())),
        ("cluster", "prod-1".to_owned()),
        ("cpu", format!("{}", metric % 16)),
        ("env", "production".to_owned()),
        ("instance", format!("node-{host:05}.example.org:9100")),
        ("job", "node-exporter".to_owned()),
        ("mode", MODES[metric % MODES.len()].to_owned()),
        ("region", "eu-west-1".to_owned()),
        ("zone", "eu-west-1a".to_owned()),
    ];
    labels.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// A remote write 1 request of `series` series with one sample each, the first being number
/// `first`.
pub fn request_v1(first: usize, series: usize, timestamp: i64) -> prometheus::WriteRequest {
    request_v1_of(labels, first, series, timestamp)
}

/// The same of series that are called as `labels` says.
pub fn request_v1_of(
    labels: impl Fn(usize) -> Vec<(String, String)>,
    first: usize,
    series: usize,
    timestamp: i64,
) -> prometheus::WriteRequest {
    let one = |i| prometheus::TimeSeries {
        labels: labels(i).into_iter().map(|(name, value)| prometheus::Label { name, value }).collect(),
        samples: vec![prometheus::Sample { value: i as f64 * 0.5, timestamp }],
        ..prometheus::TimeSeries::default()
    };
    prometheus::WriteRequest { timeseries: (first..first + series).map(one).collect(), metadata: vec![] }
}

/// The same as a remote write 2 request, with metadata as Prometheus sends it.
pub fn request_v2(first: usize, series: usize, timestamp: i64) -> write_v2::Request {
    request_v2_of(labels, first, series, timestamp)
}

/// The same of series that are called as `labels` says.
pub fn request_v2_of(
    labels: impl Fn(usize) -> Vec<(String, String)>,
    first: usize,
    series: usize,
    timestamp: i64,
) -> write_v2::Request {
    let mut request = write_v2::Request { symbols: vec![String::new()], timeseries: vec![] };
    let mut known = HashMap::new();
    for i in first..first + series {
        let mut symbol = |text: String| {
            *known.entry(text).or_insert_with_key(|text| {
                request.symbols.push(text.clone());
                request.symbols.len() as u32 - 1
            })
        };
        let labels_refs = labels(i).into_iter().flat_map(|(name, value)| [symbol(name), symbol(value)]);
        request.timeseries.push(write_v2::TimeSeries {
            labels_refs: labels_refs.collect(),
            samples: vec![write_v2::Sample { value: i as f64 * 0.5, timestamp, start_timestamp: 0 }],
            metadata: Some(write_v2::Metadata { r#type: 1, help_ref: 0, unit_ref: 0 }),
            ..write_v2::TimeSeries::default()
        });
    }
    request
}

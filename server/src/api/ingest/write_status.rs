//! Write requests of the whole node: how many came by which protocol, and how long their answers took.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use silverback_host::metrics::Durations;
use silverback_storage::message::{AcceptorCounts, CoreStats};

type CountOf = fn(&AcceptorCounts) -> u64;

/// Each protocol's name in metrics, and its requests. Those of a gRPC stream are its batches.
const PROTOCOLS: [(&str, CountOf); 8] = [
    ("remote_write_1", |a| a.writes_v1),
    ("remote_write_2", |a| a.writes_v2),
    ("thanos", |a| a.writes_thanos),
    ("otlp", |a| a.writes_otlp),
    ("prometheus_text", |a| a.writes_prometheus_text),
    ("influx", |a| a.writes_influx),
    ("grpc", |a| a.writes_grpc),
    ("grpc_stream", |a| a.stream_batches),
];

/// Write requests whose body arrived, by every protocol.
pub(crate) fn requests_by_protocol(cores: &[CoreStats]) -> [(&'static str, u64); PROTOCOLS.len()] {
    PROTOCOLS.map(|(protocol, of)| (protocol, cores.iter().map(|core| of(&core.acceptor)).sum()))
}

/// Writes since the start, as the status page reads them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WriteStatus {
    /// Requests whose body arrived, whatever the answer, by protocol.
    pub requests_total: BTreeMap<String, u64>,
    /// Upper bounds of the time that an answer took, in µs, ascending.
    pub bounds_us: Vec<u64>,
    /// Answers within each bound and above the one before; the last number is of those beyond all.
    pub took_total: Vec<u64>,
}

impl WriteStatus {
    /// From what the cores report.
    pub(crate) fn new(cores: &[CoreStats]) -> Self {
        let mut took = Durations::default();
        cores.iter().for_each(|core| took.merge(&core.acceptor.write_durations));
        let requests = requests_by_protocol(cores).map(|(protocol, count)| (protocol.to_owned(), count));
        Self {
            requests_total: BTreeMap::from(requests),
            bounds_us: Durations::bounds_us().to_vec(),
            took_total: took.counts().to_vec(),
        }
    }
}

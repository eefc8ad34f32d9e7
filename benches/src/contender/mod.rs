//! The node's opponent: the same remote write service the usual way, on a work-stealing runtime with
//! the shards behind locks.
//!
//! It shares with the node what isn't in question: decoders, chunks, indexes, answers. What differs
//! is who runs a request and how it reaches the series: any worker thread does, and it locks each
//! shard of the request once. Nothing here is read back, nothing expires, nothing is durable.
//!
//! ```text
//! socket ── any worker ── decode (a decoder for each worker) ── split by series id
//!    ── lock each stripe once: append ── 204
//! ```
mod grpc;
mod scratch;
mod serve;
mod service;
mod stripes;
mod write;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use silverback::config::Config;
use silverback::model::{RefusedCounts, SeriesIdHasher};

pub use grpc::Grpc;
pub use serve::serve;
pub use stripes::{STRIPES_MAX, Stripes};

/// The tenant of requests that name none, as the node has it.
const DEFAULT_TENANT: &str = "";

/// All that its worker threads share.
#[derive(Debug)]
pub struct Contender {
    config: Config,
    hasher: SeriesIdHasher,
    stripes: Stripes,
    counts: Counts,
    /// Decompressed bytes of the requests under way.
    in_flight_bytes: AtomicUsize,
    ending: AtomicBool,
}

/// What was counted, once for a request at the most.
#[derive(Debug, Default)]
struct Counts {
    writes_v1: AtomicU64,
    writes_v2: AtomicU64,
    write_bytes: AtomicU64,
    /// By the decoder; what a shard refuses it counts itself.
    refused: Mutex<RefusedCounts>,
}

impl Contender {
    /// An empty one. Of the node's configuration it takes the limits.
    pub fn new(config: Config, stripes: Stripes) -> Self {
        Self {
            config,
            hasher: SeriesIdHasher::new(random_seed(), DEFAULT_TENANT),
            stripes,
            counts: Counts::default(),
            in_flight_bytes: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
        }
    }
}

/// Drawn anew by each process, as the node does.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

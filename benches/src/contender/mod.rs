//! The node's opponent: the same remote write service the usual way, on a work-stealing runtime with
//! the shards behind locks.
//!
//! It shares with the node what isn't in question: decoders, chunks, indexes, answers. What differs
//! is who runs a request and how it reaches the series: any worker thread does, and it locks each
//! shard of the request once. Both write the same log and promise the same by their `--ack`. Nothing here is
//! read back, nothing expires, and there is no checkpoint.
//!
//! ```text
//! socket ── any worker ── decode (a decoder for each worker) ── split by series id
//!    ── lock each stripe once: append to chunks and to the log's group
//!    ── one write and one sync for all that waits ── 204
//! ```
mod grpc;
mod log;
mod scratch;
mod serve;
mod service;
mod stripes;
mod write;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

use silverback::config::Config;
use silverback_model::{RefusedCounts, SeriesIdHasher};
use tokio::runtime::Handle;

use log::Log;

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
    seed: u64,
    stripes: Arc<Stripes>,
    log: Arc<Log>,
    counts: Counts,
    /// Decompressed bytes of the requests in flight.
    in_flight_bytes: AtomicUsize,
    ending: AtomicBool,
}

/// What was counted, once for a request at most.
#[derive(Debug, Default)]
struct Counts {
    writes_v1: AtomicU64,
    writes_v2: AtomicU64,
    write_bytes: AtomicU64,
    /// By the decoder; what a shard refuses it counts itself.
    refused: Mutex<RefusedCounts>,
}

impl Contender {
    /// An empty one, whose log is written by a task of this runtime. Of the node's configuration it takes the
    /// limits, when to acknowledge, and where its log is.
    pub fn open(config: Config, stripes: Stripes, runtime: &Handle) -> io::Result<Arc<Self>> {
        let (seed, stripes) = (random_seed(), Arc::new(stripes));
        Ok(Arc::new(Self {
            hasher: SeriesIdHasher::new(seed, DEFAULT_TENANT),
            seed,
            log: Log::open(&config, seed, &stripes, runtime)?,
            config,
            stripes,
            counts: Counts::default(),
            in_flight_bytes: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
        }))
    }

    /// Where its log is.
    pub fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// What its series ids and its log's frames depend on.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// Drawn by each process, as on the node.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

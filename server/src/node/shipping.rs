//! Blocks on their way to a bucket: which shipper a configuration asks for, and the labels that its blocks have.
//!
//! What is uploaded, and how, is `silverback_shipper`'s; who writes the blocks isn't known here.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::api::query::external::External;
use crate::config::Config;
use silverback_shipper::{BucketConfig, ConfigFault, Limits, Options, Shipper};

/// Below the data directory.
const DIR: &str = "blocks";
/// What a stop waits for the shipper: it gives up what it uploads.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Why blocks can't be shipped as the configuration wants it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", file.display())]
pub struct ObjstoreFault {
    file: PathBuf,
    fault: ConfigFault,
}

/// The bucket that a configuration names; `None`: it names none.
pub(super) fn bucket(config: &Config) -> Result<Option<BucketConfig>, ObjstoreFault> {
    let Some(file) = &config.objstore_config_file else { return Ok(None) };
    let read = BucketConfig::read(file).map_err(|fault| ObjstoreFault { file: file.clone(), fault });
    read.map(Some)
}

/// Reads the file that a configuration names, and tells what an operator should know of it.
pub fn check(config: &Config) -> Result<Vec<String>, ObjstoreFault> {
    let bucket = bucket(config)?;
    Ok(bucket.iter().filter_map(ignored).collect())
}

fn ignored(bucket: &BucketConfig) -> Option<String> {
    let fields = bucket.ignored().join(", ");
    (!fields.is_empty())
        .then(|| format!("these fields of the objstore configuration make no difference: {fields}"))
}

/// Starts the shipper, before there are executors: its thread may run on every CPU of the process.
pub(super) fn start(config: &Config, bucket: BucketConfig) -> io::Result<Shipper> {
    if let Some(caution) = ignored(&bucket) {
        tracing::warn!(%caution, "shipper");
    }
    Shipper::start(Options {
        dir: config.data_dir.join(DIR),
        bucket,
        labels: External::of(config).pairs(),
        bytes_per_s: config.ship_bandwidth,
        limits: Limits::default(),
    })
}

/// Ends the shipper once there are no executors any more.
pub(super) fn stop(shipper: Option<&Arc<Shipper>>) {
    if let Some(shipper) = shipper
        && !shipper.stop(STOP_LIMIT)
    {
        tracing::warn!("the shipper did not end in time: what it uploads is begun again at the next start");
    }
}

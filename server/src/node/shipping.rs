//! Blocks on their way to a bucket: which shipper a configuration asks for, and the labels that its blocks have.
//!
//! What is uploaded, and how, is `silverback_shipper`'s; how blocks come to be isn't known here.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;

use crate::api::query::external::External;
use crate::blocks::{Blocks, BlocksDir};
use crate::config::Config;
use silverback_model::gorilla::FloatEncoding;
use silverback_runtime::spawn_background;
use silverback_shipper::{BucketConfig, Limits, ObjstoreConfigError, Shipper, ShipperOptions};

/// What a stop waits for the shipper: it gives up what it uploads.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Why blocks can't be shipped as the configuration wants it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", file.display())]
pub struct ShippingError {
    file: PathBuf,
    fault: ObjstoreConfigError,
}

/// The bucket that a configuration names; `None`: it names none.
pub(super) fn bucket(config: &Config) -> Result<Option<BucketConfig>, ShippingError> {
    let Some(file) = &config.objstore_config_file else { return Ok(None) };
    let read = BucketConfig::read(file).map_err(|fault| ShippingError { file: file.clone(), fault });
    read.map(Some)
}

/// Reads the file that a configuration names, and logs what an operator should know of it.
pub fn check(config: &Config) -> Result<Vec<String>, ShippingError> {
    let bucket = bucket(config)?;
    Ok(bucket.iter().flat_map(|bucket| cautions(config, bucket)).collect())
}

fn cautions(config: &Config, bucket: &BucketConfig) -> impl Iterator<Item = String> {
    let fields = bucket.ignored().join(", ");
    let ignored = (!fields.is_empty())
        .then(|| format!("these fields of the objstore configuration make no difference: {fields}"));
    let unread = (config.float_chunks == FloatEncoding::Xor2).then(|| {
        "--float-chunks=xor2: Thanos' Store Gateway and Compactor don't read XOR2 chunks yet, and the bucket's blocks are \
         theirs to read; --float-chunks=xor is read by them"
            .to_owned()
    });
    ignored.into_iter().chain(unread)
}

/// Starts the shipper, before there are executors: its thread may run on every CPU of the process.
pub(super) fn start(config: &Config, bucket: BucketConfig) -> io::Result<Shipper> {
    for caution in cautions(config, &bucket) {
        tracing::warn!(%caution, "shipper");
    }
    Shipper::start(ShipperOptions {
        dir: BlocksDir::below(&config.data_dir).path().to_owned(),
        bucket,
        labels: External::of(config).pairs(),
        bytes_per_s: config.ship_bandwidth,
        limits: Limits::default(),
    })
}

/// Has new blocks uploaded at once, and none deleted for its age before it is uploaded. On the core that keeps the blocks.
pub(super) fn follow(blocks: &Blocks, shipper: Arc<Shipper>) {
    let mut changed = blocks.changed.subscribe();
    let asked = Arc::clone(&shipper);
    blocks.ask_before_deleting(move |ulid| asked.is_shipped(ulid));
    spawn_background(async move {
        while changed.next().await.is_some() {
            shipper.wake();
        }
    });
}

/// Ends the shipper once there are no executors any more.
pub(super) fn stop(shipper: Option<&Arc<Shipper>>) {
    if let Some(shipper) = shipper
        && !shipper.stop(STOP_LIMIT)
    {
        tracing::warn!("the shipper did not end in time: what it uploads is begun again at the next start");
    }
}

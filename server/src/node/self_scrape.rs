//! The node takes in its own metrics, so that a fresh start shows data at once.

use std::rc::Rc;
use std::sync::Arc;

use futures::future::select;

use crate::api::core::Core;
use crate::api::ingest::remote_write::Rejection;
use crate::api::ingest::remote_write::answer::WriteReport;
use crate::api::{ingest::write, status::pages};
use crate::routing::{SharedReservation, Split};
use silverback_model::{Labels, Sample};
use silverback_runtime::{sleep, spawn};
use silverback_storage::message::{LabelSource, LabelSpan, WriteBody};

/// Starts scraping at the configured interval; nothing where it is turned off.
pub(crate) fn start(core: Rc<Core>) {
    let Some(interval) = core.config.self_scrape_interval else { return };
    spawn(async move {
        // This core takes writes already, and others may still replay.
        select(core.node.restored.reached(core.node.cpus.len()), core.shutdown.requested()).await;
        while !core.shutdown.is_requested() {
            scrape(&core).await;
            sleep(interval).await;
        }
    });
}

async fn scrape(core: &Core) {
    let series = match pages::own_series(core).await {
        Ok(series) => series,
        Err(error) => return tracing::warn!(%error, "the node's own metrics were not gathered"),
    };
    if let Err(rejection) = store(core, &series, core.clock.now_ms()).await {
        tracing::warn!(%rejection, "the node's own metrics were not stored");
    }
}

/// Stores one sample of each series, on the way that every write goes.
async fn store(core: &Core, series: &[(Labels, f64)], now_ms: i64) -> Result<(), Rejection> {
    let mut blocks = Vec::new();
    let mut split = Split::new(core.router.table(), &core.parts);
    for (labels, value) in series {
        let block = labels.to_canonical();
        let span = LabelSpan::new(LabelSource::Wire, blocks.len(), block.len());
        blocks.extend_from_slice(&block);
        split.series(core.hasher.hash_canonical(&block), span, 1);
        split.sample(Sample::new(now_ms, *value));
    }
    let body = Arc::new(WriteBody { bytes: blocks.into(), ..WriteBody::default() });
    // What is refused of it is counted by the shards, as with every write.
    let report =
        write::send(core, &body, split, WriteReport::default(), SharedReservation::default()).await?;
    core.count(|counts| counts.own_samples += report.written);
    Ok(())
}

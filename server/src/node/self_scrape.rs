//! The node takes in its own metrics, so that a fresh start shows data at once.

use std::rc::Rc;
use std::sync::Arc;

use futures::future::select;

use crate::api::ingest::Ingest;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::remote_write::answer::WriteReport;
use crate::api::{ingest::write, status::pages};
use crate::routing::{SharedReservation, Split};
use silverback_model::{Labels, Sample};
use silverback_runtime::{sleep, spawn};
use silverback_storage::message::{LabelSource, LabelSpan, WriteBody};

/// Starts scraping at the configured interval; nothing where it is turned off.
pub(crate) fn start(ingest: Rc<Ingest>) {
    let Some(interval) = ingest.config.self_scrape_interval else { return };
    spawn(async move {
        // This core takes writes already, and others may still replay.
        select(ingest.node.restored.reached(ingest.node.cpus.len()), ingest.shutdown.requested()).await;
        while !ingest.shutdown.is_requested() {
            scrape(&ingest).await;
            sleep(interval).await;
        }
    });
}

async fn scrape(ingest: &Ingest) {
    let series = match pages::own_series(ingest).await {
        Ok(series) => series,
        Err(error) => return tracing::warn!(%error, "the node's own metrics were not gathered"),
    };
    if let Err(rejection) = store(ingest, &series, ingest.clock.now_ms()).await {
        tracing::warn!(%rejection, "the node's own metrics were not stored");
    }
}

/// Stores one sample of each series, on the way that every write goes.
async fn store(ingest: &Ingest, series: &[(Labels, f64)], now_ms: i64) -> Result<(), WriteRejected> {
    let mut blocks = Vec::new();
    let mut split = Split::new(ingest.router.table(), &ingest.parts);
    for (labels, value) in series {
        let block = labels.to_canonical();
        let span = LabelSpan::new(LabelSource::Wire, blocks.len(), block.len());
        blocks.extend_from_slice(&block);
        split.series(ingest.hasher.hash_canonical(&block), span, 1);
        split.sample(Sample::new(now_ms, *value));
    }
    let body = Arc::new(WriteBody { bytes: blocks.into(), ..WriteBody::default() });
    // What is refused of it is counted by the shards, as with every write.
    let report =
        write::send(ingest, &body, split, WriteReport::default(), SharedReservation::default()).await?;
    ingest.count(|counts| counts.own_samples += report.written);
    Ok(())
}

//! `/api/v1/admin/tsdb/clean_tombstones`: blocks on disk of which samples were deleted are written again without these. How
//! that is done is [`LocalBlocks`](crate::api::query::local_blocks::LocalBlocks)'; here it is asked for, and waited for.
//!
//! It goes on to its end, though its client may be gone: it takes longer than many wait.

use std::pin::pin;
use std::rc::Rc;

use futures::channel::oneshot;
use futures::future::{Either, select};
use http::Method;

use super::delete_series::check_access;
use super::refusal;
use crate::api::query::Reader;
use crate::api::query::local_blocks::RewriteLocation;
use crate::api::query::range_blocks::RangeBlocksError;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::response::{NodeResponse, no_content};
use silverback_runtime::{SideThreadError, now, spawn_background};

/// Writes blocks again, and answers once all are there.
pub(super) async fn answer(reader: &Rc<Reader>, method: &Method) -> NodeResponse {
    match clean(reader, method).await {
        Ok(()) => no_content(),
        Err(fault) => refusal(&fault),
    }
}

async fn clean(reader: &Rc<Reader>, method: &Method) -> Result<(), ReadRejected> {
    super::QueryEndpoint::CleanTombstones.check_method(method)?;
    check_access(
        reader,
        "this node writes no blocks again on demand: it was started without --admin-api=full",
    )?;
    let (done, ended) = oneshot::channel();
    let reader = Rc::clone(reader);
    // Nobody may wait for it any more.
    spawn_background(async move { drop(done.send(run(&reader).await)) });
    ended.await.map_err(|oneshot::Canceled| SideThreadError::Panicked)?
}

async fn run(reader: &Reader) -> Result<(), ReadRejected> {
    // What a deletion finds has to be what it changes.
    let _turn = reader.node.deletions.take().ok_or(ReadRejected::DeletionGoesOn)?;
    let began = now();
    let place = RewriteLocation {
        data_dir: reader.config.data_dir.clone(),
        now_ms: reader.clock.now_ms(),
        made: reader.node.blocks.clone(),
    };
    let cleaned =
        match select(pin!(reader.node.local_blocks.clean(place)), pin!(reader.shutdown.requested())).await {
            Either::Left((cleaned, _)) => cleaned,
            Either::Right(_stopping) => Err(ReadRejected::Writing(RangeBlocksError::Ended)),
        };
    let took_ms = began.elapsed().as_millis() as u64;
    match cleaned {
        Ok(blocks) => {
            tracing::info!(blocks, took_ms, "blocks were written again without what was deleted of them");
            Ok(())
        }
        Err(fault) => {
            tracing::warn!(%fault, took_ms, "blocks were to be written again without what was deleted of them, and not all were");
            Err(fault)
        }
    }
}

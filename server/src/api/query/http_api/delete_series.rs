//! `/api/v1/admin/tsdb/delete_series`: samples that are to go for good, of the series that match. What it takes
//! of shards is theirs; here it is asked for, waited for, and logged.
//!
//! A deletion that was begun goes on to its end, though its client may be gone: half of it is nothing that
//! anybody asked for.

use std::rc::Rc;
use std::sync::Arc;

use futures::channel::oneshot;
use http::Request;

use super::params::{Params, bad};
use super::{params_of, refusal};
use crate::api::http::request_body::HttpBody;
use crate::api::query::Reader;
use crate::api::query::read_rejected::{PartialDeletionError, ReadRejected, check_replayed};
use crate::api::response::{NodeResponse, no_content};
use crate::config::AdminAccess;
use crate::routing::deletion::{self, DeletionFanoutError};
use crate::routing::fanout::FanoutError;
use crate::routing::{Asker, ReadInFlight, Reservation};
use silverback_model::limits::DELETION_WAIT_MAX;
use silverback_runtime::{now, spawn_background};
use silverback_storage::message::{Deleted, DeletionError, Selection, ShardReadError};

/// A deletion that was read and has its turn.
struct PreparedDeletion {
    read: ReadInFlight,
    params: Params,
    selections: Arc<[Selection]>,
    /// Of the request.
    _room: Reservation,
}

/// Deletes what is asked for, and answers once it is gone for good.
pub(super) async fn answer<B: HttpBody>(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: Request<B>,
) -> NodeResponse {
    reader.count(|counts| counts.deletions += 1);
    match delete(reader, asker, request).await {
        Ok(()) => no_content(),
        Err(fault) => {
            reader.count(|counts| counts.deletions_failed += 1);
            tracing::debug!(%fault, "a deletion was refused, or not done to its end");
            refusal(&fault)
        }
    }
}

async fn delete<B: HttpBody>(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: Request<B>,
) -> Result<(), ReadRejected> {
    super::QueryEndpoint::DeleteSeries.check_method(request.method())?;
    check_access(reader, "this node deletes nothing on demand: it was started without --admin-api=full")?;
    let asked = read(reader, asker, request).await?;
    let (done, ended) = oneshot::channel();
    let reader = Rc::clone(reader);
    // Nobody may wait for it any more.
    spawn_background(async move { drop(done.send(asked.run(&reader).await)) });
    let panicked = |oneshot::Canceled| ReadRejected::Shards(FanoutError::Refused(ShardReadError::Panicked));
    ended.await.map_err(panicked)?
}

/// Whether the node changes or writes anything for whoever may ask; `refusal` are the words where it does not.
pub(super) fn check_access(reader: &Reader, refusal: &'static str) -> Result<(), ReadRejected> {
    match reader.config.admin_api {
        AdminAccess::Full => check_replayed(reader),
        AdminAccess::ReadOnly => Err(ReadRejected::NotAllowed(refusal)),
    }
}

async fn read<B: HttpBody>(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: Request<B>,
) -> Result<PreparedDeletion, ReadRejected> {
    let (head, body) = request.into_parts();
    let (params, time, room) = params_of(reader, &head, body).await?;
    time.hold(async {
        params.check_plain()?;
        // Not before: a body that comes slowly holds no read up.
        let read = reader.begin_read(asker).await?;
        let selections = params.required_selections(reader).await?;
        if selections.iter().any(|selection| selection.min_ms > selection.max_ms) {
            return Err(bad("end is before start: nothing would be deleted"));
        }
        Ok(PreparedDeletion { read, params, selections: selections.into(), _room: room })
    })
    .await
}

impl PreparedDeletion {
    async fn run(self, reader: &Reader) -> Result<(), ReadRejected> {
        // Each finds its series in the memory for reads, and writes to the logs: more at once are no faster.
        let _turn = reader.node.deletions.take().ok_or(ReadRejected::DeletionGoesOn)?;
        let began = now();
        let wait_max = || DELETION_WAIT_MAX.saturating_sub(began.elapsed());
        let (router, lease) = (&reader.router, self.read.lease());
        let (deleted, ended) = deletion::delete(router, lease, &self.selections, wait_max).await;
        let ended = match ended {
            Ok(()) => self.delete_of_blocks(reader).await,
            Err(why) => Err(why),
        };
        self.tell(deleted, &ended, began.elapsed().as_millis() as u64);
        ended.map(drop).map_err(|why| ReadRejected::PartialDeletion(PartialDeletionError { deleted, why }))
    }

    /// After memory, so that a block that is cut from then on has nothing of it. Returns of how many blocks anything
    /// went.
    async fn delete_of_blocks(&self, reader: &Reader) -> Result<usize, DeletionFanoutError> {
        let ticket = self.read.lease().ticket();
        let blocks = reader.node.blocks.clone();
        if let Some(blocks) = &blocks {
            blocks.naming.note_deletion();
        }
        let before = move || blocks.iter().for_each(|blocks| blocks.naming.wait());
        reader.node.local_blocks.delete(ticket, &self.selections, before).await.map_err(|error| match error {
            FanoutError::Overloaded(overloaded) => overloaded.into(),
            FanoutError::Refused(error) => DeletionError::Read(error).into(),
        })
    }

    /// Once for each deletion: it may be asked who deleted what.
    fn tell(&self, deleted: Deleted, ended: &Result<usize, DeletionFanoutError>, took_ms: u64) {
        let Deleted { series, series_cut, samples } = deleted;
        let matchers = self.params.shown_matchers();
        let [start, end] = ["start", "end"].map(|name| self.params.shown(name));
        match ended {
            Ok(blocks) => tracing::info!(
                matchers,
                start,
                end,
                series,
                series_cut,
                samples,
                blocks,
                took_ms,
                "samples were deleted on demand"
            ),
            Err(why) => tracing::warn!(
                matchers, start, end, series, series_cut, samples, took_ms, %why,
                "samples were to be deleted on demand, and not all of them were"
            ),
        }
    }
}

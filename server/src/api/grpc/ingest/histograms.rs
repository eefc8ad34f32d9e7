//! The way of a batch's native histograms: their bytes are copied once, in one piece, and each goes to the shard that
//! owns its series as a place in it. It looks into none: that is for the shards, as with all others.

use std::sync::Arc;
use std::time::Duration;

use super::columns::{BatchFault, Columns, Row};
use super::messages::{ROOM_WAIT_MAX, make_room};
use super::routes::{RouteState, Routes};
use crate::api::ingest::Ingest;
use crate::api::ingest::remote_write::Rejection;
use crate::routing::{Reservation, Split};
use silverback_runtime::reactor_polled;
use silverback_storage::message::{MessageSpan, PartHistogram, Refusals, WriteBody};

/// Bytes that are copied between two looks at the reactor: far less than 200 µs.
const SLICE_BYTES: usize = 128 << 10;

/// Who waits for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Nobody: what finds none is refused.
    None,
    /// A stream, which is held up. Those that wait for each other's room end by it.
    Stream,
}

/// What a batch carries to the shards: its histograms beside what its stream has defined. A batch without any carries
/// the stream's own body. `room` gets what the whole batch takes, of a message of `message_bytes`: who has a part of it
/// and waits for the rest may wait for one who does the same.
pub(super) async fn body_with(
    columns: &Columns<'_>,
    of_stream: &Arc<WriteBody>,
    ingest: &Ingest,
    (room, message_bytes): (&mut Reservation, usize),
    patience: Patience,
) -> Result<Arc<WriteBody>, Rejection> {
    let histograms = columns.histogram_bytes();
    if histograms.is_empty() {
        return Ok(Arc::clone(of_stream));
    }
    let of_histograms = histograms.len() + columns.histograms() * size_of::<PartHistogram>();
    let in_memory_bytes = of_histograms + columns.floats_bytes();
    let bytes_max = ingest.bodies.budget().large_bytes_max();
    if message_bytes + in_memory_bytes > bytes_max {
        return Err(Rejection::TakesTooMuch { bytes_max });
    }
    let wait = match patience {
        Patience::None => Duration::ZERO,
        Patience::Stream => ROOM_WAIT_MAX,
    };
    make_room(room, in_memory_bytes, wait).await?;
    let mut scratch = Vec::with_capacity(histograms.len());
    for slice in histograms.chunks(SLICE_BYTES) {
        if !scratch.is_empty() {
            reactor_polled().await;
        }
        scratch.extend_from_slice(slice);
    }
    Ok(Arc::new(WriteBody { definitions: of_stream.definitions.clone(), scratch, ..WriteBody::default() }))
}

/// Deals a batch's native histograms out to the parts of the shards that own their series. Those of
/// [`body_with`]'s body lie in its scratch.
pub(super) fn deal_out(
    columns: &Columns<'_>,
    routes: &Routes,
    split: &mut Split<'_>,
    refused: &mut Refusals,
) -> Result<(), BatchFault> {
    let mut histogram = 0;
    columns.for_each_histogram(|stream_ref, place| {
        let undefined = || BatchFault::UndefinedRef { row: Row::Histogram(histogram), stream_ref };
        let route = routes.get(stream_ref).ok_or_else(undefined)?;
        match route.state {
            RouteState::Series => {
                let message = MessageSpan::of_scratch(place.start, place.len());
                split.histogram(PartHistogram { id: route.id, labels: route.labels, message });
            }
            RouteState::Refused(reason) => {
                refused.counts.add(reason, 1);
                refused.note_ref(stream_ref, reason, 1);
            }
            RouteState::Undefined => return Err(undefined()),
        }
        histogram += 1;
        Ok(())
    })
}

//! The way of a batch's native histograms: they stay in the message that they came in, and each goes to the shard that
//! owns its series as a place in it. It looks into none: that is for the shards, as with all others.

use super::columns::{BatchError, BatchRow, Columns};
use super::routes::{RouteState, Routes};
use crate::routing::Split;
use silverback_storage::message::{MessageSpan, PartHistogram, RejectedSamples};

/// Deals a batch's native histograms out to the parts of the shards that own their series, as places in
/// [`Columns::histogram_bytes`].
pub(super) fn deal_out(
    columns: &Columns<'_>,
    routes: &Routes,
    split: &mut Split<'_>,
    refused: &mut RejectedSamples,
) -> Result<(), BatchError> {
    let mut histogram = 0;
    columns.for_each_histogram(|stream_ref, place| {
        let undefined = || BatchError::UndefinedRef { row: BatchRow::Histogram(histogram), stream_ref };
        let route = routes.get(stream_ref).ok_or_else(undefined)?;
        match route.state {
            RouteState::Series => {
                let message = MessageSpan::of_batch(place.start, place.len());
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

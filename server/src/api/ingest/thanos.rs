//! A request of a Thanos router on its way: surveyed, decoded where it is, and sent to the shards as one of remote
//! write 1. It knows no transport.

use std::sync::Arc;

use bytes::Bytes;

use crate::api::ingest::Ingest;
use crate::api::ingest::remote_write::answer::WriteReport;
use crate::api::ingest::remote_write::{Decoding, SeriesIn, Survey, WriteRejected};
use crate::api::ingest::write::{count, decode, send};
use crate::routing::{Reservation, Split};
use silverback_runtime::slices::SLICE;
use silverback_runtime::{now, reactor_polled};
use silverback_storage::message::WriteBody;

/// Fields that are surveyed between two looks at the clock.
const SURVEY_STEP_FIELDS: usize = 256;

/// Stores a message, and returns what became of it once that is acknowledged. After a rejection parts of it may be
/// stored all the same: a retry of them is accepted. `reserved` has room for the message and gets what it needs
/// besides.
pub(crate) async fn write(
    ingest: &Ingest,
    message: Bytes,
    mut reserved: Reservation,
) -> Result<WriteReport, WriteRejected> {
    ingest.count(|counts| {
        counts.writes_thanos += 1;
        counts.write_bytes += message.len() as u64;
    });
    let series_in = survey(ingest, &message).await?;
    let (message_bytes, held_bytes) = (message.len(), reserved.bytes());
    // A message that was put together or decompressed here is nobody else's: its bytes stay where they are.
    let mut body = WriteBody { bytes: Vec::from(message).into(), ..WriteBody::default() };
    let mut split = Split::new(ingest.router.table(), &ingest.parts);
    let decoding = decode(
        ingest,
        || Decoding::start_thanos(series_in),
        &mut body,
        &mut split,
        |in_memory_bytes| reserved.grow_to(held_bytes + in_memory_bytes.saturating_sub(message_bytes)),
    );
    let decoding = decoding.await?;
    count(ingest, &decoding);
    send(ingest, &Arc::new(body), split, decoding.tally.into(), reserved.into()).await
}

async fn survey(ingest: &Ingest, message: &[u8]) -> Result<SeriesIn, WriteRejected> {
    let mut survey = Survey::new(message, &ingest.config.tenant);
    let mut began = now();
    loop {
        if let Some(series_in) = survey.look(SURVEY_STEP_FIELDS)? {
            return Ok(series_in);
        }
        if began.elapsed() >= SLICE {
            reactor_polled().await;
            began = now();
        }
    }
}

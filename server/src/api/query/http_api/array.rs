//! Rows as a JSON array that is made while it is sent. Knows where an array begins, ends and is cut off,
//! not what a row is.

use std::rc::Rc;

use http::StatusCode;

use super::json;
use super::params::Params;
use crate::api::query::Reader;
use crate::api::query::local_blocks::BlockBatch;
use crate::api::query::read_rejected::ReadAnswer;
use crate::api::query::stream::streamed;
use crate::api::query::union::RowUnion;
use crate::api::response::with_type;
use crate::routing::ReadInFlight;
use silverback_storage::message::Selection;

/// What all selections find, ascending, each once; `put` appends the present row. What the request's limit cuts off
/// is reported at the end.
pub(crate) async fn respond<B: BlockBatch>(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    params: &Params,
    selections: Vec<Selection>,
    wanted: B::Wanted,
    put: impl Fn(&mut Vec<u8>, &RowUnion<B>) + 'static,
) -> ReadAnswer {
    let limit = params.limit()?.map_or(usize::MAX, std::num::NonZeroUsize::get);
    let mut rows = RowUnion::open_all(reader, read.lease(), selections, wanted).await?;
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        json::put_begin(outgoing.made());
        outgoing.made().push(b'[');
        let (mut count, mut held) = (0, None);
        let mut warnings: &[&str] = &[];
        while let Some(slice) = rows.advance(held).await? {
            if count == limit {
                warnings = &[json::TRUNCATED];
                break;
            }
            if count > 0 {
                outgoing.made().push(b',');
            }
            put(outgoing.made(), &rows);
            held = outgoing.send_if_full(slice).await?;
            count += 1;
        }
        outgoing.made().push(b']');
        json::put_end(outgoing.made(), warnings);
        Ok(())
    });
    Ok(with_type(StatusCode::OK, json::CONTENT_TYPE, body))
}

//! `/api/v1/admin/tsdb/snapshot`: all series of the node as TSDB blocks, below the data directory. How they are read
//! and written is [`snapshot`](crate::api::query::snapshot)'s; here it is asked for, counted, and logged.
//!
//! One whose client goes away ends, and leaves nothing behind.

use std::rc::Rc;
use std::time::Instant;

use http::Request;
use serde_json::json;

use super::delete_series::check_access;
use super::params::{Params, bad};
use super::{json, params_of, refusal, whole};
use crate::api::http::request_body::HttpBody;
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::snapshot::{Snapshot, SnapshotScope, snapshot};
use crate::api::response::NodeResponse;
use crate::routing::Asker;
use silverback_model::printable::Quoted;
use silverback_runtime::now;

const SKIP_HEAD: &str = "skip_head";

/// Counts one that ends in silence.
struct Counting<'a> {
    reader: &'a Reader,
    began: Instant,
    has_ended: bool,
}

impl Counting<'_> {
    fn took_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let (took_us, has_ended) = (self.took_us(), self.has_ended);
        self.reader.count(|counts| {
            counts.snapshot_us += took_us;
            counts.snapshots_cancelled += u64::from(!has_ended);
        });
        if !has_ended {
            tracing::info!("a snapshot was given up: its client went away");
        }
    }
}

/// Writes what is asked for, and answers with its name once it is durable.
pub(super) async fn answer<B: HttpBody>(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: Request<B>,
) -> NodeResponse {
    let mut counting = Counting { reader, began: now(), has_ended: false };
    let taken = take(reader, asker, request).await;
    counting.has_ended = true;
    let took_ms = counting.took_us() / 1000;
    match taken {
        Ok(Snapshot { name, blocks, series, samples, bytes }) => {
            reader.count(|counts| {
                counts.snapshots += 1;
                counts.snapshot_bytes += bytes;
            });
            tracing::info!(name, blocks, series, samples, bytes, took_ms, "a snapshot was written on demand");
            whole(json::success(json!({ "name": name }), &[]))
        }
        Err(fault) => {
            reader.count(|counts| counts.snapshots_failed += 1);
            match &fault {
                ReadRejected::Writing(_) | ReadRejected::Shards(_) => {
                    tracing::warn!(%fault, took_ms, "a snapshot was to be written on demand, and was not");
                }
                fault => tracing::debug!(%fault, "a snapshot was refused"),
            }
            refusal(&fault)
        }
    }
}

async fn take<B: HttpBody>(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: Request<B>,
) -> Result<Snapshot, ReadRejected> {
    super::QueryEndpoint::Snapshot.check_method(request.method())?;
    check_access(reader, "this node writes no snapshots on demand: it was started without --admin-api=full")?;
    let (head, body) = request.into_parts();
    let (params, time, room) = params_of(reader, &head, body).await?;
    let asked = asked(&params)?;
    // Before it waits for a read's turn: another one may take it for long.
    let _turn = reader.node.snapshots.turn.take().ok_or(ReadRejected::SnapshotGoesOn)?;
    let read = time.hold(reader.begin_read(asker)).await?;
    drop(room);
    snapshot(reader, read, asked).await
}

/// As Go's `strconv.ParseBool` reads it.
fn asked(params: &Params) -> Result<SnapshotScope, ReadRejected> {
    match params.get(SKIP_HEAD).unwrap_or("false") {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(SnapshotScope::WithoutHead),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(SnapshotScope::Everything),
        other => Err(bad(format_args!("{SKIP_HEAD} is neither true nor false: {}", Quoted(other)))),
    }
}

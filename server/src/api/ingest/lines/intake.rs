//! The way of a request of lines on its acceptor: its body, its lines, the shards, and what they made of it.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request};

use super::decode::{Decoded, LineFormat, decode};
use super::report::LineReport;
use crate::api::http::gzip_body::{Arrived, read_body};
use crate::api::http::request_body::HttpBody;
use crate::api::ingest::Ingest;
use crate::api::ingest::known_metadata::KnownMetadata;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::remote_write::answer::WriteReport;
use crate::api::ingest::remote_write::negotiate::header_text;
use crate::api::ingest::write::{check_ready, send_defined};
use crate::api::query::http_api::params::Params;
use crate::routing::Split;
use silverback_runtime::{now, reactor_polled};
use silverback_storage::message::AcceptorCounts;

/// The parameters of a request's query.
pub(crate) async fn params<B>(request: &Request<B>) -> Result<Params, WriteRejected> {
    let mut params = Params::default();
    let query = request.uri().query().unwrap_or_default();
    // A query is no longer than a head, which takes no slice.
    let added = params.add(query.as_bytes(), &mut async || {}).await;
    added.map_err(|fault| WriteRejected::Parameter(fault.to_string()))?;
    Ok(params)
}

/// Refuses what isn't a write of lines by its head alone.
pub(crate) fn check_head(
    ingest: &Ingest,
    allowed: &[Method],
    method: &Method,
    headers: &HeaderMap,
) -> Result<(), WriteRejected> {
    if !allowed.contains(method) {
        return Err(WriteRejected::Method);
    }
    // Any other type may be lines: curl and scripts name the strangest.
    let content_type = header_text(headers, CONTENT_TYPE)?;
    if content_type.to_ascii_lowercase().contains("protobuf") {
        return Err(WriteRejected::NotText(content_type.to_owned()));
    }
    check_ready(ingest)
}

/// Stores a request's lines, and returns what became of them once that is acknowledged. Samples without a time get
/// `now_ms`; `count` counts the request.
pub(crate) async fn store<B: HttpBody>(
    ingest: &Ingest,
    request: Request<B>,
    format: &impl LineFormat,
    now_ms: i64,
    count: impl FnOnce(&mut AcceptorCounts),
) -> Result<LineReport, WriteRejected> {
    let (head, body) = request.into_parts();
    let Arrived { bytes, mut reserved, held_bytes } = read_body(ingest, &head.headers, body).await?;
    ingest.count(count);
    let mut split = Split::new(ingest.router.table(), &ingest.parts);
    let between_slices = async |split: &Split<'_>, label_bytes: usize| {
        // A buffer that grows may hold twice what is in it.
        reserved.grow_to(held_bytes + 2 * label_bytes + split.grown_bytes())?;
        reactor_polled().await;
        Ok(())
    };
    let known = &ingest.known_metadata;
    known.borrow_mut().forget_old(now());
    let decoded = decode(&bytes, format, now_ms, &ingest.hasher, &mut split, known, between_slices).await?;
    let Decoded { labels, samples: _, refused, first, exemplars_refused, metadata_refused, beside, strings } =
        decoded;
    ingest.count(|counts| {
        counts.refused.merge(&refused.counts);
        counts.exemplars_refused.merge(&exemplars_refused);
        counts.metadata_refused.merge(&metadata_refused);
        counts.strings_ignored += strings;
    });
    let report =
        WriteReport { refused: refused.counts, examples: refused.examples, ..WriteReport::default() };
    let sent = send_defined(ingest, labels, beside, split, report, reserved.into()).await;
    let report = sent.inspect_err(|_| *known.borrow_mut() = KnownMetadata::default())?;
    Ok(LineReport::new(report, first, strings))
}

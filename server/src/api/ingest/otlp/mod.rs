//! OpenTelemetry's protocol for metrics: requests over gRPC and HTTP become series and samples as
//! Prometheus' own receiver names them, and go the way of every write.
//!
//! ```text
//! http (protobuf, JSON, gzip) ┐
//!                             ├→ translate (walk, names, labels) → split → the shards … → answer
//! grpc (protobuf)             ┘
//! ```
mod answer;
mod attributes;
mod http;
mod ids;
mod labels;
mod naming;
mod rejected;
mod samples;
mod target;
mod translate;

use crate::api::ingest::Ingest;
use crate::api::ingest::known_metadata::KnownMetadata;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::remote_write::answer::WriteReport;
use crate::api::ingest::write::send_defined;
use crate::routing::{Reservation, Split};
use silverback_runtime::{now, reactor_polled};

pub use answer::OtlpOutcome;
pub use http::answer as answer_http;
pub use rejected::status_of;
pub use translate::{Modes, NO_POINT, Translation, translate};

/// Stores a request, and returns what became of it once that is acknowledged. `reserved` holds
/// `held_bytes` for the request's own bytes and gets what it needs besides.
pub async fn write(
    ingest: &Ingest,
    bytes: &[u8],
    mut reserved: Reservation,
    held_bytes: usize,
) -> Result<OtlpOutcome, WriteRejected> {
    ingest.count(|counts| counts.writes_otlp += 1);
    let mut split = Split::new(ingest.router.table(), &ingest.parts);
    let between_slices = async |split: &Split<'_>, label_bytes: usize| {
        // A buffer that grows may hold twice what is in it.
        reserved.grow_to(held_bytes + 2 * label_bytes + split.grown_bytes())?;
        reactor_polled().await;
        Ok(())
    };
    let known = &ingest.known_metadata;
    known.borrow_mut().forget_old(now());
    let modes = Modes { delta: ingest.config.otlp_delta, histograms: ingest.config.otlp_histograms };
    let translation = translate(bytes, modes, &ingest.hasher, &mut split, known, between_slices).await?;
    ingest.count(|counts| {
        counts.refused.merge(&translation.refused.counts);
        counts.exemplars_refused.merge(&translation.exemplars_refused);
        counts.metadata_refused.merge(&translation.metadata_refused);
    });
    let Translation { labels, points, refused, beside, .. } = translation;
    let report = WriteReport::default();
    let sent = send_defined(ingest, labels, beside, split, report, reserved.into()).await;
    let report = sent.inspect_err(|_| *known.borrow_mut() = KnownMetadata::default())?;
    Ok(OtlpOutcome::new(points, refused, report))
}

//! Which path is answered by what, as on the node: the write endpoint, readiness, metrics.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use hyper::body::Body;
use silverback::api::http::request_body::{BodyError, read_untimed};
use silverback::api::ingest::remote_write::answer::{WriteReport, WriteResponse};
use silverback::api::ingest::remote_write::negotiate::negotiate;
use silverback::api::ingest::remote_write::{Version, WriteRejected};
use silverback::api::ingest::write_endpoint::respond;
use silverback::api::response::{NodeResponse, method_not_allowed, text, with_type};
use silverback_host::metrics::{self, Family, MetricKind};
use silverback_model::RefusedReason;
use silverback_storage::message::ShardStats;

use super::Contender;

impl Contender {
    /// Answers any request.
    pub async fn answer<B>(&self, request: Request<B>) -> NodeResponse
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        match (request.method(), request.uri().path()) {
            (_, "/api/v1/write" | "/api/v1/receive" | "/api/v1/push") => self.answer_write(request).await,
            (&Method::GET, "/metrics") => {
                with_type(StatusCode::OK, metrics::CONTENT_TYPE, metrics::render(&self.families()))
            }
            (&Method::GET | &Method::HEAD, "/-/ready") => self.ready(),
            (_, "/metrics" | "/-/ready") => method_not_allowed("GET"),
            (_, path) => text(StatusCode::NOT_FOUND, format!("no such endpoint: {path}\n")),
        }
    }

    async fn answer_write<B>(&self, request: Request<B>) -> NodeResponse
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let version = match negotiate(request.method(), request.headers()) {
            Ok(version) => version,
            Err(rejection) => return respond(WriteResponse::to_rejection(None, &rejection)),
        };
        respond(match self.take_in(version, request).await {
            Ok(report) => WriteResponse::to_report(version, &report),
            Err(rejection) => WriteResponse::to_rejection(Some(version), &rejection),
        })
    }

    async fn take_in<B>(&self, version: Version, request: Request<B>) -> Result<WriteReport, WriteRejected>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let (head, body) = request.into_parts();
        let limit = self.config.request_timeout;
        let reading = read_untimed(&head.headers, body, self.config.max_body_bytes);
        let body = tokio::time::timeout(limit, reading).await.map_err(|_| BodyError::TimedOut(limit))??;
        let writes = match version {
            Version::V1 => &self.counts.writes_v1,
            Version::V2 => &self.counts.writes_v2,
        };
        writes.fetch_add(1, Ordering::Relaxed);
        self.counts.write_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        self.write(version, &body).await
    }

    fn ready(&self) -> NodeResponse {
        match self.ending.load(Ordering::Relaxed) {
            false => text(StatusCode::OK, "the contender is ready\n"),
            true => text(StatusCode::SERVICE_UNAVAILABLE, "not ready: the contender is stopping\n"),
        }
    }

    /// Under the node's own names, so that both are measured alike.
    fn families(&self) -> Vec<Family> {
        let stripes: Vec<ShardStats> = self.stripes.stats().collect();
        let sum = |of: fn(&ShardStats) -> u64| stripes.iter().map(of).sum::<u64>() as f64;
        let counter = |name, help, value| Family::single(name, MetricKind::Counter, help, value);
        let mut families = vec![
            counter("silverback_samples_total", "Samples stored.", sum(|s| s.samples)),
            counter("silverback_series_created_total", "Series made.", sum(|s| s.series_created)),
            Family::single("silverback_series", MetricKind::Gauge, "Series held.", sum(|s| s.series as u64)),
            counter(
                "silverback_write_bytes_total",
                "Bytes of write requests as they arrived.",
                self.counts.write_bytes.load(Ordering::Relaxed) as f64,
            ),
            self.write_requests(),
            self.refused_samples(&stripes),
        ];
        families.extend(metrics::process_families(Path::new(metrics::PROC)));
        families
    }

    fn write_requests(&self) -> Family {
        let help = "Write requests whose body arrived, by protocol.";
        let mut family = Family::new("silverback_write_requests_total", MetricKind::Counter, help);
        for (protocol, writes) in
            [("remote_write_1", &self.counts.writes_v1), ("remote_write_2", &self.counts.writes_v2)]
        {
            family.push([("protocol", protocol.to_owned())], writes.load(Ordering::Relaxed) as f64);
        }
        family
    }

    fn refused_samples(&self, stripes: &[ShardStats]) -> Family {
        let help = "Samples that were not stored, by reason.";
        let mut family = Family::new("silverback_samples_refused_total", MetricKind::Counter, help);
        let mut refused = *self.counts.refused.lock().unwrap_or_else(PoisonError::into_inner);
        stripes.iter().for_each(|stripe| refused.merge(&stripe.refused));
        for reason in RefusedReason::ALL {
            family.push([("reason", reason.as_str().to_owned())], refused.get(reason) as f64);
        }
        family
    }
}

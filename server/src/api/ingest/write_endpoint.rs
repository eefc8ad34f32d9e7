//! The remote write endpoint: a request in, an exact answer out, both counted.

use http::{HeaderMap, Request, Response};

use crate::api::http::request_body::{HttpBody, read_reserving};
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use crate::api::ingest::remote_write::answer::{WriteReport, WriteResponse};
use crate::api::ingest::remote_write::negotiate::{asked_version, negotiate};
use crate::api::ingest::remote_write::{Version, WriteRejected};
use crate::api::ingest::write::{check_ready, write};
use crate::api::response::{NodeResponse, close};

/// Answers one remote write request.
pub fn answer<B: HttpBody>(caller: &Caller, request: Request<B>) -> impl Future<Output = NodeResponse> {
    async move {
        let version = match negotiate(request.method(), request.headers()) {
            Ok(version) => version,
            Err(rejection) => {
                let version = asked_version(request.headers());
                return refuse(caller, WriteResponse::to_rejection(version, &rejection), &rejection);
            }
        };
        let (head, body) = request.into_parts();
        match take_in(caller, version, &head.headers, body).await {
            Ok(report) => {
                caller.note_refused(&report.examples);
                respond(WriteResponse::to_report(version, &report))
            }
            Err(rejection) => {
                refuse(caller, WriteResponse::to_rejection(Some(version), &rejection), &rejection)
            }
        }
    }
}

fn take_in<B: HttpBody>(
    ingest: &Ingest,
    version: Version,
    headers: &HeaderMap,
    body: B,
) -> impl Future<Output = Result<WriteReport, WriteRejected>> {
    async move {
        check_ready(ingest)?;
        let config = &ingest.config;
        let mut reserved = ingest.bodies.begin();
        let (bytes_max, limit) = (config.max_body_bytes, config.request_timeout);
        let body = read_reserving(headers, body, bytes_max, limit, &mut reserved).await?;
        ingest.count(|counts| {
            counts.write_bytes += body.len() as u64;
            match version {
                Version::V1 => counts.writes_v1 += 1,
                Version::V2 => counts.writes_v2 += 1,
            }
        });
        write(ingest, version, &body, reserved).await
    }
}

/// Notes a request that was refused as a whole, and answers its sender.
pub(crate) fn refuse(caller: &Caller, answer: WriteResponse, rejection: &WriteRejected) -> NodeResponse {
    caller.note_rejection(rejection);
    let mut response = respond(answer);
    if rejection.leaves_body_unread() {
        close(&mut response);
    }
    response
}

/// An answer as HTTP carries it.
pub fn respond(answer: WriteResponse) -> NodeResponse {
    let WriteResponse { status, headers, mut text } = answer;
    if !text.is_empty() {
        text.push('\n');
    }
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

//! The remote write endpoint: a request in, an exact answer out, both counted.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body::Body;

use crate::api::caller::Caller;
use crate::api::core::Core;
use crate::api::endpoints::NodeResponse;
use crate::api::remote_write::answer::{Answer, WriteReport};
use crate::api::remote_write::negotiate::negotiate;
use crate::api::remote_write::{Rejection, Version};
use crate::api::request_body::read_reserving;
use crate::api::write::{check_ready, write};

/// Answers one remote write request.
pub async fn answer<B>(caller: &Caller, request: Request<B>) -> NodeResponse
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let version = match negotiate(request.method(), request.headers()) {
        Ok(version) => version,
        Err(rejection) => return refuse(caller, Answer::to_rejection(None, &rejection), &rejection),
    };
    match take_in(caller, version, request).await {
        Ok(report) => {
            caller.note_refused(&report.examples);
            respond(Answer::to_report(version, &report))
        }
        Err(rejection) => refuse(caller, Answer::to_rejection(Some(version), &rejection), &rejection),
    }
}

async fn take_in<B>(core: &Core, version: Version, request: Request<B>) -> Result<WriteReport, Rejection>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    check_ready(core)?;
    let (head, body) = request.into_parts();
    let config = &core.config;
    let mut reserved = core.bodies.begin();
    let (bytes_max, limit) = (config.max_body_bytes, config.request_timeout);
    let body = read_reserving(&head.headers, body, bytes_max, limit, &mut reserved).await?;
    core.count(|counts| {
        counts.write_bytes += body.len() as u64;
        match version {
            Version::V1 => counts.writes_v1 += 1,
            Version::V2 => counts.writes_v2 += 1,
        }
    });
    write(core, version, &body, reserved).await
}

/// Notes a request that was refused as a whole, and tells its sender so.
pub(crate) fn refuse(caller: &Caller, answer: Answer, rejection: &Rejection) -> NodeResponse {
    caller.note_rejection(rejection);
    let mut response = respond(answer);
    if rejection.leaves_body_unread() {
        close(&mut response);
    }
    response
}

/// An answer as HTTP carries it.
pub fn respond(answer: Answer) -> NodeResponse {
    let Answer { status, headers, mut text } = answer;
    if !text.is_empty() {
        text.push('\n');
    }
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Has the connection closed behind a response.
pub(crate) fn close(response: &mut NodeResponse) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

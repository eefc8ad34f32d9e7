//! What goes back: a response of this node, whatever the protocol, and at which pace it must be taken.
//!
//! Knows statuses, types and bodies. Doesn't know what was asked.
pub mod body;
pub mod cause;
pub(crate) mod reader_pace;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body;

use crate::api::response::body::ResponseBody;
use crate::api::response::cause::Cause;

/// A response of this node.
pub type NodeResponse = Response<ResponseBody>;

/// A plain text answer.
pub fn text(status: StatusCode, text: impl Into<ResponseBody>) -> NodeResponse {
    with_type(status, "text/plain; charset=utf-8", text)
}

/// An answer of a content type.
pub fn with_type(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<ResponseBody>,
) -> NodeResponse {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// 405, with the methods that are allowed.
pub fn method_not_allowed(allowed: &'static str) -> NodeResponse {
    let mut response = text(Cause::Method.http(), format!("only {allowed} is allowed here\n"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// What has been done, and there is nothing to say of it.
pub(crate) fn no_content() -> NodeResponse {
    let mut response = Response::new(String::new().into());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// What answers HEAD: the same head, which says how long the body would be, and none.
pub(crate) fn without_body(mut response: NodeResponse) -> NodeResponse {
    if let Some(bytes) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| bytes.into());
    }
    response.map(|_unsent| ResponseBody::Whole(Bytes::new()))
}

/// Has the connection closed after a response.
pub(crate) fn close(response: &mut NodeResponse) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

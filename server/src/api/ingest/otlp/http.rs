//! OTLP over HTTP: a request in protobuf or in JSON, and the answer in the same.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use prost::Message;
use serde::Serialize;
use silverback_proto::otlp::collector::metrics::v1::ExportMetricsServiceRequest;

use super::answer::OtlpOutcome;
use super::ids;
use super::rejected::OtlpRejected;
use super::write;
use crate::api::http::gzip_body::{Arrived, read_body};
use crate::api::http::request_body::HttpBody;
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::remote_write::negotiate::header_text;
use crate::api::ingest::write::check_ready;
use crate::api::response::close;
use crate::api::response::{NodeResponse, with_type};
use crate::routing::Reservation;
use silverback_model::limits::{OTLP_JSON_BYTES_MAX, OTLP_JSON_DEPTH_MAX, OTLP_JSON_EXPANSION};

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Result<Self, OtlpRejected> {
        let content_type = header_text(headers, CONTENT_TYPE)?;
        match content_type.split(';').next().unwrap_or_default().trim() {
            protobuf if protobuf.eq_ignore_ascii_case("application/x-protobuf") => Ok(Self::Protobuf),
            json if json.eq_ignore_ascii_case("application/json") => Ok(Self::Json),
            _other => Err(OtlpRejected::ContentType(content_type.to_owned())),
        }
    }

    fn answer(self, status: StatusCode, message: &(impl Message + Serialize)) -> NodeResponse {
        match self {
            Self::Protobuf => {
                with_type(status, "application/x-protobuf", Bytes::from(message.encode_to_vec()))
            }
            Self::Json => {
                let json = serde_json::to_vec(message).expect("an answer is made of texts and numbers");
                with_type(status, "application/json", Bytes::from(json))
            }
        }
    }
}

/// `google.rpc.Status`, which HTTP carries in the body.
#[derive(Clone, PartialEq, Message, Serialize)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// Answers one request.
pub async fn answer<B: HttpBody>(caller: &Caller, request: Request<B>) -> NodeResponse {
    // A sender of another encoding gets the refusal in the usual one.
    let encoding = Encoding::of(request.headers());
    match take_in(caller, request).await {
        Ok((encoding, outcome)) => {
            caller.note_refused(outcome.examples());
            encoding.answer(StatusCode::OK, &outcome.response())
        }
        Err(fault) => refuse(caller, encoding.unwrap_or(Encoding::Protobuf), &fault),
    }
}

async fn take_in<B: HttpBody>(
    ingest: &Ingest,
    request: Request<B>,
) -> Result<(Encoding, OtlpOutcome), OtlpRejected> {
    if request.method() != Method::POST {
        return Err(OtlpRejected::Method);
    }
    let encoding = Encoding::of(request.headers())?;
    check_ready(ingest)?;
    let (head, body) = request.into_parts();
    let Arrived { mut bytes, mut reserved, mut held_bytes } = read_body(ingest, &head.headers, body).await?;
    if encoding == Encoding::Json {
        bytes = json_to_protobuf(&bytes, &mut reserved, held_bytes)?;
        held_bytes += bytes.len();
    }
    Ok((encoding, write(ingest, &bytes, reserved, held_bytes).await?))
}

/// The same request in protobuf: one way leads on from here.
fn json_to_protobuf(
    json: &[u8],
    reserved: &mut Reservation,
    held_bytes: usize,
) -> Result<Bytes, OtlpRejected> {
    if json.len() > OTLP_JSON_BYTES_MAX {
        return Err(OtlpRejected::JsonTooLarge);
    }
    // Before room is made for what it might come to: that advice would be wrong.
    if depth_of(json) > OTLP_JSON_DEPTH_MAX {
        return Err(OtlpRejected::JsonTooDeep);
    }
    let objects_bytes = json.len() * OTLP_JSON_EXPANSION;
    reserved.grow_to(held_bytes + objects_bytes).map_err(WriteRejected::from)?;
    let mut request: ExportMetricsServiceRequest =
        serde_json::from_slice(json).map_err(|error| OtlpRejected::Json(error.to_string()))?;
    ids::read_as_hex(&mut request);
    Ok(request.encode_to_vec().into())
}

/// How deep objects and lists may be nested.
fn depth_of(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json {
        match (byte, is_text) {
            (_, true) if is_escaped => is_escaped = false,
            (b'\\', true) => is_escaped = true,
            (b'"', _) => is_text = !is_text,
            (b'{' | b'[', false) => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (b'}' | b']', false) => depth = depth.saturating_sub(1),
            (_, _) => {}
        }
    }
    deepest
}

fn refuse(caller: &Caller, encoding: Encoding, fault: &OtlpRejected) -> NodeResponse {
    match fault {
        OtlpRejected::Write(rejection) => caller.note_rejection(rejection),
        fault => {
            caller.count(|counts| counts.writes_malformed += 1);
            caller.note_request(fault.reason(), &fault.to_string());
        }
    }
    let status = fault.grpc_status();
    let message = RpcStatus { code: status.code() as i32, message: status.message().to_owned() };
    let mut response = encoding.answer(fault.cause().http(), &message);
    let headers = response.headers_mut();
    if *fault == OtlpRejected::Method {
        headers.insert(ALLOW, HeaderValue::from_static("POST"));
    }
    if let Some(after) = fault.retry_after() {
        headers.insert(RETRY_AFTER, after.as_secs().into());
    }
    if matches!(fault, OtlpRejected::Write(rejection) if rejection.leaves_body_unread()) {
        close(&mut response);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_and_json_are_spoken() {
        let check = |content_type| {
            let value = HeaderValue::from_static(content_type);
            Encoding::of(&HeaderMap::from_iter([(CONTENT_TYPE, value)])).ok()
        };
        assert_eq!(check("application/x-protobuf"), Some(Encoding::Protobuf));
        assert_eq!(check("Application/JSON; charset=utf-8"), Some(Encoding::Json));
        assert_eq!(check("text/plain"), None);
    }

    #[test]
    fn depth_is_counted_outside_of_texts() {
        let check = |json: &str, depth| assert_eq!(depth_of(json.as_bytes()), depth, "{json}");
        check("7", 0);
        check(r#"{"a":[{}],"b":{}}"#, 3);
        check(r#"{"a[{":"\\\"[[[","b\\":"[{"}"#, 1);
        check("}}}[[", 2);
    }

    #[test]
    fn as_deep_as_is_allowed_is_as_deep_as_is_read() {
        let lists = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let read = |depth| serde_json::from_str::<serde_json::Value>(&lists(depth));
        assert!(read(OTLP_JSON_DEPTH_MAX).is_ok() && read(OTLP_JSON_DEPTH_MAX + 1).is_err());
    }

    #[test]
    fn a_refusal_is_a_status_in_both_encodings() {
        let status = RpcStatus { code: 3, message: "no".to_owned() };
        assert_eq!(status.encode_to_vec(), [8, 3, 18, 2, b'n', b'o']);
        assert_eq!(serde_json::to_string(&status).unwrap(), r#"{"code":3,"message":"no"}"#);
    }
}

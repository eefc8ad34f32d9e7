//! Remote read, Prometheus' protocol for samples by matchers: `POST /api/v1/read`.
//!
//! A client names the kinds of answers that it accepts, and the first one that is spoken here is
//! given: SAMPLES, one message, or STREAMED_XOR_CHUNKS, frames with the chunks as memory holds them.
//! Read hints are taken and ignored: they could only save work, and change no answer.
mod chunked;
mod query;
mod samples;
mod snappy_pieces;

use std::rc::Rc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Method, Request};
use silverback_model::printable::Printable;

use crate::api::http::request_body::{HttpBody, read_reserving};
use crate::api::query::Reader;
use crate::api::query::read_rejected::{ReadAnswer, ReadRejected};
use crate::api::query::time_limit::TimeLimit;
use crate::api::response::{NodeResponse, text};
use crate::routing::Asker;
pub use query::{AnswerKind, ReadQuery, ReadRequestError};
use silverback_model::limits::READ_REQUEST_BYTES_MAX;

/// Answers one remote read.
pub async fn answer<B: HttpBody>(reader: &Rc<Reader>, asker: &Asker, request: Request<B>) -> NodeResponse {
    reader.count(|counts| counts.reads += 1);
    read(reader, asker, request).await.unwrap_or_else(|fault| refuse(reader, &fault))
}

async fn read<B: HttpBody>(reader: &Rc<Reader>, asker: &Asker, request: Request<B>) -> ReadAnswer {
    if request.method() != Method::POST {
        return Err(ReadRejected::Method("POST"));
    }
    let (head, body) = request.into_parts();
    check_type(&head.headers)?;
    let bytes_max = READ_REQUEST_BYTES_MAX.min(reader.config.max_body_bytes);
    let time = TimeLimit::begin(reader);
    let mut room = reader.read_bytes.begin();
    let body = read_reserving(&head.headers, body, bytes_max, time.whole(), &mut room).await?;
    time.hold(async {
        // Not before: a body that comes slowly holds no other read up.
        let read = reader.begin_read(asker).await?;
        let query = query::decode(reader, &body).await?;
        match query.answer {
            AnswerKind::Samples => samples::respond(reader, read, query.selections, room).await,
            AnswerKind::Chunks => chunked::respond(reader, read, query.selections).await,
        }
    })
    .await
}

/// Refuses, before anything is decompressed, what another protocol's client sent. Without these
/// headers a body is taken for what it should be, as in Prometheus.
fn check_type(headers: &HeaderMap) -> Result<(), ReadRejected> {
    let content_type = single(headers, &CONTENT_TYPE)?;
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !(media_type.is_empty() || media_type.eq_ignore_ascii_case("application/x-protobuf")) {
        let words = format!("content type {content_type:?}: only application/x-protobuf is read");
        return Err(ReadRejected::MediaType(words));
    }
    let encoding = single(headers, &CONTENT_ENCODING)?;
    if !(encoding.is_empty() || encoding.eq_ignore_ascii_case("snappy")) {
        return Err(ReadRejected::MediaType(format!("content encoding {encoding:?}: only snappy is read")));
    }
    Ok(())
}

/// A header's text; empty where it isn't there.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, ReadRejected> {
    let mut values = headers.get_all(name).iter().map(|value| value.to_str());
    match (values.next(), values.next()) {
        (None, _) => Ok(""),
        (Some(Ok(text)), None) => Ok(text.trim()),
        (Some(Ok(_) | Err(_)), _) => {
            Err(ReadRejected::BadRequest(format!("header {name} is not one plain text")))
        }
    }
}

fn refuse(reader: &Reader, fault: &ReadRejected) -> NodeResponse {
    reader.count(|counts| counts.reads_failed += 1);
    tracing::debug!(%fault, "a remote read was refused");
    let mut response = text(fault.cause().http(), format!("{}\n", Printable(&fault.to_string())));
    fault.tell(response.headers_mut());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content_type: &str, encoding: &str, expect_words: Option<&str>) {
        let headers = [(CONTENT_TYPE, content_type), (CONTENT_ENCODING, encoding)];
        let present = headers.into_iter().filter(|(_, value)| !value.is_empty());
        let headers = present.map(|(name, value)| (name, value.parse().unwrap())).collect();
        let refused = check_type(&headers).err().map(|fault| fault.to_string());
        match expect_words {
            None => assert_eq!(refused, None),
            Some(words) => assert!(refused.is_some_and(|r| r.contains(words)), "{content_type} {encoding}"),
        }
    }

    #[test]
    fn only_protobuf_in_snappy_is_read() {
        check("", "", None);
        check("application/x-protobuf", "snappy", None);
        check("application/x-protobuf;proto=prometheus.ReadRequest", "Snappy", None);
        check("application/json", "snappy", Some("only application/x-protobuf"));
        check("application/x-protobuf", "gzip", Some("only snappy"));
    }
}

//! From a read request's body to what is selected, and in which form it is wanted.

use prost::Message;
use silverback_proto::prometheus::read_request::ResponseType;
use silverback_proto::prometheus::{LabelMatcher, ReadRequest};

use crate::api::ingest::remote_write::MalformedError;
use crate::api::ingest::remote_write::snappy::{self, SnappyError};
use crate::api::ingest::remote_write::wire::{self, Tag, WireType};
use crate::api::query::Reader;
use crate::api::query::matchers::{MatcherCompiler, op_of_number};
use crate::api::query::read_rejected::ReadRejected;
use silverback_model::UncompiledMatcher;
use silverback_model::limits::{READ_MATCHERS_MAX, READ_QUERIES_MAX, READ_REQUEST_BYTES_MAX};
use silverback_storage::message::{BodyBytes, Selection};

/// Why a body isn't a read request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadRequestError {
    /// It can't be decompressed.
    #[error(transparent)]
    Snappy(#[from] SnappyError),
    /// It isn't the message.
    #[error("the body is not a prometheus.ReadRequest: {0}")]
    Malformed(String),
    /// More queries than one request may have.
    #[error("the request has too many queries: at most {READ_QUERIES_MAX} are allowed")]
    TooManyQueries,
    /// More matchers than one request may have.
    #[error("the request has too many matchers: at most {READ_MATCHERS_MAX} are allowed")]
    TooManyMatchers,
    /// A matcher of a kind that doesn't exist.
    #[error("matcher of label {name:?}: there is no type {kind}")]
    MatcherType {
        /// The matcher's label.
        name: String,
        /// The number that came.
        kind: i32,
    },
    /// Only kinds of answers that aren't spoken here.
    #[error("none of the accepted response types is known here: SAMPLES and STREAMED_XOR_CHUNKS are")]
    NoAnswerKind,
}

impl From<ReadRequestError> for ReadRejected {
    fn from(error: ReadRequestError) -> Self {
        Self::BadRequest(error.to_string())
    }
}

/// The two kinds of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// All samples in one message.
    Samples,
    /// Chunks in frames.
    Chunks,
}

/// A read request.
#[derive(Debug, Clone)]
pub struct ReadQuery {
    /// The queries in their order.
    pub selections: Vec<Selection>,
    /// The kind of answer that is given.
    pub answer: AnswerKind,
}

/// Reads a compressed body.
pub(super) async fn decode(reader: &Reader, compressed: &[u8]) -> Result<ReadQuery, ReadRejected> {
    let slice = reader.slicer.begin().await;
    let request = decode_message(compressed)?;
    drop(slice);
    let answer = answer_kind(&request.accepted_response_types)?;
    let mut compiler = MatcherCompiler::new(reader);
    let mut selections = Vec::with_capacity(request.queries.len());
    for query in &request.queries {
        let mut matchers = Vec::with_capacity(query.matchers.len());
        for asked in &query.matchers {
            matchers.push(compiler.compile(matcher(asked)?).await?);
        }
        let (min_ms, max_ms) = (query.start_timestamp_ms, query.end_timestamp_ms);
        selections.push(Selection { matchers: matchers.into(), min_ms, max_ms });
    }
    Ok(ReadQuery { selections, answer })
}

fn decode_message(compressed: &[u8]) -> Result<ReadRequest, ReadRequestError> {
    let mut body = BodyBytes::default();
    snappy::decompress(compressed, READ_REQUEST_BYTES_MAX, &mut body)?;
    count_messages(&body)?;
    ReadRequest::decode(&*body).map_err(|e| ReadRequestError::Malformed(e.to_string()))
}

/// `ReadRequest.queries`
const QUERIES: Tag = Tag::new(1, WireType::Len);
/// `Query.matchers`
const MATCHERS: Tag = Tag::new(3, WireType::Len);

/// Counts queries and their matchers before anything is made of them: each takes two bytes at least,
/// and many times as much when it is decoded.
fn count_messages(body: &[u8]) -> Result<(), ReadRequestError> {
    let (mut queries, mut matchers) = (0, 0);
    let counted = for_each(wire::WireReader::new(body, 0), QUERIES, &mut |query| {
        queries += 1;
        for_each(query, MATCHERS, &mut |_| {
            matchers += 1;
            Ok(())
        })
    });
    counted.map_err(|error| ReadRequestError::Malformed(error.to_string()))?;
    if queries > READ_QUERIES_MAX {
        return Err(ReadRequestError::TooManyQueries);
    }
    if matchers > READ_MATCHERS_MAX {
        return Err(ReadRequestError::TooManyMatchers);
    }
    Ok(())
}

/// Calls `visit` for each field of a message that has this tag.
fn for_each<'a>(
    mut message: wire::WireReader<'a>,
    wanted: Tag,
    visit: &mut impl FnMut(wire::WireReader<'a>) -> Result<(), MalformedError>,
) -> Result<(), MalformedError> {
    while !message.is_empty() {
        let tag = message.tag()?;
        if tag == wanted { visit(message.message()?)? } else { message.skip(tag)? }
    }
    Ok(())
}

/// The first one that is known; samples where none is named.
fn answer_kind(accepted: &[i32]) -> Result<AnswerKind, ReadRequestError> {
    if accepted.is_empty() {
        return Ok(AnswerKind::Samples);
    }
    let known = accepted.iter().find_map(|kind| ResponseType::try_from(*kind).ok());
    match known.ok_or(ReadRequestError::NoAnswerKind)? {
        ResponseType::Samples => Ok(AnswerKind::Samples),
        ResponseType::StreamedXorChunks => Ok(AnswerKind::Chunks),
    }
}

fn matcher(asked: &LabelMatcher) -> Result<UncompiledMatcher, ReadRequestError> {
    let unknown = || ReadRequestError::MatcherType { name: asked.name.clone(), kind: asked.r#type };
    let op = op_of_number(asked.r#type).ok_or_else(unknown)?;
    Ok(UncompiledMatcher { name: asked.name.as_str().into(), op, value: asked.value.as_str().into() })
}

#[cfg(test)]
mod tests {
    use silverback_model::MatchOp;
    use silverback_proto::prometheus::Query as ProtoQuery;

    use super::*;

    fn compress(request: &ReadRequest) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
    }

    fn with_matchers(matchers: Vec<LabelMatcher>) -> ReadRequest {
        let query = ProtoQuery { matchers, ..ProtoQuery::default() };
        ReadRequest { queries: vec![query], ..ReadRequest::default() }
    }

    fn check_answer_kind(accepted: &[i32], expect: Result<AnswerKind, ReadRequestError>) {
        assert_eq!(answer_kind(accepted), expect, "{accepted:?}");
    }

    #[test]
    fn the_first_known_kind_of_answer_wins() {
        check_answer_kind(&[], Ok(AnswerKind::Samples));
        check_answer_kind(&[0], Ok(AnswerKind::Samples));
        check_answer_kind(&[1, 0], Ok(AnswerKind::Chunks));
        check_answer_kind(&[0, 1], Ok(AnswerKind::Samples));
        check_answer_kind(&[7, 1], Ok(AnswerKind::Chunks));
        check_answer_kind(&[7], Err(ReadRequestError::NoAnswerKind));
    }

    #[test]
    fn matchers_of_all_kinds_are_read() {
        let of = |kind| LabelMatcher { r#type: kind, name: "a".into(), value: "b|c".into() };
        let ops: Vec<_> = (0..4).map(|kind| matcher(&of(kind)).unwrap().op).collect();
        assert_eq!(ops, [MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex]);
        let unknown = ReadRequestError::MatcherType { name: "a".into(), kind: 4 };
        assert_eq!(matcher(&of(4)).unwrap_err(), unknown);
    }

    #[test]
    fn hostile_bodies_are_refused() {
        assert!(matches!(decode_message(b""), Err(ReadRequestError::Snappy(_))));
        assert!(matches!(decode_message(&[0xff; 30]), Err(ReadRequestError::Snappy(_))));
        let garbage = snap::raw::Encoder::new().compress_vec(&[0xff; 30]).unwrap();
        assert!(matches!(decode_message(&garbage), Err(ReadRequestError::Malformed(_))));
        let wide = with_matchers(vec![LabelMatcher::default(); READ_MATCHERS_MAX + 1]);
        assert_eq!(decode_message(&compress(&wide)), Err(ReadRequestError::TooManyMatchers));
        let queries = vec![ProtoQuery::default(); READ_QUERIES_MAX + 1];
        let many = ReadRequest { queries, ..ReadRequest::default() };
        assert_eq!(decode_message(&compress(&many)), Err(ReadRequestError::TooManyQueries));
    }
}

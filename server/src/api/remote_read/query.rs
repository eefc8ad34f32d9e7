//! From a read request's body to what is selected, and in which form it is wanted.

use prost::Message;
use silverback_proto::prometheus::label_matcher::Type;
use silverback_proto::prometheus::read_request::ResponseType;
use silverback_proto::prometheus::{LabelMatcher, ReadRequest};

use crate::api::remote_write::snappy::{self, SnappyError};
use crate::limits::{READ_MATCHERS_MAX, READ_QUERIES_MAX, READ_REQUEST_BYTES_MAX};
use crate::message::{BodyBytes, Selection};
use crate::model::{MatchOp, Matcher};
use crate::runtime::Slicer;

/// Why a body is no read request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It can't be decompressed.
    #[error(transparent)]
    Snappy(#[from] SnappyError),
    /// It isn't the message.
    #[error("the body is not a prometheus.ReadRequest: {0}")]
    Malformed(String),
    /// More queries than one request may have.
    #[error("the request has {0} queries, at most {READ_QUERIES_MAX} are allowed")]
    TooManyQueries(usize),
    /// More matchers than one request may have.
    #[error("the request has {0} matchers, at most {READ_MATCHERS_MAX} are allowed")]
    TooManyMatchers(usize),
    /// A matcher of a kind that doesn't exist.
    #[error("matcher of label {name:?}: there is no type {kind}")]
    MatcherType {
        /// The matcher's label.
        name: String,
        /// The number that came.
        kind: i32,
    },
    /// An expression that can't be compiled.
    #[error("{0}")]
    Expression(String),
    /// Only kinds of answers that aren't spoken here.
    #[error("none of the accepted response types is known here: SAMPLES and STREAMED_XOR_CHUNKS are")]
    NoAnswerKind,
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
pub struct Query {
    /// The queries in their order.
    pub selections: Vec<Selection>,
    /// The kind of answer that is given.
    pub answer: AnswerKind,
}

/// Reads a compressed body; expressions are compiled in slices.
pub async fn decode(compressed: &[u8], slicer: &Slicer) -> Result<Query, QueryError> {
    let request = decode_message(compressed)?;
    let answer = answer_kind(&request.accepted_response_types)?;
    let mut selections = Vec::with_capacity(request.queries.len());
    let mut slice = slicer.begin().await;
    for query in &request.queries {
        let mut matchers = Vec::with_capacity(query.matchers.len());
        for asked in &query.matchers {
            matchers.push(matcher(asked)?);
            slice.breathe().await;
        }
        let (min_ms, max_ms) = (query.start_timestamp_ms, query.end_timestamp_ms);
        selections.push(Selection { matchers: matchers.into(), min_ms, max_ms });
    }
    Ok(Query { selections, answer })
}

fn decode_message(compressed: &[u8]) -> Result<ReadRequest, QueryError> {
    let mut body = BodyBytes::default();
    snappy::decompress(compressed, READ_REQUEST_BYTES_MAX, &mut body)?;
    let request = ReadRequest::decode(&*body).map_err(|e| QueryError::Malformed(e.to_string()))?;
    let matchers = request.queries.iter().map(|query| query.matchers.len()).sum();
    if request.queries.len() > READ_QUERIES_MAX {
        return Err(QueryError::TooManyQueries(request.queries.len()));
    }
    if matchers > READ_MATCHERS_MAX {
        return Err(QueryError::TooManyMatchers(matchers));
    }
    Ok(request)
}

/// The first one that is known; samples where none is named.
fn answer_kind(accepted: &[i32]) -> Result<AnswerKind, QueryError> {
    if accepted.is_empty() {
        return Ok(AnswerKind::Samples);
    }
    let known = accepted.iter().find_map(|kind| ResponseType::try_from(*kind).ok());
    match known.ok_or(QueryError::NoAnswerKind)? {
        ResponseType::Samples => Ok(AnswerKind::Samples),
        ResponseType::StreamedXorChunks => Ok(AnswerKind::Chunks),
    }
}

fn matcher(asked: &LabelMatcher) -> Result<Matcher, QueryError> {
    let unknown = |_| QueryError::MatcherType { name: asked.name.clone(), kind: asked.r#type };
    let op = match Type::try_from(asked.r#type).map_err(unknown)? {
        Type::Eq => MatchOp::Equal,
        Type::Neq => MatchOp::NotEqual,
        Type::Re => MatchOp::Regex,
        Type::Nre => MatchOp::NotRegex,
    };
    Matcher::new(&asked.name, op, &asked.value).map_err(QueryError::Expression)
}

#[cfg(test)]
mod tests {
    use silverback_proto::prometheus::Query as ProtoQuery;

    use super::*;

    fn compress(request: &ReadRequest) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
    }

    fn with_matchers(matchers: Vec<LabelMatcher>) -> ReadRequest {
        let query = ProtoQuery { matchers, ..ProtoQuery::default() };
        ReadRequest { queries: vec![query], ..ReadRequest::default() }
    }

    fn check_answer_kind(accepted: &[i32], expect: Result<AnswerKind, QueryError>) {
        assert_eq!(answer_kind(accepted), expect, "{accepted:?}");
    }

    #[test]
    fn the_first_known_kind_of_answer_wins() {
        check_answer_kind(&[], Ok(AnswerKind::Samples));
        check_answer_kind(&[0], Ok(AnswerKind::Samples));
        check_answer_kind(&[1, 0], Ok(AnswerKind::Chunks));
        check_answer_kind(&[0, 1], Ok(AnswerKind::Samples));
        check_answer_kind(&[7, 1], Ok(AnswerKind::Chunks));
        check_answer_kind(&[7], Err(QueryError::NoAnswerKind));
    }

    #[test]
    fn matchers_of_all_kinds_are_read() {
        let of = |kind| LabelMatcher { r#type: kind, name: "a".into(), value: "b|c".into() };
        let ops: Vec<_> = (0..4).map(|kind| matcher(&of(kind)).unwrap().op).collect();
        assert_eq!(ops, [MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex]);
        let unknown = QueryError::MatcherType { name: "a".into(), kind: 4 };
        assert_eq!(matcher(&of(4)).unwrap_err(), unknown);
        let broken = LabelMatcher { r#type: 2, name: "a".into(), value: "(".into() };
        assert!(matches!(matcher(&broken), Err(QueryError::Expression(words)) if words.contains("\"(\"")));
    }

    #[test]
    fn hostile_bodies_are_refused() {
        assert!(matches!(decode_message(b""), Err(QueryError::Snappy(_))));
        assert!(matches!(decode_message(&[0xff; 30]), Err(QueryError::Snappy(_))));
        let garbage = snap::raw::Encoder::new().compress_vec(&[0xff; 30]).unwrap();
        assert!(matches!(decode_message(&garbage), Err(QueryError::Malformed(_))));
        let wide = with_matchers(vec![LabelMatcher::default(); READ_MATCHERS_MAX + 1]);
        assert_eq!(decode_message(&compress(&wide)), Err(QueryError::TooManyMatchers(READ_MATCHERS_MAX + 1)));
        let queries = vec![ProtoQuery::default(); READ_QUERIES_MAX + 1];
        let many = ReadRequest { queries, ..ReadRequest::default() };
        assert_eq!(decode_message(&compress(&many)), Err(QueryError::TooManyQueries(READ_QUERIES_MAX + 1)));
    }
}

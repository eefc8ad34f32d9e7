//! Prometheus' HTTP API, the part of it that a store answers: series, labels, label values, what the
//! index holds, the build, exemplars and metadata; active queries; what an operator deletes or has written; and
//! `/api/v1/export`, samples as JSON lines.
mod active_queries;
mod array;
mod build_info;
mod clean_tombstones;
mod delete_series;
mod exemplars;
mod export;
mod json;
mod label_name;
mod labels;
mod metadata;
mod node_status;
pub mod params;
pub(crate) mod promql;
mod sample_json;
mod series;
mod snapshot;
mod tsdb_status;

use std::rc::Rc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, StatusCode};

use crate::api::http::request_body::{BodyError, HttpBody, read_reserving};
use crate::api::query::Reader;
use crate::api::query::read_rejected::{ReadAnswer, ReadRejected};
use crate::api::query::time_limit::TimeLimit;
use crate::api::response::{NodeResponse, with_type};
use crate::routing::{Asker, Reservation};
use params::Params;
use promql::QueryCaller;
use silverback_model::limits::READ_REQUEST_BYTES_MAX;

/// One of the questions that this API answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryEndpoint {
    /// Which series match.
    Series,
    /// Which label names there are.
    LabelNames,
    /// Which values a label has, whose name is in the path.
    LabelValues,
    /// What makes the index large.
    TsdbStatus,
    /// Which build runs.
    BuildInfo,
    /// Since when the node runs, and on what.
    RuntimeInfo,
    /// What each of its options is.
    Flags,
    /// The same as a file.
    Config,
    /// The samples of series.
    Export,
    /// The exemplars of series.
    Exemplars,
    /// What is said of metrics.
    Metadata,
    /// An expression at one time.
    Query,
    /// An expression at many times.
    QueryRange,
    /// An expression, laid out.
    FormatQuery,
    /// An expression as a tree.
    ParseQuery,
    /// Which queries are active.
    ActiveQueries,
    /// No question: the query whose id is in the path is to end.
    CancelQuery,
    /// No question: samples are to go.
    DeleteSeries,
    /// None either: blocks are to be written again without what is deleted of them.
    CleanTombstones,
    /// Nor this: all series are to be written as blocks.
    Snapshot,
}

impl QueryEndpoint {
    /// Whether an expression is evaluated for it.
    pub(crate) fn is_evaluated(self) -> bool {
        matches!(self, Self::Query | Self::QueryRange)
    }

    /// GET allows HEAD, too.
    fn methods(self) -> &'static str {
        match self {
            Self::Series
            | Self::LabelNames
            | Self::Export
            | Self::Exemplars
            | Self::Query
            | Self::QueryRange
            | Self::FormatQuery
            | Self::ParseQuery => "GET, POST",
            Self::DeleteSeries | Self::CleanTombstones | Self::Snapshot => "POST, PUT",
            Self::CancelQuery => "DELETE",
            Self::LabelValues
            | Self::ActiveQueries
            | Self::TsdbStatus
            | Self::BuildInfo
            | Self::RuntimeInfo
            | Self::Flags
            | Self::Config
            | Self::Metadata => "GET",
        }
    }

    fn check_method(self, method: &Method) -> Result<(), ReadRejected> {
        let asked = if method == Method::HEAD { "GET" } else { method.as_str() };
        let is_allowed = self.methods().split(", ").any(|allowed| allowed == asked);
        if is_allowed { Ok(()) } else { Err(ReadRejected::Method(self.methods())) }
    }
}

/// Answers one question of a client, with what its path names.
pub(crate) async fn answer<B: HttpBody>(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    (question, named): (QueryEndpoint, &str),
    request: Request<B>,
) -> NodeResponse {
    if question == QueryEndpoint::DeleteSeries {
        return delete_series::answer(reader, asker, request).await;
    }
    if question == QueryEndpoint::CleanTombstones {
        return clean_tombstones::answer(reader, request.method()).await;
    }
    if matches!(question, QueryEndpoint::ActiveQueries | QueryEndpoint::CancelQuery) {
        return active_queries::answer(reader, (question, named), request.method()).await;
    }
    if question == QueryEndpoint::Snapshot {
        return snapshot::answer(reader, asker, request).await;
    }
    reader.count(|counts| counts.reads += 1);
    let answered = read(reader, asker, client, (question, named), request).await;
    answered.unwrap_or_else(|fault| refuse(reader, &fault))
}

async fn read<B: HttpBody>(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    (question, named): (QueryEndpoint, &str),
    request: Request<B>,
) -> ReadAnswer {
    question.check_method(request.method())?;
    let (head, body) = request.into_parts();
    if question == QueryEndpoint::BuildInfo {
        return Ok(build_info::respond());
    }
    let (params, time, room) = params_of(reader, &head, body).await?;
    if question.is_evaluated() {
        // It has a time of its own from here on.
        return promql::answer(reader, asker, client, question, &params, room).await;
    }
    time.hold(async {
        // Not before: a body that comes slowly holds no other read up.
        let read = reader.begin_read(asker).await?;
        match question {
            QueryEndpoint::Query | QueryEndpoint::QueryRange => unreachable!("they have turns of their own"),
            QueryEndpoint::FormatQuery => promql::format(reader, &params).await,
            QueryEndpoint::ParseQuery => promql::parse(reader, &params).await,
            QueryEndpoint::Series => series::respond(reader, read, &params).await,
            QueryEndpoint::LabelNames => labels::names(reader, read, &params).await,
            QueryEndpoint::LabelValues => labels::values(reader, read, named, &params).await,
            QueryEndpoint::TsdbStatus => tsdb_status::respond(reader, read, &params).await,
            QueryEndpoint::BuildInfo => Ok(build_info::respond()),
            QueryEndpoint::RuntimeInfo => Ok(node_status::runtime_info(reader)),
            QueryEndpoint::Flags => Ok(node_status::flags(reader)),
            QueryEndpoint::Config => Ok(node_status::config(reader)),
            QueryEndpoint::DeleteSeries
            | QueryEndpoint::CleanTombstones
            | QueryEndpoint::Snapshot
            | QueryEndpoint::ActiveQueries
            | QueryEndpoint::CancelQuery => {
                unreachable!("they are no reads")
            }
            QueryEndpoint::Export => export::respond(reader, read, &params).await,
            QueryEndpoint::Exemplars => exemplars::respond(reader, read, &params).await,
            QueryEndpoint::Metadata => metadata::respond(reader, read, &params).await,
        }
    })
    .await
}

/// Whether a form may be in the body.
fn takes_form(method: &Method) -> bool {
    method == Method::POST || method == Method::PUT
}

/// The parameters of a question, its time, which has begun, and what its form takes of memory.
pub(crate) async fn params_of<B: HttpBody>(
    reader: &Reader,
    head: &Parts,
    body: B,
) -> Result<(Params, TimeLimit, Reservation), ReadRejected> {
    let (time, mut room) = (TimeLimit::begin(reader), reader.read_bytes.begin());
    let form = read_form(reader, head, body, &mut room).await?;
    let params = time.hold(read_params(reader, head, &form)).await?;
    Ok((params, time, room))
}

/// The form in the body of a POST or PUT, within a request's time; empty for other methods.
async fn read_form<B: HttpBody>(
    reader: &Reader,
    head: &Parts,
    body: B,
    room: &mut Reservation,
) -> Result<Bytes, BodyError> {
    if !takes_form(&head.method) {
        return Ok(Bytes::new());
    }
    read_reserving(&head.headers, body, READ_REQUEST_BYTES_MAX, reader.config.request_timeout, room).await
}

/// Of the form and of the query.
async fn read_params(reader: &Reader, head: &Parts, form: &[u8]) -> Result<Params, ReadRejected> {
    let mut params = Params::default();
    let mut slice = reader.slicer.begin().await;
    for encoded in [form, head.uri.query().unwrap_or_default().as_bytes()] {
        params.add(encoded, &mut async || slice.yield_if_needed().await).await?;
    }
    Ok(params)
}

fn refuse(reader: &Reader, fault: &ReadRejected) -> NodeResponse {
    reader.count(|counts| counts.reads_failed += 1);
    if fault.is_for_room() {
        reader.reads.room_was_refused();
    }
    tracing::debug!(%fault, "a read was refused");
    refusal(fault)
}

fn refusal(fault: &ReadRejected) -> NodeResponse {
    let mut response = with_type(fault.cause().http(), json::CONTENT_TYPE, json::error(fault));
    fault.tell(response.headers_mut());
    response
}

/// Success, with an answer that is made already.
fn whole(json: Vec<u8>) -> NodeResponse {
    with_type(StatusCode::OK, json::CONTENT_TYPE, Bytes::from(json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_methods_are_refused() {
        let refused = |question: QueryEndpoint, method| question.check_method(&method).is_err();
        assert!(
            !refused(QueryEndpoint::Series, Method::POST) && !refused(QueryEndpoint::Series, Method::HEAD)
        );
        assert!(refused(QueryEndpoint::Series, Method::DELETE));
        assert!(refused(QueryEndpoint::LabelValues, Method::POST));
        assert!(
            !refused(QueryEndpoint::DeleteSeries, Method::POST)
                && !refused(QueryEndpoint::DeleteSeries, Method::PUT)
        );
        assert!(
            refused(QueryEndpoint::DeleteSeries, Method::GET)
                && refused(QueryEndpoint::DeleteSeries, Method::DELETE)
        );
    }
}

//! `/api/v1/status/active_queries`: the PromQL queries of all cores that are evaluated or wait, and the end of one of
//! them. Takes no read's turn: it is asked where these are taken.

use std::collections::HashMap;

use bytes::Bytes;
use futures::future::try_join_all;
use http::{Method, StatusCode};

use super::{QueryEndpoint, json, refusal};
use crate::api::query::Reader;
use crate::api::query::read_rejected::{ReadAnswer, ReadRejected};
use crate::api::query::time_limit::TimeLimit;
use crate::api::response::{NodeResponse, with_type};
use crate::routing::active::{CoreQueries, QueryState};
use crate::routing::fanout::FanoutError;
use crate::routing::{ActiveQuery, QueriesCall, QueriesReply, QueryId, ReplyFuture, Reservation};
use silverback_model::ShardId;
use silverback_model::limits::ACTIVE_QUERIES_SHOWN_MAX;
use silverback_model::printable::Quoted;

/// What a query takes of a list and its answer, where nothing of it is escaped.
const QUERY_BYTES: usize = 3 << 10;

/// Of a query that is listed. An answer of all may be some megabyte.
const WHOLE: Extent = Extent { queries: ACTIVE_QUERIES_SHOWN_MAX, text_bytes: 1 << 10 };
/// The same where there is no memory for more: no more than the head of a request takes, which has its room.
const BRIEF: Extent = Extent { queries: 2, text_bytes: 100 };

/// How much is listed.
#[derive(Debug, Clone, Copy)]
struct Extent {
    queries: usize,
    /// Of each expression.
    text_bytes: usize,
}

/// Lists them, or ends one.
pub(super) async fn answer(
    reader: &Reader,
    (question, named): (QueryEndpoint, &str),
    method: &Method,
) -> NodeResponse {
    let answered = match (question.check_method(method), question) {
        (Err(fault), _) => Err(fault),
        (Ok(()), QueryEndpoint::CancelQuery) => TimeLimit::begin(reader).hold(cancel(reader, named)).await,
        (Ok(()), _list) => TimeLimit::begin(reader).hold(list(reader)).await,
    };
    answered.unwrap_or_else(|fault| {
        tracing::debug!(%fault, "a question about active queries was refused");
        refusal(&fault)
    })
}

async fn list(reader: &Reader) -> ReadAnswer {
    let mut room = reader.read_bytes.begin();
    let body = match whole(reader, &mut room).await? {
        Some(body) => body,
        // The question is who holds all the memory.
        None => written(reader, gathered(reader, BRIEF).await?).await,
    };
    room.shrink(room.bytes().saturating_sub(body.len()));
    let response = with_type(StatusCode::OK, json::CONTENT_TYPE, Bytes::from(body));
    Ok(response.map(|body| body.holding(room.into())))
}

/// `None`: others have the memory that it takes.
async fn whole(reader: &Reader, room: &mut Reservation) -> Result<Option<Vec<u8>>, FanoutError> {
    let (_, count) = gathered(reader, Extent { queries: 0, ..WHOLE }).await?;
    if room.grow(count.min(WHOLE.queries) * QUERY_BYTES).is_err() {
        return Ok(None);
    }
    let body = written(reader, gathered(reader, WHOLE).await?).await;
    let fits = room.grow(body.len().saturating_sub(room.bytes())).is_ok();
    Ok(fits.then_some(body))
}

async fn gathered(reader: &Reader, extent: Extent) -> Result<(Vec<ActiveQuery>, usize), FanoutError> {
    let Extent { queries: max, text_bytes } = extent;
    let call = QueriesCall::List { max: max.div_ceil(reader.router.shards().count()), text_bytes };
    let ask = |shard| listed(reader.router.ask_about_queries(shard, call).map_err(FanoutError::from));
    Ok(together(try_join_all(reader.router.shards().map(ask)).await?, max))
}

async fn listed(asked: Result<ReplyFuture<QueriesCall>, FanoutError>) -> Result<CoreQueries, FanoutError> {
    match asked?.await {
        QueriesReply::Listed(queries) => Ok(queries),
        QueriesReply::Cancelled(_) => unreachable!("a list was asked for"),
    }
}

/// All cores' queries with what each core does of them, those that run first, and of these the oldest; and how many more
/// there are.
fn together(cores: Vec<CoreQueries>, max: usize) -> (Vec<ActiveQuery>, usize) {
    let (mut queries, mut omitted, mut parts) = (Vec::new(), 0, HashMap::<u64, (u64, u64)>::new());
    for core in cores {
        queries.extend(core.queries);
        omitted += core.omitted;
        for part in core.parts {
            let (samples_read, memory_bytes) = parts.entry(part.read).or_default();
            *samples_read += part.samples_read;
            *memory_bytes += part.memory_bytes;
        }
    }
    for query in &mut queries {
        let of_parts = query.read.and_then(|read| parts.get(&read));
        let (samples_read, memory_bytes) = of_parts.copied().unwrap_or_default();
        query.samples_read += samples_read;
        query.memory_bytes += memory_bytes;
    }
    queries.sort_by(|left, right| {
        let waits = |query: &ActiveQuery| query.state == QueryState::Queued;
        waits(left).cmp(&waits(right)).then(right.active_seconds.total_cmp(&left.active_seconds))
    });
    omitted += queries.len().saturating_sub(max);
    queries.truncate(max);
    (queries, omitted)
}

async fn written(reader: &Reader, (queries, omitted): (Vec<ActiveQuery>, usize)) -> Vec<u8> {
    let mut slice = reader.slicer.begin().await;
    let mut out = Vec::new();
    json::put_begin(&mut out);
    out.extend_from_slice(b"{\"queries\":[");
    for (at, query) in queries.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        json::put(&mut out, &query);
        slice.yield_if_needed().await;
    }
    out.extend_from_slice(format!("],\"omitted\":{omitted}}}").as_bytes());
    json::put_end(&mut out, &[]);
    out
}

async fn cancel(reader: &Reader, id: &str) -> ReadAnswer {
    let unknown = || {
        let shown = &id[..id.floor_char_boundary(BRIEF.text_bytes)];
        ReadRejected::NoSuchQuery(Quoted(shown).to_string())
    };
    let QueryId { core, number } = QueryId::parse(id).ok_or_else(unknown)?;
    let shard = reader.router.shards().find(|shard| *shard == ShardId(core)).ok_or_else(unknown)?;
    let asked =
        reader.router.ask_about_queries(shard, QueriesCall::Cancel(number)).map_err(FanoutError::from)?;
    let query = match asked.await {
        QueriesReply::Cancelled(query) => query.ok_or_else(unknown)?,
        QueriesReply::Listed(_) => unreachable!("it was to cancel"),
    };
    tracing::info!(
        id,
        query = query.query,
        peer = query.peer,
        user = query.user,
        active_ms = (query.active_seconds * 1000.0) as u64,
        "a query was canceled on demand"
    );
    Ok(super::whole(json::success(query, &[])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::active::PartProgress;

    fn query(core: u16, state: QueryState, active_seconds: f64, read: Option<u64>) -> ActiveQuery {
        let id = QueryId { core, number: 1 };
        ActiveQuery { id, state, active_seconds, read, ..ActiveQuery::example() }
    }

    #[test]
    fn what_all_cores_do_of_a_query_counts_for_it_and_those_that_run_come_first() {
        let part = |read, samples_read| PartProgress { read, samples_read, memory_bytes: 2 * samples_read };
        let first = CoreQueries {
            queries: vec![
                query(0, QueryState::Running, 1.0, Some(5)),
                query(0, QueryState::Queued, 9.0, None),
            ],
            omitted: 3,
            parts: vec![part(5, 1), part(6, 2)],
        };
        let second = CoreQueries {
            queries: vec![query(1, QueryState::Running, 2.0, Some(6))],
            omitted: 0,
            parts: vec![part(5, 4)],
        };
        let (queries, omitted) = together(vec![first, second], WHOLE.queries);
        let told: Vec<_> = queries.iter().map(|of| (of.id.core, of.samples_read, of.memory_bytes)).collect();
        assert_eq!((told, omitted), (vec![(1, 12, 104), (0, 15, 110), (0, 10, 100)], 3));
    }

    #[test]
    fn no_more_are_listed_than_an_answer_may_have() {
        let core = |core| CoreQueries {
            queries: vec![query(core, QueryState::Queued, 1.0, None); 600],
            ..CoreQueries::default()
        };
        let (queries, omitted) = together(vec![core(0), core(1)], 1000);
        assert_eq!((queries.len(), omitted), (1000, 200));
    }
}

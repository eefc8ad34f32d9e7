//! A query from its turn to its answer: the line that it waits in, the time that it has, and its evaluation.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{Either, select};

use super::super::QueryEndpoint;
use super::super::params::Params;
use super::active::{QueryCaller, Running};
use super::answer::respond;
use super::fetch::{self, Streams};
use super::pace::SlicePace;
use super::request::QueryParams;
use super::room::QueryRoom;
use super::stats::{QueryStatistics, Timings};
use super::{outside, parsed};
use crate::api::query::Reader;
use crate::api::query::read_rejected::{QueryQueueError, ReadAnswer, ReadRejected, check_replayed};
use crate::routing::{Asker, ReadGateRejected, ReadInFlight, ReadTurn, Reservation};
use silverback_promql::{Answer, Budget, Plan, QueryError};
use silverback_runtime::{Elapsed, now, timeout};

/// Answers an expression at one time, or at each step of a range. What it takes is added to the room that its request
/// has already: of a request's own bytes and its query's, either all fits or none ever will.
pub(crate) async fn answer(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    question: QueryEndpoint,
    params: &Params,
    room: Reservation,
) -> ReadAnswer {
    let asked = match question {
        QueryEndpoint::QueryRange => QueryParams::range(params),
        _at_one_time => QueryParams::instant(params, reader.clock.now_ms()),
    };
    Ok(respond(reader, evaluated(reader, asker, client, asked, room).await?))
}

/// What an expression gives. It holds its read's turn and its memory until it is sent.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) read: ReadInFlight,
    pub(crate) answer: Answer,
    pub(crate) asked: QueryParams,
    pub(crate) stats: QueryStatistics,
    pub(crate) room: QueryRoom,
}

/// Evaluates what is asked, if it can be; all queries, whoever asks them, go this way.
pub(crate) async fn evaluated(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    asked: Result<QueryParams, ReadRejected>,
    room: Reservation,
) -> Result<Evaluated, ReadRejected> {
    let evaluated = match asked {
        Ok(asked) => tracked(reader, asker, client, asked, room).await,
        Err(fault) => Err(fault),
    };
    count(reader, evaluated.as_ref().err());
    evaluated
}

/// Keeps the query among the active ones, and gives it up where it is cancelled: dropped, it stops on all cores, as one
/// whose client has gone.
async fn tracked(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    asked: QueryParams,
    room: Reservation,
) -> Result<Evaluated, ReadRejected> {
    check_replayed(reader)?;
    let node_limit = reader.config.query_timeout;
    let limit = asked.timeout.map_or(node_limit, |asked| asked.min(node_limit));
    let (running, cancelled) = Running::begin(reader, &asked, client, limit);
    let answered = match select(pin!(in_time(reader, asker, asked, room, limit, &running)), cancelled).await {
        Either::Left((answered, _)) => answered,
        Either::Right((Ok(()) | Err(oneshot::Canceled), _)) => Err(running.canceled()),
    };
    running.ended(answered.as_ref().err());
    answered
}

async fn in_time(
    reader: &Rc<Reader>,
    asker: &Asker,
    asked: QueryParams,
    room: Reservation,
    limit: Duration,
    running: &Running,
) -> Result<Evaluated, ReadRejected> {
    let turn = timeout(limit, turn(reader, asker)).await.map_err(|Elapsed| QueryQueueError::TimedOut)?;
    let (query, read) = turn?;
    let left = limit.saturating_sub(running.elapsed());
    let evaluated = timeout(left, evaluate(reader, read, asked, room, running)).await;
    // An answer that is sent holds its read's turn and its memory, and no query up.
    drop(query);
    evaluated.unwrap_or(Err(ReadRejected::Query(QueryError::Timeout)))
}

/// Waits for a query's turn, and then for a read's.
async fn turn(reader: &Reader, asker: &Asker) -> Result<(ReadTurn, ReadInFlight), ReadRejected> {
    let full = |ReadGateRejected| QueryQueueError::Full;
    let query = reader.queries.turn(asker.of_queries()).await.map_err(full)?;
    let read = reader.reads.enter(asker.clone()).await?;
    Ok((query, read))
}

async fn evaluate(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    asked: QueryParams,
    room: Reservation,
    running: &Running,
) -> Result<Evaluated, ReadRejected> {
    let (queue, began) = (running.elapsed(), now());
    let room = QueryRoom::new(room);
    let budget = Rc::new(budget(reader, &room));
    running.has_turn(read.lease(), Rc::clone(&budget), room.clone());
    let query = parsed(reader, &asked.text, |query| query).await?;
    let plan = Arc::new(Plan::new(query, asked.times, asked.options)?);
    fetch::check_selects(plan.selects())?;
    let (outside, scope) = outside::of_query(reader, read.lease(), &plan, asked.seen.as_ref()).await?;
    let pace = SlicePace::begin(reader, read.lease()).await;
    let preparation = began.elapsed();
    let answer = {
        let streams = Streams::new(reader, read.lease(), &plan, outside.as_ref(), scope, &room, &pace);
        let evaluated = plan.evaluate_from(&streams, &budget, &pace).await;
        evaluated.map_err(|error| streams.error_of(error))?
    };
    let evaluation = began.elapsed().saturating_sub(preparation);
    let timings = Timings { queue, preparation, evaluation, sort: pace.sort_time() };
    drop(pace);
    let stats = QueryStatistics { timings, times: asked.times, samples_peak: budget.samples_peak() };
    Ok(Evaluated { read, answer, asked, stats, room })
}

/// What a query may hold on this core.
pub(super) fn budget(reader: &Reader, room: &QueryRoom) -> Budget {
    Budget::new(reader.config.query_max_samples, usize::MAX).within(Box::new(room.clone()))
}

/// Counts a query, and why it has no answer.
fn count(reader: &Reader, fault: Option<&ReadRejected>) {
    reader.count(|counts| {
        counts.queries += 1;
        match fault {
            Some(ReadRejected::QueryQueue(QueryQueueError::Full) | ReadRejected::TooManyReads(_)) => {
                counts.queries_without_turn += 1;
            }
            Some(
                ReadRejected::QueryQueue(QueryQueueError::Canceled)
                | ReadRejected::Query(QueryError::Canceled),
            ) => {
                counts.queries_canceled += 1;
            }
            Some(
                ReadRejected::QueryQueue(QueryQueueError::TimedOut)
                | ReadRejected::Query(QueryError::Timeout),
            ) => {
                counts.queries_timed_out += 1;
            }
            Some(ReadRejected::Query(QueryError::TooManySamples)) => counts.queries_of_too_many_samples += 1,
            Some(ReadRejected::QueryTooLarge(_)) => counts.queries_of_too_much_memory += 1,
            Some(ReadRejected::Query(QueryError::BudgetExceeded)) => counts.queries_without_room += 1,
            Some(_) | None => {}
        }
    });
}

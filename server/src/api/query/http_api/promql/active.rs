//! The queries that a core has: those that it was asked, from their request to their answer or refusal, and what it does
//! of others'. A query can be cancelled from here, whichever core that is asked on, and one that was slow is logged as
//! it ends. What is listed of all cores together is not known here.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use super::request::QueryParams;
use super::room::QueryRoom;
use crate::api::query::Reader;
use crate::api::query::read_rejected::{QueryQueueError, ReadRejected};
use crate::routing::active::{CoreQueries, PartProgress, QueryState};
use crate::routing::{ActiveQuery, QueriesCall, QueriesReply, QueryId, ReadLease};
use silverback_model::utc::format_rfc3339;
use silverback_promql::{Budget, QueryError, QueryTimes};
use silverback_runtime::now;

/// Of an expression, what a log line shows.
const SHOWN_BYTES_MAX: usize = 1 << 10;
/// Of a user's name.
const USER_CHARS_MAX: usize = 100;

/// Who asks, as far as is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueryCaller {
    peer: String,
    user: String,
}

impl QueryCaller {
    pub(crate) fn new(address: Option<IpAddr>, user: Option<String>) -> Self {
        let user = user.unwrap_or_default().chars().take(USER_CHARS_MAX).collect();
        Self { peer: address.map(|address| address.to_string()).unwrap_or_default(), user }
    }
}

/// One core's queries. Those that are evaluated and those that wait are as many as their line allows; parts of others'
/// as many as lanes carry.
#[derive(Debug)]
pub(crate) struct ActiveQueries {
    core: u16,
    /// How many there were so far.
    count: Cell<u64>,
    queries: RefCell<BTreeMap<u64, Rc<Query>>>,
    meters: RefCell<BTreeMap<u64, (u64, Meter)>>,
}

/// What says how far a part of a query is.
#[derive(Debug)]
pub(super) enum Meter {
    Samples(Rc<Budget>),
    Memory(QueryRoom),
}

#[derive(Debug)]
struct Query {
    id: QueryId,
    text: Rc<str>,
    times: QueryTimes,
    client: QueryCaller,
    began: Instant,
    began_ms: i64,
    limit: Duration,
    turn: RefCell<Option<EvaluatedQuery>>,
    /// `None`: it was cancelled.
    cancel: RefCell<Option<oneshot::Sender<()>>>,
}

/// What a query has that is evaluated.
#[derive(Debug)]
struct EvaluatedQuery {
    since: Instant,
    read: u64,
    budget: Rc<Budget>,
    room: QueryRoom,
}

/// Keeps a query among its core's active ones; dropped, it isn't active any more, and is logged where it was slow.
pub(super) struct Running {
    reader: Rc<Reader>,
    query: Rc<Query>,
    outcome: RefCell<Option<String>>,
}

/// Keeps a part's progress listed.
pub(super) struct Metered {
    of: Rc<ActiveQueries>,
    key: u64,
}

/// Has other cores' questions about this one's queries answered from now on.
pub(crate) fn serve_queries(reader: &Rc<Reader>) {
    let serving = Rc::clone(reader);
    reader.router.serve_queries(move |call| match call {
        QueriesCall::List { max, text_bytes } => QueriesReply::Listed(serving.active.list(max, text_bytes)),
        QueriesCall::Cancel(number) => QueriesReply::Cancelled(serving.active.cancel(number)),
    });
}

impl ActiveQueries {
    pub(crate) fn new(core: usize) -> Self {
        let (count, queries, meters) = Default::default();
        Self { core: core as u16, count, queries, meters }
    }

    fn next(&self) -> u64 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    /// Lists what a part of a read has.
    pub(super) fn meter(self: &Rc<Self>, lease: &ReadLease, meter: Meter) -> Metered {
        let key = self.next();
        self.meters.borrow_mut().insert(key, (lease.ticket().number(), meter));
        Metered { of: Rc::clone(self), key }
    }

    /// Those that run first, and of these the oldest; no more than `max`, with so many bytes of each expression.
    fn list(&self, max: usize, text_bytes: usize) -> CoreQueries {
        let queries = self.queries.borrow();
        let of_state = |state| queries.values().filter(move |query| query.state() == state);
        let in_order = of_state(QueryState::Running).chain(of_state(QueryState::Queued));
        let meters = self.meters.borrow();
        let parts = meters.values().map(|(read, meter)| match meter {
            Meter::Samples(budget) => {
                PartProgress { read: *read, samples_read: budget.samples_read(), memory_bytes: 0 }
            }
            Meter::Memory(room) => {
                PartProgress { read: *read, samples_read: 0, memory_bytes: room.bytes() as u64 }
            }
        });
        CoreQueries {
            queries: in_order.take(max).map(|query| query.shown(text_bytes)).collect(),
            omitted: queries.len().saturating_sub(max),
            parts: parts.collect(),
        }
    }

    /// Cancels one, which ends at its next step; it was this. `None`: there is none of that number.
    fn cancel(&self, number: u64) -> Option<ActiveQuery> {
        let query = Rc::clone(self.queries.borrow().get(&number)?);
        if let Some(cancel) = query.cancel.borrow_mut().take()
            && cancel.send(()).is_err()
        {
            tracing::debug!(id = %query.id, "a query was to be cancelled as it ended");
        }
        Some(query.shown(SHOWN_BYTES_MAX))
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.of.meters.borrow_mut().remove(&self.key);
    }
}

impl Query {
    fn state(&self) -> QueryState {
        if self.turn.borrow().is_some() { QueryState::Running } else { QueryState::Queued }
    }

    fn shown_text(&self, bytes_max: usize) -> &str {
        &self.text[..self.text.floor_char_boundary(bytes_max)]
    }

    /// The endpoint, and the first time, the last and the step in seconds.
    fn when(&self) -> (&'static str, f64, f64, f64) {
        let seconds = |ms: i64| ms as f64 / 1000.0;
        match self.times {
            QueryTimes::Instant { at_ms } => ("query", seconds(at_ms), seconds(at_ms), 0.0),
            QueryTimes::Range { start_ms, end_ms, step_ms } => {
                ("query_range", seconds(start_ms), seconds(end_ms), seconds(step_ms))
            }
        }
    }

    fn shown(&self, text_bytes: usize) -> ActiveQuery {
        let turn = self.turn.borrow();
        let (query, (kind, start, end, step)) = (self.shown_text(text_bytes), self.when());
        ActiveQuery {
            id: self.id,
            state: self.state(),
            query: query.to_owned(),
            is_cut: query.len() < self.text.len(),
            kind,
            start,
            end,
            step,
            began: format_rfc3339(self.began_ms),
            active_seconds: self.began.elapsed().as_secs_f64(),
            timeout_seconds: self.limit.as_secs_f64(),
            samples_read: turn.as_ref().map_or(0, |turn| turn.budget.samples_read()),
            memory_bytes: turn.as_ref().map_or(0, |turn| turn.room.bytes() as u64),
            peer: self.client.peer.clone(),
            user: self.client.user.clone(),
            read: turn.as_ref().map(|turn| turn.read),
        }
    }
}

impl Running {
    /// A query that was asked, with the time that it has; and what says that it is to end.
    pub(super) fn begin(
        reader: &Rc<Reader>,
        asked: &QueryParams,
        client: QueryCaller,
        limit: Duration,
    ) -> (Self, oneshot::Receiver<()>) {
        let id = QueryId { core: reader.active.core, number: reader.active.next() };
        let (cancel, cancelled) = oneshot::channel();
        let query = Rc::new(Query {
            id,
            text: Rc::clone(&asked.text),
            times: asked.times,
            client,
            began: now(),
            began_ms: reader.clock.now_ms(),
            limit,
            turn: RefCell::default(),
            cancel: RefCell::new(Some(cancel)),
        });
        reader.active.queries.borrow_mut().insert(id.number, Rc::clone(&query));
        (Self { reader: Rc::clone(reader), query, outcome: RefCell::default() }, cancelled)
    }

    /// Its turn has come.
    pub(super) fn has_turn(&self, lease: &ReadLease, budget: Rc<Budget>, room: QueryRoom) {
        let read = lease.ticket().number();
        *self.query.turn.borrow_mut() = Some(EvaluatedQuery { since: now(), read, budget, room });
    }

    /// Since it was asked.
    pub(super) fn elapsed(&self) -> Duration {
        self.query.began.elapsed()
    }

    /// What its client gets when it is canceled.
    pub(super) fn canceled(&self) -> ReadRejected {
        match self.query.state() {
            QueryState::Queued => QueryQueueError::Canceled.into(),
            QueryState::Running => ReadRejected::Query(QueryError::Canceled),
        }
    }

    /// What came of it; where nobody says so, its client was gone.
    pub(super) fn ended(&self, why_not: Option<&impl Display>) {
        let outcome = why_not.map_or_else(|| "answered".to_owned(), ToString::to_string);
        *self.outcome.borrow_mut() = Some(outcome);
    }

    fn log_if_slow(&self) {
        let took = self.elapsed();
        if self.reader.config.log_queries_longer_than.is_none_or(|longer_than| took <= longer_than) {
            return;
        }
        self.reader.count(|counts| counts.queries_slow += 1);
        let Query { id, client, turn, .. } = &*self.query;
        let (kind, start, end, step) = self.query.when();
        let turn = turn.borrow();
        let queued = turn.as_ref().map_or(took, |turn| turn.since.duration_since(self.query.began));
        let (samples_read, memory_bytes) =
            turn.as_ref().map_or((0, 0), |turn| (turn.budget.samples_read(), turn.room.bytes_peak()));
        let outcome = self.outcome.borrow();
        silverback_host::warn_limited!(
            query = self.query.shown_text(SHOWN_BYTES_MAX),
            kind,
            start,
            end,
            step,
            took_ms = took.as_millis() as u64,
            queued_ms = queued.as_millis() as u64,
            samples_read,
            memory_bytes,
            outcome = outcome.as_deref().unwrap_or("its client has gone"),
            peer = client.peer,
            user = client.user,
            %id,
            "a query took longer than --log-queries-longer-than"
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.reader.active.queries.borrow_mut().remove(&self.query.id.number);
        self.log_if_slow();
    }
}

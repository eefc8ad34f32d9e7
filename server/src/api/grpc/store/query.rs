//! `thanos.Query`: expressions of a Thanos Query that has them evaluated where the series are, which are seen here as
//! `Store` shows them. Evaluated on the way of all queries: their turns, their time, their memory, their counts.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use silverback_proto::thanos::{QueryPlan, QueryRangeRequest, QueryRequest, ShardInfo, StoreMatchers};

use super::evaluated;
use super::select::{self, names};
use super::series::query_shard;
use crate::api::grpc::stream::Answers;
use crate::api::query::Reader;
use crate::api::query::http_api::promql::{self, QueryCaller, QueryParams, ViewOptions, checked_range};
use crate::api::query::read_rejected::ReadRejected;
use crate::routing::Asker;
use silverback_promql::QueryTimes;

/// What both methods have.
struct Common {
    query: String,
    plan: Option<QueryPlan>,
    timeout_seconds: i64,
    lookback_delta_seconds: i64,
    replica_labels: Vec<String>,
    enable_dedup: bool,
    store_matchers: Vec<StoreMatchers>,
    shard_info: Option<ShardInfo>,
}

/// [`Common`] of a `QueryRequest` or a `QueryRangeRequest`: two types whose fields have the same names.
macro_rules! common {
    ($request:ident) => {
        Common {
            query: $request.query,
            plan: $request.query_plan,
            timeout_seconds: $request.timeout_seconds,
            lookback_delta_seconds: $request.lookback_delta_seconds,
            replica_labels: $request.replica_labels,
            enable_dedup: $request.enable_dedup,
            store_matchers: $request.store_matchers,
            shard_info: $request.shard_info,
        }
    };
}

/// Answers an expression at one time.
pub(super) async fn instant(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    request: QueryRequest,
) -> Result<Answers<Bytes>, ReadRejected> {
    let (bytes, batch_series) = (request.encoded_len(), select::limit(request.response_batch_size));
    let common = common!(request);
    let at_ms = match request.time_seconds {
        0 => Ok(reader.clock.now_ms()),
        seconds => ms("time_seconds", seconds),
    };
    let asked = at_ms.and_then(|at_ms| common.asked(QueryTimes::Instant { at_ms }));
    answer(reader, asker, client, asked, (bytes, batch_series)).await
}

/// Answers an expression at the steps of a range.
pub(super) async fn range(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    request: QueryRangeRequest,
) -> Result<Answers<Bytes>, ReadRejected> {
    let (bytes, batch_series) = (request.encoded_len(), select::limit(request.response_batch_size));
    let times = times_of(&request);
    let common = common!(request);
    let asked = times.and_then(|times| common.asked(times));
    answer(reader, asker, client, asked, (bytes, batch_series)).await
}

/// Evaluates what is asked and streams what comes of it, so many series in a message.
async fn answer(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    asked: Result<QueryParams, ReadRejected>,
    (request_bytes, batch_series): (usize, Option<usize>),
) -> Result<Answers<Bytes>, ReadRejected> {
    let mut room = reader.read_bytes.begin();
    room.grow(request_bytes).map_err(|_| ReadRejected::BudgetExceeded)?;
    // From here on it counts as a query, too.
    reader.count(|counts| counts.thanos_queries += 1);
    let evaluated = promql::evaluated(reader, asker, client, asked, room).await?;
    evaluated::stream(reader, evaluated, batch_series.unwrap_or(1)).await
}

impl Common {
    fn asked(self, times: QueryTimes) -> Result<QueryParams, ReadRejected> {
        if self.query.is_empty() && self.plan.is_some() {
            return Err(bad(
                "query is empty: the text of an expression is evaluated here, and queryPlan isn't read",
            ));
        }
        if !self.store_matchers.is_empty() {
            return Err(bad("storeMatchers choose among stores, and this node is one: leave them out"));
        }
        let timeout = seconds("timeout_seconds", self.timeout_seconds)?;
        let lookback_ms = match seconds("lookback_delta_seconds", self.lookback_delta_seconds)? {
            None => None,
            Some(_) => Some(ms("lookback_delta_seconds", self.lookback_delta_seconds)?),
        };
        let left_out = match self.enable_dedup {
            true => names(self.replica_labels, "replica_labels")?,
            false => Vec::new(),
        };
        let shard = self.shard_info.map(query_shard).transpose()?.flatten();
        Ok(QueryParams::from_outside(
            &self.query,
            times,
            lookback_ms,
            timeout,
            ViewOptions { left_out, shard },
        ))
    }
}

fn times_of(request: &QueryRangeRequest) -> Result<QueryTimes, ReadRejected> {
    let start_ms = ms("start_time_seconds", request.start_time_seconds)?;
    let end_ms = ms("end_time_seconds", request.end_time_seconds)?;
    checked_range(start_ms, end_ms, || ms("interval_seconds", request.interval_seconds))
}

fn bad(words: impl Into<String>) -> ReadRejected {
    ReadRejected::BadRequest(words.into())
}

fn ms(name: &str, seconds: i64) -> Result<i64, ReadRejected> {
    seconds.checked_mul(1000).ok_or_else(|| bad(format!("{name}: {seconds} s are too many")))
}

/// A length of time; `None`, for 0: it isn't given.
fn seconds(name: &str, seconds: i64) -> Result<Option<Duration>, ReadRejected> {
    match u64::try_from(seconds) {
        Ok(0) => Ok(None),
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds))),
        Err(_) => Err(bad(format!("{name}: {seconds} s are less than none"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_proto::thanos::query_plan::Encoding;

    fn common() -> Common {
        Common {
            query: "up".to_owned(),
            plan: Some(QueryPlan { encoding: Some(Encoding::Json(Bytes::from_static(b"{}"))) }),
            timeout_seconds: 7,
            lookback_delta_seconds: 60,
            replica_labels: vec!["replica".to_owned(), "a".to_owned()],
            enable_dedup: true,
            store_matchers: Vec::new(),
            shard_info: None,
        }
    }

    fn check_refused(common: Common, words: &str) {
        let refused = common.asked(QueryTimes::Instant { at_ms: 0 }).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }

    #[test]
    fn replica_labels_are_left_out_where_copies_are_to_be_one() {
        let asked = common().asked(QueryTimes::Instant { at_ms: 0 }).unwrap();
        assert_eq!((asked.timeout, asked.options.lookback_ms), (Some(Duration::from_secs(7)), 60_000));
        assert_eq!(asked.seen.unwrap().left_out, ["a".into(), Box::<str>::from("replica")]);
        let asked = Common { enable_dedup: false, lookback_delta_seconds: 0, timeout_seconds: 0, ..common() };
        let asked = asked.asked(QueryTimes::Instant { at_ms: 0 }).unwrap();
        assert_eq!((asked.timeout, asked.options.lookback_ms), (None, 300_000));
        assert!(asked.seen.unwrap().left_out.is_empty());
    }

    #[test]
    fn what_cannot_be_done_is_refused_in_words() {
        check_refused(Common { query: String::new(), ..common() }, "queryPlan isn't read");
        check_refused(
            Common { store_matchers: vec![StoreMatchers::default()], ..common() },
            "this node is one",
        );
        check_refused(Common { timeout_seconds: -1, ..common() }, "timeout_seconds: -1 s are less");
        check_refused(Common { lookback_delta_seconds: i64::MAX, ..common() }, "are too many");
        check_refused(Common { replica_labels: vec![String::new(); 257], ..common() }, "has 257 labels");
    }

    fn check_range(start: i64, end: i64, interval: i64, expect: Result<i64, &str>) {
        let request = QueryRangeRequest {
            start_time_seconds: start,
            end_time_seconds: end,
            interval_seconds: interval,
            ..QueryRangeRequest::default()
        };
        match (times_of(&request), expect) {
            (Ok(QueryTimes::Range { step_ms, .. }), Ok(expect)) => assert_eq!(step_ms, expect),
            (Err(fault), Err(words)) => assert!(fault.to_string().contains(words), "{fault}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn a_range_has_steps_and_no_more_than_a_query_may_have() {
        check_range(0, 11_000, 1, Ok(1000));
        check_range(0, 11_001, 1, Err("11,000 points"));
        check_range(0, 60, 0, Err("zero or negative"));
        check_range(60, 0, 1, Err("before start"));
        check_range(0, i64::MAX, 1, Err("end_time_seconds"));
    }
}

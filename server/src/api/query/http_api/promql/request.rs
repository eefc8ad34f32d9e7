//! The parameters of a query: the expression, its times, what the answer may hold.

use std::rc::Rc;
use std::time::Duration;

use super::super::params::{Params, bad};
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::time_text::parse_time_ms;
use silverback_model::limits::QUERY_STEPS_MAX;
use silverback_model::printable::Quoted;
use silverback_promql::{PlanOptions, QueryTimes, SampleCounting, parse_duration_ms};
use silverback_storage::message::QueryShard;

/// What is asked.
#[derive(Debug)]
pub(crate) struct QueryParams {
    pub(super) text: Rc<str>,
    pub(super) times: QueryTimes,
    pub(crate) options: PlanOptions,
    /// Series of the answer; 0: all.
    pub(super) limit: usize,
    /// What it may take at most, unless the node allows less.
    pub(crate) timeout: Option<Duration>,
    /// What the answer says of its making.
    pub(super) stats: Option<StatsWanted>,
    /// How series are seen; `None`: as they are.
    pub(crate) seen: Option<ViewOptions>,
}

/// How series are seen from outside the node: with its external labels, but ...
#[derive(Debug, Default)]
pub(crate) struct ViewOptions {
    /// ... without labels of these names, ...
    pub(crate) left_out: Vec<Box<str>>,
    /// ... and these alone; `None`: all.
    pub(crate) shard: Option<QueryShard>,
}

/// Which statistics are in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatsWanted {
    /// Times, and samples.
    Totals,
    /// The samples of each step, too.
    All,
}

/// The expression, as it was given.
pub(super) fn expression(params: &Params) -> &str {
    params.get("query").unwrap_or_default()
}

impl QueryParams {
    /// Of `query`, at `time`, or now.
    pub(super) fn instant(params: &Params, now_ms: i64) -> Result<Self, ReadRejected> {
        let at_ms = time(params, "time")?.unwrap_or(now_ms);
        Self::at(params, QueryTimes::Instant { at_ms })
    }

    /// Of `query_range`: `start`, `end` and `step` are all wanted.
    pub(super) fn range(params: &Params) -> Result<Self, ReadRejected> {
        let wanted = |name| {
            time(params, name)?
                .ok_or_else(|| invalid(name, format_args!("cannot parse \"\" to a valid timestamp")))
        };
        let (start_ms, end_ms) = (wanted("start")?, wanted("end")?);
        let step_ms = || match params.get("step") {
            Some(text) => duration_ms("step", text),
            None => Err(invalid("step", "cannot parse \"\" to a valid duration")),
        };
        Self::at(params, checked_range(start_ms, end_ms, step_ms)?)
    }

    /// Of a node beside others, of the series as these see them. It has totals of its making.
    pub(crate) fn from_outside(
        text: &str,
        times: QueryTimes,
        lookback_ms: Option<i64>,
        timeout: Option<Duration>,
        seen: ViewOptions,
    ) -> Self {
        let mut options = PlanOptions { counting: SampleCounting::Total, ..PlanOptions::default() };
        if let Some(lookback_ms) = lookback_ms {
            options.lookback_ms = lookback_ms;
        }
        let stats = Some(StatsWanted::Totals);
        Self { text: text.into(), times, options, limit: 0, timeout, stats, seen: Some(seen) }
    }

    fn at(params: &Params, times: QueryTimes) -> Result<Self, ReadRejected> {
        let mut options = PlanOptions::default();
        if let Some(text) = params.get("lookback_delta") {
            let lookback_ms = duration_ms("lookback_delta", text)?;
            if lookback_ms <= 0 {
                return Err(invalid("lookback_delta", "it must be above zero"));
            }
            options.lookback_ms = lookback_ms;
        }
        let limit = params.limit()?.map_or(0, std::num::NonZeroUsize::get);
        // One that is over before it begins is none at all.
        let timeout = match params.get("timeout") {
            Some(text) => Some(Duration::from_millis(duration_ms("timeout", text)?.max(0).unsigned_abs())),
            None => None,
        };
        let stats = match params.get("stats") {
            None | Some("") => None,
            Some("all") => Some(StatsWanted::All),
            // Whatever it is, as in Prometheus.
            Some(_) => Some(StatsWanted::Totals),
        };
        options.counting = match stats {
            None => SampleCounting::Off,
            Some(StatsWanted::Totals) => SampleCounting::Total,
            Some(StatsWanted::All) => SampleCounting::PerStep,
        };
        Ok(Self { text: expression(params).into(), times, options, limit, timeout, stats, seen: None })
    }
}

/// The steps of a range, where there are no more of them than a query may have.
pub(crate) fn checked_range(
    start_ms: i64,
    end_ms: i64,
    step_ms: impl FnOnce() -> Result<i64, ReadRejected>,
) -> Result<QueryTimes, ReadRejected> {
    if end_ms < start_ms {
        return Err(invalid("end", "end timestamp must not be before start time"));
    }
    let step_ms = step_ms()?;
    if step_ms <= 0 {
        let words = "zero or negative query resolution step widths are not accepted. Try a positive integer";
        return Err(invalid("step", words));
    }
    if end_ms.abs_diff(start_ms) / step_ms.unsigned_abs() > QUERY_STEPS_MAX as u64 {
        return Err(bad(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution \
             (?step=XX)",
        ));
    }
    Ok(QueryTimes::Range { start_ms, end_ms, step_ms })
}

fn invalid(name: &str, words: impl std::fmt::Display) -> ReadRejected {
    bad(format_args!("invalid parameter {}: {words}", Quoted(name)))
}

/// Enough of a value to know it again.
fn shown(text: &str) -> &str {
    const SHOWN_BYTES_MAX: usize = 200;

    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

fn time(params: &Params, name: &str) -> Result<Option<i64>, ReadRejected> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let wrong = || invalid(name, format_args!("cannot parse {} to a valid timestamp", Quoted(shown(text))));
    parse_time_ms(text).map(Some).ok_or_else(wrong)
}

/// Seconds with decimals, or with units.
fn duration_ms(name: &str, text: &str) -> Result<i64, ReadRejected> {
    const SECONDS_MAX: f64 = i64::MAX as f64 / 1e9;

    let wrong = || invalid(name, format_args!("cannot parse {} to a valid duration", Quoted(shown(text))));
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds.abs() <= SECONDS_MAX => Ok((seconds * 1000.0) as i64),
        Ok(_) => Err(invalid(
            name,
            format_args!("cannot parse {} to a valid duration. It overflows int64", Quoted(shown(text))),
        )),
        Err(_) => parse_duration_ms(text).map_err(|_| wrong()),
    }
}

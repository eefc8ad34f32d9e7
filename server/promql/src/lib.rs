//! PromQL: from a text to an answer, over series that the caller fetches.
//!
//! Pure: no socket, no runtime, no clock. An evaluation gives way to others by the caller's [`Pace`] and keeps within
//! the caller's [`Budget`]. In two steps, so that the caller fetches how and where it likes, also while it is evaluated:
//! [`Source`].
//!
//! ```
//! use silverback_promql::{Budget, Fetched, NoPace, ParseOptions, Plan, PlanOptions, Query, QueryTimes};
//!
//! let query = Query::parse("sum by (job) (rate(requests_total[5m]))", ParseOptions::default())?;
//! let times = QueryTimes::Range { start_ms: 0, end_ms: 3_600_000, step_ms: 15_000 };
//! let plan = Plan::new(query, times, PlanOptions::default())?;
//! // For each selector the series that match, with the samples of its range.
//! let fetched: Vec<Vec<Fetched>> = plan.selects().iter().map(|_select| Vec::new()).collect();
//! let budget = Budget::new(50_000_000, 256 << 20);
//! let answer = plan.evaluate(&fetched, &budget, &NoPace);
//! # let answer = futures::executor::block_on(answer)?;
//! # assert_eq!(answer.value.to_json(), r#"{"resultType":"matrix","result":[]}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]
mod answer;
mod ast;
mod budget;
mod data;
mod error;
mod eval;
mod functions;
pub mod histogram;
mod json;
mod lex;
mod notes;
mod number;
mod parse;
mod plan;
mod print;
mod queryable;
mod replace;
mod share;
mod sort;
mod source;
mod span;
mod token;
mod tree;

use std::fmt;
use std::sync::Arc;

pub use answer::{Answer, MatrixSeries, SampleValue, Value, VectorSample};
pub use ast::Type;
pub use budget::{Budget, Interruption, NoPace, Pace, Room};
pub use data::{Fetched, Run};
pub use error::QueryError;
pub use functions::stable_functions;
pub use json::{JsonWriter, write_text as write_json_text};
pub use number::{format_float, parse_duration_ms};
pub use parse::{ParseError, ParseOptions};
pub use plan::Select;
pub use print::LAID_OUT_BYTES_MAX;
pub use queryable::QueryableSamples;
pub use share::{PartialRows, Share};
pub use source::{Folded, NextSeries, Source};
pub use span::TextSpan;

use plan::{Aggregating, Built, Node, Times};
use source::ListedSeries;

/// An expression that was parsed and checked. Displayed, it is the expression on one line.
#[derive(Debug, Clone)]
pub struct Query {
    expr: ast::Expr,
    text: Box<str>,
}

impl Query {
    /// Parses a text. Bounded in time and memory, whatever the text.
    pub fn parse(text: &str, options: ParseOptions) -> Result<Self, ParseError> {
        Ok(Self { expr: parse::parse(text, options)?, text: text.into() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it gives.
    pub fn kind(&self) -> Type {
        self.expr.kind()
    }

    /// Laid out on several lines where it is long, as `format_query` answers.
    /// `None`: it would be longer than [`LAID_OUT_BYTES_MAX`].
    pub fn pretty(&self) -> Option<String> {
        print::pretty(&self.expr)
    }

    /// As a tree in JSON, as `parse_query` answers.
    pub fn tree_json(&self) -> String {
        tree::tree_json(&self.expr)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

/// When a query is evaluated. All in ms since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryTimes {
    /// At one time: a vector, a scalar, a text, or the samples of a range.
    Instant {
        /// The time.
        at_ms: i64,
    },
    /// At each step from the start to the end, both included: a matrix.
    Range {
        /// The first step.
        start_ms: i64,
        /// No step is after it.
        end_ms: i64,
        /// Between two steps; above 0.
        step_ms: i64,
    },
}

/// How a plan understands an expression.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions {
    /// A sample counts for so long, in ms; not at the end of that time.
    pub lookback_ms: i64,
    /// The step of a subquery that names none, in ms.
    pub subquery_step_ms: i64,
    /// Series lose their names at the end of the evaluation, not as soon as they have another meaning.
    pub delayed_name_removal: bool,
    /// What is counted of the samples that steps see: [`Answer::samples`].
    pub counting: SampleCounting,
}

/// What is counted of the samples that the steps of a query see. A native histogram counts as many as its memory has room
/// for, which takes a look at its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleCounting {
    /// Nothing.
    Off,
    /// Those of all steps together.
    Total,
    /// Those of each step, too.
    PerStep,
}

impl Default for PlanOptions {
    /// As Prometheus has it: 5 minutes, 1 minute, at once.
    fn default() -> Self {
        Self {
            lookback_ms: 300_000,
            subquery_step_ms: 60_000,
            delayed_name_removal: false,
            counting: SampleCounting::Off,
        }
    }
}

/// A query at its times: what it reads, and how it is computed.
#[derive(Debug)]
pub struct Plan {
    query: Query,
    times: Times,
    is_range: bool,
    options: PlanOptions,
    root: Node,
    selects: Vec<Select>,
    shares: Vec<Arc<Aggregating>>,
}

impl Plan {
    /// Plans a query. Fails where the expression can't be evaluated at these times, as Prometheus fails.
    pub fn new(query: Query, times: QueryTimes, options: PlanOptions) -> Result<Self, QueryError> {
        let (at, step_ms) = match times {
            QueryTimes::Instant { at_ms } => (Times::at(at_ms), 0),
            QueryTimes::Range { start_ms, end_ms, step_ms } => {
                (Times::between(start_ms, end_ms, step_ms), step_ms)
            }
        };
        let is_range = matches!(times, QueryTimes::Range { .. });
        if is_range && !matches!(query.kind(), Type::Vector | Type::Scalar) {
            let found = query.kind().documented();
            return Err(QueryError::BadData(format!(
                "invalid expression type \"{found}\" for range query, must be Scalar or instant Vector"
            )));
        }
        let end_ms = match times {
            QueryTimes::Instant { at_ms } => at_ms,
            QueryTimes::Range { end_ms, .. } => end_ms,
        };
        let Built { root, selects, shares } = plan::build(&query.expr, at, end_ms, step_ms, &options)?;
        Ok(Self { query, times: at, is_range, options, root, selects, shares })
    }

    /// What the query reads, for [`Self::evaluate`] in the same order. One selector may occur here several times.
    pub fn selects(&self) -> &[Select] {
        &self.selects
    }

    /// The query.
    pub const fn query(&self) -> &Query {
        &self.query
    }

    /// Evaluates the query over the series that were fetched for each of [`Self::selects`], in any order.
    ///
    /// Gives way as `pace` says and fails with [`QueryError::TooManySamples`] or [`QueryError::TooMuchMemory`] where
    /// it would hold more than `budget` allows. What `fetched` takes itself is the caller's affair; what the answer
    /// takes is counted as it grows, and is left to the caller with it: [`Answer::bytes`].
    pub async fn evaluate(
        &self,
        fetched: &[Vec<Fetched>],
        budget: &Budget,
        pace: &dyn Pace,
    ) -> Result<Answer, QueryError> {
        if fetched.len() != self.selects.len() {
            let (wanted, given) = (self.selects.len(), fetched.len());
            return Err(QueryError::execution(format!(
                "series of {wanted} selectors are needed, {given} were fetched"
            )));
        }
        self.evaluate_from(&ListedSeries::new(fetched, pace), budget, pace).await
    }

    /// Likewise over series that come as they are needed. Those that are folded into others as they come, as in a sum,
    /// are never held together.
    pub async fn evaluate_from(
        &self,
        source: &dyn Source,
        budget: &Budget,
        pace: &dyn Pace,
    ) -> Result<Answer, QueryError> {
        eval::evaluate(self, source, budget, pace).await
    }

    /// Folds the series that a source has into rows: a part of an aggregation that [`Source::folded`] is asked for, made
    /// by one who has some of the series.
    ///
    /// A plan, a [`Share`] and the rows may cross threads. Fails as [`Self::evaluate`] does.
    pub async fn fold(
        &self,
        share: Share,
        source: &dyn Source,
        budget: &Budget,
        pace: &dyn Pace,
    ) -> Result<PartialRows, QueryError> {
        eval::fold(self, share, source, budget, pace).await
    }
}

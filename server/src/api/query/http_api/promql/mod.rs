//! `/api/v1/query`, `query_range`, `format_query` and `parse_query`: expressions, evaluated on the core that was asked
//! over the series of all shards. Those of `thanos.Query` are evaluated here, too.
//!
//! What an expression means is `silverback-promql`'s. Here is what it is given: the request's parameters, the series
//! that its selectors match, slices, and memory.

mod active;
mod answer;
mod fetch;
mod histograms;
mod outside;
mod pace;
mod request;
mod room;
mod run;
mod shares;
mod stats;

use super::params::{Params, bad};
use super::{json, whole};
use crate::api::query::Reader;
use crate::api::query::read_rejected::{ReadAnswer, ReadRejected};
pub(crate) use active::{ActiveQueries, QueryCaller, serve_queries};
pub(crate) use request::{QueryParams, ViewOptions, checked_range};
pub(crate) use run::{Evaluated, answer, evaluated};
pub(crate) use shares::serve_folds;
use silverback_model::Matcher;
use silverback_model::limits::EXPRESSION_BYTES_MAX;
use silverback_promql::{LAID_OUT_BYTES_MAX, ParseOptions, Plan, PlanOptions, Query, QueryTimes};

/// An expression, laid out on lines.
pub(crate) async fn format(reader: &Reader, params: &Params) -> ReadAnswer {
    let laid_out = parsed(reader, request::expression(params), |query| query.pretty()).await?;
    let text = laid_out.ok_or_else(|| {
        bad(format_args!("the expression, laid out, would have more than {LAID_OUT_BYTES_MAX} bytes"))
    })?;
    let _slice = reader.slicer.begin().await;
    Ok(whole(json::success(text, &[])))
}

/// An expression as a tree.
pub(crate) async fn parse(reader: &Reader, params: &Params) -> ReadAnswer {
    let tree = parsed(reader, request::expression(params), |query| query.tree_json()).await?;
    let _slice = reader.slicer.begin().await;
    let mut out = Vec::new();
    json::put_begin(&mut out);
    out.extend_from_slice(tree.as_bytes());
    json::put_end(&mut out, &[]);
    Ok(whole(out))
}

/// The matchers of each selector that an expression has.
pub(crate) async fn selectors(reader: &Reader, text: &str) -> Result<Vec<Vec<Matcher>>, ReadRejected> {
    let query = parsed(reader, text, |query| query).await?;
    let _slice = reader.slicer.begin().await;
    let plan = Plan::new(query, QueryTimes::Instant { at_ms: 0 }, PlanOptions::default())?;
    fetch::check_selects(plan.selects())?;
    Ok(plan.selects().iter().map(|select| select.matchers.to_vec()).collect())
}

/// A text of at most so many bytes without a regular expression is parsed within some 100 µs.
const QUICK_TEXT_BYTES_MAX: usize = 1 << 10;

/// The language that is stable; all its regular expressions together take what those of any read do.
const OPTIONS: ParseOptions = ParseOptions {
    experimental_functions: false,
    duration_expressions: false,
    extended_ranges: false,
    fill_modifiers: false,
    regex_bytes_max: EXPRESSION_BYTES_MAX,
};

/// What is made of an expression. What is long, or has to be compiled, is parsed and made beside the executors.
async fn parsed<T: Send + 'static>(
    reader: &Reader,
    text: &str,
    make: fn(Query) -> T,
) -> Result<T, ReadRejected> {
    let is_quick = text.len() <= QUICK_TEXT_BYTES_MAX && !text.contains('~');
    let parsed = match is_quick {
        true => {
            let _slice = reader.slicer.begin().await;
            Query::parse(text, OPTIONS).map(make)
        }
        false => {
            let text = text.to_owned();
            reader.compiler.run(move || Query::parse(&text, OPTIONS).map(make)).await?
        }
    };
    parsed.map_err(|error| bad(format_args!("invalid parameter \"query\": {error}")))
}

//! `/api/v1/query`, `query_range`, `format_query` and `parse_query`: expressions, evaluated on the core that was asked
//! over the series of all shards.
//!
//! What an expression means is `silverback-promql`'s. Here is what it is given: the request's parameters, the series
//! that its selectors match, slices, and memory.

mod answer;
mod fetch;
mod histograms;
mod request;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::params::{Params, bad};
use super::{json, whole};
use crate::api::query::Reader;
use crate::api::query::read_fault::ReadFault;
use crate::api::response::NodeResponse;
use crate::routing::{ReadInFlight, Reservation};
use request::Asked;
use silverback_model::Matcher;
use silverback_model::limits::{EXPRESSION_BYTES_MAX, QUERY_SAMPLES_MAX};
use silverback_promql::{
    Budget, Interruption, Pace, ParseOptions, Plan, PlanOptions, Query, QueryTimes, Room,
};
use silverback_runtime::Slice;

/// An expression at one time.
pub(crate) async fn instant(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    params: &Params,
) -> Result<NodeResponse, ReadFault> {
    let asked = Asked::instant(params, reader.clock.now_ms())?;
    evaluate(reader, read, asked).await
}

/// An expression at each step of a range.
pub(crate) async fn range(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    params: &Params,
) -> Result<NodeResponse, ReadFault> {
    let asked = Asked::range(params)?;
    evaluate(reader, read, asked).await
}

/// An expression, laid out on lines.
pub(crate) async fn format(reader: &Reader, params: &Params) -> Result<NodeResponse, ReadFault> {
    let query = parsed(reader, request::expression(params)).await?;
    let _slice = reader.slicer.begin().await;
    Ok(whole(json::success(query.pretty(), &[])))
}

/// An expression as a tree.
pub(crate) async fn parse(reader: &Reader, params: &Params) -> Result<NodeResponse, ReadFault> {
    let query = parsed(reader, request::expression(params)).await?;
    let _slice = reader.slicer.begin().await;
    let mut out = Vec::new();
    json::put_begin(&mut out);
    out.extend_from_slice(query.tree_json().as_bytes());
    json::put_end(&mut out, &[]);
    Ok(whole(out))
}

/// The matchers of each selector that an expression has.
pub(crate) async fn selectors(reader: &Reader, text: &str) -> Result<Vec<Vec<Matcher>>, ReadFault> {
    let query = parsed(reader, text).await?;
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

/// What is long, or has to be compiled, is parsed beside the executors.
async fn parsed(reader: &Reader, text: &str) -> Result<Query, ReadFault> {
    let is_quick = text.len() <= QUICK_TEXT_BYTES_MAX && !text.contains('~');
    let parsed = match is_quick {
        true => {
            let _slice = reader.slicer.begin().await;
            Query::parse(text, OPTIONS)
        }
        false => {
            let text = text.to_owned();
            reader.compiler.run(move || Query::parse(&text, OPTIONS)).await?
        }
    };
    parsed.map_err(|error| bad(format_args!("invalid parameter \"query\": {error}")))
}

async fn evaluate(reader: &Rc<Reader>, read: ReadInFlight, asked: Asked) -> Result<NodeResponse, ReadFault> {
    let query = parsed(reader, &asked.text).await?;
    let plan = Plan::new(query, asked.times, asked.options)?;
    let room = Rc::new(RefCell::new(reader.read_bytes.begin()));
    let fetched = fetch::fetch(reader, &read, &plan, &room).await?;
    let budget = Budget::new(QUERY_SAMPLES_MAX, usize::MAX).within(Box::new(Shared(Rc::clone(&room))));
    let pace = SlicePace(RefCell::new(Some(reader.slicer.begin().await)));
    let evaluated = plan.evaluate(&fetched, &budget, &pace).await;
    drop((pace, fetched));
    let answer = evaluated?;
    answer::respond(reader, read, answer, &asked, room)
}

/// A read's memory, as an evaluation takes it.
#[derive(Debug)]
struct Shared(Rc<RefCell<Reservation>>);

impl Room for Shared {
    fn take(&self, bytes: usize) -> bool {
        self.0.borrow_mut().grow(bytes).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.borrow_mut().shrink(bytes);
    }
}

/// A slice, as an evaluation gives it up. Nothing else is awaited while it is held.
struct SlicePace(RefCell<Option<Slice>>);

impl Pace for SlicePace {
    fn is_due(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(Slice::is_spent)
    }

    fn give_way(&self) -> Pin<Box<dyn Future<Output = Result<(), Interruption>> + '_>> {
        Box::pin(async {
            // Taken out: no borrow lasts while others run.
            let slice = self.0.borrow_mut().take();
            if let Some(mut slice) = slice {
                slice.yield_now().await;
                *self.0.borrow_mut() = Some(slice);
            }
            Ok(())
        })
    }
}

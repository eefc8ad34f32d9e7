//! `/api/v1/query`, `query_range`, `format_query` and `parse_query`: expressions, evaluated on the core that was asked
//! over the series of all shards.
//!
//! What an expression means is `silverback-promql`'s. Here is what it is given: the request's parameters, the series
//! that its selectors match, slices, and memory.

mod answer;
mod fetch;
mod histograms;
mod request;
mod room;
mod shares;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use super::params::{Params, bad};
use super::{json, whole};
use crate::api::query::Reader;
use crate::api::query::read_fault::ReadFault;
use crate::api::response::NodeResponse;
use crate::routing::{ReadInFlight, ReadLease, Reservation};
use fetch::{Scope, Streams};
use request::Asked;
use room::QueryRoom;
pub(crate) use shares::serve_folds;
use silverback_model::Matcher;
use silverback_model::limits::{EXPRESSION_BYTES_MAX, QUERY_SAMPLES_MAX};
use silverback_promql::{
    Budget, Interruption, LAID_OUT_BYTES_MAX, Pace, ParseOptions, Plan, PlanOptions, Query, QueryTimes,
};
use silverback_runtime::Slice;
use silverback_storage::message::ReadTicket;

/// An expression at one time. What it takes is added to the room that its request has already: of a request's own bytes
/// and its query's, either all fits or none ever will.
pub(crate) async fn instant(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    params: &Params,
    room: Reservation,
) -> Result<NodeResponse, ReadFault> {
    let asked = Asked::instant(params, reader.clock.now_ms())?;
    evaluate(reader, read, asked, room).await
}

/// An expression at each step of a range.
pub(crate) async fn range(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    params: &Params,
    room: Reservation,
) -> Result<NodeResponse, ReadFault> {
    let asked = Asked::range(params)?;
    evaluate(reader, read, asked, room).await
}

/// An expression, laid out on lines.
pub(crate) async fn format(reader: &Reader, params: &Params) -> Result<NodeResponse, ReadFault> {
    let laid_out = parsed(reader, request::expression(params), |query| query.pretty()).await?;
    let text = laid_out.ok_or_else(|| {
        bad(format_args!("the expression, laid out, would have more than {LAID_OUT_BYTES_MAX} bytes"))
    })?;
    let _slice = reader.slicer.begin().await;
    Ok(whole(json::success(text, &[])))
}

/// An expression as a tree.
pub(crate) async fn parse(reader: &Reader, params: &Params) -> Result<NodeResponse, ReadFault> {
    let tree = parsed(reader, request::expression(params), |query| query.tree_json()).await?;
    let _slice = reader.slicer.begin().await;
    let mut out = Vec::new();
    json::put_begin(&mut out);
    out.extend_from_slice(tree.as_bytes());
    json::put_end(&mut out, &[]);
    Ok(whole(out))
}

/// The matchers of each selector that an expression has.
pub(crate) async fn selectors(reader: &Reader, text: &str) -> Result<Vec<Vec<Matcher>>, ReadFault> {
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
) -> Result<T, ReadFault> {
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

async fn evaluate(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    asked: Asked,
    room: Reservation,
) -> Result<NodeResponse, ReadFault> {
    let query = parsed(reader, &asked.text, |query| query).await?;
    let plan = Arc::new(Plan::new(query, asked.times, asked.options)?);
    fetch::check_selects(plan.selects())?;
    let room = QueryRoom::new(room);
    let budget = Budget::new(QUERY_SAMPLES_MAX, usize::MAX).within(Box::new(room.clone()));
    let pace = SlicePace::begin(reader, read.lease()).await;
    let answer = {
        let streams = Streams::new(reader, read.lease(), &plan, Scope::AllShards, &room, &pace);
        let evaluated = plan.evaluate_from(&streams, &budget, &pace).await;
        evaluated.map_err(|error| streams.fault_of(error))?
    };
    drop(pace);
    Ok(answer::respond(reader, read, answer, &asked, room))
}

/// A slice, as an evaluation gives it up. Nothing else is awaited while it is held.
struct SlicePace {
    slice: RefCell<Option<Slice>>,
    /// Of the read: others end it, too.
    ticket: ReadTicket,
}

impl SlicePace {
    async fn begin(reader: &Reader, lease: &ReadLease) -> Self {
        let slice = RefCell::new(Some(reader.slicer.begin().await));
        Self { slice, ticket: lease.ticket().clone() }
    }

    /// Takes the slice, for something that gives it up itself.
    fn take(&self) -> Option<Slice> {
        self.slice.borrow_mut().take()
    }

    /// Goes on in a slice.
    fn put(&self, slice: Slice) {
        *self.slice.borrow_mut() = Some(slice);
    }
}

impl Pace for SlicePace {
    fn is_due(&self) -> bool {
        self.slice.borrow().as_ref().is_some_and(Slice::is_spent)
    }

    fn give_way(&self) -> Pin<Box<dyn Future<Output = Result<(), Interruption>> + '_>> {
        Box::pin(async {
            // Taken out: no borrow lasts while others run.
            if let Some(mut slice) = self.take() {
                slice.yield_now().await;
                self.put(slice);
            }
            if self.ticket.is_cancelled() { Err(Interruption::Canceled) } else { Ok(()) }
        })
    }
}

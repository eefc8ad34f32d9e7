//! How a query that another node asks sees the series: with external labels, without others, which decide about matchers
//! of their names.

use std::rc::Rc;
use std::sync::Arc;

use super::fetch::SeriesScope;
use super::request::ViewOptions;
use crate::api::query::Reader;
use crate::api::query::external::Narrowed;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::rows::RowStream;
use crate::routing::fanout::FanoutError;
use crate::routing::{Outside, ReadLease};
use silverback_promql::Plan;
use silverback_storage::message::{ExternalView, Selection, TextBatch, TextsWanted};

/// What a query sees, and whether shards may fold their own series.
pub(super) async fn of_query(
    reader: &Rc<Reader>,
    lease: &ReadLease,
    plan: &Plan,
    seen: Option<&ViewOptions>,
) -> Result<(Option<Arc<Outside>>, SeriesScope), ReadRejected> {
    let Some(seen) = seen else { return Ok((None, SeriesScope::AllShards)) };
    let view = ExternalView::new(reader.external.labels(), &seen.left_out, seen.shard.clone());
    let scope = match has_any_dropped(reader, lease, &view).await? {
        true => SeriesScope::AllTogether,
        false => SeriesScope::AllShards,
    };
    let mut matchers = Vec::with_capacity(plan.selects().len());
    for select in plan.selects() {
        matchers.push(match reader.external.narrow(reader, select.matchers.to_vec()).await? {
            Narrowed::None => None,
            Narrowed::To(own) => Some(own.into()),
        });
    }
    Ok((Some(Arc::new(Outside { view: Arc::new(view), matchers })), scope))
}

/// Whether a series in memory has a label of its own that isn't seen: only then two may be seen as one.
pub(super) async fn has_any_dropped(
    reader: &Rc<Reader>,
    lease: &ReadLease,
    view: &ExternalView,
) -> Result<bool, FanoutError> {
    for name in view.dropped() {
        let (everything, values) = (Selection::everything(), TextsWanted::LabelValues(name.into()));
        if RowStream::<TextBatch>::is_any(reader, lease, everything, values).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

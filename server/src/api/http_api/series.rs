//! `/api/v1/series`: the label sets that match, streamed; what a limit cuts off is told at the end.

use std::rc::Rc;

use http::StatusCode;

use super::json;
use super::params::Params;
use crate::api::core::Core;
use crate::api::endpoints::{NodeResponse, with_type};
use crate::api::read_fault::ReadFault;
use crate::api::read_permit::ReadPermit;
use crate::api::stream::streamed;
use crate::api::union::SeriesUnion;
use crate::message::SelectContent;

/// Answers with the union of all selectors, ascending, each label set once.
pub async fn respond(
    core: &Rc<Core>,
    permit: ReadPermit,
    params: &Params,
) -> Result<NodeResponse, ReadFault> {
    let limit = params.limit()?.map_or(usize::MAX, std::num::NonZeroUsize::get);
    let selections = params.required_selections()?;
    let mut series = SeriesUnion::open(core, selections, SelectContent::LabelsOnly).await?;
    let read = Rc::clone(core);
    let body = streamed(Rc::clone(core), permit, async move |outgoing| {
        json::put_begin(outgoing.made());
        outgoing.made().push(b'[');
        let mut count = 0;
        let mut warnings: &[&str] = &[];
        while let Some(one) = series.next().await? {
            if count == limit {
                warnings = &[json::TRUNCATED];
                break;
            }
            let slice = read.slicer.begin().await;
            if count > 0 {
                outgoing.made().push(b',');
            }
            json::put_labels(outgoing.made(), &one.labels);
            drop(slice);
            outgoing.send_if_full().await?;
            count += 1;
        }
        outgoing.made().push(b']');
        json::put_end(outgoing.made(), warnings);
        Ok(())
    });
    Ok(with_type(StatusCode::OK, json::CONTENT_TYPE, body))
}

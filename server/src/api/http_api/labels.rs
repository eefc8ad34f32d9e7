//! `/api/v1/labels` and `/api/v1/label/<name>/values`.

use std::rc::Rc;

use http::StatusCode;

use super::params::{Params, bad};
use super::{json, label_name};
use crate::api::core::Core;
use crate::api::endpoints::{NodeResponse, with_type};
use crate::api::fanout;
use crate::api::read_fault::ReadFault;
use crate::api::read_permit::ReadPermit;
use crate::api::stream::streamed;
use crate::message::{ReadRequest, Selection};

/// Texts that are written between two looks at the slice.
const STEP: usize = 64;

/// The label names of the series that match, of all where nothing is selected.
pub async fn names(core: &Rc<Core>, permit: ReadPermit, params: &Params) -> Result<NodeResponse, ReadFault> {
    union(core, permit, params, ReadRequest::LabelNames).await
}

/// The values of the label whose name stands in the path.
pub async fn values(
    core: &Rc<Core>,
    permit: ReadPermit,
    path_name: &str,
    params: &Params,
) -> Result<NodeResponse, ReadFault> {
    let name = label_name::from_path(path_name)
        .ok_or_else(|| bad(format_args!("{path_name:?} is not a label name")))?;
    union(core, permit, params, |selection| ReadRequest::LabelValues(name.as_str().into(), selection)).await
}

/// What all selections answer, ascending, each once, up to the limit.
async fn union(
    core: &Rc<Core>,
    permit: ReadPermit,
    params: &Params,
    request: impl Fn(Selection) -> ReadRequest,
) -> Result<NodeResponse, ReadFault> {
    let limit = params.limit()?;
    let mut found = Vec::new();
    for selection in params.selections_or_all()? {
        let is_first = found.is_empty();
        found.extend(fanout::strings(core, &request(selection)).await?);
        if !is_first {
            // Two ascending runs: this sort merges them.
            found.sort();
            found.dedup();
        }
    }
    let mut warnings: &'static [&'static str] = &[];
    if let Some(limit) = limit.filter(|limit| found.len() > limit.get()) {
        found.truncate(limit.get());
        warnings = &[json::TRUNCATED];
    }
    Ok(respond(core, permit, found, warnings))
}

fn respond(
    core: &Rc<Core>,
    permit: ReadPermit,
    texts: Vec<Box<str>>,
    warnings: &'static [&'static str],
) -> NodeResponse {
    let read = Rc::clone(core);
    let body = streamed(Rc::clone(core), permit, async move |outgoing| {
        json::put_begin(outgoing.made());
        outgoing.made().push(b'[');
        for (i, step) in texts.chunks(STEP).enumerate() {
            let slice = read.slicer.begin().await;
            for (j, text) in step.iter().enumerate() {
                if i + j > 0 {
                    outgoing.made().push(b',');
                }
                json::put_text(outgoing.made(), text);
            }
            drop(slice);
            outgoing.send_if_full().await?;
        }
        outgoing.made().push(b']');
        json::put_end(outgoing.made(), warnings);
        Ok(())
    });
    with_type(StatusCode::OK, json::CONTENT_TYPE, body)
}

//! `/api/v1/labels` and `/api/v1/label/<name>/values`.

use std::collections::BTreeSet;

use super::params::{Params, bad};
use super::{json, label_name, whole};
use crate::api::core::Core;
use crate::api::endpoints::NodeResponse;
use crate::api::fanout;
use crate::api::read_fault::ReadFault;
use crate::message::{ReadRequest, Selection};

/// The label names of the series that match, of all where nothing is selected.
pub async fn names(core: &Core, params: &Params) -> Result<NodeResponse, ReadFault> {
    union(core, params, ReadRequest::LabelNames).await
}

/// The values of the label whose name stands in the path.
pub async fn values(core: &Core, path_name: &str, params: &Params) -> Result<NodeResponse, ReadFault> {
    let name = label_name::from_path(path_name)
        .ok_or_else(|| bad(format_args!("{path_name:?} is not a label name")))?;
    union(core, params, |selection| ReadRequest::LabelValues(name.as_str().into(), selection)).await
}

/// What all selections answer, ascending, each once, up to the limit.
async fn union(
    core: &Core,
    params: &Params,
    request: impl Fn(Selection) -> ReadRequest,
) -> Result<NodeResponse, ReadFault> {
    let limit = params.limit()?;
    let mut found = BTreeSet::new();
    for selection in params.selections_or_all()? {
        found.extend(fanout::strings(core, &request(selection)).await?);
    }
    let mut found: Vec<_> = found.into_iter().collect();
    let mut warnings: &[&str] = &[];
    if let Some(limit) = limit.filter(|limit| found.len() > limit.get()) {
        found.truncate(limit.get());
        warnings = &[json::TRUNCATED];
    }
    Ok(whole(json::success(found, warnings)))
}

//! `/api/v1/status/runtimeinfo`, `flags` and `config` in Prometheus' shapes: since when the node runs, on what, and
//! how it was configured. What is only Go's runtime's is left out.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::{json, whole};
use crate::api::query::Reader;
use crate::api::response::NodeResponse;
use silverback_model::utc::format_rfc3339;

/// Answers since when the node runs and on what: Prometheus' fields, as far as they mean something here.
pub(crate) fn runtime_info(reader: &Reader) -> NodeResponse {
    let node = &reader.node;
    let reloads = node.reloads.as_deref();
    let read_ms = reloads.map(|reloads| reloads.last_success_ms.load(Ordering::Relaxed));
    let info = json!({
        "startTime": format_rfc3339(node.started_ms),
        "serverTime": format_rfc3339(reader.clock.now_ms()),
        // Whether the newest files of certificates, users and tokens could be read; true where there are none.
        "reloadConfigSuccess": reloads.is_none_or(|reloads| reloads.is_good.load(Ordering::Relaxed)),
        // When they last could; the start where there are none.
        "lastConfigTime": format_rfc3339(read_ms.unwrap_or(node.started_ms)),
        "GOMAXPROCS": node.cpus.len(),
        "GOMEMLIMIT": node.memory.limit_bytes,
        "storageRetention": reader.config.flags().find(|(name, _)| *name == "retention").expect("an option").1,
    });
    whole(json::success(info, &[]))
}

/// Answers what each option is.
pub(crate) fn flags(reader: &Reader) -> NodeResponse {
    let flags: BTreeMap<&str, String> = reader.config.flags().collect();
    whole(json::success(flags, &[]))
}

/// Answers with the options as a file that `--config` takes.
pub(crate) fn config(reader: &Reader) -> NodeResponse {
    whole(json::success(json!({ "yaml": reader.config.yaml() }), &[]))
}

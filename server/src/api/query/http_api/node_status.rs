//! `/api/v1/status/runtimeinfo`, `flags` and `config` in Prometheus' shapes: since when the node runs, on what, and
//! how it was configured. What is only Go's runtime's is left out.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde::Serialize;

use super::{json, whole};
use crate::api::query::Reader;
use crate::api::response::NodeResponse;
use silverback_model::utc::format_rfc3339;

/// Prometheus' fields, as far as they mean something here.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RuntimeInfo {
    start_time: String,
    server_time: String,
    /// Whether the newest files of certificates, users and tokens could be read; true where there are none.
    reload_config_success: bool,
    /// When they last could; the start where there are none.
    last_config_time: String,
    /// Cores that the node has.
    #[serde(rename = "GOMAXPROCS")]
    cores: usize,
    /// Its memory limit in bytes.
    #[serde(rename = "GOMEMLIMIT")]
    memory_limit_bytes: usize,
    storage_retention: String,
}

/// Answers since when the node runs and on what.
pub(crate) fn runtime_info(reader: &Reader) -> NodeResponse {
    let node = &reader.node;
    let reloads = node.reloads.as_deref();
    let info = RuntimeInfo {
        start_time: format_rfc3339(node.started_ms),
        server_time: format_rfc3339(reader.clock.now_ms()),
        reload_config_success: reloads.is_none_or(|reloads| reloads.is_good.load(Ordering::Relaxed)),
        last_config_time: format_rfc3339(
            reloads.map_or(node.started_ms, |reloads| reloads.last_success_ms.load(Ordering::Relaxed)),
        ),
        cores: node.cpus.len(),
        memory_limit_bytes: node.memory.limit_bytes,
        storage_retention: reader.config.flags().find(|(name, _)| *name == "retention").expect("an option").1,
    };
    whole(json::success(info, &[]))
}

/// Answers what each option is.
pub(crate) fn flags(reader: &Reader) -> NodeResponse {
    let flags: BTreeMap<&str, String> = reader.config.flags().collect();
    whole(json::success(flags, &[]))
}

#[derive(Serialize)]
struct ConfigFile {
    yaml: String,
}

/// Answers with the options as a file that `--config` takes.
pub(crate) fn config(reader: &Reader) -> NodeResponse {
    whole(json::success(ConfigFile { yaml: reader.config.yaml() }, &[]))
}

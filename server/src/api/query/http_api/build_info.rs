//! `/api/v1/status/buildinfo`: clients ask it to learn what a server can do.

use serde_json::json;

use super::{json, whole};
use crate::api::response::NodeResponse;

/// Answers with the version of this build: Prometheus' fields; those that this build doesn't know are empty.
pub(crate) fn respond() -> NodeResponse {
    let build = json!({
        "application": "Silverback",
        "version": env!("CARGO_PKG_VERSION"),
        "revision": "",
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    });
    whole(json::success(build, &[]))
}

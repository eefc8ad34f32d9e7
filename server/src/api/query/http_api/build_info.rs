//! `/api/v1/status/buildinfo`: clients ask it to learn what a server can do.

use serde::Serialize;

use super::{json, whole};
use crate::api::response::NodeResponse;

/// Prometheus' fields; those that this build doesn't know are empty.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BuildInfo {
    application: &'static str,
    version: &'static str,
    revision: &'static str,
    branch: &'static str,
    build_user: &'static str,
    build_date: &'static str,
    go_version: &'static str,
}

/// Answers with the version of this build.
pub(crate) fn respond() -> NodeResponse {
    let build = BuildInfo {
        application: "Silverback",
        version: env!("CARGO_PKG_VERSION"),
        revision: "",
        branch: "",
        build_user: "",
        build_date: "",
        go_version: "",
    };
    whole(json::success(build, &[]))
}

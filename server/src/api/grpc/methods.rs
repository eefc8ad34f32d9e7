//! The gRPC methods that are answered, each with what answers it and what that takes. The dispatch and the gate both go
//! by this table.

use http::Uri;

use super::store::StoreMethod;
use crate::access::scope::Scopes;
use crate::api::routes::{ADMIN, ANY, READ, RequestKind, WRITE};

/// What answers a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answerer {
    Health,
    /// The same in the words of its first version.
    ReflectionAlpha,
    Reflection,
    Stream,
    Write,
    Query,
    /// Thanos'.
    Store(StoreMethod),
    Admin,
    Otlp,
    /// Thanos' routers.
    Receive,
}

/// One method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
    pub(super) answerer: Answerer,
    /// One of these scopes it takes.
    pub(crate) needs: Scopes,
    pub(crate) kind: RequestKind,
}

const fn method(
    service: &'static str,
    name: &'static str,
    answerer: Answerer,
    needs: Scopes,
    kind: RequestKind,
) -> Method {
    Method { service, name, answerer, needs, kind }
}

const HEALTH: &str = "grpc.health.v1.Health";
const INGEST: &str = "silverback.v1.Ingest";
const QUERY: &str = "silverback.v1.Query";
const STORE: &str = "thanos.Store";
const THANOS_QUERY: &str = "thanos.Query";
const ADMIN_SERVICE: &str = "silverback.v1.Admin";

/// All of them.
pub(crate) static METHODS: &[Method] = &[
    method(INGEST, "Stream", Answerer::Stream, WRITE, RequestKind::Usual),
    method(INGEST, "Write", Answerer::Write, WRITE, RequestKind::Usual),
    method(super::OTLP, "Export", Answerer::Otlp, WRITE, RequestKind::Usual),
    method(super::WRITEABLE_STORE, "RemoteWrite", Answerer::Receive, WRITE, RequestKind::Usual),
    method(QUERY, "Select", Answerer::Query, READ, RequestKind::Usual),
    method(QUERY, "Series", Answerer::Query, READ, RequestKind::Usual),
    method(QUERY, "LabelNames", Answerer::Query, READ, RequestKind::Usual),
    method(QUERY, "LabelValues", Answerer::Query, READ, RequestKind::Usual),
    method(STORE, "Series", Answerer::Store(StoreMethod::Series), READ, RequestKind::Usual),
    method(STORE, "LabelNames", Answerer::Store(StoreMethod::LabelNames), READ, RequestKind::Usual),
    method(STORE, "LabelValues", Answerer::Store(StoreMethod::LabelValues), READ, RequestKind::Usual),
    method(
        "thanos.Exemplars",
        "Exemplars",
        Answerer::Store(StoreMethod::Exemplars),
        READ,
        RequestKind::Usual,
    ),
    method(THANOS_QUERY, "Query", Answerer::Store(StoreMethod::Query), READ, RequestKind::Usual),
    method(THANOS_QUERY, "QueryRange", Answerer::Store(StoreMethod::QueryRange), READ, RequestKind::Usual),
    method("thanos.info.Info", "Info", Answerer::Store(StoreMethod::Info), READ, RequestKind::Usual),
    method(HEALTH, "Check", Answerer::Health, ANY, RequestKind::Usual),
    method(HEALTH, "Watch", Answerer::Health, ANY, RequestKind::Usual),
    method(HEALTH, "List", Answerer::Health, ANY, RequestKind::Usual),
    method(
        "grpc.reflection.v1.ServerReflection",
        "ServerReflectionInfo",
        Answerer::Reflection,
        ANY,
        RequestKind::Usual,
    ),
    method(
        "grpc.reflection.v1alpha.ServerReflection",
        "ServerReflectionInfo",
        Answerer::ReflectionAlpha,
        ANY,
        RequestKind::Usual,
    ),
    method(ADMIN_SERVICE, "Shards", Answerer::Admin, ADMIN, RequestKind::Usual),
    method(ADMIN_SERVICE, "Cells", Answerer::Admin, ADMIN, RequestKind::Usual),
    method(ADMIN_SERVICE, "GetRebalance", Answerer::Admin, ADMIN, RequestKind::Usual),
    method(ADMIN_SERVICE, "PinCell", Answerer::Admin, ADMIN, RequestKind::Action),
    method(ADMIN_SERVICE, "UnpinCell", Answerer::Admin, ADMIN, RequestKind::Action),
    method(ADMIN_SERVICE, "MoveCell", Answerer::Admin, ADMIN, RequestKind::Action),
    method(ADMIN_SERVICE, "PauseRebalance", Answerer::Admin, ADMIN, RequestKind::Action),
    method(ADMIN_SERVICE, "ResumeRebalance", Answerer::Admin, ADMIN, RequestKind::Action),
    method(ADMIN_SERVICE, "DrainShard", Answerer::Admin, ADMIN, RequestKind::Action),
    method(ADMIN_SERVICE, "UndrainShard", Answerer::Admin, ADMIN, RequestKind::Action),
    method(ADMIN_SERVICE, "WriteCheckpoint", Answerer::Admin, ADMIN, RequestKind::Action),
];

impl Method {
    /// The method of a path; `None`: there is no such.
    pub(crate) fn of(uri: &Uri) -> Option<&'static Self> {
        let (service, name) = uri.path().strip_prefix('/')?.split_once('/')?;
        METHODS.iter().find(|method| method.name == name && method.service == service)
    }

    /// Whether a probe may call it whoever it is, where probes have an address of their own.
    pub(crate) fn is_probe(&self) -> bool {
        self.answerer == Answerer::Health
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_only_looks_like_a_method_s_is_none() {
        let of = |path: &str| Method::of(&path.parse().unwrap()).map(|method| method.name);
        assert_eq!(of("/silverback.v1.Admin/MoveCell"), Some("MoveCell"));
        for path in [
            "/silverback.v1.Admin/MoveCell/",
            "/silverback.v1.Admin",
            "//silverback.v1.Admin/MoveCell",
            "/silverback.v1.Query/MoveCell",
            "/x/silverback.v1.Admin/MoveCell",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}

//! The paths that are answered over HTTP, each with what answers it and what that takes: the router and the gate both
//! go by this table, so that no path is answered that nothing guards.

use crate::access::scope::{Scope, Scopes};
use crate::api::ingest::lines::{Dialect, Import};
use crate::api::query::http_api::QueryEndpoint;

/// What answers a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Remote write.
    Write,
    /// OTLP's metrics.
    Otlp,
    /// InfluxDB's lines.
    Lines(Dialect),
    /// Lines in Prometheus' text format.
    Import(Import),
    /// InfluxDB's queries, as far as its senders need them.
    InfluxQuery,
    /// A file of the page to ask on. The page itself is at InfluxDB's path.
    QueryFile,
    /// Remote read.
    RemoteRead,
    /// A question of Prometheus' HTTP API.
    Question(QueryEndpoint),
    /// A page of the node's own.
    Page(StatusPage),
}

/// What is small and made whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusPage {
    Status,
    Metrics,
    Node,
    Cells,
    Refusals,
    Healthy,
    Ready,
    Replayed,
    Ping,
}

/// Whether a request changes what an operator answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// It is logged only at debug.
    Usual,
    /// Each is logged with who asks for it.
    Action,
}

/// One path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// The path. A `*` stands for one segment of it, and at its end for all that follows.
    pub(crate) path: &'static str,
    /// What answers it.
    pub(crate) target: Target,
    /// One of these scopes it takes.
    pub(crate) needs: Scopes,
    pub(crate) kind: RequestKind,
}

/// What credentials of any scope may ask for.
pub(crate) const ANY: Scopes = Scopes::ALL;
pub(crate) const WRITE: Scopes = Scopes::of(&[Scope::Write]);
pub(crate) const READ: Scopes = Scopes::of(&[Scope::Read]);
pub(crate) const ADMIN: Scopes = Scopes::of(&[Scope::Admin]);
const METRICS: Scopes = Scopes::of(&[Scope::Metrics]);
/// Telegraf asks for its database before it writes.
const READ_OR_WRITE: Scopes = Scopes::of(&[Scope::Read, Scope::Write]);

const fn route(path: &'static str, target: Target, needs: Scopes) -> Route {
    Route { path, target, needs, kind: RequestKind::Usual }
}

/// All of them. What comes by the thousand is first.
pub(crate) static ROUTES: &[Route] = &[
    route("/api/v1/write", Target::Write, WRITE),
    route("/api/v1/receive", Target::Write, WRITE),
    route("/api/v1/push", Target::Write, WRITE),
    route("/v1/metrics", Target::Otlp, WRITE),
    route("/api/v1/otlp/v1/metrics", Target::Otlp, WRITE),
    route("/write", Target::Lines(Dialect::V1), WRITE),
    route("/api/v2/write", Target::Lines(Dialect::V2), WRITE),
    route("/api/v1/import/prometheus", Target::Import(Import::Plain), WRITE),
    route("/api/v1/import/prometheus/metrics/*", Target::Import(Import::Grouped), WRITE),
    route("/query", Target::InfluxQuery, READ_OR_WRITE),
    route("/query/*", Target::QueryFile, READ),
    route("/ping", Target::Page(StatusPage::Ping), ANY),
    route("/api/v1/read", Target::RemoteRead, READ),
    route("/api/v1/series", Target::Question(QueryEndpoint::Series), READ),
    route("/api/v1/labels", Target::Question(QueryEndpoint::LabelNames), READ),
    route("/api/v1/label/*/values", Target::Question(QueryEndpoint::LabelValues), READ),
    route("/api/v1/export", Target::Question(QueryEndpoint::Export), READ),
    route("/api/v1/query", Target::Question(QueryEndpoint::Query), READ),
    route("/api/v1/query_range", Target::Question(QueryEndpoint::QueryRange), READ),
    route("/api/v1/format_query", Target::Question(QueryEndpoint::FormatQuery), READ),
    route("/api/v1/parse_query", Target::Question(QueryEndpoint::ParseQuery), READ),
    route("/api/v1/query_exemplars", Target::Question(QueryEndpoint::Exemplars), READ),
    route("/api/v1/metadata", Target::Question(QueryEndpoint::Metadata), READ),
    route("/api/v1/status/tsdb", Target::Question(QueryEndpoint::TsdbStatus), READ),
    route("/api/v1/status/buildinfo", Target::Question(QueryEndpoint::BuildInfo), READ),
    route("/api/v1/status/runtimeinfo", Target::Question(QueryEndpoint::RuntimeInfo), READ),
    route("/api/v1/status/flags", Target::Question(QueryEndpoint::Flags), READ),
    route("/api/v1/status/config", Target::Question(QueryEndpoint::Config), READ),
    // Whoever may read all series may know what others ask of them; to end it is the operator's.
    route("/api/v1/status/active_queries", Target::Question(QueryEndpoint::ActiveQueries), READ),
    Route {
        kind: RequestKind::Action,
        ..route("/api/v1/status/active_queries/*", Target::Question(QueryEndpoint::CancelQuery), ADMIN)
    },
    Route {
        kind: RequestKind::Action,
        ..route("/api/v1/admin/tsdb/delete_series", Target::Question(QueryEndpoint::DeleteSeries), ADMIN)
    },
    Route {
        kind: RequestKind::Action,
        ..route(
            "/api/v1/admin/tsdb/clean_tombstones",
            Target::Question(QueryEndpoint::CleanTombstones),
            ADMIN,
        )
    },
    Route {
        kind: RequestKind::Action,
        ..route("/api/v1/admin/tsdb/snapshot", Target::Question(QueryEndpoint::Snapshot), ADMIN)
    },
    route("/metrics", Target::Page(StatusPage::Metrics), METRICS),
    route("/", Target::Page(StatusPage::Status), READ),
    route("/api/v1/status/node", Target::Page(StatusPage::Node), READ),
    route("/api/v1/status/cells", Target::Page(StatusPage::Cells), READ),
    route("/api/v1/status/refusals", Target::Page(StatusPage::Refusals), READ),
    route("/-/healthy", Target::Page(StatusPage::Healthy), ANY),
    route("/-/ready", Target::Page(StatusPage::Ready), ANY),
    route("/-/replayed", Target::Page(StatusPage::Replayed), ANY),
];

impl Route {
    /// The route of a path; `None`: nothing answers it.
    pub(crate) fn of(path: &str) -> Option<&'static Self> {
        ROUTES.iter().find(|route| route.named(path).is_some())
    }

    /// Whether a probe may ask for it whoever it is, where probes have an address of their own.
    pub(crate) fn is_probe(&self) -> bool {
        matches!(self.target, Target::Page(StatusPage::Healthy | StatusPage::Ready | StatusPage::Replayed))
    }

    /// What stands for the `*` in a path; nothing where there is none. `None`: the path is another route's.
    pub(crate) fn named<'a>(&self, path: &'a str) -> Option<&'a str> {
        match self.path.split_once('*') {
            None => (self.path == path).then_some(""),
            Some((before, "")) => path.strip_prefix(before),
            Some((before, after)) => path
                .strip_prefix(before)
                .and_then(|rest| rest.strip_suffix(after))
                .filter(|segment| !segment.contains('/')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_one_route_and_is_found_by_it() {
        for route in ROUTES {
            let path = route.path.replace('*', "job");
            let found: Vec<_> = ROUTES.iter().filter(|route| route.named(&path).is_some()).collect();
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert_eq!(Route::of(&path).map(|found| found.path), Some(route.path));
        }
    }

    #[test]
    fn a_path_names_what_stands_for_the_star() {
        let check =
            |path, expect| assert_eq!(Route::of(path).and_then(|route| route.named(path)), expect, "{path}");
        check("/api/v1/label/a%2Fb/values", Some("a%2Fb"));
        check("/api/v1/status/active_queries/0-1", Some("0-1"));
        check("/api/v1/import/prometheus/metrics/job/a", Some("job/a"));
        check("/api/v1/status/active_queries", Some(""));
        check("/api/v1/admin/tsdb/of_no_route", None);
    }

    #[test]
    fn a_path_that_only_looks_like_another_has_no_route() {
        for path in [
            "",
            "//",
            "/api/v1/write/",
            "//api/v1/write",
            "/API/v1/write",
            "/api/v1/%77rite",
            "/api/v1/./write",
            "/x/../api/v1/write",
            "/api/v1/label/a/b/values",
            "/api/v1/label/values",
            "/metrics/",
            "/api/v1/admin/tsdb/delete_series/",
            "/api/v1/import/prometheusx",
            "/api/v1/import/prometheus/metric",
            "/-/healthy/x",
        ] {
            assert!(Route::of(path).is_none(), "{path}");
        }
    }

    #[test]
    fn what_is_below_admin_takes_the_admin_s_scope() {
        for route in ROUTES.iter().filter(|route| route.path.contains("/admin/")) {
            assert_eq!((route.needs, route.kind), (ADMIN, RequestKind::Action), "{}", route.path);
        }
    }
}

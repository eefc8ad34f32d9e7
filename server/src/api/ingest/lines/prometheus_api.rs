//! `POST /api/v1/import/prometheus`, as VictoriaMetrics has it: lines in Prometheus' text format, and the same below
//! a path like the Pushgateway's, which names a job.

use http::{Method, Request};
use silverback_model::printable::Quoted;

use super::extra_labels::ExtraLabels;
use super::intake::{check_head, params, store};
use super::number::whole;
use super::prometheus_text::PrometheusText;
use super::report::LineReport;
use crate::api::http::request_body::HttpBody;
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::remote_write::answer::WriteResponse;
use crate::api::ingest::write_endpoint::{refuse, respond};
use crate::api::response::NodeResponse;

/// A path that takes such lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Import {
    /// As they are.
    Plain,
    /// With the labels that the path holds.
    Grouped,
}

impl Import {
    /// A Pushgateway's clients PUT and POST.
    fn methods(self) -> &'static [Method] {
        match self {
            Self::Plain => &[Method::POST],
            Self::Grouped => &[Method::POST, Method::PUT],
        }
    }
}

/// Answers one request, with what its path names.
pub async fn import<B: HttpBody>(caller: &Caller, path: (Import, &str), request: Request<B>) -> NodeResponse {
    match take_in(caller, path, request).await {
        Ok(report) => {
            caller.note_refused(&report.samples.examples);
            respond(WriteResponse::in_words(&report.samples, || report.words()))
        }
        Err(rejection) => refuse(caller, WriteResponse::to_rejection(None, &rejection), &rejection),
    }
}

async fn take_in<B: HttpBody>(
    ingest: &Ingest,
    (import, named): (Import, &str),
    request: Request<B>,
) -> Result<LineReport, WriteRejected> {
    let arrived_ms = ingest.clock.now_ms();
    check_head(ingest, import.methods(), request.method(), request.headers())?;
    let params = params(&request).await?;
    let mut extra = ExtraLabels::default();
    match import {
        Import::Plain => {}
        Import::Grouped => extra.add_path(named)?,
    }
    params.all("extra_label").try_for_each(|parameter| extra.add_parameter(parameter))?;
    let now_ms = params.get("timestamp").map_or(Ok(arrived_ms), default_time)?;
    store(ingest, request, &PrometheusText { extra }, now_ms, |counts| counts.writes_prometheus_text += 1)
        .await
}

fn default_time(text: &str) -> Result<i64, WriteRejected> {
    let wrong =
        || WriteRejected::Parameter(format!("timestamp={}: whole milliseconds are wanted", Quoted(text)));
    whole(text.as_bytes()).ok_or_else(wrong)
}

//! `/api/v1/query_exemplars`: the exemplars of the series that an expression's selectors match, in Prometheus' shape,
//! streamed.

use std::rc::Rc;

use http::StatusCode;

use super::params::{Params, bad};
use super::sample_json::put_seconds;
use super::{json, promql};
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadAnswer;
use crate::api::query::stream::{AnswerSender, StreamError, streamed};
use crate::api::query::union::RowUnion;
use crate::api::response::with_type;
use crate::routing::ReadInFlight;
use silverback_model::Exemplar;
use silverback_model::histogram::json::put_float;
use silverback_runtime::Slice;
use silverback_storage::message::{Selection, SeriesBatch, SeriesView, SeriesWanted};

/// Exemplars that are written between two looks at the slice.
const STEP: usize = 64;

/// Answers a query.
pub(crate) async fn respond(reader: &Rc<Reader>, read: ReadInFlight, params: &Params) -> ReadAnswer {
    let Some(text) = params.get("query") else { return Err(bad("no query parameter provided")) };
    let selectors = promql::selectors(reader, text).await?;
    let selections = selectors.into_iter().map(|matchers| params.selection(matchers));
    let selections: Vec<_> = selections.collect::<Result<_, _>>()?;
    if selections.iter().any(|selection| selection.min_ms > selection.max_ms) {
        return Err(bad("end timestamp must not be before start timestamp"));
    }
    respond_to(reader, read, selections).await
}

/// Answers with what any of the selections finds, label sets ascending, each once.
async fn respond_to(reader: &Rc<Reader>, read: ReadInFlight, selections: Vec<Selection>) -> ReadAnswer {
    let mut union: RowUnion<SeriesBatch> =
        RowUnion::open(reader, read.lease(), selections, SeriesWanted::Exemplars).await?;
    let core_of_read = Rc::clone(reader);
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        json::put_begin(outgoing.made());
        outgoing.made().push(b'[');
        let (mut is_first, mut held) = (true, None);
        while let Some(slice) = union.advance(held).await? {
            if !std::mem::take(&mut is_first) {
                outgoing.made().push(b',');
            }
            held = send_series(&core_of_read, union.series(), outgoing, slice).await?;
        }
        outgoing.made().push(b']');
        json::put_end(outgoing.made(), &[]);
        Ok(())
    });
    Ok(with_type(StatusCode::OK, json::CONTENT_TYPE, body))
}

async fn send_series(
    reader: &Reader,
    series: SeriesView<'_>,
    outgoing: &mut AnswerSender,
    slice: Slice,
) -> Result<Option<Slice>, StreamError> {
    outgoing.made().extend_from_slice(b"{\"seriesLabels\":");
    json::put_labels(outgoing.made(), series.labels);
    outgoing.made().extend_from_slice(b",\"exemplars\":[");
    let (mut exemplars, mut held) = (series.exemplars().enumerate(), Some(slice));
    while exemplars.len() > 0 {
        let slice = reader.slicer.go_on(held).await;
        for (i, exemplar) in exemplars.by_ref().take(STEP) {
            if i > 0 {
                outgoing.made().push(b',');
            }
            put(outgoing.made(), &exemplar);
        }
        held = outgoing.send_if_full(slice).await?;
    }
    outgoing.made().extend_from_slice(b"]}");
    Ok(held)
}

fn put(out: &mut Vec<u8>, exemplar: &Exemplar<'_>) {
    out.extend_from_slice(b"{\"labels\":");
    json::put_labels(out, exemplar.labels);
    out.extend_from_slice(b",\"value\":");
    put_float(out, exemplar.value);
    out.extend_from_slice(b",\"timestamp\":");
    put_seconds(out, exemplar.timestamp_ms);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::{LabelBlock, Labels};

    #[test]
    fn an_exemplar_is_written_as_prometheus_writes_it() {
        let labels = Labels::from_pairs([("trace_id", "a\"b")]).to_canonical();
        let exemplar = Exemplar { timestamp_ms: 1_700_000_000_050, value: 0.25, labels: LabelBlock(&labels) };
        let mut out = Vec::new();
        put(&mut out, &exemplar);
        let expect = r#"{"labels":{"trace_id":"a\"b"},"value":"0.25","timestamp":1700000000.050}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}

//! `Exemplars`: those of the series that an expression's selectors match, with the node's external labels.
//!
//! A series of more than 1 MiB of exemplars goes on in the next message, its labels repeated.

use std::rc::Rc;

use bytes::Bytes;
use prost::Message;
use silverback_proto::thanos::ExemplarsRequest;

use super::frames::{int_len, put_int, put_prefix};
use super::{select, series};
use crate::api::grpc::query::begin;
use crate::api::grpc::stream::{Answers, MessageSender, streamed};
use crate::api::protobuf::{Wire, field_len, put_len_head, tag};
use crate::api::query::Reader;
use crate::api::query::external::Narrowed;
use crate::api::query::http_api::promql;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::stream::StreamError;
use crate::api::query::union::RowUnion;
use crate::routing::Asker;
use silverback_model::limits::{READ_FRAME_BYTES, STREAM_BUFFER_BYTES};
use silverback_model::{Exemplar, LabelBlock};
use silverback_runtime::Slice;
use silverback_storage::message::{ExternalView, Selection, SeriesBatch, SeriesView, SeriesWanted};

/// Exemplars that are written between two looks at the slice.
const STEP: usize = 64;

/// `ExemplarsResponse.data`, `ExemplarData.seriesLabels` and `Exemplar.labels`.
const FIRST: u8 = 1;
/// `ExemplarData.exemplars`
const EXEMPLARS: u8 = 2;

/// Opens the read, so that a refusal has a status, and streams what it finds.
pub(super) async fn answer(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: ExemplarsRequest,
) -> Result<Answers<Bytes>, ReadRejected> {
    let read = begin::<()>(reader, asker, &[], request.encoded_len()).await?;
    let (mut selections, mut is_match) = (Vec::new(), false);
    for matchers in promql::selectors(reader, &request.query).await? {
        let Narrowed::To(matchers) = reader.external.narrow(reader, matchers).await? else { continue };
        is_match = true;
        if !matchers.is_empty() {
            let (min_ms, max_ms) = (request.start, request.end);
            selections.push(Selection { matchers: matchers.into(), min_ms, max_ms });
        }
    }
    if selections.is_empty() {
        return if is_match { Err(select::too_broad()) } else { Ok(series::none()) };
    }
    let union: RowUnion<SeriesBatch> =
        RowUnion::open(reader, read.lease(), selections, SeriesWanted::Exemplars).await?;
    let core_of_read = Rc::clone(reader);
    Ok(streamed(reader, read, async move |outgoing| send(&core_of_read, union, outgoing).await))
}

async fn send(
    reader: &Reader,
    mut union: RowUnion<SeriesBatch>,
    outgoing: &mut MessageSender<Bytes>,
) -> Result<(), StreamError> {
    let view = ExternalView::new(reader.external.labels(), &[], None);
    let (mut made, mut held) = (Vec::new(), None);
    while let Some(slice) = union.advance(held).await? {
        held = send_series(reader, &view, union.series(), &mut made, outgoing, slice).await?;
    }
    if !made.is_empty() {
        outgoing.send(made.into()).await?;
    }
    Ok(())
}

async fn send_series(
    reader: &Reader,
    view: &ExternalView,
    series: SeriesView<'_>,
    made: &mut Vec<u8>,
    outgoing: &mut MessageSender<Bytes>,
    slice: Slice,
) -> Result<Option<Slice>, StreamError> {
    let (mut labels, mut message) = (Vec::new(), Vec::new());
    view.put_labels(series.labels.texts(), &mut labels);
    let (mut exemplars, mut held) = (series.exemplars(), Some(slice));
    while exemplars.len() > 0 {
        let slice = reader.slicer.go_on(held).await;
        exemplars.by_ref().take(STEP).for_each(|exemplar| put_exemplar(&mut message, &exemplar));
        if exemplars.len() == 0 || message.len() >= READ_FRAME_BYTES {
            put_message(made, &labels, &message);
            message.clear();
        }
        held = Some(slice);
        if made.len() >= STREAM_BUFFER_BYTES {
            drop(held.take());
            outgoing.send(std::mem::take(made).into()).await?;
        }
    }
    Ok(held)
}

fn put_message(out: &mut Vec<u8>, labels: &[u8], exemplars: &[u8]) {
    let data_bytes = field_len(labels.len()) + exemplars.len();
    put_prefix(out, field_len(data_bytes));
    put_len_head(out, FIRST, data_bytes);
    put_label_set(out, LabelBlock(labels));
    out.extend_from_slice(exemplars);
}

fn put_exemplar(out: &mut Vec<u8>, exemplar: &Exemplar<'_>) {
    let value_bytes = 1 + size_of::<f64>();
    let time = exemplar.timestamp_ms as u64;
    put_len_head(out, EXEMPLARS, field_len(exemplar.labels.0.len()) + value_bytes + int_len(time));
    put_label_set(out, exemplar.labels);
    out.push(tag(2, Wire::Fixed64));
    out.extend_from_slice(&exemplar.value.to_le_bytes());
    put_int(out, 3, time);
}

/// The canonical form is a label set's own: `repeated Label labels = 1`.
fn put_label_set(out: &mut Vec<u8>, labels: LabelBlock<'_>) {
    put_len_head(out, FIRST, labels.0.len());
    out.extend_from_slice(labels.0);
}

#[cfg(test)]
mod tests {
    use silverback_model::Labels;
    use silverback_proto::thanos::exemplars_response::Result as Answer;
    use silverback_proto::thanos::{ExemplarsResponse, Label};

    use super::*;

    #[test]
    fn prost_reads_a_message_as_it_was_written() {
        let trace = Labels::from_pairs([("trace_id", "x")]).to_canonical();
        let series = Labels::from_pairs([("__name__", "up"), ("dc", "eu")]).to_canonical();
        let (mut exemplars, mut out) = (Vec::new(), Vec::new());
        for (timestamp_ms, labels) in [(-5, &trace[..]), (0, b"")] {
            put_exemplar(&mut exemplars, &Exemplar { timestamp_ms, value: 0.25, labels: LabelBlock(labels) });
        }
        put_message(&mut out, &series, &exemplars);
        assert_eq!(out[..5], [0, 0, 0, 0, (out.len() - 5) as u8]);
        let message = ExemplarsResponse::decode(&out[5..]).unwrap();
        let Some(Answer::Data(data)) = message.result else { panic!("{message:?}") };
        let labels = data.series_labels.unwrap().labels;
        assert_eq!(labels[1], Label { name: "dc".into(), value: "eu".into() });
        let read: Vec<_> = data.exemplars.iter().map(|read| (read.ts, read.value)).collect();
        assert_eq!(read, [(-5, 0.25), (0, 0.25)]);
        let traces: Vec<_> =
            data.exemplars.iter().map(|read| read.labels.as_ref().unwrap().labels.len()).collect();
        assert_eq!(traces, [1, 0]);
    }
}

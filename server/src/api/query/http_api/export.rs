//! `/api/v1/export`: one JSON object a line, a series each, streamed:
//! `{"metric":{…},"values":[…],"timestamps":[…]}`, timestamps in ms. Of a series with native histograms the object goes
//! on with `"histograms":[[timestamp,{…}],…]`, each as Prometheus' API writes it.
//!
//! Values are as `sample_json` has them. However long a series or slow a client, what waits for it
//! is bounded.

use std::rc::Rc;

use http::StatusCode;

use super::json;
use super::params::Params;
use super::sample_json::{put_value, put_whole};
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadAnswer;
use crate::api::query::stream::{AnswerSender, StreamError, streamed};
use crate::api::query::union::RowUnion;
use crate::api::response::with_type;
use crate::routing::ReadInFlight;
use silverback_model::Sample;
use silverback_model::gorilla::ChunkError;
use silverback_model::histogram::json::put_histogram;
use silverback_model::histogram::{Histogram, HistogramChunkError, HistogramIter};
use silverback_runtime::Slice;
use silverback_storage::message::{ChunkView, SeriesBatch, SeriesView, SeriesWanted};

const CONTENT_TYPE: &str = "application/stream+json";

/// Answers with the union of all selectors, label sets ascending.
pub(crate) async fn respond(reader: &Rc<Reader>, read: ReadInFlight, params: &Params) -> ReadAnswer {
    let selections = params.required_selections(reader).await?;
    let range_ms = selections.first().map_or((i64::MIN, i64::MAX), |s| (s.min_ms, s.max_ms));
    let mut union: RowUnion<SeriesBatch> =
        RowUnion::open(reader, read.lease(), selections, SeriesWanted::Chunks).await?;
    let core_of_read = Rc::clone(reader);
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        let mut held = None;
        while let Some(slice) = union.advance(held).await? {
            held = send_line(&core_of_read, union.series(), range_ms, outgoing, slice).await?;
        }
        Ok(())
    });
    Ok(with_type(StatusCode::OK, CONTENT_TYPE, body))
}

/// Chunks are read once for each of the two lists: so a series of any length needs no more memory.
async fn send_line(
    reader: &Reader,
    series: SeriesView<'_>,
    range_ms: (i64, i64),
    outgoing: &mut AnswerSender,
    slice: Slice,
) -> Result<Option<Slice>, StreamError> {
    if !has_sample(series, range_ms)? {
        return Ok(Some(slice));
    }
    outgoing.made().extend_from_slice(b"{\"metric\":");
    json::put_labels(outgoing.made(), series.labels);
    outgoing.made().extend_from_slice(b",\"values\":[");
    let held = send_list(reader, series, range_ms, put_value, outgoing, Some(slice)).await?;
    outgoing.made().extend_from_slice(b"],\"timestamps\":[");
    let put_time = |out: &mut Vec<u8>, sample: Sample| put_whole(out, sample.timestamp_ms);
    let held = send_list(reader, series, range_ms, put_time, outgoing, held).await?;
    outgoing.made().push(b']');
    let held = send_histograms(reader, series, range_ms, outgoing, held).await?;
    outgoing.made().extend_from_slice(b"}\n");
    Ok(held)
}

/// Adds the list of native histograms where there are any: each a pair of its time in ms and of the histogram as
/// Prometheus' API writes it.
async fn send_histograms(
    reader: &Reader,
    series: SeriesView<'_>,
    range_ms: (i64, i64),
    outgoing: &mut AnswerSender,
    mut held: Option<Slice>,
) -> Result<Option<Slice>, StreamError> {
    let mut before: &[u8] = b",\"histograms\":[[";
    let mut histogram = Histogram::default();
    for mut chunk in series.chunks().filter_map(ChunkView::histograms) {
        let slice = reader.slicer.go_on(held).await;
        while let Some(timestamp_ms) = next_in_range(&mut chunk, &mut histogram, range_ms)? {
            outgoing.made().extend_from_slice(before);
            put_whole(outgoing.made(), timestamp_ms);
            outgoing.made().push(b',');
            put_histogram(outgoing.made(), &histogram);
            outgoing.made().push(b']');
            before = b",[";
        }
        held = outgoing.send_if_full(slice).await?;
    }
    if before == b",[" {
        outgoing.made().push(b']');
    }
    Ok(held)
}

/// Reads the next histogram of a range, and returns its time.
fn next_in_range(
    chunk: &mut HistogramIter<'_>,
    histogram: &mut Histogram,
    (min_ms, max_ms): (i64, i64),
) -> Result<Option<i64>, HistogramChunkError> {
    while chunk.samples_left() > 0 {
        let timestamp_ms = chunk.next_into(histogram)?;
        if (min_ms..=max_ms).contains(&timestamp_ms) {
            return Ok(Some(timestamp_ms));
        }
    }
    Ok(None)
}

async fn send_list(
    reader: &Reader,
    series: SeriesView<'_>,
    range_ms: (i64, i64),
    put: impl Fn(&mut Vec<u8>, Sample),
    outgoing: &mut AnswerSender,
    mut held: Option<Slice>,
) -> Result<Option<Slice>, StreamError> {
    let mut is_first = true;
    for chunk in series.chunks() {
        let slice = reader.slicer.go_on(held).await;
        for sample in in_range(chunk, range_ms) {
            if !std::mem::take(&mut is_first) {
                outgoing.made().push(b',');
            }
            put(outgoing.made(), sample?);
        }
        held = outgoing.send_if_full(slice).await?;
    }
    Ok(held)
}

/// A chunk may lie across the range and have nothing in it.
fn has_sample(series: SeriesView<'_>, range_ms: (i64, i64)) -> Result<bool, StreamError> {
    let mut histogram = Histogram::default();
    for chunk in series.chunks() {
        if let Some(mut histograms) = chunk.histograms() {
            if next_in_range(&mut histograms, &mut histogram, range_ms)?.is_some() {
                return Ok(true);
            }
            continue;
        }
        if let Some(sample) = in_range(chunk, range_ms).next() {
            return Ok(sample.map(|_| true)?);
        }
    }
    Ok(false)
}

fn in_range(
    chunk: ChunkView<'_>,
    (min_ms, max_ms): (i64, i64),
) -> impl Iterator<Item = Result<Sample, ChunkError>> {
    let is_wanted = move |sample: &Sample| (min_ms..=max_ms).contains(&sample.timestamp_ms);
    chunk.samples().filter(move |sample| sample.as_ref().map_or(true, is_wanted))
}

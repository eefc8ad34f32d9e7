//! Samples, series by series: in columns, or in the chunks that memory holds.
//!
//! A response is sent on once it is large enough. A series that isn't at its end then goes on in
//! the next one, its labels repeated.

use std::rc::Rc;

use bytes::Bytes;
use prost::Message;
use silverback_proto::v1::{
    Columns, HistogramChunk, Label, SampleEncoding, SelectRequest, SelectResponse, SelectedSeries, XorChunk,
};

use super::begin;
use super::labels::{proto_labels, text_bytes};
use super::selection::selection;
use crate::api::grpc::stream::{Answers, MessageSender, streamed};
use crate::api::protobuf::varint_len;
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::rows::RowStream;
use crate::api::query::selector::Breadth;
use crate::api::query::stream::StreamError;
use crate::routing::Asker;
use silverback_model::gorilla::ChunkError;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Histogram, HistogramChunkError, HistogramIter};
use silverback_model::limits::STREAM_BUFFER_BYTES;
use silverback_runtime::Slice;
use silverback_storage::message::{ChunkOf, ChunkView, SeriesBatch, SeriesView, SeriesWanted};

/// Opens the select, so that a refusal has a status, and streams its series.
pub(super) async fn answer(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: SelectRequest,
) -> Result<Answers<SelectResponse>, ReadRejected> {
    let read = begin(reader, asker, &request.matchers, request.encoded_len()).await?;
    let form = Form::of(&request)?;
    let selection = selection(reader, &request.matchers, request.range, Breadth::Narrowed).await?;
    let mut stream: RowStream<SeriesBatch> =
        RowStream::open_all(reader, read.lease(), selection, SeriesWanted::Chunks, 1).await?;
    let core_of_read = Rc::clone(reader);
    Ok(streamed(reader, read, async move |outgoing| {
        let mut response = Response::default();
        let mut held = None;
        while let Some(slice) = stream.advance(held).await? {
            let adding = response.add_series(&core_of_read, stream.series(), form, outgoing, slice);
            held = adding.await?;
        }
        response.send_rest(outgoing).await
    }))
}

/// How samples are sent.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Those of the range, both ends included, in ms.
    Columns { min_ms: i64, max_ms: i64 },
    /// The chunks that touch it.
    Chunks,
}

impl Form {
    fn of(request: &SelectRequest) -> Result<Self, ReadRejected> {
        let bad = |words: String| Err(ReadRejected::BadRequest(words));
        let Some(range) = request.range else { return bad("a range is needed".to_owned()) };
        match SampleEncoding::try_from(request.encoding) {
            Ok(SampleEncoding::Unspecified | SampleEncoding::Columns) => {
                Ok(Self::Columns { min_ms: range.min_ms, max_ms: range.max_ms })
            }
            Ok(SampleEncoding::XorChunks) => Ok(Self::Chunks),
            Err(_) => bad(format!("there is no sample encoding {}", request.encoding)),
        }
    }
}

/// A response as it fills.
#[derive(Default)]
struct Response {
    series: Vec<SelectedSeries>,
    /// Of the series, about, as they are sent.
    bytes: usize,
}

impl Response {
    async fn add_series(
        &mut self,
        reader: &Reader,
        series: SeriesView<'_>,
        form: Form,
        outgoing: &mut MessageSender<SelectResponse>,
        slice: Slice,
    ) -> Result<Option<Slice>, StreamError> {
        let labels = proto_labels(series.labels);
        let (mut piece, mut held) = (ResponsePiece::default(), Some(slice));
        for chunk in series.chunks() {
            held = Some(reader.slicer.go_on(held).await);
            piece.add(series, chunk, form)?;
            if self.bytes + piece.bytes >= STREAM_BUFFER_BYTES {
                self.add_piece(&labels, std::mem::take(&mut piece));
                drop(held.take());
                self.send_rest(outgoing).await?;
            }
        }
        self.add_piece(&labels, piece);
        Ok(held)
    }

    /// Adds a piece, if there is anything in it: a chunk may lie across the range and have nothing
    /// inside.
    fn add_piece(&mut self, labels: &[Label], piece: ResponsePiece) {
        let ResponsePiece { columns, chunks, histograms, histogram_chunks, bytes, .. } = piece;
        let has_samples = !columns.values.is_empty() || !chunks.is_empty();
        if !has_samples && histograms.is_empty() && histogram_chunks.is_empty() {
            return;
        }
        self.bytes += bytes + text_bytes(labels);
        let columns = (!columns.values.is_empty()).then_some(columns);
        let labels = labels.to_vec();
        self.series.push(SelectedSeries { labels, columns, chunks, histograms, histogram_chunks });
    }

    async fn send_rest(&mut self, outgoing: &mut MessageSender<SelectResponse>) -> Result<(), StreamError> {
        let Self { series, .. } = std::mem::take(self);
        if !series.is_empty() {
            outgoing.send(SelectResponse { series }).await?;
        }
        Ok(())
    }
}

/// Samples of one series that go into one response.
#[derive(Default)]
struct ResponsePiece {
    columns: Columns,
    chunks: Vec<XorChunk>,
    histograms: Vec<Bytes>,
    histogram_chunks: Vec<HistogramChunk>,
    last_ms: i64,
    bytes: usize,
}

impl ResponsePiece {
    fn add(&mut self, series: SeriesView<'_>, chunk: ChunkView<'_>, form: Form) -> Result<(), StreamError> {
        match form {
            Form::Columns { min_ms, max_ms } => match chunk.histograms() {
                None => Ok(self.add_samples(chunk, min_ms, max_ms)?),
                Some(histograms) => Ok(self.add_histograms(histograms, min_ms, max_ms)?),
            },
            Form::Chunks => {
                self.add_chunk(series, chunk);
                Ok(())
            }
        }
    }

    fn add_samples(&mut self, chunk: ChunkView<'_>, min_ms: i64, max_ms: i64) -> Result<(), ChunkError> {
        for sample in chunk.samples() {
            let sample = sample?;
            if (min_ms..=max_ms).contains(&sample.timestamp_ms) {
                let delta_ms = sample.timestamp_ms.wrapping_sub(self.last_ms);
                self.last_ms = sample.timestamp_ms;
                self.columns.timestamp_deltas_ms.push(delta_ms);
                self.columns.values.push(sample.value);
                self.bytes += size_of::<f64>() + varint_len(((delta_ms << 1) ^ (delta_ms >> 63)) as u64);
            }
        }
        Ok(())
    }

    fn add_histograms(
        &mut self,
        mut chunk: HistogramIter<'_>,
        min_ms: i64,
        max_ms: i64,
    ) -> Result<(), HistogramChunkError> {
        let mut histogram = Histogram::default();
        while chunk.samples_left() > 0 {
            let timestamp_ms = chunk.next_into(&mut histogram)?;
            if (min_ms..=max_ms).contains(&timestamp_ms) {
                let mut message = Vec::new();
                let times = HistogramTimes { timestamp_ms, ..HistogramTimes::default() };
                histogram.put_message(times, &mut message);
                self.bytes += message.len() + size_of::<Bytes>();
                self.histograms.push(message.into());
            }
        }
        Ok(())
    }

    fn add_chunk(&mut self, series: SeriesView<'_>, chunk: ChunkView<'_>) {
        let ChunkView { min_ms, max_ms, of, .. } = chunk;
        let bytes = series.shared_bytes(chunk);
        self.bytes += bytes.len() + size_of::<HistogramChunk>();
        match of {
            ChunkOf::Samples => self.chunks.push(XorChunk { min_ms, max_ms, bytes }),
            ChunkOf::Histograms(kind) => {
                let encoding = u32::from(kind.chunk_encoding());
                self.histogram_chunks.push(HistogramChunk { min_ms, max_ms, encoding, bytes });
            }
        }
    }
}

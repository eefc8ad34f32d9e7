//! Responses to whole series: one that goes on in the next response is joined again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures::Stream;
use silverback_model::histogram::Histogram;
use silverback_proto::v1;
use tonic::Streaming;

use super::{ReadError, SelectedChunks, SelectedSeries};
use crate::error::RequestError;
use crate::labels::{self, Labels};

/// Series with their samples, as they come.
pub type SampleStream = Joined<SelectedSeries>;
/// Series with their chunks, as they come.
pub type ChunkStream = Joined<SelectedChunks>;

/// A series, or a part of one, that a response holds.
pub trait SeriesPart: Sized + Unpin {
    /// What the message holds.
    fn from_message(message: v1::SelectedSeries) -> Result<Self, ReadError>;
    /// Whose part it is.
    fn labels(&self) -> &Labels;
    /// Appends what the same series goes on with.
    fn append(&mut self, next: Self);
}

/// A stream of whole series out of a stream of responses.
#[derive(Debug)]
pub struct Joined<P> {
    responses: Streaming<v1::SelectResponse>,
    parts: vec::IntoIter<v1::SelectedSeries>,
    /// The last one, which may go on.
    last: Option<P>,
}

impl<P: SeriesPart> Joined<P> {
    pub(super) fn new(responses: Streaming<v1::SelectResponse>) -> Self {
        Self { responses, parts: Vec::new().into_iter(), last: None }
    }

    /// Takes a part in; gives the series before it, if it is of another one.
    fn join(&mut self, message: v1::SelectedSeries) -> Result<Option<P>, ReadError> {
        let part = P::from_message(message)?;
        match &mut self.last {
            Some(last) if last.labels() == part.labels() => {
                last.append(part);
                Ok(None)
            }
            last => Ok(last.replace(part)),
        }
    }
}

impl<P: SeriesPart> Stream for Joined<P> {
    type Item = Result<P, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            while let Some(part) = self.parts.next() {
                if let Some(whole) = self.join(part)? {
                    return Poll::Ready(Some(Ok(whole)));
                }
            }
            match ready!(Pin::new(&mut self.responses).poll_next(context)) {
                Some(Ok(response)) => self.parts = response.series.into_iter(),
                Some(Err(status)) => {
                    // What it holds may not be whole.
                    self.last = None;
                    return Poll::Ready(Some(Err(RequestError::from(status).into())));
                }
                None => return Poll::Ready(self.last.take().map(Ok)),
            }
        }
    }
}

impl SeriesPart for SelectedSeries {
    fn from_message(message: v1::SelectedSeries) -> Result<Self, ReadError> {
        let columns = message.columns.unwrap_or_default();
        let (timestamps, values) = (columns.timestamp_deltas_ms.len(), columns.values.len());
        if timestamps != values {
            return Err(ReadError::UnevenColumns { timestamps, values });
        }
        let mut timestamp_ms = 0_i64;
        let timestamps = columns.timestamp_deltas_ms.into_iter().map(|delta_ms| {
            timestamp_ms = timestamp_ms.wrapping_add(delta_ms);
            timestamp_ms
        });
        let samples = timestamps.zip(columns.values).collect();
        let histograms =
            message.histograms.iter().map(|message| histogram(message)).collect::<Result<_, _>>()?;
        Ok(Self { labels: labels::from_messages(message.labels), samples, histograms })
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn append(&mut self, next: Self) {
        self.samples.extend(next.samples);
        self.histograms.extend(next.histograms);
    }
}

/// A native histogram and its time.
fn histogram(message: &[u8]) -> Result<(i64, Histogram), ReadError> {
    let mut histogram = Histogram::default();
    let times = histogram.read_message(message)?;
    Ok((times.timestamp_ms, histogram))
}

impl SeriesPart for SelectedChunks {
    fn from_message(message: v1::SelectedSeries) -> Result<Self, ReadError> {
        let v1::SelectedSeries { labels, chunks, histogram_chunks, .. } = message;
        Ok(Self { labels: labels::from_messages(labels), chunks, histogram_chunks })
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn append(&mut self, next: Self) {
        self.chunks.extend(next.chunks);
        self.histogram_chunks.extend(next.histogram_chunks);
    }
}

/// Label sets, as they come.
#[derive(Debug)]
pub struct LabelSetStream {
    responses: Streaming<v1::SeriesResponse>,
    sets: vec::IntoIter<v1::LabelSet>,
}

impl LabelSetStream {
    pub(super) fn new(responses: Streaming<v1::SeriesResponse>) -> Self {
        Self { responses, sets: Vec::new().into_iter() }
    }
}

impl Stream for LabelSetStream {
    type Item = Result<Labels, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(set) = self.sets.next() {
                return Poll::Ready(Some(Ok(labels::from_messages(set.labels))));
            }
            match ready!(Pin::new(&mut self.responses).poll_next(context)) {
                Some(Ok(response)) => self.sets = response.series.into_iter(),
                Some(Err(status)) => return Poll::Ready(Some(Err(RequestError::from(status).into()))),
                None => return Poll::Ready(None),
            }
        }
    }
}

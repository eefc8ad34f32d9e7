//! Reading: the samples of the series that match, and their labels.

mod joined;

use std::ops::RangeInclusive;

use silverback_model::histogram::Histogram;
use silverback_model::histogram::wire::HistogramWireError;
use silverback_proto::v1;
pub use silverback_proto::v1::{HistogramChunk, XorChunk};

pub use self::joined::{ChunkStream, Joined, LabelSetStream, SampleStream, SeriesPart};
use crate::client::Client;
use crate::error::RequestError;
use crate::labels::Labels;
use crate::matcher::Matcher;

/// Why a read failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The node refused it, or can't be reached.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A series came with more times than values, or fewer.
    #[error("the node's answer is broken: a series has {timestamps} times and {values} values")]
    UnevenColumns {
        /// Times.
        timestamps: usize,
        /// Values.
        values: usize,
    },
    /// A native histogram came that isn't valid.
    #[error("the node's answer is broken: {0}")]
    BadHistogram(#[from] HistogramWireError),
}

/// Reads samples and labels; [`Client::reader`] makes one. Times are in ms since the Unix epoch,
/// both ends included.
///
/// ```no_run
/// use futures::TryStreamExt;
/// use silverback_client::{Client, Selector};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let reader = Client::connect("http://127.0.0.1:9009").await?.reader();
/// let selector: Selector = r#"room_temperature{room=~"kitchen|bath"}"#.parse()?;
/// let mut found = reader.select(&selector, 0..=i64::MAX).await?;
/// while let Some(series) = found.try_next().await? {
///     println!("{:?}: {} samples", series.labels, series.samples.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Reader {
    client: Client,
}

/// A series and its samples of the range.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedSeries {
    /// Names ascending.
    pub labels: Labels,
    /// Times ascending.
    pub samples: Vec<(i64, f64)>,
    /// Native histograms, times ascending.
    pub histograms: Vec<(i64, Histogram)>,
}

/// A series and the chunks that touch the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedChunks {
    /// Names ascending.
    pub labels: Labels,
    /// Times ascending; at the edges they may hold samples outside of the range.
    /// [`chunk::decode`](crate::chunk::decode) reads one.
    pub chunks: Vec<XorChunk>,
    /// Those of native histograms, likewise, as Prometheus encodes them.
    pub histogram_chunks: Vec<HistogramChunk>,
}

impl Reader {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The samples of all series that match, ordered by labels. Each comes whole, so the longest
    /// one has to fit into memory.
    pub async fn select(
        &self,
        matchers: &[Matcher],
        range_ms: RangeInclusive<i64>,
    ) -> Result<SampleStream, ReadError> {
        self.joined(matchers, range_ms, v1::SampleEncoding::Columns).await
    }

    /// The chunks of all series that match, ordered by labels, as they are stored.
    pub async fn select_chunks(
        &self,
        matchers: &[Matcher],
        range_ms: RangeInclusive<i64>,
    ) -> Result<ChunkStream, ReadError> {
        self.joined(matchers, range_ms, v1::SampleEncoding::XorChunks).await
    }

    async fn joined<P: SeriesPart>(
        &self,
        matchers: &[Matcher],
        range_ms: RangeInclusive<i64>,
        encoding: v1::SampleEncoding,
    ) -> Result<Joined<P>, ReadError> {
        let request = v1::SelectRequest {
            matchers: messages(matchers),
            range: Some(time_range(range_ms)),
            encoding: encoding.into(),
        };
        Ok(Joined::new(self.client.answer(self.client.query().select(request)).await?))
    }

    /// The label sets that match, ordered; of any time where no range is given.
    pub async fn series(
        &self,
        matchers: &[Matcher],
        range_ms: Option<RangeInclusive<i64>>,
    ) -> Result<LabelSetStream, ReadError> {
        let request = v1::SeriesRequest { matchers: messages(matchers), range: range_ms.map(time_range) };
        Ok(LabelSetStream::new(self.client.answer(self.client.query().series(request)).await?))
    }

    /// The label names of the series that match, ascending; no matcher: of all.
    pub async fn label_names(
        &self,
        matchers: &[Matcher],
        range_ms: Option<RangeInclusive<i64>>,
    ) -> Result<Vec<String>, ReadError> {
        let request = v1::LabelNamesRequest { matchers: messages(matchers), range: range_ms.map(time_range) };
        Ok(self.client.answer(self.client.query().label_names(request)).await?.names)
    }

    /// The values of one label of the series that match, ascending; no matcher: of all.
    pub async fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range_ms: Option<RangeInclusive<i64>>,
    ) -> Result<Vec<String>, ReadError> {
        let request = v1::LabelValuesRequest {
            name: name.to_owned(),
            matchers: messages(matchers),
            range: range_ms.map(time_range),
        };
        Ok(self.client.answer(self.client.query().label_values(request)).await?.values)
    }
}

fn messages(matchers: &[Matcher]) -> Vec<v1::Matcher> {
    matchers.iter().map(Matcher::to_message).collect()
}

fn time_range(range_ms: RangeInclusive<i64>) -> v1::TimeRange {
    v1::TimeRange { min_ms: *range_ms.start(), max_ms: *range_ms.end() }
}

//! Remote write 1: `prometheus.WriteRequest`.
//!
//! A series in the usual form, its labels first and canonical, is read in one walk, and its labels
//! are hashed where they lie. Any other goes a slower way that writes its labels out anew.

use super::{
    canonical::block_end,
    content::{Content, SeriesFields, read_content},
    decoder::{Decoder, Decoding, GoodSeries, SeriesSink, Slice, count_unstored},
    labels::CollectedLabels,
    malformed::{MalformedBody, MalformedCause},
    tally::Tally,
    wire::{Reader, Tag, WireType, malformed},
};
use silverback_model::SeriesIdHasher;
use silverback_storage::message::{LabelSource, LabelSpan, WriteBody};

const TIMESERIES: Tag = Tag::new(1, WireType::Len);
const METADATA: Tag = Tag::new(3, WireType::Len);
const REQUEST_KNOWN_MAX: u32 = 1;
/// The symbols and series of remote write 2.
const V2_FIELDS: [Tag; 2] = [Tag::new(4, WireType::Len), Tag::new(5, WireType::Len)];

const LABELS: Tag = Tag::new(1, WireType::Len);
const LABEL_NAME: Tag = Tag::new(1, WireType::Len);
const LABEL_VALUE: Tag = Tag::new(2, WireType::Len);
const LABEL_KNOWN_MAX: u32 = 2;

const SERIES_FIELDS: SeriesFields = SeriesFields {
    labels: &[LABELS],
    exemplars: Tag::new(3, WireType::Len),
    histograms: Tag::new(4, WireType::Len),
    metadata: None,
    known_max: 4,
    sample_known_max: 2,
};

/// Decodes about `series_max` series more.
pub(super) fn decode(
    decoder: &mut Decoder,
    body: &mut WriteBody,
    decoding: &mut Decoding,
    hasher: &SeriesIdHasher,
    series_max: usize,
    sink: &mut impl SeriesSink,
) -> Result<Slice, MalformedBody> {
    let WriteBody { bytes, scratch, .. } = body;
    let tally = &mut decoding.tally;
    let mut request = Reader::new(bytes, decoding.at);
    let mut slice = SeriesSlice { labels: &mut decoder.labels, scratch, hasher, tally, sink };
    for _field in 0..series_max.max(1) {
        if request.is_empty() {
            return Ok(Slice::Done);
        }
        let tag = request.tag()?;
        if tag == TIMESERIES {
            slice.read_series(request.message()?)?;
        } else if tag == METADATA {
            slice.tally.metadata_ignored += 1;
            request.skip(tag)?;
        } else {
            skip_unknown(&mut request, tag)?;
        }
        decoding.at = request.at();
    }
    Ok(if request.is_empty() { Slice::Done } else { Slice::More })
}

/// Field 2 is unknown by reservation; metadata is known, with one wire type. A remote write 2
/// request that came as this one would be passed over whole, and lost without a word.
fn skip_unknown(request: &mut Reader, tag: Tag) -> Result<(), MalformedBody> {
    if V2_FIELDS.contains(&tag) {
        return Err(malformed(request.at(), MalformedCause::OtherVersion));
    }
    let known_max = if tag.number() == METADATA.number() { tag.number() } else { REQUEST_KNOWN_MAX };
    request.skip_unknown(tag, known_max)
}

/// What the series of one slice are read with.
struct SeriesSlice<'a, S> {
    labels: &'a mut CollectedLabels,
    scratch: &'a mut Vec<u8>,
    hasher: &'a SeriesIdHasher,
    tally: &'a mut Tally,
    sink: &'a mut S,
}

impl<S: SeriesSink> SeriesSlice<'_, S> {
    #[inline]
    fn read_series(&mut self, series: Reader) -> Result<(), MalformedBody> {
        let (bytes, start) = (series.bytes(), series.at());
        let Some(end) = block_end(bytes, start) else {
            return self.read_odd_series(series);
        };
        let samples = Reader::new(bytes, end);
        let content = read_content(samples, &SERIES_FIELDS)?;
        if content.labels > 0 {
            return self.read_odd_series(series);
        }
        let id = self.hasher.hash_canonical(&bytes[start..end]);
        let labels = LabelSpan::new(LabelSource::Wire, start, end - start);
        if content.has_unstored() {
            self.count_unstored(series, &content)?;
        }
        self.pass_on(GoodSeries { id, labels, content, samples })
    }

    #[inline]
    fn pass_on(&mut self, series: GoodSeries) -> Result<(), MalformedBody> {
        if series.content.samples == 0 {
            return Ok(());
        }
        series.pass_on(&SERIES_FIELDS, self.tally, self.sink)
    }

    #[cold]
    fn count_unstored(&mut self, series: Reader, content: &Content) -> Result<(), MalformedBody> {
        collect_labels(series, self.labels)?;
        count_unstored(content, self.tally, self.labels, series.bytes());
        Ok(())
    }

    /// Labels out of order, behind samples, without a value, in another encoding, or bad.
    #[cold]
    fn read_odd_series(&mut self, series: Reader) -> Result<(), MalformedBody> {
        let bytes = series.bytes();
        collect_labels(series, self.labels)?;
        let content = read_content(series, &SERIES_FIELDS)?;
        if let Err(reason) = self.labels.check(bytes) {
            let samples = content.samples_and_histograms();
            self.tally.refuse_series(reason, samples, self.labels, bytes);
            return Ok(());
        }
        count_unstored(&content, self.tally, self.labels, bytes);
        let start = self.scratch.len();
        self.labels.write_canonical(bytes, self.scratch);
        let id = self.hasher.hash_canonical(&self.scratch[start..]);
        let labels = LabelSpan::new(LabelSource::Scratch, start, self.scratch.len() - start);
        self.pass_on(GoodSeries { id, labels, content, samples: series })
    }
}

/// Collects the labels of a series: field 1, each with its name in field 1 and its value in field 2.
pub fn collect_labels(mut series: Reader, labels: &mut CollectedLabels) -> Result<(), MalformedBody> {
    labels.clear();
    while !series.is_empty() {
        let tag = series.tag()?;
        if tag == LABELS {
            collect_label(series.message()?, labels)?;
        } else {
            series.skip(tag)?;
        }
    }
    Ok(())
}

/// A name or value that is absent is empty; of one that is repeated the last counts.
fn collect_label(mut label: Reader, labels: &mut CollectedLabels) -> Result<(), MalformedBody> {
    let empty = label.at()..label.at();
    let (mut name, mut value) = (empty.clone(), empty);
    while !label.is_empty() {
        let tag = label.tag()?;
        if tag == LABEL_NAME {
            name = label.span()?;
        } else if tag == LABEL_VALUE {
            value = label.span()?;
        } else {
            label.skip_unknown(tag, LABEL_KNOWN_MAX)?;
        }
    }
    labels.push(name, value);
    Ok(())
}

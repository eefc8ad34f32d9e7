//! Decodes a request in slices: in place, every series checked, and handed on with its samples.

use std::time::Instant;

use super::{
    content::{Content, SeriesFields, pass_samples},
    id_cache::IdCache,
    labels::CollectedLabels,
    malformed::{MalformedError, MalformedErrorKind},
    symbols::PairKeys,
    tally::RequestTally,
    thanos::{self, SeriesIn},
    v1, v2,
    wire::{WireReader, malformed},
};
use crate::api::ingest::known_metadata::KnownMetadata;
use silverback_model::{
    Metadata, Sample, SeriesId, SeriesIdHasher,
    limits::{DECODE_STEP_SERIES, REQUEST_SAMPLES_MAX},
};
use silverback_storage::message::{
    LabelSpan, MessageSpan, PartExemplar, PartHistogram, PartMetadata, WriteBody,
};

/// The two protocol versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `prometheus.WriteRequest`
    V1,
    /// `io.prometheus.write.v2.Request`
    V2,
}

/// Takes the good series of a request as they are decoded.
pub trait SeriesSink {
    /// A checked series. Exactly `samples` calls of [`SeriesSink::sample`] follow, at least one.
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32);

    /// The next sample of the series.
    fn sample(&mut self, sample: Sample);

    /// The start timestamp of the sample that came last, in ms, not 0. Mostly a sample has none. Whoever keeps samples
    /// alone passes it over.
    fn start_timestamp(&mut self, _start_ms: i64) {}

    /// A native histogram of a checked series, whose bytes nobody has looked into yet. Whoever keeps floats alone
    /// passes it over.
    fn histogram(&mut self, _histogram: PartHistogram) {}

    /// An exemplar of a checked series, after its samples or without any. Whoever keeps samples alone passes it over.
    fn exemplar(&mut self, _exemplar: PartExemplar) {}

    /// What is said of a metric, unless it was said recently. Whoever keeps samples alone passes it over.
    fn metadata(&mut self, _said: &Metadata<'_>, _metadata: PartMetadata) {}
}

/// Whether a request is decoded to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeProgress {
    /// There is more: call again.
    More,
    /// That was all.
    Done,
}

/// What is read of a request now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing yet.
    Fresh,
    /// Remote write 2: the symbol table.
    Symbols,
    /// The series.
    Series,
}

/// What a request is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    RemoteWrite(Version),
    /// `thanos.WriteRequest`, whose series are those of remote write 1.
    Thanos(SeriesIn),
}

impl Phase {
    fn first_of(layout: Layout) -> Self {
        match layout {
            Layout::RemoteWrite(Version::V1) | Layout::Thanos(_) => Self::Series,
            Layout::RemoteWrite(Version::V2) => Self::Symbols,
        }
    }
}

/// How far one request is decoded.
#[derive(Debug)]
pub struct Decoding {
    layout: Layout,
    pub(super) phase: Phase,
    /// The next top-level field.
    pub(super) at: usize,
    /// Thanos: where the tenant's series end that are read now.
    pub(super) tenant_end: usize,
    /// Remote write 2: bytes of labels that were written out to be hashed.
    pub(super) expanded_bytes: usize,
    /// What was counted so far.
    pub tally: RequestTally,
}

impl Decoding {
    /// Begins a request whose decompressed bytes are in its body.
    pub fn start(version: Version) -> Self {
        Self::of_layout(Layout::RemoteWrite(version))
    }

    /// The same of a request of Thanos', which was surveyed.
    pub fn start_thanos(series: SeriesIn) -> Self {
        Self::of_layout(Layout::Thanos(series))
    }

    fn of_layout(layout: Layout) -> Self {
        let tally = RequestTally::default();
        Self { layout, phase: Phase::Fresh, at: 0, tenant_end: 0, expanded_bytes: 0, tally }
    }
}

/// Series that are begun before the first of them is read: the id cache is far larger than the
/// core's own caches, and answers by the time it is asked.
pub(super) const RUN: usize = 16;

/// What one core keeps for decoding, from request to request.
pub struct Decoder {
    pub(super) labels: CollectedLabels,
    pub(super) pair_keys: PairKeys,
    pub(super) ids: IdCache,
    pub(super) known_metadata: KnownMetadata,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(IdCache::default())
    }
}

impl Decoder {
    /// A decoder that remembers label sets in `ids`.
    pub(crate) fn new(ids: IdCache) -> Self {
        Self {
            labels: CollectedLabels::default(),
            pair_keys: PairKeys::draw(),
            ids,
            known_metadata: KnownMetadata::default(),
        }
    }

    /// Passes metadata on again that it has passed on long ago. Called now and then.
    pub(crate) fn forget_old_metadata(&mut self, now: Instant) {
        self.known_metadata.forget_old(now);
    }

    /// The same of all: somebody who should have got it may not have.
    pub fn forget_metadata(&mut self) {
        self.known_metadata.forget();
    }

    /// The memory of the label sets that it remembers, in bytes.
    pub(crate) fn known_bytes(&self) -> usize {
        self.ids.bytes()
    }

    /// Decodes on as long as `has_time`, which is asked after every few series: they take time with
    /// samples and without.
    pub fn decode_while(
        &mut self,
        body: &mut WriteBody,
        decoding: &mut Decoding,
        hasher: &SeriesIdHasher,
        sink: &mut impl SeriesSink,
        mut has_time: impl FnMut() -> bool,
    ) -> Result<DecodeProgress, MalformedError> {
        loop {
            match self.decode(body, decoding, hasher, DECODE_STEP_SERIES, sink)? {
                DecodeProgress::Done => return Ok(DecodeProgress::Done),
                DecodeProgress::More if has_time() => {}
                DecodeProgress::More => return Ok(DecodeProgress::More),
            }
        }
    }

    /// Decodes on, for about `series_max` series. The labels that `sink` is given are in `body`.
    ///
    /// After an error the request is refused as a whole: what `sink` has of it must be dropped.
    pub fn decode(
        &mut self,
        body: &mut WriteBody,
        decoding: &mut Decoding,
        hasher: &SeriesIdHasher,
        series_max: usize,
        sink: &mut impl SeriesSink,
    ) -> Result<DecodeProgress, MalformedError> {
        if decoding.phase == Phase::Fresh {
            start_body(body)?;
            decoding.phase = Phase::first_of(decoding.layout);
        }
        match decoding.layout {
            Layout::RemoteWrite(Version::V1) => v1::decode(self, body, decoding, hasher, series_max, sink),
            Layout::RemoteWrite(Version::V2) => v2::decode(self, body, decoding, hasher, series_max, sink),
            Layout::Thanos(series) => {
                let mut stretch = thanos::stretch(body, series_max);
                thanos::decode(self, body, decoding, hasher, sink, (series, &mut stretch))
            }
        }
    }
}

fn start_body(body: &mut WriteBody) -> Result<(), MalformedError> {
    body.symbols.clear();
    body.symbol_hashes.clear();
    body.scratch.clear();
    if body.bytes.len() > LabelSpan::OFFSET_MAX {
        return Err(malformed(LabelSpan::OFFSET_MAX, MalformedErrorKind::BodyTooLarge));
    }
    Ok(())
}

/// A series whose labels are good, on its way to the sink.
pub(super) struct GoodSeries<'a> {
    pub id: SeriesId,
    pub labels: LabelSpan,
    pub content: Content,
    /// The bytes that its samples lie in.
    pub samples: WireReader<'a>,
}

impl GoodSeries<'_> {
    /// Hands the series and its samples on.
    #[inline(always)]
    pub(crate) fn pass_on(
        self,
        fields: &SeriesFields,
        tally: &mut RequestTally,
        sink: &mut impl SeriesSink,
    ) -> Result<(), MalformedError> {
        tally.series += 1;
        tally.samples += u64::from(self.content.samples);
        if tally.samples + tally.histograms > REQUEST_SAMPLES_MAX {
            return Err(malformed(self.samples.at(), MalformedErrorKind::TooManySamples));
        }
        sink.series(self.id, self.labels, self.content.samples);
        // Nearly all series that there are: one sample, without a start timestamp.
        if (self.content.samples, self.content.starts) == (1, 0) {
            sink.sample(self.content.first);
            return Ok(());
        }
        pass_samples(self.samples, fields, sink)
    }
}

/// Hands the native histograms of a good series on, whose fields were read before.
#[cold]
pub(super) fn pass_histograms(
    mut series: WireReader,
    fields: &SeriesFields,
    (id, labels): (SeriesId, LabelSpan),
    tally: &mut RequestTally,
    sink: &mut impl SeriesSink,
) -> Result<(), MalformedError> {
    while !series.is_empty() {
        let tag = series.tag()?;
        if tag != fields.histograms {
            series.skip(tag)?;
            continue;
        }
        let place = series.span()?;
        tally.histograms += 1;
        if tally.samples + tally.histograms > REQUEST_SAMPLES_MAX {
            return Err(malformed(place.start, MalformedErrorKind::TooManySamples));
        }
        sink.histogram(PartHistogram { id, labels, message: MessageSpan::of_body(place.start, place.len()) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl SeriesSink for Nothing {
        fn series(&mut self, _id: SeriesId, _labels: LabelSpan, _samples: u32) {
            panic!("no series is whole");
        }

        fn sample(&mut self, _sample: Sample) {
            panic!("there is no sample");
        }
    }

    #[test]
    fn series_without_samples_are_put_down_as_often_as_any() {
        const SERIES: usize = 100_000;
        for (version, field) in [(Version::V1, [0x0a, 0]), (Version::V2, [0x2a, 0])] {
            let mut body = WriteBody { bytes: field.repeat(SERIES).into(), ..WriteBody::default() };
            let hasher = SeriesIdHasher::new(7, "");
            let (mut decoder, mut decoding) = (Decoder::default(), Decoding::start(version));
            let (mut looks, mut slices) = (0, 0);
            let mut decode = || {
                slices += 1;
                decoder.decode_while(&mut body, &mut decoding, &hasher, &mut Nothing, || {
                    looks += 1;
                    looks % 10 > 0
                })
            };
            while decode() == Ok(DecodeProgress::More) {}
            assert!(looks >= SERIES / DECODE_STEP_SERIES - 1, "{looks} looks at the clock");
            assert!(slices >= looks / 10, "{slices} slices in {looks} looks");
            assert_eq!(decoding.tally.series_refused, SERIES as u64);
        }
    }
}

//! Remote write 1: `prometheus.WriteRequest`.
//!
//! A series in the usual form, its labels first and in one piece, is recognised by the hash of the labels' bytes as they
//! are there; where these end is guessed by the samples after them, for what is known is known to be labels and nothing
//! else. One that isn't known yet has its labels checked. They are hashed where they are if they are canonical; any
//! others go a slower way that writes them out again, for their id.

use super::{
    beside::{Beside, TextsOf},
    canonical::{FIELDS_BYTES_MAX, fields_end, is_canonical, is_plain},
    content::{Content, SeriesFields, last_samples_start, read_content},
    decoder::{DecodeProgress, Decoder, Decoding, GoodSeries, RUN, SeriesSink, pass_histograms},
    id_cache::{IdCache, KnownLabels},
    labels::{CollectedLabels, LabelArrangement},
    malformed::{MalformedError, MalformedErrorKind},
    tally::RequestTally,
    wire::{Tag, WireReader, WireType, malformed},
};
use crate::api::ingest::known_metadata::KnownMetadata;
use silverback_model::{SeriesId, SeriesIdHasher};
use silverback_storage::message::{LabelSource, LabelSpan, WriteBody};

pub(super) const TIMESERIES: Tag = Tag::new(1, WireType::Len);
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

/// A part of a body whose fields are read one after the other.
pub(super) struct Stretch {
    /// Where it ends.
    pub end: usize,
    /// Fields that may be read before others get their turn.
    pub fields_left: usize,
    /// What its fields are but for the series.
    pub others: Others,
}

/// The fields beside series.
#[derive(Debug, Clone, Copy)]
pub(super) enum Others {
    /// Remote write 1's: metadata, and some that must not be there.
    RemoteWrite,
    /// They were looked at before, and are passed over.
    Known,
}

/// Decodes about `series_max` series more.
pub(super) fn decode(
    decoder: &mut Decoder,
    body: &mut WriteBody,
    decoding: &mut Decoding,
    hasher: &SeriesIdHasher,
    series_max: usize,
    sink: &mut impl SeriesSink,
) -> Result<DecodeProgress, MalformedError> {
    let (end, fields_left) = (body.bytes.len(), series_max.max(1));
    let mut stretch = Stretch { end, fields_left, others: Others::RemoteWrite };
    decode_stretch(decoder, body, decoding, hasher, sink, &mut stretch)
}

/// Decodes on to the end of a stretch, or for as many fields as it has left.
pub(super) fn decode_stretch(
    decoder: &mut Decoder,
    body: &mut WriteBody,
    decoding: &mut Decoding,
    hasher: &SeriesIdHasher,
    sink: &mut impl SeriesSink,
    stretch: &mut Stretch,
) -> Result<DecodeProgress, MalformedError> {
    let Stretch { end, fields_left, others } = stretch;
    let WriteBody { bytes, scratch, .. } = body;
    let Decoding { at, tally, .. } = decoding;
    let Decoder { labels, ids, known_metadata, .. } = decoder;
    let mut request = WireReader::new(&bytes[..*end], *at);
    let mut slice =
        SeriesSlice { labels, ids, known_metadata, scratch, hasher, tally, sink, others: *others };
    let mut run = [BegunSeries { series: request, labels_end: 0, fingerprint: SeriesId(0) }; RUN];
    while !request.is_empty() && *fields_left > 0 {
        let (mut begun, mut outcome) = (0, Ok(()));
        while !request.is_empty() && *fields_left > 0 && begun < RUN && outcome.is_ok() {
            outcome = slice.begin_field(&mut request, &mut run, &mut begun);
            *fields_left -= 1;
        }
        for series in &run[..begun] {
            slice.read_series(series)?;
        }
        // What is wrong with a series is reported first: it comes before this.
        outcome?;
        *at = request.at();
    }
    Ok(if request.is_empty() { DecodeProgress::Done } else { DecodeProgress::More })
}

/// Field 2 is unknown by reservation; metadata is known, with one wire type. A remote write 2
/// request that came as this one would be passed over whole, and lost silently.
fn skip_unknown(request: &mut WireReader, tag: Tag) -> Result<(), MalformedError> {
    if V2_FIELDS.contains(&tag) {
        return Err(malformed(request.at(), MalformedErrorKind::OtherVersion));
    }
    let known_max = if tag.number() == METADATA.number() { tag.number() } else { REQUEST_KNOWN_MAX };
    request.skip_unknown(tag, known_max)
}

/// What the series of one slice are read with.
struct SeriesSlice<'a, S> {
    labels: &'a mut CollectedLabels,
    ids: &'a mut IdCache,
    known_metadata: &'a mut KnownMetadata,
    scratch: &'a mut Vec<u8>,
    hasher: &'a SeriesIdHasher,
    tally: &'a mut RequestTally,
    sink: &'a mut S,
    others: Others,
}

/// A series whose labels are hashed.
#[derive(Clone, Copy)]
struct BegunSeries<'a> {
    series: WireReader<'a>,
    /// Where its labels end, or seem to: its start, where they aren't in one piece there.
    labels_end: usize,
    /// Of the labels' bytes as they are there. Of a canonical block it is the series id.
    fingerprint: SeriesId,
}

impl<'a> BegunSeries<'a> {
    /// The labels' bytes.
    #[inline]
    fn fields(&self) -> &'a [u8] {
        &self.series.bytes()[self.series.at()..self.labels_end]
    }

    /// What is after the labels.
    #[inline]
    fn samples(&self) -> WireReader<'a> {
        WireReader::new(self.series.bytes(), self.labels_end)
    }

    /// Where the labels are that come as `arrangement` says.
    #[inline]
    fn span(&self, arrangement: LabelArrangement) -> LabelSpan {
        let start = self.series.at();
        let span = LabelSpan::new(LabelSource::Wire, start, self.labels_end - start);
        match arrangement {
            LabelArrangement::InOrder => span,
            LabelArrangement::Rearranged => span.unsorted(),
        }
    }
}

impl<S: SeriesSink> SeriesSlice<'_, S> {
    /// Reads a field of the request as far as the labels, if it is a series: then it is the next of `run`.
    #[inline]
    fn begin_field<'b>(
        &mut self,
        request: &mut WireReader<'b>,
        run: &mut [BegunSeries<'b>; RUN],
        begun: &mut usize,
    ) -> Result<(), MalformedError> {
        let tag = request.tag()?;
        if tag == TIMESERIES {
            let series = request.message()?;
            let labels_end = last_samples_start(series).or_else(|| fields_end(series.bytes(), series.at()));
            run[*begun] = self.begin_series(series, labels_end);
            *begun += 1;
            Ok(())
        } else {
            self.other_field(request, tag)
        }
    }

    fn other_field(&mut self, request: &mut WireReader, tag: Tag) -> Result<(), MalformedError> {
        match self.others {
            Others::Known => request.skip(tag),
            Others::RemoteWrite if tag == METADATA => {
                self.family(request.message()?);
                Ok(())
            }
            Others::RemoteWrite => skip_unknown(request, tag),
        }
    }

    #[cold]
    fn family(&mut self, message: WireReader) {
        let Self { scratch, tally, sink, known_metadata, hasher, .. } = self;
        Beside { scratch, tally, sink: *sink }.family(message, known_metadata, hasher);
    }

    /// Hashes what should be the labels, and sends for what is known by that.
    #[inline]
    fn begin_series<'b>(&self, series: WireReader<'b>, labels_end: Option<usize>) -> BegunSeries<'b> {
        // What is longer is no good, and not worth a hash.
        let labels_end =
            labels_end.filter(|end| end - series.at() <= FIELDS_BYTES_MAX).unwrap_or(series.at());
        let fingerprint = self.hasher.hash_canonical(&series.bytes()[series.at()..labels_end]);
        self.ids.prefetch(fingerprint.0);
        BegunSeries { series, labels_end, fingerprint }
    }

    #[inline]
    fn read_series(&mut self, begun: &BegunSeries) -> Result<(), MalformedError> {
        let content = read_content(begun.samples(), &SERIES_FIELDS)?;
        match self.known(begun, &content) {
            Some(known) => self.pass_on(begun, known, content),
            None => self.read_unknown_series(begun, content),
        }
    }

    #[inline]
    fn known(&mut self, begun: &BegunSeries, content: &Content) -> Option<KnownLabels> {
        if content.labels > 0 { None } else { self.ids.get(begun.fingerprint.0) }
    }

    /// Passes a series on whose labels are known as they are there.
    #[inline]
    fn pass_on(
        &mut self,
        begun: &BegunSeries,
        KnownLabels { id, arrangement }: KnownLabels,
        content: Content,
    ) -> Result<(), MalformedError> {
        self.pass_labelled(begun, id, begun.span(arrangement), content)
    }

    /// Passes all of a good series on.
    #[inline]
    fn pass_labelled(
        &mut self,
        begun: &BegunSeries,
        id: SeriesId,
        labels: LabelSpan,
        content: Content,
    ) -> Result<(), MalformedError> {
        if content.histograms > 0 {
            self.pass_histograms(begun.samples(), id, labels)?;
        }
        if content.samples > 0 {
            let series = GoodSeries { id, labels, content, samples: begun.samples() };
            series.pass_on(&SERIES_FIELDS, self.tally, self.sink)?;
        }
        if content.exemplars > 0 { self.pass_exemplars(begun.samples(), id) } else { Ok(()) }
    }

    #[cold]
    fn pass_exemplars(&mut self, series: WireReader, id: SeriesId) -> Result<(), MalformedError> {
        let Self { scratch, tally, sink, .. } = self;
        Beside { scratch, tally, sink: *sink }.exemplars(series, SERIES_FIELDS.exemplars, id, TextsOf::Fields)
    }

    #[cold]
    fn pass_histograms(
        &mut self,
        series: WireReader,
        id: SeriesId,
        labels: LabelSpan,
    ) -> Result<(), MalformedError> {
        pass_histograms(series, &SERIES_FIELDS, (id, labels), self.tally, self.sink)
    }

    #[inline(never)]
    fn read_unknown_series(&mut self, begun: &BegunSeries, content: Content) -> Result<(), MalformedError> {
        let series = begun.series;
        let labels_end = fields_end(series.bytes(), series.at());
        if labels_end.unwrap_or(series.at()) == begun.labels_end {
            return self.check_series(begun, content);
        }
        // Something else is between the labels and what looks like samples, or these are in a label.
        let begun = self.begin_series(series, labels_end);
        let content = read_content(begun.samples(), &SERIES_FIELDS)?;
        match self.known(&begun, &content) {
            Some(known) => self.pass_on(&begun, known, content),
            None => self.check_series(&begun, content),
        }
    }

    fn check_series(&mut self, begun: &BegunSeries, content: Content) -> Result<(), MalformedError> {
        if content.labels > 0 || !is_canonical(begun.fields()) {
            return self.read_odd_series(begun, content);
        }
        let known = KnownLabels { id: begun.fingerprint, arrangement: LabelArrangement::InOrder };
        self.ids.insert(begun.fingerprint.0, known);
        self.pass_on(begun, known, content)
    }

    /// Labels out of order, after samples, without a value, in another encoding, or bad.
    #[cold]
    fn read_odd_series(&mut self, begun: &BegunSeries, content: Content) -> Result<(), MalformedError> {
        let bytes = begun.series.bytes();
        collect_labels(begun.series, self.labels)?;
        if let Err(reason) = self.labels.check(bytes) {
            let samples = content.samples_and_histograms();
            self.tally.refuse_series(reason, samples, self.labels, bytes);
            return Ok(());
        }
        let start = self.scratch.len();
        self.labels.write_canonical(bytes, self.scratch);
        let id = self.hasher.hash_canonical(&self.scratch[start..]);
        if content.labels == 0 && is_plain(begun.fields()) {
            // From here on they are known by their bytes, and what was written is dropped again.
            self.scratch.truncate(start);
            let known = KnownLabels { id, arrangement: LabelArrangement::Rearranged };
            self.ids.insert(begun.fingerprint.0, known);
            return self.pass_on(begun, known, content);
        }
        let labels = LabelSpan::new(LabelSource::Scratch, start, self.scratch.len() - start);
        self.pass_labelled(begun, id, labels, content)
    }
}

/// Collects the labels of a series: field 1, each with its name in field 1 and its value in field 2.
pub fn collect_labels(mut series: WireReader, labels: &mut CollectedLabels) -> Result<(), MalformedError> {
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
fn collect_label(mut label: WireReader, labels: &mut CollectedLabels) -> Result<(), MalformedError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ingest::remote_write::Version;
    use silverback_model::limits::ID_CACHE_ENTRY_BYTES;
    use silverback_model::{Sample, label::encode_label};

    #[derive(Default)]
    struct Ids(Vec<SeriesId>);

    impl SeriesSink for Ids {
        fn series(&mut self, id: SeriesId, _labels: LabelSpan, _samples: u32) {
            self.0.push(id);
        }

        fn sample(&mut self, _sample: Sample) {}
    }

    const HASHER_SEED: u64 = 7;

    fn fields(labels: &[(&str, &str)]) -> Vec<u8> {
        let mut fields = Vec::new();
        labels.iter().for_each(|(name, value)| encode_label(&mut fields, name.as_bytes(), value.as_bytes()));
        fields
    }

    /// A series of these label fields with an empty sample.
    fn series(fields: &[u8]) -> Vec<u8> {
        [&[TIMESERIES.0 as u8, fields.len() as u8 + 2], fields, &[0x12, 0]].concat()
    }

    /// Decodes, and returns the ids, and the bytes of labels that were written out.
    fn decode_all(decoder: &mut Decoder, bytes: &[u8]) -> (Vec<SeriesId>, usize) {
        let hasher = SeriesIdHasher::new(HASHER_SEED, "");
        let mut body = WriteBody { bytes: bytes.to_vec().into(), ..WriteBody::default() };
        let (mut decoding, mut ids) = (Decoding::start(Version::V1), Ids::default());
        while decoder.decode(&mut body, &mut decoding, &hasher, 1_000, &mut ids) == Ok(DecodeProgress::More) {
        }
        assert_eq!(decoding.tally.series, ids.0.len() as u64);
        (ids.0, body.scratch.len())
    }

    #[test]
    fn labels_that_are_known_are_not_looked_into_in_whatever_order_they_came() {
        let (mut decoder, hasher) = (Decoder::default(), SeriesIdHasher::new(HASHER_SEED, ""));
        let sorted = fields(&[("__name__", "up"), ("instance", "a"), ("job", "node")]);
        let unsorted = fields(&[("__name__", "up"), ("job", "node"), ("instance", "a")]);
        for (fields, arrangement) in
            [(&sorted, LabelArrangement::InOrder), (&unsorted, LabelArrangement::Rearranged)]
        {
            let (fingerprint, id) = (hasher.hash_canonical(fields), hasher.hash_canonical(&sorted));
            assert_eq!(
                decode_all(&mut decoder, &series(fields)),
                (vec![id], 0),
                "nothing is kept written out"
            );
            assert_eq!(decoder.ids.get(fingerprint.0), Some(KnownLabels { id, arrangement }));
            // It is what is known that is passed on.
            let another = SeriesId(id.0 ^ 1);
            decoder.ids.insert(fingerprint.0, KnownLabels { id: another, arrangement });
            assert_eq!(decode_all(&mut decoder, &series(fields)).0, [another]);
        }
    }

    #[test]
    fn labels_that_are_refused_or_can_not_be_read_where_they_lie_are_not_known() {
        let (mut decoder, hasher) = (Decoder::default(), SeriesIdHasher::new(HASHER_SEED, ""));
        let name = ("__name__", "up");
        let turned = [&[0x0a, 8, 0x12, 1, b'x', 0x0a, 3], &b"job"[..], &fields(&[name])].concat();
        for (fields, passed_on) in [
            (fields(&[("job", "x")]), 0),
            (fields(&[name, ("a", "x"), ("a", "x")]), 0),
            (fields(&[name, ("", "x")]), 0),
            (fields(&[("job", ""), name]), 1),
            (turned, 1),
        ] {
            for _time in 0..2 {
                let (ids, written) = decode_all(&mut decoder, &series(&fields));
                assert_eq!((ids.len(), written > 0), (passed_on, passed_on > 0), "{fields:?}");
                assert_eq!(decoder.ids.get(hasher.hash_canonical(&fields).0), None);
            }
        }
    }

    #[test]
    fn more_label_sets_than_there_is_room_for_are_told_apart_and_take_no_more() {
        const ENTRIES_MAX: usize = 1 << 13;
        const SETS: usize = 4 * ENTRIES_MAX;
        let mut decoder = Decoder::new(IdCache::with_entries_max(ENTRIES_MAX));
        let set = |i: usize| fields(&[("job", &i.to_string()), ("__name__", "up")]);
        let body: Vec<u8> = (0..SETS).flat_map(|i| series(&set(i))).collect();
        let (first, _) = decode_all(&mut decoder, &body);
        assert_eq!(first.len(), SETS);
        for _time in 0..3 {
            assert!(decode_all(&mut decoder, &body).0 == first);
            assert_eq!(decoder.known_bytes(), ENTRIES_MAX * ID_CACHE_ENTRY_BYTES);
        }
    }
}

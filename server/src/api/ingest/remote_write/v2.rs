//! Remote write 2: `io.prometheus.write.v2.Request`.
//!
//! The symbol table is read first, wherever it is in the body. A series in the usual form is
//! recognised by the fingerprint of its references. One that isn't known yet has its labels
//! checked and written out once, for its id.
//!
//! The first symbol must be empty by the specification; like Prometheus we don't insist, since a
//! reference to it is judged by what it says.

use std::ops::Range;

use super::{
    beside::{Beside, TextsOf},
    content::{Content, SeriesFields, read_content},
    decoder::{DecodeProgress, Decoder, Decoding, GoodSeries, Phase, RUN, SeriesSink, pass_histograms},
    id_cache::{IdCache, KnownLabels},
    labels::{CollectedLabels, LabelArrangement},
    malformed::{MalformedError, MalformedErrorKind},
    symbols::{PairKeys, SymbolTable},
    tally::RequestTally,
    wire::{Tag, WireReader, WireType, malformed},
};
use crate::api::ingest::known_metadata::{KnownMetadata, Period};
use silverback_model::{
    RefusedReason, SeriesId, SeriesIdHasher,
    limits::{DECODED_BYTES_MAX, EXPANDED_LABEL_BYTES_MAX},
};
use silverback_storage::message::{LabelSource, LabelSpan, WriteBody};

const SYMBOLS: Tag = Tag::new(4, WireType::Len);
const TIMESERIES: Tag = Tag::new(5, WireType::Len);
/// The series and metadata of remote write 1.
const V1_FIELDS: [Tag; 2] = [Tag::new(1, WireType::Len), Tag::new(3, WireType::Len)];

const LABELS_REFS: Tag = Tag::new(1, WireType::Len);
const LABELS_REF: Tag = Tag::new(1, WireType::Varint);

const SERIES_FIELDS: SeriesFields = SeriesFields {
    labels: &[LABELS_REFS, LABELS_REF],
    histograms: Tag::new(3, WireType::Len),
    exemplars: Tag::new(4, WireType::Len),
    metadata: Some(Tag::new(5, WireType::Len)),
    // Field 6, an old start timestamp, is skipped like an unknown one.
    known_max: 5,
    sample_known_max: 3,
};

/// To pass over a field, or to note a symbol, costs so much less than to read a series.
const SYMBOLS_PER_SERIES: usize = 4;

/// Labels that a slice writes out before its caller may look at what the request takes.
const SLICE_SCRATCH_BYTES: usize = 1 << 20;

/// Decodes about `series_max` series more, or as much of the symbol table.
pub(super) fn decode(
    decoder: &mut Decoder,
    body: &mut WriteBody,
    decoding: &mut Decoding,
    hasher: &SeriesIdHasher,
    series_max: usize,
    sink: &mut impl SeriesSink,
) -> Result<DecodeProgress, MalformedError> {
    let WriteBody {
        bytes,
        symbols,
        symbol_hashes,
        scratch,
        definitions: _streams_alone,
        batch: _streams_too,
    } = body;
    let mut symbols = SymbolTable { places: symbols, fingerprints: symbol_hashes };
    let mut fields_left = series_max.max(1) * SYMBOLS_PER_SERIES;
    if decoding.phase == Phase::Symbols {
        read_symbols(bytes, decoding, &mut symbols, hasher, &mut fields_left)?;
    }
    if decoding.phase == Phase::Symbols {
        return Ok(DecodeProgress::More);
    }
    let Decoding { at, expanded_bytes, tally, .. } = decoding;
    let Decoder { labels, pair_keys, ids, known_metadata } = decoder;
    let mut slice = SeriesSlice {
        bytes,
        labels,
        pair_keys,
        ids,
        known_metadata,
        last_metadata: None,
        symbols,
        scratch,
        expanded_bytes,
        hasher,
        tally,
        sink,
    };
    let mut request = WireReader::new(bytes, *at);
    let mut fields_left = fields_left.div_ceil(SYMBOLS_PER_SERIES);
    let scratch_full = slice.scratch.len() + SLICE_SCRATCH_BYTES;
    let mut run = [BegunSeries { series: request, refs_end: 0, refs: None }; RUN];
    while !request.is_empty() && fields_left > 0 && slice.scratch.len() < scratch_full {
        let mut begun = 0;
        while !request.is_empty() && fields_left > 0 && begun < RUN {
            let tag = request.tag()?;
            if tag == TIMESERIES {
                run[begun] = slice.begin_series(request.message()?);
                begun += 1;
            } else {
                request.skip(tag)?;
            }
            fields_left -= 1;
        }
        for series in &run[..begun] {
            slice.read_series(series)?;
        }
        *at = request.at();
    }
    Ok(if request.is_empty() { DecodeProgress::Done } else { DecodeProgress::More })
}

/// Walks over the top level once for the symbols; the series are only stepped over.
fn read_symbols(
    bytes: &[u8],
    decoding: &mut Decoding,
    symbols: &mut SymbolTable,
    hasher: &SeriesIdHasher,
    fields_left: &mut usize,
) -> Result<(), MalformedError> {
    let mut request = WireReader::new(bytes, decoding.at);
    while !request.is_empty() && *fields_left > 0 {
        let tag = request.tag()?;
        if tag == SYMBOLS {
            symbols.push(bytes, request.span()?, hasher)?;
        } else if tag == TIMESERIES {
            request.skip(tag)?;
        } else {
            skip_unknown(&mut request, tag)?;
        }
        *fields_left -= 1;
    }
    decoding.at = request.at();
    if request.is_empty() {
        decoding.phase = Phase::Series;
        decoding.at = 0;
    }
    Ok(())
}

/// Fields 1 to 3 were reserved so that a remote write 1 request is no remote write 2 request. One
/// that came as such would be passed over whole, and lost silently.
fn skip_unknown(request: &mut WireReader, tag: Tag) -> Result<(), MalformedError> {
    if V1_FIELDS.contains(&tag) {
        return Err(malformed(request.at(), MalformedErrorKind::OtherVersion));
    }
    let known_max = if tag.number() < SYMBOLS.number() { 0 } else { TIMESERIES.number() };
    request.skip_unknown(tag, known_max)
}

/// What the series of one slice are read with.
struct SeriesSlice<'a, S> {
    /// The whole body: symbols may come after the series.
    bytes: &'a [u8],
    labels: &'a mut CollectedLabels,
    pair_keys: &'a PairKeys,
    ids: &'a mut IdCache,
    known_metadata: &'a mut KnownMetadata,
    /// The last series' metadata, if it can be kept: its metric's name as a symbol, and its bytes. Most series say what
    /// the one before them does.
    last_metadata: Option<(u32, &'a [u8])>,
    symbols: SymbolTable<'a>,
    scratch: &'a mut Vec<u8>,
    expanded_bytes: &'a mut usize,
    hasher: &'a SeriesIdHasher,
    tally: &'a mut RequestTally,
    sink: &'a mut S,
}

/// A series' references in the usual form: one packed field at its start.
#[derive(Clone, Copy)]
struct PackedRefs {
    offset: u32,
    len: u32,
    fingerprint: u128,
}

impl PackedRefs {
    /// Where they are in the body.
    #[inline]
    fn place(&self) -> Range<usize> {
        self.offset as usize..(self.offset + self.len) as usize
    }

    /// The labels of these references, which come as `arrangement` says.
    #[inline]
    fn span(&self, arrangement: LabelArrangement) -> LabelSpan {
        let span = LabelSpan::new(LabelSource::Symbols, self.offset as usize, self.len as usize);
        match arrangement {
            LabelArrangement::InOrder => span,
            LabelArrangement::Rearranged => span.unsorted(),
        }
    }
}

/// A series whose references are read.
#[derive(Clone, Copy)]
struct BegunSeries<'a> {
    series: WireReader<'a>,
    /// Where the references end: the series' start, where they don't come in the usual form.
    refs_end: usize,
    refs: Option<PackedRefs>,
}

impl<'a> BegunSeries<'a> {
    /// What is after the references.
    #[inline]
    fn samples(&self) -> WireReader<'a> {
        WireReader::new(self.series.bytes(), self.refs_end)
    }
}

/// What the check of a label set that isn't known found.
type Checked = Result<(SeriesId, LabelSpan), RefusedReason>;

impl<S: SeriesSink> SeriesSlice<'_, S> {
    /// Reads the references, and sends for what is known by them.
    #[inline]
    fn begin_series<'b>(&self, series: WireReader<'b>) -> BegunSeries<'b> {
        let mut rest = series;
        let refs = self.packed_refs(&mut rest);
        if let Some(refs) = &refs {
            self.ids.prefetch(refs.fingerprint);
        }
        BegunSeries { series, refs_end: rest.at(), refs }
    }

    #[inline]
    fn read_series(&mut self, begun: &BegunSeries) -> Result<(), MalformedError> {
        let samples = begun.samples();
        let content = read_content(samples, &SERIES_FIELDS)?;
        let refs = begun.refs.as_ref().filter(|_| content.labels == 0);
        let known = refs.and_then(|refs| Some((self.ids.get_with_period(refs.fingerprint)?, refs)));
        let is_of_floats = content.samples > 0 && content.histograms == 0;
        let is_beside_floats = content.samples == 0 && content.histograms | content.exemplars > 0;
        if let Some(((KnownLabels { id, arrangement }, told), refs)) = known
            && (is_of_floats || is_beside_floats)
        {
            let labels = refs.span(arrangement);
            if is_of_floats {
                GoodSeries { id, labels, content, samples }.pass_on(&SERIES_FIELDS, self.tally, self.sink)?;
            } else {
                self.pass_histograms(samples, id, labels, &content)?;
            }
            return self.pass_beside(id, Some(refs), told, samples, &content);
        }
        self.read_unknown_series(begun.series, refs, samples, content)
    }

    /// Reads the references, if the series begins with them in the usual form.
    #[inline]
    fn packed_refs(&self, series: &mut WireReader) -> Option<PackedRefs> {
        let mut behind = *series;
        if behind.tag().ok()? != LABELS_REFS {
            return None;
        }
        let span = behind.span().ok()?;
        let refs = &series.bytes()[span.clone()];
        let fingerprint = self.symbols.fingerprint(refs, self.pair_keys, self.hasher)?;
        *series = behind;
        Some(PackedRefs { offset: span.start as u32, len: span.len() as u32, fingerprint })
    }

    /// Passes on what is beside the samples of a good series. Its metadata is looked at once in a period, if it is
    /// known by its references; `told` is the last in which it was looked at.
    #[inline(always)]
    fn pass_beside(
        &mut self,
        id: SeriesId,
        refs: Option<&PackedRefs>,
        told: Option<Period>,
        series: WireReader,
        content: &Content,
    ) -> Result<(), MalformedError> {
        if content.metadata_at > 0 {
            self.tally.metadata += 1;
            if told != Some(self.known_metadata.period()) {
                self.pass_metadata(refs, content.metadata_at)?;
            }
        }
        if content.exemplars > 0 { self.pass_exemplars(series, id) } else { Ok(()) }
    }

    #[cold]
    fn pass_exemplars(&mut self, series: WireReader, id: SeriesId) -> Result<(), MalformedError> {
        let Self { bytes, symbols, scratch, tally, sink, .. } = self;
        let texts = TextsOf::Symbols(bytes, symbols);
        // Of the whole body, in which symbols may come after the series.
        Beside { scratch, tally, sink: *sink }.exemplars(series, SERIES_FIELDS.exemplars, id, texts)
    }

    #[inline(never)]
    fn pass_metadata(&mut self, refs: Option<&PackedRefs>, at: u32) -> Result<(), MalformedError> {
        let message = WireReader::new(self.bytes, at as usize).message()?;
        let named = refs.and_then(|refs| Some((refs, self.metric_name(&self.bytes[refs.place()])?)));
        let Some((refs, name)) = named else {
            self.pass_odd_metadata(message);
            return Ok(());
        };
        let said = (name, &message.bytes()[message.at()..]);
        if self.last_metadata != Some(said)
            && let Some(name) = self.symbols.named(name)
        {
            self.last_metadata = self.pass_new_metadata(message, name).then_some(said);
        }
        if self.last_metadata == Some(said) {
            self.ids.note_period(refs.fingerprint, self.known_metadata.period());
        }
        Ok(())
    }

    /// Of a series in an odd encoding, whose labels are collected.
    #[cold]
    fn pass_odd_metadata(&mut self, message: WireReader) {
        if let Some(name) = self.labels.metric_name(self.bytes) {
            let fingerprint = self.hasher.fingerprint(&self.bytes[name.clone()]);
            self.pass_new_metadata(message, (fingerprint, name));
        }
    }

    #[inline(never)]
    fn pass_new_metadata(&mut self, message: WireReader, name: (u128, Range<usize>)) -> bool {
        let Self { bytes, symbols, scratch, tally, sink, known_metadata, hasher, .. } = self;
        let beside = &mut Beside { scratch, tally, sink: *sink };
        beside.of_series(message, (bytes, symbols), name, known_metadata, hasher)
    }

    /// The symbol that is the metric's name, by references in pairs.
    fn metric_name(&self, refs: &[u8]) -> Option<u32> {
        let mut refs = WireReader::new(refs, 0);
        while !refs.is_empty() {
            let name = refs.varint().ok()? as u32;
            let value = refs.varint().ok()? as u32;
            if self.symbols.span(name).is_some_and(|name| &self.bytes[name] == b"__name__") {
                return Some(value);
            }
        }
        None
    }

    /// Passes on the native histograms of a good series, which mostly has nothing else.
    #[inline]
    fn pass_histograms(
        &mut self,
        series: WireReader,
        id: SeriesId,
        labels: LabelSpan,
        content: &Content,
    ) -> Result<(), MalformedError> {
        if content.histograms == 0 {
            return Ok(());
        }
        pass_histograms(series, &SERIES_FIELDS, (id, labels), self.tally, self.sink)
    }

    /// Labels that aren't known or don't come in one packed field, a series of an odd shape, or something bad.
    #[cold]
    fn read_unknown_series(
        &mut self,
        series: WireReader,
        refs: Option<&PackedRefs>,
        samples: WireReader,
        content: Content,
    ) -> Result<(), MalformedError> {
        let checked = match self.collect_labels(series)? {
            Ok(()) => self.check_series(series.at(), refs, &content)?,
            Err(reason) => Err(reason),
        };
        match checked {
            Ok((id, labels)) => {
                if content.samples > 0 {
                    GoodSeries { id, labels, content, samples }.pass_on(
                        &SERIES_FIELDS,
                        self.tally,
                        self.sink,
                    )?;
                }
                self.pass_histograms(samples, id, labels, &content)?;
                self.pass_beside(id, refs, None, samples, &content)
            }
            Err(reason) => {
                let samples = content.samples_and_histograms();
                self.tally.refuse_series(reason, samples, self.labels, self.bytes);
                Ok(())
            }
        }
    }

    fn check_series(
        &mut self,
        at: usize,
        refs: Option<&PackedRefs>,
        content: &Content,
    ) -> Result<Checked, MalformedError> {
        let arrangement = match self.labels.check(self.bytes) {
            Ok(arrangement) => arrangement,
            Err(reason) => return Ok(Err(reason)),
        };
        // Prometheus sends its exemplars as series of their own.
        let has_samples = content.samples > 0 || content.histograms == 0 && content.exemplars > 0;
        if has_samples == (content.histograms > 0) {
            return Ok(Err(RefusedReason::BadSeriesShape));
        }
        self.identify(at, refs, arrangement).map(Ok)
    }

    /// Writes the labels out for their id. In the usual form they are then known by their
    /// references, and what was written is dropped again.
    fn identify(
        &mut self,
        at: usize,
        refs: Option<&PackedRefs>,
        arrangement: LabelArrangement,
    ) -> Result<(SeriesId, LabelSpan), MalformedError> {
        let start = self.scratch.len();
        let needed = self.labels.canonical_bytes_max();
        *self.expanded_bytes += needed;
        if *self.expanded_bytes > EXPANDED_LABEL_BYTES_MAX || start + needed > DECODED_BYTES_MAX {
            return Err(malformed(at, MalformedErrorKind::LabelsTooLarge));
        }
        self.labels.write_canonical(self.bytes, self.scratch);
        let id = self.hasher.hash_canonical(&self.scratch[start..]);
        match refs {
            Some(refs) => {
                self.scratch.truncate(start);
                self.ids.insert(refs.fingerprint, KnownLabels { id, arrangement });
                Ok((id, refs.span(arrangement)))
            }
            None => {
                let len = self.scratch.len() - start;
                Ok((id, LabelSpan::new(LabelSource::Scratch, start, len)))
            }
        }
    }

    /// Collects the labels from references in any encoding that protobuf allows.
    fn collect_labels(
        &mut self,
        mut series: WireReader,
    ) -> Result<Result<(), RefusedReason>, MalformedError> {
        self.labels.clear();
        let mut pairs = RefPairs { symbols: &self.symbols, labels: self.labels, name: None, is_bad: false };
        while !series.is_empty() {
            let tag = series.tag()?;
            if tag == LABELS_REF {
                pairs.push(series.varint()?);
            } else if tag == LABELS_REFS {
                let mut packed = series.message()?;
                while !packed.is_empty() {
                    pairs.push(packed.varint()?);
                }
            } else {
                series.skip(tag)?;
            }
        }
        let is_bad = pairs.is_bad || pairs.name.is_some();
        Ok(if is_bad { Err(RefusedReason::BadSymbolRef) } else { Ok(()) })
    }
}

/// Puts references together to labels.
struct RefPairs<'a> {
    symbols: &'a SymbolTable<'a>,
    labels: &'a mut CollectedLabels,
    name: Option<Range<usize>>,
    is_bad: bool,
}

impl RefPairs<'_> {
    fn push(&mut self, reference: u64) {
        // As protobuf has it: a number too large for its type is cut to it.
        let Some(symbol) = self.symbols.span(reference as u32) else {
            self.is_bad = true;
            return;
        };
        match self.name.take() {
            None => self.name = Some(symbol),
            Some(name) => self.labels.push(name, symbol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ingest::remote_write::Version;
    use silverback_model::Sample;

    /// How many series and samples came.
    #[derive(Default)]
    struct Count(usize, usize);

    impl SeriesSink for Count {
        fn series(&mut self, _id: SeriesId, _labels: LabelSpan, _samples: u32) {
            self.0 += 1;
        }

        fn sample(&mut self, _sample: Sample) {
            self.1 += 1;
        }
    }

    fn field(tag: Tag, bytes: &[u8]) -> Vec<u8> {
        [&[tag.0 as u8, bytes.len() as u8], bytes].concat()
    }

    /// A request of one series, `{__name__="up"}`, with this besides its references.
    fn request(content: &[u8]) -> Vec<u8> {
        let symbols = ["", "__name__", "up"].map(|symbol| field(SYMBOLS, symbol.as_bytes())).concat();
        let series = [field(LABELS_REFS, &[1, 2]), content.to_vec()].concat();
        [symbols, field(TIMESERIES, &series)].concat()
    }

    /// Decodes, and returns the series, the samples and the histograms that came, and the slots that the id
    /// cache has taken then.
    fn decoded(decoder: &mut Decoder, content: &[u8]) -> (usize, usize, u64, usize) {
        let hasher = SeriesIdHasher::new(7, "");
        let mut body = WriteBody { bytes: request(content).into(), ..WriteBody::default() };
        let (mut decoding, mut count) = (Decoding::start(Version::V2), Count::default());
        let done = decoder.decode(&mut body, &mut decoding, &hasher, 1_000, &mut count);
        assert_eq!(done.map_err(|error| error.to_string()), Ok(DecodeProgress::Done));
        (count.0, count.1, decoding.tally.histograms, decoder.ids.slots_taken())
    }

    #[test]
    fn a_series_metadata_is_looked_at_once_in_a_period_if_it_can_be_kept() {
        let sample = field(Tag::new(2, WireType::Len), &[]);
        // Fields by number and varint: a type, and a reference to the help or the unit.
        let with = |fields: &[u8]| [sample.clone(), field(Tag::new(5, WireType::Len), fields)].concat();
        let (help, unit, broken) = (with(&[8, 1, 24, 2]), with(&[8, 1, 32, 2]), with(&[8, 1, 24, 99]));
        let mut decoder = Decoder::default();
        let hasher = SeriesIdHasher::new(7, "");
        let passed_on = |decoder: &mut Decoder, content: &[u8]| {
            let mut body = WriteBody { bytes: request(content).into(), ..WriteBody::default() };
            let (mut decoding, mut count) = (Decoding::start(Version::V2), Count::default());
            let done = decoder.decode(&mut body, &mut decoding, &hasher, 1_000, &mut count);
            assert_eq!(done.map_err(|error| error.to_string()), Ok(DecodeProgress::Done));
            let RequestTally { metadata, metadata_bytes, metadata_refused, .. } = decoding.tally;
            assert_eq!(metadata, 1, "each is counted");
            (metadata_bytes, metadata_refused.total())
        };
        for _period in 0..2 {
            assert_eq!(passed_on(&mut decoder, &broken), (0, 1));
            assert_eq!(passed_on(&mut decoder, &broken), (0, 1));
            assert_eq!(passed_on(&mut decoder, &help), (4, 0));
            assert_eq!([&help, &unit, &broken].map(|said| passed_on(&mut decoder, said)), [(0, 0); 3]);
            decoder.forget_metadata();
        }
        assert_eq!(passed_on(&mut decoder, &unit), (4, 0));
    }

    #[test]
    fn a_known_series_of_histograms_alone_is_not_put_into_the_cache_again() {
        let mut decoder = Decoder::default();
        let histograms = field(SERIES_FIELDS.histograms, &[]).repeat(2);
        let first = decoded(&mut decoder, &histograms);
        assert!(first.3 > 0, "it is known from then on");
        for _again in 0..10 {
            assert_eq!(decoded(&mut decoder, &histograms), first);
        }
        let sample = field(Tag::new(2, WireType::Len), &[]);
        assert_eq!(decoded(&mut decoder, &sample), (1, 1, 0, first.3), "known with samples, too");
    }
}

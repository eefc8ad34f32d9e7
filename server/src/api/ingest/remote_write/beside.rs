//! What is beside samples: exemplars and metadata, from the wire to the sink. None of it fails a request: what can't
//! be kept is counted by reason.

use super::{
    decoder::SeriesSink,
    malformed::MalformedError,
    symbols::SymbolTable,
    tally::RequestTally,
    wire::{Tag, WireReader, WireType},
};
use crate::api::ingest::known_metadata::{KnownMetadata, fingerprint};
use silverback_model::limits::{REQUEST_EXEMPLARS_MAX, REQUEST_METADATA_BYTES_MAX};
use silverback_model::{
    ExemplarLabels, ExemplarRejected, Metadata, MetadataRejected, MetricType, SeriesId, SeriesIdHasher,
};
use silverback_storage::message::{PartExemplar, PartMetadata};

// Both versions number an exemplar's fields alike.
const LABELS: Tag = Tag::new(1, WireType::Len);
const LABEL_REF: Tag = Tag::new(1, WireType::Varint);
const VALUE: Tag = Tag::new(2, WireType::Fixed64);
const TIMESTAMP: Tag = Tag::new(3, WireType::Varint);
/// Of a label in remote write 1.
const LABEL_NAME: Tag = Tag::new(1, WireType::Len);
const LABEL_VALUE: Tag = Tag::new(2, WireType::Len);

const METADATA_TYPE: Tag = Tag::new(1, WireType::Varint);
/// Remote write 1: of a metric's family.
const METADATA_NAME: Tag = Tag::new(2, WireType::Len);
const METADATA_HELP: Tag = Tag::new(4, WireType::Len);
const METADATA_UNIT: Tag = Tag::new(5, WireType::Len);
/// Remote write 2: of a series.
const METADATA_HELP_REF: Tag = Tag::new(3, WireType::Varint);
const METADATA_UNIT_REF: Tag = Tag::new(4, WireType::Varint);

/// Where labels and texts are.
#[derive(Clone, Copy)]
pub(super) enum TextsOf<'a> {
    /// Remote write 1: where they are used.
    Fields,
    /// Remote write 2: in the body, by the numbers of symbols.
    Symbols(&'a [u8], &'a SymbolTable<'a>),
}

/// What they are passed on with.
pub(super) struct Beside<'a, S> {
    pub(super) scratch: &'a mut Vec<u8>,
    pub(super) tally: &'a mut RequestTally,
    pub(super) sink: &'a mut S,
}

impl From<MalformedError> for ExemplarRejected {
    fn from(_: MalformedError) -> Self {
        Self::Malformed
    }
}

impl<S: SeriesSink> Beside<'_, S> {
    /// Passes on the exemplars of a series whose labels are good and whose fields were read before.
    #[cold]
    pub(super) fn exemplars<'b>(
        &mut self,
        mut series: WireReader<'b>,
        field: Tag,
        id: SeriesId,
        texts: TextsOf<'b>,
    ) -> Result<(), MalformedError> {
        while !series.is_empty() {
            let tag = series.tag()?;
            if tag != field {
                series.skip(tag)?;
                continue;
            }
            let message = series.message()?;
            self.tally.exemplars += 1;
            match self.exemplar(message, id, texts) {
                Ok(exemplar) => self.sink.exemplar(exemplar),
                Err(reason) => self.tally.exemplars_refused.add(reason, 1),
            }
        }
        Ok(())
    }

    fn exemplar<'b>(
        &mut self,
        mut message: WireReader<'b>,
        series: SeriesId,
        texts: TextsOf<'b>,
    ) -> Result<PartExemplar, ExemplarRejected> {
        if self.tally.exemplars > REQUEST_EXEMPLARS_MAX {
            return Err(ExemplarRejected::TooMany);
        }
        let (mut value, mut timestamp_ms) = (0.0, 0);
        let mut labels = ExemplarLabels::default();
        let mut refs = RefPairs::default();
        while !message.is_empty() {
            match (message.tag()?, texts) {
                (LABELS, TextsOf::Fields) => push_label(message.message()?, &mut labels)?,
                (LABELS, TextsOf::Symbols(bytes, table)) => {
                    let mut packed = message.message()?;
                    while !packed.is_empty() {
                        refs.push(packed.varint()?, bytes, table, &mut labels)?;
                    }
                }
                (LABEL_REF, TextsOf::Symbols(bytes, table)) => {
                    refs.push(message.varint()?, bytes, table, &mut labels)?;
                }
                (VALUE, _) => value = f64::from_bits(message.fixed64()?),
                (TIMESTAMP, _) => timestamp_ms = message.varint()? as i64,
                (other, _) => message.skip(other)?,
            }
        }
        if refs.name.is_some() {
            return Err(ExemplarRejected::BadLabels);
        }
        let begin = self.scratch.len();
        labels.put_canonical(self.scratch)?;
        let (labels_begin, labels_len) = (begin as u32, (self.scratch.len() - begin) as u32);
        Ok(PartExemplar { series, timestamp_ms, value, labels_begin, labels_len })
    }

    /// Passes on metadata, unless it was recently; by its fingerprints. Says whether it can be kept.
    fn metadata<'b>(
        &mut self,
        known: &mut KnownMetadata,
        fingerprint: u128,
        read: impl FnOnce() -> Result<Metadata<'b>, MetadataRejected>,
    ) -> bool {
        if known.knows(fingerprint) {
            return true;
        }
        match read().and_then(|said| self.pass_on(&said)) {
            Ok(()) => known.note(fingerprint),
            Err(reason) => self.tally.metadata_refused.add(reason, 1),
        }
        known.knows(fingerprint)
    }

    fn pass_on(&mut self, said: &Metadata<'_>) -> Result<(), MetadataRejected> {
        if said.says_something() {
            let bytes = said.name.len() + said.help.len() + said.unit.len();
            if self.tally.metadata_bytes + bytes > REQUEST_METADATA_BYTES_MAX {
                return Err(MetadataRejected::TooMany);
            }
            self.tally.metadata_bytes += bytes;
            let part = PartMetadata::put(said, self.scratch);
            self.sink.metadata(said, part);
        }
        Ok(())
    }

    /// Remote write 1: metadata of a metric's family, in a field of the request.
    #[cold]
    pub(super) fn family(
        &mut self,
        message: WireReader<'_>,
        known: &mut KnownMetadata,
        hasher: &SeriesIdHasher,
    ) {
        self.tally.metadata += 1;
        let Ok(Family { kind, name, help, unit }) = Family::read(message) else {
            return self.tally.metadata_refused.add(MetadataRejected::Malformed, 1);
        };
        let texts = [name, help, unit].map(|text| hasher.fingerprint(text));
        let read = || Metadata::new(name, kind, help, unit);
        self.metadata(known, fingerprint(hasher, kind, texts), read);
    }

    /// Remote write 2: metadata of a series, with the fingerprint of its metric's name and where that is. Says whether
    /// it can be kept.
    pub(super) fn of_series(
        &mut self,
        message: WireReader<'_>,
        (bytes, table): (&[u8], &SymbolTable<'_>),
        name: (u128, std::ops::Range<usize>),
        known: &mut KnownMetadata,
        hasher: &SeriesIdHasher,
    ) -> bool {
        let of_refs = OfRefs::read(message).ok();
        let texts = of_refs
            .as_ref()
            .and_then(|of| Some((of.kind, [name, table.named(of.help)?, table.named(of.unit)?])));
        let Some((kind, texts)) = texts else {
            self.tally.metadata_refused.add(MetadataRejected::Malformed, 1);
            return false;
        };
        let fingerprint = fingerprint(hasher, kind, texts.each_ref().map(|(fingerprint, _)| *fingerprint));
        self.metadata(known, fingerprint, || {
            let [name, help, unit] = texts.map(|(_, span)| &bytes[span]);
            Metadata::new(name, kind, help, unit)
        })
    }
}

/// A label's name and value, as remote write 1 has them.
fn push_label<'b>(
    mut label: WireReader<'b>,
    labels: &mut ExemplarLabels<'b>,
) -> Result<(), ExemplarRejected> {
    let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
    while !label.is_empty() {
        match label.tag()? {
            LABEL_NAME => name = take_text(&mut label)?,
            LABEL_VALUE => value = take_text(&mut label)?,
            other => label.skip(other)?,
        }
    }
    labels.push(name, value)
}

fn take_text<'b>(message: &mut WireReader<'b>) -> Result<&'b [u8], MalformedError> {
    let span = message.span()?;
    Ok(&message.bytes()[span])
}

/// Puts references together to labels.
#[derive(Default)]
struct RefPairs<'a> {
    name: Option<&'a [u8]>,
}

impl<'a> RefPairs<'a> {
    fn push(
        &mut self,
        reference: u64,
        bytes: &'a [u8],
        table: &SymbolTable<'_>,
        labels: &mut ExemplarLabels<'a>,
    ) -> Result<(), ExemplarRejected> {
        let symbol = &bytes[table.span(reference as u32).ok_or(ExemplarRejected::BadLabels)?];
        match self.name.take() {
            None => self.name = Some(symbol),
            Some(name) => labels.push(name, symbol)?,
        }
        Ok(())
    }
}

struct Family<'a> {
    kind: MetricType,
    name: &'a [u8],
    help: &'a [u8],
    unit: &'a [u8],
}

impl<'a> Family<'a> {
    fn read(mut message: WireReader<'a>) -> Result<Self, MalformedError> {
        let mut family = Self { kind: MetricType::Unknown, name: &[], help: &[], unit: &[] };
        while !message.is_empty() {
            match message.tag()? {
                METADATA_TYPE => family.kind = MetricType::of_number(message.varint()?),
                METADATA_NAME => family.name = take_text(&mut message)?,
                METADATA_HELP => family.help = take_text(&mut message)?,
                METADATA_UNIT => family.unit = take_text(&mut message)?,
                other => message.skip(other)?,
            }
        }
        Ok(family)
    }
}

struct OfRefs {
    kind: MetricType,
    help: u32,
    unit: u32,
}

impl OfRefs {
    fn read(mut message: WireReader<'_>) -> Result<Self, MalformedError> {
        let mut of = Self { kind: MetricType::Unknown, help: 0, unit: 0 };
        while !message.is_empty() {
            match message.tag()? {
                METADATA_TYPE => of.kind = MetricType::of_number(message.varint()?),
                METADATA_HELP_REF => of.help = message.varint()? as u32,
                METADATA_UNIT_REF => of.unit = message.varint()? as u32,
                other => message.skip(other)?,
            }
        }
        Ok(of)
    }
}

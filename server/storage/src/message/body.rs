//! A write request's bytes, and how parts refer to the series in them.

use bytes::Bytes;

use crate::message::{CachedRef, Definitions};
use silverback_model::{Exemplar, LabelBlock, Metadata, MetricType, SeriesId};

/// A decompressed write request, shared by the parts that were split from it. The decoder fills
/// it on the core that received it; from then on it is read only, by the shards that own its
/// series, and goes back to that core's pool when the last part is done.
#[derive(Debug, Default)]
pub struct WriteBody {
    /// The protobuf bytes.
    pub bytes: BodyBytes,
    /// Remote write 2: where each symbol is in `bytes` (offset, length).
    pub symbols: Vec<(u32, u32)>,
    /// Remote write 2: each symbol's hash, for the decoder alone.
    pub symbol_hashes: Vec<u128>,
    /// Canonical label blocks of series whose labels can't be read again where they are in `bytes`: they are after
    /// samples or in an unusual encoding. Those of exemplars are here, too, and
    /// metadata.
    pub scratch: Vec<u8>,
    /// The series of the stream that the request belongs to; a batch of floats has nothing else.
    pub definitions: Definitions,
    /// A stream's message as it came, where its batch has native histograms: they lie in it.
    pub batch: Bytes,
}

/// A buffer that is written whole each time it is used again, and so is never zeroed in between.
#[derive(Debug, Default)]
pub struct BodyBytes {
    /// As long as the longest body so far.
    buffer: Vec<u8>,
    len: usize,
}

impl BodyBytes {
    /// Room for a body of `len` bytes, to be written over: it may hold parts of a former one.
    pub fn prepare(&mut self, len: usize) -> &mut [u8] {
        if self.buffer.len() < len {
            // Fresh zeroed memory comes from the kernel and is touched only where it is written.
            self.buffer = vec![0; len];
        }
        self.len = len;
        &mut self.buffer[..len]
    }

    /// Cuts a prepared body to the bytes that were written.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The memory it holds on to.
    pub fn capacity(&self) -> usize {
        self.buffer.len()
    }
}

impl std::ops::Deref for BodyBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl From<Vec<u8>> for BodyBytes {
    fn from(buffer: Vec<u8>) -> Self {
        Self { len: buffer.len(), buffer }
    }
}

/// Where a series' labels are in a [`WriteBody`]: 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelSpan {
    /// Whether the labels are out of order in the top bit.
    offset: u32,
    /// The source in the two top bits.
    len: u32,
}

/// What a [`LabelSpan`] points into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelSource {
    /// Label fields in the request's own bytes: a canonical block, or one that is so once it is sorted.
    Wire,
    /// A canonical block in the scratch.
    Scratch,
    /// Remote write 2: packed varint symbol references in the request's bytes.
    Symbols,
    /// A stream: the number of a definition, and the stream's ref.
    Definition,
}

impl LabelSpan {
    const LEN_BITS: u32 = 30;
    /// Of a definition's ref.
    const DELTA_BIT: u32 = 1 << (Self::LEN_BITS - 1);
    /// Of an offset.
    const UNSORTED_BIT: u32 = 1 << (u32::BITS - 1);

    /// The highest ref of a stream's series.
    pub const REF_MAX: u32 = Self::DELTA_BIT - 1;

    /// Of nothing.
    pub const NOWHERE: Self = Self { offset: 0, len: 0 };

    /// The highest offset or length: no body may be longer.
    pub const OFFSET_MAX: usize = (1 << Self::LEN_BITS) - 1;

    /// A span of `len` bytes at `offset`; both below 2^30.
    #[inline]
    pub fn new(source: LabelSource, offset: usize, len: usize) -> Self {
        debug_assert!(offset <= Self::OFFSET_MAX && len <= Self::OFFSET_MAX);
        Self { offset: offset as u32, len: (source as u32) << Self::LEN_BITS | len as u32 }
    }

    /// The same of labels that were checked, but aren't in order: [`WriteBody::for_each_label`] sorts them.
    #[inline]
    pub fn unsorted(self) -> Self {
        Self { offset: self.offset | Self::UNSORTED_BIT, ..self }
    }

    fn is_unsorted(self) -> bool {
        self.offset & Self::UNSORTED_BIT > 0
    }

    /// A series by the number of its definition, below 2^30, and its ref on the stream.
    #[inline]
    pub fn of_definition(number: u32, stream_ref: u32) -> Self {
        debug_assert!(stream_ref <= Self::REF_MAX);
        Self::new(LabelSource::Definition, number as usize, stream_ref as usize)
    }

    /// The same of one whose samples are what came since the last one: its owner adds them up.
    pub fn of_deltas(number: u32, stream_ref: u32) -> Self {
        let Self { offset, len } = Self::of_definition(number, stream_ref);
        Self { offset, len: len | Self::DELTA_BIT }
    }

    /// Whether the series' samples are to be added up.
    #[inline]
    pub fn is_deltas(self) -> bool {
        const DELTAS: u32 = (LabelSource::Definition as u32) << LabelSpan::LEN_BITS | LabelSpan::DELTA_BIT;
        self.len & !Self::REF_MAX == DELTAS
    }

    /// The ref of a stream's series.
    pub fn stream_ref(self) -> Option<u32> {
        (self.source() == LabelSource::Definition).then_some(self.len & Self::REF_MAX)
    }

    /// What it points into.
    pub(crate) fn source(self) -> LabelSource {
        match self.len >> Self::LEN_BITS {
            0 => LabelSource::Wire,
            1 => LabelSource::Scratch,
            2 => LabelSource::Symbols,
            3 => LabelSource::Definition,
            other => unreachable!("label source {other}"),
        }
    }

    /// The bytes' place.
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        let offset = (self.offset & !Self::UNSORTED_BIT) as usize;
        offset..offset + (self.len & ((1 << Self::LEN_BITS) - 1)) as usize
    }
}

/// Of one series: mostly it has fewer.
const LABELS_EXPECTED: usize = 16;

impl WriteBody {
    /// The memory that its buffers hold on to, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        let symbols = self.symbols.capacity() * size_of::<(u32, u32)>();
        let hashes = self.symbol_hashes.capacity() * size_of::<u128>();
        self.bytes.capacity() + symbols + hashes + self.scratch.capacity()
    }

    /// Calls `each` with the name and the value of every label, names ascending. Labels were
    /// checked by the decoder; nothing is checked here.
    pub fn for_each_label<'a>(&'a self, span: LabelSpan, mut each: impl FnMut(&'a [u8], &'a [u8])) {
        if !span.is_unsorted() {
            return self.for_each_label_as_it_came(span, each);
        }
        let mut labels = Vec::with_capacity(LABELS_EXPECTED);
        self.for_each_label_as_it_came(span, |name, value| labels.push((name, value)));
        labels.sort_unstable();
        labels.into_iter().for_each(|(name, value)| each(name, value));
    }

    /// The same in whatever order the labels came, for less where they weren't sorted.
    pub fn for_each_label_as_it_came<'a>(
        &'a self,
        span: LabelSpan,
        mut each: impl FnMut(&'a [u8], &'a [u8]),
    ) {
        let block = match span.source() {
            LabelSource::Wire => &self.bytes[span.range()],
            LabelSource::Scratch => &self.scratch[span.range()],
            LabelSource::Symbols => return self.for_each_symbol_pair(&self.bytes[span.range()], each),
            LabelSource::Definition => self.definitions.labels(span.offset).0,
        };
        LabelBlock(block).iter().for_each(|(name, value)| each(name, value));
    }

    /// An exemplar of a part.
    pub fn exemplar(&self, one: &PartExemplar) -> Exemplar<'_> {
        let (begin, len) = (one.labels_begin as usize, one.labels_len as usize);
        let labels = LabelBlock(&self.scratch[begin..begin + len]);
        Exemplar { timestamp_ms: one.timestamp_ms, value: one.value, labels }
    }

    /// Metadata of a part.
    ///
    /// # Panics
    ///
    /// Where it isn't text: the decoder has looked.
    pub fn metadata(&self, one: &PartMetadata) -> Metadata<'_> {
        let mut rest = &self.scratch[one.begin as usize..];
        let mut text = |len: u32| {
            let (text, after) = rest.split_at(len as usize);
            rest = after;
            str::from_utf8(text).expect("metadata was checked by the decoder")
        };
        Metadata {
            name: text(one.name_len),
            kind: one.kind,
            help: text(one.help_len),
            unit: text(one.unit_len),
        }
    }

    fn for_each_symbol_pair<'a>(&'a self, mut refs: &[u8], mut each: impl FnMut(&'a [u8], &'a [u8])) {
        while !refs.is_empty() {
            let name = self.symbol(take_varint32(&mut refs));
            let value = self.symbol(take_varint32(&mut refs));
            // A label without a value isn't a label.
            if !value.is_empty() {
                each(name, value);
            }
        }
    }

    fn symbol(&self, index: u32) -> &[u8] {
        let (offset, len) = self.symbols[index as usize];
        &self.bytes[offset as usize..][..len as usize]
    }
}

fn take_varint32(rest: &mut &[u8]) -> u32 {
    let (mut value, mut shift) = (0u32, 0);
    loop {
        let byte = rest[0];
        *rest = &rest[1..];
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

/// Where a native histogram's message is in a [`WriteBody`]: 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageSpan(LabelSpan);

impl MessageSpan {
    /// In the request's own bytes; both numbers below 2^30.
    pub fn of_body(offset: usize, len: usize) -> Self {
        Self(LabelSpan::new(LabelSource::Wire, offset, len))
    }

    /// In the scratch, likewise.
    pub fn of_scratch(offset: usize, len: usize) -> Self {
        Self(LabelSpan::new(LabelSource::Scratch, offset, len))
    }

    /// In a stream's message.
    pub fn of_batch(offset: usize, len: usize) -> Self {
        // Where labels are definitions of the stream.
        Self(LabelSpan::new(LabelSource::Definition, offset, len))
    }

    /// How long the message is.
    pub(crate) fn bytes(self) -> usize {
        self.0.range().len()
    }
}

impl WriteBody {
    /// A native histogram's message.
    pub(crate) fn message(&self, MessageSpan(span): MessageSpan) -> &[u8] {
        match span.source() {
            LabelSource::Wire => &self.bytes[span.range()],
            LabelSource::Scratch => &self.scratch[span.range()],
            LabelSource::Definition => &self.batch[span.range()],
            LabelSource::Symbols => unreachable!("no message lies there"),
        }
    }
}

/// A native histogram of a part: whose it is, and where it is. Its owner reads it, and judges it.
#[derive(Debug, Clone, Copy)]
pub struct PartHistogram {
    /// The series, which routes.
    pub id: SeriesId,
    /// Where the series' labels are, for an owner that doesn't know it.
    pub labels: LabelSpan,
    /// The histogram, as remote write has it.
    pub message: MessageSpan,
}
const _: () = assert!(size_of::<PartHistogram>() <= 32);

/// One series of a part: its id, its labels' place, and how many of the part's samples are its.
#[derive(Debug, Clone, Copy)]
pub struct PartSeries {
    /// The routing key.
    pub id: SeriesId,
    /// Where its labels are, for an owner that doesn't know the series.
    pub labels: LabelSpan,
    /// How many samples, of those that follow the former series' samples.
    pub samples: u32,
    /// A hint where its owner has it.
    pub cached: CachedRef,
}
const _: () = assert!(size_of::<PartSeries>() <= 32);

impl PartSeries {
    /// Of a sender that caches no refs.
    #[inline(always)]
    pub const fn new(id: SeriesId, labels: LabelSpan, samples: u32) -> Self {
        Self { id, labels, samples, cached: CachedRef::NONE }
    }

    /// Whether another one, right after this one, is of the same series and named alike: both are one then.
    #[inline(always)]
    pub fn goes_on_as(&self, other: &Self) -> bool {
        self.id == other.id
            && self.labels.is_deltas() == other.labels.is_deltas()
            && self.labels.stream_ref() == other.labels.stream_ref()
    }
}

/// The start timestamp of one of a part's samples: since when it counts. Most samples have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartStart {
    /// Which of the part's samples.
    pub sample: u32,
    /// When, in ms since the Unix epoch; never 0, which says nothing.
    pub start_ms: i64,
}
const _: () = assert!(size_of::<PartStart>() <= 16);

/// One exemplar of a part, its labels checked, sorted and in canonical form in the body's scratch.
#[derive(Debug, Clone, Copy)]
pub struct PartExemplar {
    /// Its series.
    pub series: SeriesId,
    /// When, in ms since the Unix epoch.
    pub timestamp_ms: i64,
    /// What was observed.
    pub value: f64,
    /// Where its labels begin in the scratch, ...
    pub labels_begin: u32,
    /// ... and how many bytes they have.
    pub labels_len: u32,
}
const _: () = assert!(size_of::<PartExemplar>() <= 48);

/// What a part says of one metric: name, help and unit, one after the other in the body's scratch.
#[derive(Debug, Clone, Copy)]
pub struct PartMetadata {
    /// Its type.
    pub kind: MetricType,
    /// Where the name begins.
    pub begin: u32,
    /// The name's length in bytes, ...
    pub name_len: u32,
    /// ... the help's, ...
    pub help_len: u32,
    /// ... and the unit's.
    pub unit_len: u32,
}

impl PartMetadata {
    /// Appends metadata to a body's scratch.
    pub fn put(metadata: &Metadata<'_>, scratch: &mut Vec<u8>) -> Self {
        let Metadata { name, kind, help, unit } = *metadata;
        let begin = scratch.len() as u32;
        [name, help, unit].iter().for_each(|text| scratch.extend_from_slice(text.as_bytes()));
        let [name_len, help_len, unit_len] = [name, help, unit].map(|text| text.len() as u32);
        Self { kind, begin, name_len, help_len, unit_len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::label::encode_label;

    fn check(body: &WriteBody, span: LabelSpan, came: &[(&str, &str)]) {
        let mut sorted = came.to_vec();
        sorted.sort_unstable();
        for (span, expected) in [(span, came), (span.unsorted(), &sorted)] {
            let mut labels = Vec::new();
            let text = |bytes| str::from_utf8(bytes).unwrap();
            body.for_each_label(span, |name, value| labels.push((text(name), text(value))));
            assert_eq!(labels, expected);
            labels.clear();
            body.for_each_label_as_it_came(span, |name, value| labels.push((text(name), text(value))));
            assert_eq!(labels, came);
        }
    }

    #[test]
    fn labels_that_came_unsorted_are_read_sorted() {
        const LABELS: [(&str, &str); 3] = [("job", "a"), ("__name__", "up"), ("instance", "a:9100")];
        let mut bytes = vec![0; 5];
        for (name, value) in LABELS {
            encode_label(&mut bytes, name.as_bytes(), value.as_bytes());
        }
        let span = LabelSpan::new(LabelSource::Wire, 5, bytes.len() - 5);
        check(&WriteBody { bytes: bytes.into(), ..WriteBody::default() }, span, &LABELS);
    }

    #[test]
    fn references_in_any_order_are_read_sorted_without_labels_that_have_no_value() {
        let texts = ["", "job", "a", "__name__", "up", "zone"];
        let mut body = WriteBody::default();
        let mut bytes: Vec<u8> = vec![1, 2, 5, 0, 3, 4];
        for text in texts {
            body.symbols.push((bytes.len() as u32, text.len() as u32));
            bytes.extend_from_slice(text.as_bytes());
        }
        body.bytes = bytes.into();
        check(&body, LabelSpan::new(LabelSource::Symbols, 0, 6), &[("job", "a"), ("__name__", "up")]);
    }

    #[test]
    fn a_span_keeps_what_it_was_made_of_at_the_largest_offset_too() {
        for (offset, len) in [(0, 0), (LabelSpan::OFFSET_MAX, LabelSpan::OFFSET_MAX)] {
            let span = LabelSpan::new(LabelSource::Symbols, offset, len);
            for span in [span, span.unsorted()] {
                assert_eq!((span.source(), span.range()), (LabelSource::Symbols, offset..offset + len));
            }
            assert!(span.unsorted().is_unsorted() && !span.is_unsorted() && !span.unsorted().is_deltas());
        }
    }
}

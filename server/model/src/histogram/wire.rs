//! A histogram as the message of remote write and remote read (`prometheus.Histogram`; version 2 has the same numbers).
//!
//! Knows this message alone, and trusts no byte of it. Unknown fields are skipped, numbers may be packed or not, and
//! of a field that occurs twice the last counts, as protocol buffers ask.
use std::ops::Range;

use super::validate::HistogramError;
use super::value::{Buckets, Histogram, HistogramKind, ResetHint, Span};
use crate::limits::{HISTOGRAM_BOUNDS_MAX, HISTOGRAM_BUCKETS_MAX, HISTOGRAM_SPANS_MAX};
use crate::varint::{put_varint, unzigzag, unzigzag_32, varint_len, zigzag};

/// Why a message isn't a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HistogramWireError {
    /// The bytes are no such message.
    #[error("malformed histogram message")]
    Malformed,
    /// More buckets, spans or bounds than a histogram may have.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
}

/// When a histogram was, in ms since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistogramTimes {
    /// The sample's timestamp.
    pub timestamp_ms: i64,
    /// Since when it counts; 0 where that isn't given.
    pub start_timestamp_ms: i64,
}

/// What was read of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadMessage<'a> {
    /// When it was.
    pub times: HistogramTimes,
    /// What is before its timestamp and after it. `None` where something is in it that wasn't read: what is
    /// made of that is another reader's to say; nor where it is longer than what was read of it could be.
    pub around_timestamp: Option<[&'a [u8]; 2]>,
}

/// A histogram on its way into a message without its timestamp.
#[derive(Debug, Clone, Copy)]
pub enum Untimed<'a> {
    /// It is in a message, in two pieces: see [`ReadMessage::around_timestamp`].
    AsItCame([&'a [u8]; 2]),
    /// It has to be written.
    Unwritten(&'a Histogram),
}

mod field {
    pub(super) const COUNT_INT: u32 = 1;
    pub(super) const COUNT_FLOAT: u32 = 2;
    pub(super) const SUM: u32 = 3;
    pub(super) const SCHEMA: u32 = 4;
    pub(super) const ZERO_THRESHOLD: u32 = 5;
    pub(super) const ZERO_COUNT_INT: u32 = 6;
    pub(super) const ZERO_COUNT_FLOAT: u32 = 7;
    pub(super) const NEGATIVE_SPANS: u32 = 8;
    pub(super) const NEGATIVE_DELTAS: u32 = 9;
    pub(super) const NEGATIVE_COUNTS: u32 = 10;
    pub(super) const POSITIVE_SPANS: u32 = 11;
    pub(super) const POSITIVE_DELTAS: u32 = 12;
    pub(super) const POSITIVE_COUNTS: u32 = 13;
    pub(super) const RESET_HINT: u32 = 14;
    pub(super) const TIMESTAMP: u32 = 15;
    pub(super) const CUSTOM_VALUES: u32 = 16;
    pub(super) const START_TIMESTAMP: u32 = 17;
    pub(super) const SPAN_OFFSET: u32 = 1;
    pub(super) const SPAN_LENGTH: u32 = 2;
}

impl Histogram {
    /// Becomes what a message says; it isn't validated yet. Allocates where its lists have to grow alone. After an
    /// error what it is says nothing.
    pub fn read_message(&mut self, message: &[u8]) -> Result<HistogramTimes, HistogramWireError> {
        self.read_untimed(message).map(|read| read.times)
    }

    /// Becomes what a message says, and returns where in it its timestamp is.
    pub fn read_untimed<'a>(&mut self, message: &'a [u8]) -> Result<ReadMessage<'a>, HistogramWireError> {
        // The count that says the kind is first in most messages.
        let kind = if message.first() == Some(&FLOAT_COUNT_TAG) {
            HistogramKind::Float
        } else {
            HistogramKind::Integer
        };
        let read = self.read_as(kind, message);
        match &read {
            Ok(reading) if reading.kind == kind => Ok(reading.message(message, self.message_len_max())),
            Ok(_) | Err(_) => self.read_again(kind, message, read),
        }
    }

    /// Reads a message whose first count doesn't say the kind, or in which there is something wrong.
    #[cold]
    fn read_again<'a>(
        &mut self,
        guessed: HistogramKind,
        message: &'a [u8],
        read: Result<Reading, HistogramWireError>,
    ) -> Result<ReadMessage<'a>, HistogramWireError> {
        let kind = kind_of(message)?;
        let read = if kind == guessed { read } else { self.read_as(kind, message) };
        Ok(read?.message(message, self.message_len_max()))
    }

    fn read_as(&mut self, kind: HistogramKind, message: &[u8]) -> Result<Reading, HistogramWireError> {
        self.clear();
        self.kind = kind;
        let (mut reading, mut fields) = (Reading::default(), Fields { rest: message });
        let mut begin = 0;
        while let Some((number, value)) = fields.next()? {
            let end = message.len() - fields.rest.len();
            self.read_field(number, value, begin..end, &mut reading)?;
            begin = end;
        }
        Ok(reading)
    }

    fn read_field(
        &mut self,
        number: u32,
        value: Value,
        place: Range<usize>,
        reading: &mut Reading,
    ) -> Result<(), HistogramWireError> {
        match (number, value) {
            (field::SUM, Value::Fixed64(bits)) => self.sum_bits = bits,
            (field::SCHEMA, Value::Varint(value)) => self.schema = unzigzag_32(value),
            (field::ZERO_THRESHOLD, Value::Fixed64(bits)) => self.zero_threshold = unsigned_zero(bits),
            (field::RESET_HINT, Value::Varint(value)) => {
                self.hint = hint(value);
                reading.is_all_read &= self.hint as u64 == value;
            }
            (field::TIMESTAMP, Value::Varint(value)) => {
                reading.times.timestamp_ms = value as i64;
                reading.is_all_read &= reading.timestamp.is_empty();
                reading.timestamp = place;
            }
            (field::START_TIMESTAMP, Value::Varint(value)) => reading.times.start_timestamp_ms = value as i64,
            (field::NEGATIVE_SPANS, Value::Bytes(message)) => {
                reading.is_all_read &= put_span(&mut self.negative, message)?;
            }
            (field::POSITIVE_SPANS, Value::Bytes(message)) => {
                reading.is_all_read &= put_span(&mut self.positive, message)?;
            }
            (field::CUSTOM_VALUES, value) => return self.read_bounds(value),
            (number, value) => match self.kind {
                HistogramKind::Integer => return self.read_integer_field(number, value, reading),
                HistogramKind::Float => return self.read_float_field(number, value, reading),
            },
        }
        Ok(())
    }

    /// A field of integer histograms; those of float ones say nothing in it.
    fn read_integer_field(
        &mut self,
        number: u32,
        value: Value,
        reading: &mut Reading,
    ) -> Result<(), HistogramWireError> {
        match (number, value) {
            (field::COUNT_INT, Value::Varint(count)) => {
                self.count = count;
                reading.kind = HistogramKind::Integer;
            }
            (field::ZERO_COUNT_INT, Value::Varint(count)) => self.zero_count = count,
            // The last of the two counts: a float one takes the other back.
            (field::ZERO_COUNT_FLOAT, Value::Fixed64(_)) => {
                self.zero_count = 0;
                reading.is_all_read = false;
            }
            (field::NEGATIVE_DELTAS, value) => put_deltas(&mut self.negative.words, value)?,
            (field::POSITIVE_DELTAS, value) => put_deltas(&mut self.positive.words, value)?,
            (number, value) => return reading.pass_over(number, value),
        }
        Ok(())
    }

    fn read_float_field(
        &mut self,
        number: u32,
        value: Value,
        reading: &mut Reading,
    ) -> Result<(), HistogramWireError> {
        match (number, value) {
            (field::COUNT_FLOAT, Value::Fixed64(bits)) => {
                self.count = bits;
                reading.kind = HistogramKind::Float;
            }
            (field::ZERO_COUNT_FLOAT, Value::Fixed64(bits)) => self.zero_count = bits,
            (field::ZERO_COUNT_INT, Value::Varint(_)) => {
                self.zero_count = 0;
                reading.is_all_read = false;
            }
            (field::NEGATIVE_COUNTS, value) => {
                put_doubles(value, HISTOGRAM_BUCKETS_MAX, &mut self.negative.words)?
            }
            (field::POSITIVE_COUNTS, value) => {
                put_doubles(value, HISTOGRAM_BUCKETS_MAX, &mut self.positive.words)?
            }
            (number, value) => return reading.pass_over(number, value),
        }
        Ok(())
    }

    fn read_bounds(&mut self, value: Value) -> Result<(), HistogramWireError> {
        each_double(value, |bits| {
            if self.bounds.len() == HISTOGRAM_BOUNDS_MAX {
                return Err(HistogramError::TooLarge.into());
            }
            self.bounds.push(unsigned_zero(bits));
            Ok(())
        })
    }

    /// What its message may have at most, in bytes, where each field is in it once.
    fn message_len_max(&self) -> usize {
        /// Fields of one value, and the heads of lists.
        const SINGLES: usize = 160;
        const SPAN: usize = 24;
        /// A varint, or a double with its tag.
        const WORD: usize = 10;
        let words = self.negative.words.len() + self.positive.words.len() + self.bounds.len();
        let spans = self.negative.spans.len() + self.positive.spans.len();
        SINGLES + SPAN * spans + WORD * words
    }

    /// Appends the message of this histogram, as Prometheus writes it. Its length goes before it, elsewhere.
    pub fn put_message(&self, times: HistogramTimes, out: &mut Vec<u8>) {
        match self.kind {
            HistogramKind::Integer => put_varint_field(out, field::COUNT_INT, self.count),
            HistogramKind::Float => put_fixed64_field(out, field::COUNT_FLOAT, self.count),
        }
        put_nonzero_fixed64(out, field::SUM, self.sum_bits);
        put_nonzero_varint(out, field::SCHEMA, zigzag(i64::from(self.schema)));
        put_nonzero_fixed64(out, field::ZERO_THRESHOLD, self.zero_threshold.to_bits());
        match self.kind {
            HistogramKind::Integer => put_varint_field(out, field::ZERO_COUNT_INT, self.zero_count),
            HistogramKind::Float => put_fixed64_field(out, field::ZERO_COUNT_FLOAT, self.zero_count),
        }
        put_spans(out, field::NEGATIVE_SPANS, &self.negative.spans);
        self.put_words(out, [field::NEGATIVE_DELTAS, field::NEGATIVE_COUNTS], &self.negative.words);
        put_spans(out, field::POSITIVE_SPANS, &self.positive.spans);
        self.put_words(out, [field::POSITIVE_DELTAS, field::POSITIVE_COUNTS], &self.positive.words);
        put_nonzero_varint(out, field::RESET_HINT, self.hint as u64);
        put_nonzero_varint(out, field::TIMESTAMP, times.timestamp_ms as u64);
        put_doubles_field(out, field::CUSTOM_VALUES, self.bounds.iter().map(|bound| bound.to_bits()));
        put_nonzero_varint(out, field::START_TIMESTAMP, times.start_timestamp_ms as u64);
    }

    fn put_words(&self, out: &mut Vec<u8>, [deltas, counts]: [u32; 2], words: &[u64]) {
        match self.kind {
            HistogramKind::Integer => put_deltas_field(out, deltas, words),
            HistogramKind::Float => put_doubles_field(out, counts, words.iter().copied()),
        }
    }
}

// --- reading ---

/// What a message says beside the histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reading {
    times: HistogramTimes,
    /// Where the timestamp is; nowhere where the message has none.
    timestamp: Range<usize>,
    /// What the last count that was read says; integer where there is none.
    kind: HistogramKind,
    /// Nothing was passed over.
    is_all_read: bool,
}

impl Default for Reading {
    fn default() -> Self {
        let (times, kind) = (HistogramTimes::default(), HistogramKind::Integer);
        Self { times, timestamp: 0..0, kind, is_all_read: true }
    }
}

impl Reading {
    fn message<'a>(&self, message: &'a [u8], len_max: usize) -> ReadMessage<'a> {
        let around = || [&message[..self.timestamp.start], &message[self.timestamp.end..]];
        let is_all_read = self.is_all_read && message.len() <= len_max;
        ReadMessage { times: self.times, around_timestamp: is_all_read.then(around) }
    }

    /// A field that isn't read: one of the other kind or of a later version, or one with a wrong type.
    #[cold]
    fn pass_over(&mut self, number: u32, value: Value) -> Result<(), HistogramWireError> {
        self.is_all_read = false;
        match number {
            field::COUNT_INT => self.kind = HistogramKind::Integer,
            field::COUNT_FLOAT => self.kind = HistogramKind::Float,
            _other => {}
        }
        check_unread(number, value)
    }
}

/// The tag of a float histogram's count.
const FLOAT_COUNT_TAG: u8 = (field::COUNT_FLOAT << 3 | 1) as u8;

/// A field's value. None of this message's is of 32 bits.
#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

#[derive(Debug)]
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, HistogramWireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| HistogramWireError::Malformed)?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.fixed64()?),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| HistogramWireError::Malformed)?;
                Value::Bytes(self.take(len)?)
            }
            5 => {
                self.take(4)?;
                Value::Fixed32
            }
            _group_or_unknown => return Err(HistogramWireError::Malformed),
        };
        if tag >> 3 == 0 { Err(HistogramWireError::Malformed) } else { Ok(Some((tag >> 3, value))) }
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, HistogramWireError> {
        match self.rest {
            // Most are so short.
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, HistogramWireError> {
        let mut value = 0;
        for at in 0..10 {
            let byte = *self.rest.get(at).ok_or(HistogramWireError::Malformed)?;
            // The tenth byte has room for one bit.
            if at == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(HistogramWireError::Malformed)
    }

    fn fixed64(&mut self) -> Result<u64, HistogramWireError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(HistogramWireError::Malformed)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], HistogramWireError> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(HistogramWireError::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// Of the two counts the last decides.
#[cold]
fn kind_of(message: &[u8]) -> Result<HistogramKind, HistogramWireError> {
    let mut kind = HistogramKind::Integer;
    let mut fields = Fields { rest: message };
    while let Some((number, _)) = fields.next()? {
        match number {
            field::COUNT_INT => kind = HistogramKind::Integer,
            field::COUNT_FLOAT => kind = HistogramKind::Float,
            _other => {}
        }
    }
    Ok(kind)
}

/// A threshold or a bound. Zeros of both signs are one in Prometheus' chunks, which have no sign for it.
fn unsigned_zero(bits: u64) -> f64 {
    let value = f64::from_bits(bits);
    if value == 0.0 { 0.0 } else { value }
}

/// Whether a field that isn't read has the type that it has to have.
fn check_unread(number: u32, value: Value) -> Result<(), HistogramWireError> {
    let is_right = match number {
        field::COUNT_INT | field::ZERO_COUNT_INT => matches!(value, Value::Varint(_)),
        field::COUNT_FLOAT | field::ZERO_COUNT_FLOAT => matches!(value, Value::Fixed64(_)),
        field::NEGATIVE_DELTAS | field::POSITIVE_DELTAS => {
            matches!(value, Value::Varint(_) | Value::Bytes(_))
        }
        field::NEGATIVE_COUNTS | field::POSITIVE_COUNTS => {
            matches!(value, Value::Fixed64(_) | Value::Bytes(_))
        }
        known if known <= field::START_TIMESTAMP => false,
        _later => true,
    };
    if is_right { Ok(()) } else { Err(HistogramWireError::Malformed) }
}

/// Whether all of it was read.
fn put_span(out: &mut Buckets, message: &[u8]) -> Result<bool, HistogramWireError> {
    if out.spans.len() == HISTOGRAM_SPANS_MAX {
        return Err(HistogramError::TooLarge.into());
    }
    let (mut span, mut is_all_read) = (Span::default(), true);
    let mut fields = Fields { rest: message };
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (field::SPAN_OFFSET, Value::Varint(value)) => span.offset = unzigzag_32(value),
            (field::SPAN_LENGTH, Value::Varint(value)) => span.length = value as u32,
            (known, _) if known <= field::SPAN_LENGTH => return Err(HistogramWireError::Malformed),
            _later => is_all_read = false,
        }
    }
    out.spans.push(span);
    Ok(is_all_read)
}

fn put_deltas(out: &mut Vec<u64>, value: Value) -> Result<(), HistogramWireError> {
    let mut packed = match value {
        Value::Varint(value) => return put_word(out, unzigzag(value) as u64, HISTOGRAM_BUCKETS_MAX),
        Value::Bytes(packed) => Fields { rest: packed },
        Value::Fixed64(_) | Value::Fixed32 => return Err(HistogramWireError::Malformed),
    };
    // Each takes a byte at least: mostly there can't be too many.
    if packed.rest.len() > HISTOGRAM_BUCKETS_MAX.saturating_sub(out.len()) {
        while !packed.rest.is_empty() {
            put_word(out, unzigzag(packed.varint()?) as u64, HISTOGRAM_BUCKETS_MAX)?;
        }
        return Ok(());
    }
    let (begin, mut rest) = (out.len(), packed.rest);
    out.resize(begin + rest.len(), 0);
    let mut count = 0;
    for word in &mut out[begin..] {
        let value = match rest {
            [] => break,
            [byte, after @ ..] if *byte < 0x80 => {
                rest = after;
                u64::from(*byte)
            }
            _ => {
                let mut long = Fields { rest };
                let value = long.long_varint()?;
                rest = long.rest;
                value
            }
        };
        *word = unzigzag(value) as u64;
        count += 1;
    }
    out.truncate(begin + count);
    Ok(())
}

fn put_doubles(value: Value, max: usize, out: &mut Vec<u64>) -> Result<(), HistogramWireError> {
    each_double(value, |bits| put_word(out, bits, max))
}

fn put_word(out: &mut Vec<u64>, word: u64, max: usize) -> Result<(), HistogramWireError> {
    if out.len() == max {
        return Err(HistogramError::TooLarge.into());
    }
    out.push(word);
    Ok(())
}

fn each_double(
    value: Value,
    mut take: impl FnMut(u64) -> Result<(), HistogramWireError>,
) -> Result<(), HistogramWireError> {
    match value {
        Value::Fixed64(bits) => take(bits),
        Value::Bytes(packed) => {
            let (doubles, []) = packed.as_chunks() else { return Err(HistogramWireError::Malformed) };
            doubles.iter().try_for_each(|bytes| take(u64::from_le_bytes(*bytes)))
        }
        Value::Varint(_) | Value::Fixed32 => Err(HistogramWireError::Malformed),
    }
}

/// A hint of a later version counts as none.
fn hint(value: u64) -> ResetHint {
    match value {
        1 => ResetHint::Reset,
        2 => ResetHint::NotReset,
        3 => ResetHint::Gauge,
        _none_or_later => ResetHint::Unknown,
    }
}

// --- writing ---

fn put_varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number << 3));
    put_varint(out, value);
}

fn put_nonzero_varint(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        put_varint_field(out, number, value);
    }
}

fn put_fixed64_field(out: &mut Vec<u8>, number: u32, bits: u64) {
    put_varint(out, u64::from(number << 3 | 1));
    out.extend(bits.to_le_bytes());
}

fn put_nonzero_fixed64(out: &mut Vec<u8>, number: u32, bits: u64) {
    if bits != 0 {
        put_fixed64_field(out, number, bits);
    }
}

fn put_length(out: &mut Vec<u8>, number: u32, len: usize) {
    put_varint(out, u64::from(number << 3 | 2));
    put_varint(out, len as u64);
}

fn put_spans(out: &mut Vec<u8>, number: u32, spans: &[Span]) {
    for span in spans {
        let (offset, length) = (zigzag(i64::from(span.offset)), u64::from(span.length));
        let size = |value| if value == 0 { 0 } else { 1 + varint_len(value) };
        put_length(out, number, size(offset) + size(length));
        put_nonzero_varint(out, field::SPAN_OFFSET, offset);
        put_nonzero_varint(out, field::SPAN_LENGTH, length);
    }
}

fn put_deltas_field(out: &mut Vec<u8>, number: u32, words: &[u64]) {
    let values = words.iter().map(|word| zigzag(*word as i64));
    if !words.is_empty() {
        put_length(out, number, values.clone().map(varint_len).sum());
        values.for_each(|value| put_varint(out, value));
    }
}

fn put_doubles_field(out: &mut Vec<u8>, number: u32, bits: impl ExactSizeIterator<Item = u64>) {
    if bits.len() > 0 {
        put_length(out, number, bits.len() * size_of::<u64>());
        bits.for_each(|bits| out.extend(bits.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests;

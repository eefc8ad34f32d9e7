//! The Samples record: all samples of a group in columns of refs, times, classes and values; where some came late,
//! with a mark for each.
use super::runs::{RunReader, RunWriter};
use super::value::{CLASS_BYTES, Coded, code, decode};
use super::varint::{length, take, take_length};
use super::{HEAD_BYTES, RecordError, RecordType, STAGING_KEPT_BYTES, head};
use silverback_model::{Sample, SeriesRef};

/// The record's head, and the count of samples and the lengths of the columns of runs.
const COLUMNS_AT: usize = HEAD_BYTES + 12;

/// Takes samples in columns.
#[derive(Debug, Default)]
pub(super) struct SamplesWriter {
    count: usize,
    refs: RunWriter<1>,
    times: RunWriter<0>,
    /// A bit for each sample up to the last late one; empty where none came late.
    marks: Vec<u8>,
    classes: Vec<u8>,
    values: Vec<u8>,
    head: [u8; COLUMNS_AT],
}

impl SamplesWriter {
    #[inline(always)]
    pub(super) fn push(&mut self, series: SeriesRef, sample: Sample) {
        self.refs.push(i64::from(series.0));
        self.times.push(sample.timestamp_ms);
        self.push_value(code(sample.value));
        self.count += 1;
    }

    /// Takes one that is older than the newest of its series.
    pub(super) fn push_late(&mut self, series: SeriesRef, sample: Sample) {
        self.marks.resize(self.count / 8 + 1, 0);
        self.marks[self.count / 8] |= 1 << (self.count % 8);
        self.push(series, sample);
    }

    #[inline]
    fn push_value(&mut self, Coded { class, word }: Coded) {
        // All eight bytes and back: cheaper than to copy a length that is known only now.
        let end = self.values.len() + usize::from(CLASS_BYTES[usize::from(class & 0xf)]);
        self.values.extend_from_slice(&word.to_le_bytes());
        self.values.truncate(end);
        if self.count.is_multiple_of(2) {
            self.classes.push(class);
        } else if let Some(pair) = self.classes.last_mut() {
            *pair |= class << 4;
        }
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> usize {
        if self.count == 0 { 0 } else { HEAD_BYTES + self.content_bytes() }
    }

    fn content_bytes(&self) -> usize {
        let columns = self.refs.bytes() + self.times.bytes() + self.classes.len() + self.values.len();
        COLUMNS_AT - HEAD_BYTES + columns + self.marks_bytes()
    }

    fn marks_bytes(&self) -> usize {
        if self.marks.is_empty() { 0 } else { self.count.div_ceil(8) }
    }

    pub(super) fn finish(&mut self) {
        self.refs.finish();
        self.times.finish();
        self.marks.resize(self.marks_bytes(), 0);
        let kind = if self.marks.is_empty() { RecordType::Samples } else { RecordType::MarkedSamples };
        let head = head(kind, self.content_bytes());
        self.head[..HEAD_BYTES].copy_from_slice(&head);
        let lengths = [self.count, self.refs.bytes(), self.times.bytes()].map(length);
        self.head[HEAD_BYTES..].copy_from_slice(lengths.as_flattened());
    }

    /// The record since it was finished.
    pub(super) fn parts(&self) -> [&[u8]; 8] {
        if self.count == 0 {
            return [&[]; 8];
        }
        let ([refs, refs_tail], [times, times_tail]) = (self.refs.parts(), self.times.parts());
        [&self.head, refs, refs_tail, times, times_tail, &self.marks, &self.classes, &self.values]
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.refs.clear(STAGING_KEPT_BYTES);
        self.times.clear(STAGING_KEPT_BYTES);
        for column in [&mut self.marks, &mut self.classes, &mut self.values] {
            column.clear();
            column.shrink_to(STAGING_KEPT_BYTES);
        }
    }
}

/// The samples of a group, in the order in which they were stored.
#[derive(Debug, Clone)]
pub struct SamplesRecord<'a> {
    count: usize,
    refs: &'a [u8],
    times: &'a [u8],
    /// A bit for each sample; empty where none came late.
    marks: &'a [u8],
    classes: &'a [u8],
    values: &'a [u8],
}

/// A sample as the log has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoggedSample {
    /// What the log calls its series.
    pub series: SeriesRef,
    /// The sample.
    pub sample: Sample,
    /// Whether it was older than the newest of its series when it came.
    pub is_late: bool,
}

impl<'a> SamplesRecord<'a> {
    pub(super) fn parse(rest: &'a [u8]) -> Result<Self, RecordError> {
        Self::parse_columns(rest, |_| 0)
    }

    /// With a mark for each.
    pub(super) fn parse_marked(rest: &'a [u8]) -> Result<Self, RecordError> {
        Self::parse_columns(rest, |count| count.div_ceil(8))
    }

    fn parse_columns(mut rest: &'a [u8], marks_bytes: impl Fn(usize) -> usize) -> Result<Self, RecordError> {
        let count = take_length(&mut rest)?;
        let refs_bytes = take_length(&mut rest)?;
        let times_bytes = take_length(&mut rest)?;
        let refs = take(&mut rest, refs_bytes)?;
        let times = take(&mut rest, times_bytes)?;
        let marks = take(&mut rest, marks_bytes(count))?;
        let classes = take(&mut rest, count.div_ceil(2))?;
        Ok(Self { count, refs, times, marks, classes, values: rest })
    }

    /// How many samples it says that it holds; it has half as many bytes at least.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The samples. Nothing comes after an error.
    pub fn iter(&self) -> SamplesIter<'a> {
        SamplesIter {
            left: self.count,
            at: 0,
            refs: RunReader::new(self.refs),
            times: RunReader::new(self.times),
            marks: self.marks,
            classes: self.classes,
            values: self.values,
            ended: false,
        }
    }
}

impl<'a> IntoIterator for &SamplesRecord<'a> {
    type Item = Result<LoggedSample, RecordError>;
    type IntoIter = SamplesIter<'a>;

    fn into_iter(self) -> SamplesIter<'a> {
        self.iter()
    }
}

/// Iterates over the samples of a [`SamplesRecord`].
#[derive(Debug, Clone)]
pub struct SamplesIter<'a> {
    left: usize,
    at: usize,
    refs: RunReader<'a, 1>,
    times: RunReader<'a, 0>,
    marks: &'a [u8],
    classes: &'a [u8],
    values: &'a [u8],
    ended: bool,
}

impl SamplesIter<'_> {
    #[inline]
    fn take(&mut self) -> Result<LoggedSample, RecordError> {
        let series = u32::try_from(self.refs.take()?).map_err(|_| RecordError::RefOutOfRange)?;
        let timestamp_ms = self.times.take()?;
        let is_late = self.marks.get(self.at / 8).is_some_and(|marks| marks >> (self.at % 8) & 1 == 1);
        let value = self.take_value()?;
        Ok(LoggedSample { series: SeriesRef(series), sample: Sample { timestamp_ms, value }, is_late })
    }

    #[inline]
    fn take_value(&mut self) -> Result<f64, RecordError> {
        let pair = self.classes.get(self.at / 2).ok_or(RecordError::Truncated)?;
        let class = pair >> (self.at % 2 * 4) & 0xf;
        self.at += 1;
        let word = self.values.first_chunk().copied().unwrap_or_else(|| last_word(self.values));
        let bytes = usize::from(CLASS_BYTES[usize::from(class)]);
        self.values = self.values.get(bytes..).ok_or(RecordError::Truncated)?;
        Ok(decode(class, u64::from_le_bytes(word)))
    }

    /// That every column ends with the last sample.
    fn end(&self) -> Result<(), RecordError> {
        self.refs.end()?;
        self.times.end()?;
        let unused_class =
            if self.at.is_multiple_of(2) { 0 } else { self.classes.last().map_or(0, |pair| pair >> 4) };
        let unused_marks = if self.at.is_multiple_of(8) {
            0
        } else {
            self.marks.last().map_or(0, |marks| marks >> (self.at % 8))
        };
        if unused_class != 0 || unused_marks != 0 || !self.values.is_empty() {
            Err(RecordError::TrailingBytes)
        } else {
            Ok(())
        }
    }
}

/// Fewer than eight bytes, with zeros after them.
fn last_word(bytes: &[u8]) -> [u8; 8] {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    word
}

impl Iterator for SamplesIter<'_> {
    type Item = Result<LoggedSample, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left > 0 {
            self.left -= 1;
            let taken = self.take();
            if taken.is_err() {
                (self.left, self.ended) = (0, true);
            }
            return Some(taken);
        }
        if self.ended {
            return None;
        }
        self.ended = true;
        self.end().err().map(Err)
    }
}

impl std::iter::FusedIterator for SamplesIter<'_> {}

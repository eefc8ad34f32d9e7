//! The Exemplars record: exemplars of series, in the order in which they came.

use super::counted::{CountedRecord, CountedWriter, ReadEntry, WriteEntry};
use super::varint::{RefSteps, put_varint, take_array, take_bytes, take_varint, unzigzag, zigzag};
use super::{RecordError, RecordType};
use silverback_model::{Exemplar, LabelBlock, SeriesRef};

/// Takes exemplars.
pub(super) type ExemplarsWriter = CountedWriter<WriteExemplars>;

/// The former ref and the former time: the next ones are written as steps from them.
#[derive(Debug, Default)]
pub(super) struct WriteExemplars {
    refs: RefSteps,
    timestamp_ms: i64,
}

impl WriteEntry for WriteExemplars {
    const KIND: RecordType = RecordType::Exemplars;
}

impl ExemplarsWriter {
    pub(super) fn push(&mut self, series: SeriesRef, exemplar: &Exemplar<'_>) {
        self.put(|writer, entries| {
            writer.refs.put(entries, series);
            put_varint(entries, zigzag(exemplar.timestamp_ms.wrapping_sub(writer.timestamp_ms)));
            writer.timestamp_ms = exemplar.timestamp_ms;
            entries.extend(exemplar.value.to_bits().to_le_bytes());
            put_varint(entries, exemplar.labels.iter().count() as u64);
            for (name, value) in exemplar.labels.iter() {
                for text in [name, value] {
                    put_varint(entries, text.len() as u64);
                    entries.extend_from_slice(text);
                }
            }
        });
    }
}

/// The exemplars of a group; each has eleven bytes at least.
pub type ExemplarsRecord<'a> = CountedRecord<'a, ExemplarsReader>;

/// An exemplar as a record has it.
#[derive(Debug, Clone)]
pub struct SeriesExemplar<'a> {
    /// What the log calls its series.
    pub series: SeriesRef,
    /// When, in ms.
    pub timestamp_ms: i64,
    /// What.
    pub value: f64,
    labels: ExemplarLabelPairs<'a>,
}

/// Iterates over names and values.
#[derive(Debug, Clone)]
pub(super) struct ExemplarLabelPairs<'a> {
    left: u64,
    rest: &'a [u8],
}

impl<'a> Iterator for ExemplarLabelPairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(take_label(&mut self.rest))
    }
}

fn take_label<'a>(rest: &mut &'a [u8]) -> Result<(&'a [u8], &'a [u8]), RecordError> {
    let name = take_bytes(rest)?;
    let value = take_bytes(rest)?;
    for text in [name, value] {
        str::from_utf8(text).map_err(|_| RecordError::NotUtf8)?;
    }
    Ok((name, value))
}

impl SeriesExemplar<'_> {
    /// The exemplar, its labels written out to `scratch` in their canonical form.
    pub fn exemplar<'s>(&self, scratch: &'s mut Vec<u8>) -> Exemplar<'s> {
        scratch.clear();
        // They were looked at when the entry was read.
        for (name, value) in self.labels.clone().flatten() {
            silverback_model::encode_label(scratch, name, value);
        }
        Exemplar { timestamp_ms: self.timestamp_ms, value: self.value, labels: LabelBlock(scratch) }
    }
}

/// Reads an exemplar.
#[derive(Debug, Clone, Default)]
pub struct ExemplarsReader {
    refs: RefSteps,
    timestamp_ms: i64,
}

impl<'a> ReadEntry<'a> for ExemplarsReader {
    type Entry = SeriesExemplar<'a>;

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError> {
        let series = self.refs.take(rest)?;
        self.timestamp_ms = self.timestamp_ms.wrapping_add(unzigzag(take_varint(rest)?));
        let value = f64::from_bits(u64::from_le_bytes(take_array(rest)?));
        let left = take_varint(rest)?;
        let labels = ExemplarLabelPairs { left, rest };
        // Each is looked at here, so that those who iterate over them meet no error.
        for _label in 0..left {
            take_label(rest)?;
        }
        Ok(SeriesExemplar { series, timestamp_ms: self.timestamp_ms, value, labels })
    }
}

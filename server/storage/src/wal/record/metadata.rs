//! The Metadata record: what is said of metrics, by their names.

use super::counted::{CountedRecord, CountedWriter, ReadEntry, WriteEntry};
use super::varint::{put_varint, take_byte, take_bytes, take_varint, unzigzag, zigzag};
use super::{RecordError, RecordType};
use silverback_model::{Metadata, MetricType};

/// Takes metadata.
pub(super) type MetadataWriter = CountedWriter<WriteMetadata>;

/// Nothing of one entry is said by the next.
#[derive(Debug, Default)]
pub(super) struct WriteMetadata;

impl WriteEntry for WriteMetadata {
    const KIND: RecordType = RecordType::Metadata;
}

impl MetadataWriter {
    pub(super) fn push(&mut self, metadata: &Metadata<'_>, seen_ms: i64) {
        self.put(|_, entries| {
            put_varint(entries, zigzag(seen_ms));
            entries.push(metadata.kind as u8);
            for text in [metadata.name, metadata.help, metadata.unit] {
                put_varint(entries, text.len() as u64);
                entries.extend_from_slice(text.as_bytes());
            }
        });
    }
}

/// The metadata of a group; each has five bytes at least.
pub type MetadataRecord<'a> = CountedRecord<'a, MetadataReader>;

/// Metadata, and when somebody said so last, in ms on the wall clock.
pub type MetadataEntry<'a> = (Metadata<'a>, i64);

/// Reads metadata of a metric.
#[derive(Debug, Clone, Default)]
pub struct MetadataReader;

impl<'a> ReadEntry<'a> for MetadataReader {
    type Entry = MetadataEntry<'a>;

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError> {
        let seen_ms = unzigzag(take_varint(rest)?);
        let kind = MetricType::of_number(u64::from(take_byte(rest)?));
        let mut text = || str::from_utf8(take_bytes(rest)?).map_err(|_| RecordError::NotUtf8);
        Ok((Metadata { kind, name: text()?, help: text()?, unit: text()? }, seen_ms))
    }
}

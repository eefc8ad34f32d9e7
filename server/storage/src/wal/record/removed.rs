//! The Removed record: the series that went, by ref and id.

use super::counted::{CountedRecord, CountedWriter, ReadEntry, WriteEntry};
use super::varint::{RefSteps, take_array};
use super::{RecordError, RecordType};
use silverback_model::{SeriesId, SeriesRef};

/// Takes series that were removed.
pub(super) type RemovedWriter = CountedWriter<WriteRemoved>;

/// The former ref: the next one is written as a step from it.
#[derive(Debug, Default)]
pub(super) struct WriteRemoved {
    refs: RefSteps,
}

impl WriteEntry for WriteRemoved {
    const KIND: RecordType = RecordType::Removed;
}

impl RemovedWriter {
    pub(super) fn push(&mut self, series: SeriesRef, id: SeriesId) {
        self.put(|writer, entries| {
            writer.refs.put(entries, series);
            entries.extend(id.0.to_le_bytes());
        });
    }
}

/// The series that were removed in a group; each has 17 bytes at least.
pub type RemovedRecord<'a> = CountedRecord<'a, RemovedReader>;

/// Reads a series that was removed.
#[derive(Debug, Clone, Default)]
pub struct RemovedReader {
    refs: RefSteps,
}

impl<'a> ReadEntry<'a> for RemovedReader {
    type Entry = (SeriesRef, SeriesId);

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError> {
        let series = self.refs.take(rest)?;
        Ok((series, SeriesId(u128::from_le_bytes(take_array(rest)?))))
    }
}

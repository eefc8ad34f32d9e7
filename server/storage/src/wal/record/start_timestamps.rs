//! The StartTimestamps record: since when samples of the group's Samples record count, for those that say so. Samples
//! that follow each other and began at the same time are one run. Knows samples by their places alone.

use super::counted::{CountedRecord, CountedWriter, ReadEntry, WriteEntry};
use super::varint::{put_varint, take_varint, unzigzag, zigzag};
use super::{RecordError, RecordType};

/// Takes start timestamps.
pub(super) type StartTimestampsWriter = CountedWriter<WriteStartTimestamps>;

/// The last run, which may go on, and what it is written as a step from.
#[derive(Debug, Default)]
pub(super) struct WriteStartTimestamps {
    run: StartRun,
    /// Where it begins among the entries.
    run_at: usize,
    former: StartRun,
}

impl WriteEntry for WriteStartTimestamps {
    const KIND: RecordType = RecordType::StartTimestamps;
}

impl WriteStartTimestamps {
    fn put_run(&mut self, entries: &mut Vec<u8>) {
        let Self { run, run_at, former } = self;
        entries.truncate(*run_at);
        put_varint(entries, run.first - former.end());
        put_varint(entries, run.samples);
        put_varint(entries, zigzag(run.start_ms.wrapping_sub(former.start_ms)));
    }
}

impl StartTimestampsWriter {
    /// Takes that of the sample at a place in the group's Samples record, counted from 0. Places ascend.
    pub(super) fn push(&mut self, place: usize, start_ms: i64) {
        let place = place as u64;
        let goes_on = |writer: &WriteStartTimestamps| {
            writer.run.samples > 0 && writer.run.end() == place && writer.run.start_ms == start_ms
        };
        if goes_on(self.writer()) {
            return self.put_again(|writer, entries| {
                writer.run.samples += 1;
                writer.put_run(entries);
            });
        }
        self.put(|writer, entries| {
            writer.former =
                std::mem::replace(&mut writer.run, StartRun { first: place, samples: 1, start_ms });
            writer.run_at = entries.len();
            writer.put_run(entries);
        });
    }
}

/// The start timestamps of a group; each run has three bytes at least.
pub type StartTimestampsRecord<'a> = CountedRecord<'a, StartTimestampsReader>;

impl StartTimestampsRecord<'_> {
    /// How many samples have one.
    pub fn samples(&self) -> Result<u64, RecordError> {
        self.iter().map(|run| run.map(|run| run.samples)).sum()
    }

    /// Whether each is that of a sample, of so many that the group's Samples record has.
    pub(super) fn check_among(&self, samples: usize) -> Result<(), RecordError> {
        self.iter().try_for_each(|run| {
            let run = run?;
            match run.end() <= samples as u64 {
                true => Ok(()),
                false => Err(RecordError::NoSuchSample(run.end() - 1)),
            }
        })
    }
}

/// Samples that follow each other and have the same start timestamp.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StartRun {
    /// The place of the first of them in the group's Samples record, from 0.
    pub first: u64,
    /// How many they are.
    pub samples: u64,
    /// Since when they count, in ms since the Unix epoch.
    pub start_ms: i64,
}

impl StartRun {
    /// The place after the last of them.
    const fn end(self) -> u64 {
        self.first + self.samples
    }
}

/// Reads a run.
#[derive(Debug, Clone, Default)]
pub struct StartTimestampsReader {
    former: StartRun,
}

impl<'a> ReadEntry<'a> for StartTimestampsReader {
    type Entry = StartRun;

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<StartRun, RecordError> {
        let first = self.former.end().checked_add(take_varint(rest)?);
        let samples = take_varint(rest)?;
        let start_ms = self.former.start_ms.wrapping_add(unzigzag(take_varint(rest)?));
        if samples == 0 {
            return Err(RecordError::EmptyRun);
        }
        let fits = |first: &u64| first.checked_add(samples).is_some();
        let first = first.filter(fits).ok_or(RecordError::NoSuchSample(u64::MAX))?;
        self.former = StartRun { first, samples, start_ms };
        Ok(self.former)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HEAD_BYTES, records};
    use super::*;

    /// Runs of a record with these numbers after its count.
    fn read(count: u32, numbers: &[u64]) -> Result<Vec<(u64, u64, i64)>, RecordError> {
        let mut content = count.to_le_bytes().to_vec();
        numbers.iter().for_each(|number| put_varint(&mut content, *number));
        let record = StartTimestampsRecord::parse(&content)?;
        record.iter().map(|run| run.map(|run| (run.first, run.samples, run.start_ms))).collect()
    }

    #[test]
    fn samples_that_began_together_take_as_much_as_one() {
        let mut writer = StartTimestampsWriter::default();
        assert_eq!((writer.bytes(), writer.parts()), (0, [&[][..]; 2]));
        writer.push(3, 1_700_000_000_000);
        let of_one = writer.bytes();
        (4..100).for_each(|place| writer.push(place, 1_700_000_000_000));
        assert_eq!(writer.bytes(), of_one);
        writer.push(100, 1_700_000_000_001);
        writer.push(102, 1_700_000_000_001);
        assert_eq!(writer.bytes(), of_one + 3 + 3, "a gap, a count and a step");
        writer.finish();
        let payload = writer.parts().concat();
        assert_eq!(payload.len(), writer.bytes());
        let told = records(&payload).next().unwrap();
        assert_eq!(told.err(), Some(RecordError::NoSuchSample(99)), "no samples of its group come before it");
        let record = StartTimestampsRecord::parse(&payload[HEAD_BYTES..]).unwrap();
        let runs: Result<Vec<_>, _> = record.iter().collect();
        let run =
            |first, samples, later: i64| StartRun { first, samples, start_ms: 1_700_000_000_000 + later };
        assert_eq!(runs, Ok(vec![run(3, 97, 0), run(100, 1, 1), run(102, 1, 1)]));
        assert_eq!((record.samples(), record.check_among(103)), (Ok(99), Ok(())));
        assert_eq!(record.check_among(102), Err(RecordError::NoSuchSample(102)));
        let cut = &payload[HEAD_BYTES..payload.len() - 1];
        assert_eq!(StartTimestampsRecord::parse(cut).unwrap().check_among(103), Err(RecordError::Truncated));
    }

    #[test]
    fn runs_that_say_nothing_or_lie_beyond_all_places_are_refused() {
        assert_eq!(read(2, &[1, 2, 4, 0, 1, 1]), Ok(vec![(1, 2, 2), (3, 1, 1)]));
        assert_eq!(read(1, &[1, 0, 4]), Err(RecordError::EmptyRun));
        let beyond = Err(RecordError::NoSuchSample(u64::MAX));
        assert_eq!(read(1, &[u64::MAX, 1, 0]), beyond);
        assert_eq!(read(1, &[1, u64::MAX, 0]), beyond);
        assert_eq!(read(2, &[0, 2, 0, u64::MAX, 1, 0]), beyond);
        assert_eq!(read(1, &[0, 2, 0, 0]), Err(RecordError::TrailingBytes));
    }
}

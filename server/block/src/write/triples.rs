//! Three numbers of 32 bits, sorted by the first, the second and the third: in memory, and on disk where they are many.

use std::path::Path;

use super::memory::WriterMemory;
use super::runs::{Runs, SortedRecord, SortedRuns};
use super::scratch::ScratchReader;
use super::watch::WriteWatch;
use super::{BlockWriteError, put_uvarint};
use crate::error::BlockErrorKind;

/// Three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Triple(u128);

impl Triple {
    pub(super) const fn new(first: u32, second: u32, third: u32) -> Self {
        Self((first as u128) << 64 | (second as u128) << 32 | third as u128)
    }

    pub(super) const fn numbers(self) -> (u32, u32, u32) {
        ((self.0 >> 64) as u32, (self.0 >> 32) as u32, self.0 as u32)
    }
}

/// Of each number how much it is more than before, up to the first that is more; those after that as they are.
impl SortedRecord for Triple {
    const FILE: &'static str = "numbers.run";

    fn put(&self, before: &mut Self, out: &mut Vec<u8>) {
        let (first, second, third) = self.numbers();
        let (before_first, before_second, before_third) = std::mem::replace(before, *self).numbers();
        put_uvarint(out, u64::from(first - before_first));
        let is_first_same = first == before_first;
        put_uvarint(out, u64::from(if is_first_same { second - before_second } else { second }));
        let is_same = is_first_same && second == before_second;
        put_uvarint(out, u64::from(if is_same { third - before_third } else { third }));
    }

    fn read_next(&mut self, from: &mut ScratchReader<'_>) -> Result<(), BlockWriteError> {
        let (first, second, third) = self.numbers();
        let mut add = |before: u32| {
            let more = from.uvarint_32("a number")?;
            let sum = before.checked_add(more);
            sum.ok_or_else(|| from.wrong(BlockErrorKind::Overflows { what: "a number" }))
                .map(|sum| (sum, more == 0))
        };
        let (first, is_first_same) = add(first)?;
        let (second, is_second_same) = add(if is_first_same { second } else { 0 })?;
        let (third, _is_same) = add(if is_first_same && is_second_same { third } else { 0 })?;
        *self = Self::new(first, second, third);
        Ok(())
    }
}

/// Sorts them.
#[derive(Debug)]
pub(super) struct Triples {
    /// Those that aren't on disk.
    held: Vec<Triple>,
    held_max: usize,
    runs: Runs<Triple>,
}

impl Triples {
    pub(super) fn create(dir: &Path, memory: WriterMemory) -> Result<Self, BlockWriteError> {
        let held_max = (memory.sorted_bytes() / size_of::<Triple>()).max(1);
        Ok(Self { held: Vec::with_capacity(held_max), held_max, runs: Runs::create(dir, memory)? })
    }

    pub(super) fn push(&mut self, triple: Triple) -> Result<(), BlockWriteError> {
        if self.held.len() == self.held_max {
            self.end_run()?;
        }
        self.held.push(triple);
        Ok(())
    }

    pub(super) fn finish(
        mut self,
        watch: &mut WriteWatch<'_>,
    ) -> Result<SortedRuns<Triple>, BlockWriteError> {
        self.end_run()?;
        drop(self.held);
        self.runs.finish(watch)
    }

    fn end_run(&mut self) -> Result<(), BlockWriteError> {
        self.held.sort_unstable();
        self.held.iter().try_for_each(|triple| self.runs.put(triple).map(drop))?;
        self.runs.end_run();
        self.held.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(bytes: usize, triples: &[(u32, u32, u32)]) -> Vec<(u32, u32, u32)> {
        let scratch = tempfile::tempdir().unwrap();
        let mut out = Triples::create(scratch.path(), WriterMemory::tiny(bytes)).unwrap();
        triples
            .iter()
            .for_each(|(first, second, third)| out.push(Triple::new(*first, *second, *third)).unwrap());
        let runs = out.finish(&mut WriteWatch::new(&|_bytes| true)).unwrap();
        let (mut merge, mut all) = (runs.read().unwrap(), Vec::new());
        while let Some(triple) = merge.next().unwrap() {
            all.push(triple.numbers());
        }
        assert!(merge.next().unwrap().is_none());
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        all
    }

    proptest! {
        #[test]
        fn what_is_sorted_on_disk_is_what_is_sorted_in_memory(
            mut triples in prop::collection::vec((0..4_u32, prop_oneof![0..3_u32, any::<u32>()], any::<u32>()), 0..400),
            bytes in prop::sample::select(vec![64_usize, 128, 600, 3000, 1 << 20]),
        ) {
            let found = sorted(bytes, &triples);
            triples.sort_unstable();
            prop_assert_eq!(found, triples);
        }
    }
}

//! Records that are sorted on disk: runs of sorted ones, one after the other in one file, which are merged some at a time
//! until they are few enough to be read in one order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use super::BlockWriteError;
use super::memory::WriterMemory;
use super::output::OutputFile;
use super::scratch::{self, ScratchFile, ScratchReader};
use super::watch::WriteWatch;

/// What is sorted.
pub(super) trait SortedRecord: Ord + Default {
    /// Its file's name, while that has one.
    const FILE: &'static str;

    /// Writes it after the one `before` it of its run, whose place it takes: the default, where it is the first.
    fn put(&self, before: &mut Self, out: &mut Vec<u8>);

    /// Reads the next in place of the one before.
    fn read_next(&mut self, from: &mut ScratchReader<'_>) -> Result<(), BlockWriteError>;
}

/// Runs while they are written.
#[derive(Debug)]
pub(super) struct Runs<R> {
    dir: PathBuf,
    memory: WriterMemory,
    out: OutputFile,
    /// Where each ends: eight bytes for what has filled the memory once.
    ends: Vec<u64>,
    before: R,
    record: Vec<u8>,
    record_bytes_max: usize,
}

/// Few enough runs to be read in one order.
#[derive(Debug)]
pub(super) struct SortedRuns<R> {
    file: ScratchFile,
    ends: Vec<u64>,
    memory: WriterMemory,
    of: PhantomData<R>,
}

impl<R: SortedRecord> Runs<R> {
    pub(super) fn create(dir: &Path, memory: WriterMemory) -> Result<Self, BlockWriteError> {
        Ok(Self {
            dir: dir.to_owned(),
            memory,
            out: scratch::create(&dir.join(R::FILE), memory.buffer_bytes())?,
            ends: Vec::new(),
            before: R::default(),
            record: Vec::new(),
            record_bytes_max: 0,
        })
    }

    pub(super) const fn written_bytes(&self) -> u64 {
        self.out.at()
    }

    /// Adds a record, no less than the one before it in its run, and says how long it is in bytes.
    pub(super) fn put(&mut self, record: &R) -> Result<usize, BlockWriteError> {
        self.record.clear();
        record.put(&mut self.before, &mut self.record);
        self.record_bytes_max = self.record_bytes_max.max(self.record.len());
        self.out.put(&self.record)?;
        Ok(self.record.len())
    }

    /// What comes next begins a run.
    pub(super) fn end_run(&mut self) {
        if self.ends.last().copied().unwrap_or_default() < self.out.at() {
            self.ends.push(self.out.at());
        }
        self.before = R::default();
    }

    /// Merges until the runs that are left can be read together.
    pub(super) fn finish(mut self, watch: &mut WriteWatch<'_>) -> Result<SortedRuns<R>, BlockWriteError> {
        let memory = self.memory;
        loop {
            let fan_in = memory.fan_in(self.record_bytes_max);
            let (is_last, file) = (self.ends.len() <= fan_in, self.out.written()?);
            if is_last {
                return Ok(SortedRuns { file, ends: self.ends, memory, of: PhantomData });
            }
            let mut merged = Self::create(&self.dir, memory)?;
            let mut from = 0;
            for ends in self.ends.chunks(fan_in) {
                let mut merge = Merge::<R>::begin(&file, from, ends, memory)?;
                while let Some(record) = merge.next()? {
                    let bytes = merged.put(record)?;
                    watch.step(bytes)?;
                }
                merged.end_run();
                from = ends.last().copied().unwrap_or(from);
            }
            self = merged;
        }
    }
}

impl<R: SortedRecord> SortedRuns<R> {
    /// Reads all, ascending.
    pub(super) fn read(&self) -> Result<Merge<'_, R>, BlockWriteError> {
        Merge::begin(&self.file, 0, &self.ends, self.memory)
    }
}

/// Runs that are read in one order.
#[derive(Debug)]
pub(super) struct Merge<'a, R> {
    runs: Vec<ScratchReader<'a>>,
    /// Each run's next record, and the run.
    heads: BinaryHeap<Reverse<(R, usize)>>,
    /// Whether the least was given out.
    is_given: bool,
}

impl<'a, R: SortedRecord> Merge<'a, R> {
    fn begin(
        file: &'a ScratchFile,
        from: u64,
        ends: &[u64],
        memory: WriterMemory,
    ) -> Result<Self, BlockWriteError> {
        let begins = std::iter::once(&from).chain(ends);
        let pieces = begins.zip(ends).map(|(from, to)| file.read_piece(*from, *to, memory.read_bytes()));
        let (mut runs, mut heads) = (pieces.collect::<Vec<_>>(), Vec::with_capacity(ends.len()));
        for (run, reading) in runs.iter_mut().enumerate() {
            let mut record = R::default();
            record.read_next(reading)?;
            heads.push(Reverse((record, run)));
        }
        Ok(Self { runs, heads: heads.into(), is_given: false })
    }

    /// The next record; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<&R>, BlockWriteError> {
        if self.is_given
            && let Some(mut head) = self.heads.peek_mut()
        {
            let Reverse((record, run)) = &mut *head;
            let run = &mut self.runs[*run];
            if run.is_at_end() {
                PeekMut::pop(head);
            } else {
                record.read_next(run)?;
            }
        }
        self.is_given = true;
        Ok(self.heads.peek().map(|Reverse((record, _))| record))
    }
}

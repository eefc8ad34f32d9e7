//! Names and values of labels, of the series of all blocks that match, ascending and each once. They are collected whole,
//! in the memory for reads of blocks, and given out in batches.

use std::collections::BTreeSet;
use std::sync::Arc;

use silverback_block::OpenBlock;
use silverback_storage::message::{Rows, Selection, TextBatch, TextsWanted};

use super::matching::matching;
use super::memory::TakenMemory;
use super::page::{BlockCursor, BlockRead};
use super::rows::{BlockTexts, ChunkRange};
use super::threads::{BlockJob, BlockJobError, ask};

/// What one takes beside its text, in bytes.
const TEXT_BYTES: usize = 64;
/// Of the texts of the block at hand so many bytes are kept.
const BLOCK_TEXTS_BYTES: usize = 256 << 10;
const SETS_AT_ONCE: usize = 3;
/// Series that are looked at between two looks whether anybody waits.
const STEP: usize = 64;

/// What was found, and how much of it isn't given out yet.
#[derive(Debug)]
pub(crate) struct TextCursor {
    texts: std::iter::Peekable<std::collections::btree_set::IntoIter<Box<str>>>,
    held_bytes: usize,
    taken: TakenMemory,
}

impl BlockCursor<TextBatch> for TextCursor {
    fn open(
        job: &BlockJob,
        blocks: &[Arc<OpenBlock>],
        question: &BlockRead<TextBatch>,
        taken: TakenMemory,
    ) -> Result<Self, BlockJobError> {
        let BlockRead { selection, wanted, .. } = question;
        let range = question.range();
        let mut found = Collected { texts: BTreeSet::new(), bytes: 0, taken };
        for block in blocks {
            job.check()?;
            if selection.matchers.is_empty() && is_within(block, range) {
                found.add_all(job, block, wanted)?;
            } else {
                found.add_of_series(job, block, selection, wanted, range)?;
            }
        }
        let Collected { texts, bytes, taken } = found;
        Ok(Self { texts: texts.into_iter().peekable(), held_bytes: bytes, taken })
    }

    fn next_batch(&mut self, _job: &BlockJob, bytes: usize) -> Result<(TextBatch, bool), BlockJobError> {
        let mut batch = TextBatch::default();
        while batch.bytes() < bytes
            && let Some(text) = self.texts.next()
        {
            self.held_bytes -= TEXT_BYTES + text.len();
            batch.push(&text);
        }
        self.taken.set(self.held_bytes + batch.bytes())?;
        let has_more = self.texts.peek().is_some();
        Ok((batch, has_more))
    }
}

/// Whether every series of a block has a sample in the range, for all that it says of itself.
fn is_within(block: &OpenBlock, range: ChunkRange) -> bool {
    block.is_whole() && range.min_ms <= block.meta().min_ms && block.meta().end_ms - 1 <= range.max_ms
}

struct Collected {
    texts: BTreeSet<Box<str>>,
    bytes: usize,
    taken: TakenMemory,
}

impl Collected {
    fn add(&mut self, text: &str) -> Result<(), BlockJobError> {
        if !self.texts.contains(text) {
            self.bytes += TEXT_BYTES + text.len();
            self.taken.set(self.bytes)?;
            self.texts.insert(text.into());
        }
        Ok(())
    }

    /// Of all series of a block: its index lists them.
    fn add_all(
        &mut self,
        job: &BlockJob,
        block: &Arc<OpenBlock>,
        wanted: &TextsWanted,
    ) -> Result<(), BlockJobError> {
        let mut stopped = Ok(());
        let mut add = |text: &str| {
            stopped = job.check().and_then(|()| self.add(text));
            stopped.is_ok()
        };
        match wanted {
            TextsWanted::LabelNames => ask(block, |block| {
                let mut goes_on = true;
                block.label_names(|name| goes_on = goes_on && add(name))
            })?,
            TextsWanted::LabelValues(name) => {
                ask(block, |block| block.label_values(name, |value, _| add(value)))?
            }
        }
        stopped
    }

    /// Of the series of a block that match and have a chunk in the range: their own labels are looked at.
    fn add_of_series(
        &mut self,
        job: &BlockJob,
        block: &Arc<OpenBlock>,
        selection: &Selection,
        wanted: &TextsWanted,
        range: ChunkRange,
    ) -> Result<(), BlockJobError> {
        let set_bytes = block.set_bytes_max();
        self.taken.set(self.bytes + SETS_AT_ONCE * set_bytes)?;
        let series = matching(job, block, &selection.matchers)?;
        let (mut texts, mut seen) = (BlockTexts::new(BLOCK_TEXTS_BYTES), roaring::RoaringTreemap::new());
        for (passed, series) in series.into_iter().enumerate() {
            if passed.is_multiple_of(STEP) {
                job.check()?;
                self.taken.set(self.bytes + set_bytes + texts.bytes() + seen.serialized_size())?;
            }
            let (labels, chunks) = ask(block, |block| block.series(series))?;
            let deleted = block.deleted(series);
            if !chunks.iter().any(|chunk| range.reads(chunk, deleted)) {
                continue;
            }
            for (name, value) in labels {
                let text = match wanted {
                    TextsWanted::LabelNames => name,
                    TextsWanted::LabelValues(wanted) if texts.get(block, name)? == &**wanted => value,
                    TextsWanted::LabelValues(_) => continue,
                };
                if seen.insert(text) {
                    let text: Box<str> = texts.get(block, text)?.into();
                    self.add(&text)?;
                }
            }
        }
        self.taken.set(self.bytes)
    }
}

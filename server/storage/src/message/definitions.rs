//! The label sets that a stream defined, as its batches carry them to the shards: read only by the
//! owner of a series that it doesn't know.
//!
//! A snapshot is a few references; a definition adds to the next snapshot and leaves the former ones
//! as they are, for batches in flight. Blocks are merged as they come, so that a snapshot of `n`
//! label sets has at most log₂ `n` blocks however they came.

use std::sync::Arc;

use silverback_model::LabelBlock;

/// Canonical label sets, numbered from 0 in the order in which they were added.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    blocks: Vec<Arc<DefinitionBlock>>,
}

/// Canonical label sets one after the other.
#[derive(Debug, Clone, Default)]
pub struct DefinitionBlock {
    /// The number of its first label set.
    first: u32,
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<u32>,
}

impl DefinitionBlock {
    /// Adds what `write` appends as one label set; returned is what was appended.
    pub fn push<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> (T, &[u8]) {
        let start = self.bytes.len();
        let written = write(&mut self.bytes);
        self.ends.push(self.bytes.len() as u32);
        (written, &self.bytes[start..])
    }

    /// Label sets in it.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The memory of its label sets.
    pub fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    /// The same once a label set of so many bytes is added: a buffer that is full doubles.
    pub fn bytes_with(&self, label_bytes: usize) -> usize {
        let grown = |capacity: usize, needed: usize| match needed <= capacity {
            true => capacity,
            false => needed.max(2 * capacity),
        };
        let ends = grown(self.ends.capacity(), self.ends.len() + 1);
        grown(self.bytes.capacity(), self.bytes.len() + label_bytes) + ends * size_of::<u32>()
    }

    fn append(&mut self, other: &Self) {
        let base = self.bytes.len() as u32;
        self.bytes.reserve_exact(other.bytes.len());
        self.ends.reserve_exact(other.ends.len());
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| base + end));
    }

    fn labels(&self, number: u32) -> LabelBlock<'_> {
        let index = (number - self.first) as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        LabelBlock(&self.bytes[start as usize..self.ends[index] as usize])
    }
}

impl Definitions {
    /// Label sets in all.
    pub fn len(&self) -> u32 {
        self.blocks.last().map_or(0, |block| block.first + block.len() as u32)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The memory of all label sets.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes()).sum()
    }

    /// Adds a block's label sets; the first of them gets the number [`len`](Self::len).
    pub fn push(&mut self, mut block: DefinitionBlock) {
        if block.is_empty() {
            return;
        }
        block.first = self.len();
        while let Some(last) = self.blocks.pop_if(|last| last.len() <= block.len()) {
            let mut merged = DefinitionBlock { first: last.first, ..DefinitionBlock::default() };
            merged.append(&last);
            merged.append(&block);
            block = merged;
        }
        self.blocks.push(Arc::new(block));
    }

    /// The label set of a number that was given.
    pub fn labels(&self, number: u32) -> LabelBlock<'_> {
        let behind = self.blocks.partition_point(|block| block.first <= number);
        self.blocks[behind - 1].labels(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::label::encode_label;

    fn block(values: impl IntoIterator<Item = u32>) -> DefinitionBlock {
        let mut block = DefinitionBlock::default();
        for value in values {
            block.push(|out| encode_label(out, b"n", value.to_string().as_bytes()));
        }
        block
    }

    fn check(definitions: &Definitions, len: u32) {
        assert_eq!(definitions.len(), len);
        for number in 0..len {
            let labels: Vec<_> = definitions.labels(number).iter().collect();
            assert_eq!(labels, [(&b"n"[..], number.to_string().as_bytes())]);
        }
    }

    #[test]
    fn label_sets_keep_their_numbers_however_they_come() {
        let mut definitions = Definitions::default();
        let mut len = 0;
        for size in [1, 1, 5, 2, 1, 0, 1, 1, 40, 3] {
            definitions.push(block(len..len + size));
            len += size;
            check(&definitions, len);
        }
    }

    #[test]
    fn a_snapshot_stays_as_it_was() {
        let mut definitions = Definitions::default();
        definitions.push(block(0..3));
        let before = definitions.clone();
        definitions.push(block(3..9));
        check(&before, 3);
        check(&definitions, 9);
    }

    #[test]
    fn one_label_set_at_a_time_makes_few_blocks() {
        let mut definitions = Definitions::default();
        (0..5000).for_each(|number| definitions.push(block(number..number + 1)));
        assert!(definitions.blocks.len() <= 13, "{}", definitions.blocks.len());
        check(&definitions, 5000);
    }
}

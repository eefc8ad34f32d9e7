//! The words of open chunks: 64-byte blocks in one pool, chained for each chunk.
//!
//! An open chunk grows by a word every few samples. In blocks of a pool it grows without the
//! allocator, and a sealed chunk's blocks serve the next chunk.

use crate::cell::pages::Pages;
use silverback_model::gorilla::WordSink;

/// Words of one block: with the link to the next block a cache line.
const WORDS: usize = 7;
/// No block.
pub const NONE: u32 = u32::MAX;

/// Seven words and the index of the next block.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub struct ChunkBlock {
    words: [u64; WORDS],
    next: u32,
}
const _: () = assert!(size_of::<ChunkBlock>() == 64);

/// The blocks of all open chunks of a shard.
pub type ChunkBlocks = Pages<ChunkBlock>;

/// A chunk's chain: its first and its last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl Chain {
    /// A sink that appends words after the `words` that the chain holds already.
    #[inline]
    pub(crate) fn sink<'a>(&'a mut self, blocks: &'a mut ChunkBlocks, words: usize) -> ChainSink<'a> {
        ChainSink { chain: self, blocks, words }
    }

    /// The block that the next word goes to, for a prefetch; none while the chain is empty.
    #[inline]
    pub(crate) fn tail<'a>(&self, blocks: &'a ChunkBlocks) -> Option<&'a ChunkBlock> {
        (self.last != NONE).then(|| blocks.get(self.last))
    }

    /// The block of the first words, for a prefetch; none while the chain is empty.
    #[inline]
    pub(crate) fn head<'a>(&self, blocks: &'a ChunkBlocks) -> Option<&'a ChunkBlock> {
        (self.first != NONE).then(|| blocks.get(self.first))
    }

    /// The block after the first one, likewise. The first one should be near.
    #[inline]
    pub(crate) fn second<'a>(&self, blocks: &'a ChunkBlocks) -> Option<&'a ChunkBlock> {
        let next = self.head(blocks)?.next;
        (next != NONE).then(|| blocks.get(next))
    }

    /// The first `words` words in order.
    pub(crate) fn words<'a>(
        &self,
        blocks: &'a ChunkBlocks,
        words: usize,
    ) -> impl Iterator<Item = u64> + use<'a> {
        words_between(self.first, blocks, 0, words)
    }

    /// The block that word number `word` is in, of those that are there.
    pub(crate) fn block_of(&self, blocks: &ChunkBlocks, word: usize) -> u32 {
        follow(self.first, blocks, word / WORDS)
    }

    /// Gives the blocks back to the pool.
    pub(crate) fn release(self, blocks: &mut ChunkBlocks) {
        let mut at = self.first;
        while at != NONE {
            at = blocks.remove(at).next;
        }
    }
}

/// The words from number `from` to number `to` of a chain, in order; `block` has the first of them.
pub(super) fn words_between(
    block: u32,
    blocks: &ChunkBlocks,
    from: usize,
    to: usize,
) -> impl Iterator<Item = u64> + use<'_> {
    let mut at = block;
    (from..to).map(move |word| {
        if word > from && word % WORDS == 0 {
            at = blocks.get(at).next;
        }
        blocks.get(at).words[word % WORDS]
    })
}

/// The block that has word number `to` of a chain, where `block` has number `from`, which is not after it.
pub(super) fn block_on(block: u32, blocks: &ChunkBlocks, from: usize, to: usize) -> u32 {
    follow(block, blocks, to / WORDS - from / WORDS)
}

fn follow(block: u32, blocks: &ChunkBlocks, links: usize) -> u32 {
    (0..links).fold(block, |at, _| blocks.get(at).next)
}

/// Appends words to a chain.
#[derive(Debug)]
pub(crate) struct ChainSink<'a> {
    chain: &'a mut Chain,
    blocks: &'a mut ChunkBlocks,
    words: usize,
}

impl WordSink for ChainSink<'_> {
    #[inline]
    fn push_word(&mut self, word: u64) {
        let place = self.words % WORDS;
        if place == 0 {
            self.add_block();
        }
        self.blocks.get_mut(self.chain.last).words[place] = word;
        self.words += 1;
    }
}

impl ChainSink<'_> {
    #[inline(never)]
    fn add_block(&mut self) {
        let block = ChunkBlock { words: [0; WORDS], next: NONE };
        // 2^32 blocks are 256 GiB of open chunks on one core; series refs end before.
        let index = self.blocks.insert(block).expect("open chunks fit the block pool");
        match self.chain.last {
            NONE => self.chain.first = index,
            last => self.blocks.get_mut(last).next = index,
        }
        self.chain.last = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_in_order_over_many_blocks() {
        let mut blocks = ChunkBlocks::default();
        let mut chain = Chain::default();
        for count in 0..30 {
            chain.sink(&mut blocks, count).push_word(count as u64 * 3);
        }
        let words: Vec<u64> = chain.words(&blocks, 30).collect();
        assert_eq!(words, (0..30).map(|w| w * 3).collect::<Vec<u64>>());
        for (from, to) in (0..30).flat_map(|from| (from..30).map(move |to| (from, to))) {
            let block = chain.block_of(&blocks, from);
            assert!(words_between(block, &blocks, from, to).eq((from..to).map(|w| w as u64 * 3)));
            assert_eq!(block_on(block, &blocks, from, to), chain.block_of(&blocks, to));
        }
    }

    #[test]
    fn a_released_chain_feeds_the_next_one() {
        let mut blocks = ChunkBlocks::default();
        let mut chain = Chain::default();
        (0..21).for_each(|count| chain.sink(&mut blocks, count).push_word(1));
        assert_eq!(blocks.len(), 3);
        chain.release(&mut blocks);
        assert_eq!(blocks.len(), 0);
        let mut other = Chain::default();
        other.sink(&mut blocks, 0).push_word(2);
        assert_eq!(blocks.end(), 3);
    }
}

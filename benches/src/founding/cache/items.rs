//! The cache's items and what is done with them: the same on every side, checks too. It knows no
//! threads, locks or messages.

use std::cell::RefCell;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use silverback_load::random::SplitMix;

/// Words of a block: 16 KiB.
pub(super) const WORDS: usize = (16 << 10) / size_of::<u64>();
/// Ids that there are.
pub(super) const IDS: u32 = 1024;
/// Blocks that an item keeps, the newest: 64 MiB of all items, more than the caches hold.
const KEPT: usize = 4;
/// Buffers that a thread keeps for its next operations.
const BUFFERS_MAX: usize = 256;

/// What an operation carries there or back.
pub(super) type Block = Vec<u64>;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// A block is appended.
    Write,
    /// The newest block is copied out.
    Read,
}

/// One operation on one item. A write takes a buffer there, a read brings one back; whoever has used it
/// keeps it.
#[derive(Debug)]
pub(super) struct Operation {
    kind: Kind,
    /// The item.
    pub id: u32,
    block: Block,
}

thread_local!(static BUFFERS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) });

impl Operation {
    /// Sets out, with a block that is to be written.
    pub(super) fn begin(kind: Kind, random: &mut SplitMix) -> Self {
        let id = (random.next_u64() % u64::from(IDS)) as u32;
        let block = match kind {
            Kind::Write => {
                let mut block = take_buffer();
                block.fill(stamp(id, random.next_u64()));
                block
            }
            Kind::Read => Block::new(),
        };
        Self { kind, id, block }
    }

    /// What a lock has to be taken for.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Does it, whatever it is.
    pub(super) fn apply(&mut self, items: &mut Items) {
        match self.kind {
            Kind::Write => self.write(items),
            Kind::Read => self.read(items),
        }
    }

    /// Appends.
    pub(super) fn write(&mut self, items: &mut Items) {
        items.0.get_mut(&self.id).expect("the owner has the item").append(&self.block);
        keep_buffer(std::mem::take(&mut self.block));
    }

    /// Copies out.
    pub(super) fn read(&mut self, items: &Items) {
        self.block = take_buffer();
        self.block.copy_from_slice(items.0.get(&self.id).expect("the owner has the item").newest());
    }

    /// Checks what it brings back.
    ///
    /// # Panics
    /// If a read brought a block of another item, or parts of two.
    pub(super) fn end(self) {
        if self.kind == Kind::Read {
            let first = self.block[0];
            assert_eq!(first >> 32, u64::from(self.id), "a block of another item");
            let differing = self.block.iter().fold(0, |all, word| all | (word ^ first));
            assert_eq!(differing, 0, "parts of two blocks");
            keep_buffer(self.block);
        }
    }
}

/// One of this thread's.
fn take_buffer() -> Block {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; WORDS])
}

fn keep_buffer(block: Block) {
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() < BUFFERS_MAX {
            buffers.push(block);
        }
    });
}

/// The item's id above a number that the write has.
fn stamp(id: u32, number: u64) -> u64 {
    (u64::from(id) << 32) | (number & u64::from(u32::MAX))
}

/// A part of all items, by id.
#[derive(Debug)]
pub(super) struct Items(HashMap<u32, Item>);

#[derive(Debug)]
struct Item {
    blocks: [Box<[u64]>; KEPT],
    newest: usize,
}

impl Items {
    /// Part `part` of `parts`, a block in each item.
    pub(super) fn part(part: usize, parts: usize) -> Self {
        let own = (0..IDS).filter(|id| owner(*id, parts) == part);
        Self(own.map(|id| (id, Item::new(stamp(id, 0)))).collect())
    }
}

/// Which part an item lies in.
pub(super) fn owner(id: u32, parts: usize) -> usize {
    id as usize % parts
}

impl Item {
    fn new(word: u64) -> Self {
        Self { blocks: std::array::from_fn(|_| vec![word; WORDS].into()), newest: 0 }
    }

    fn append(&mut self, block: &[u64]) {
        self.newest = (self.newest + 1) % KEPT;
        self.blocks[self.newest].copy_from_slice(block);
    }

    fn newest(&self) -> &[u64] {
        &self.blocks[self.newest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_brings_the_newest_block() {
        let (mut items, mut random) = (Items::part(0, 1), SplitMix::new(1, 1));
        let mut write = Operation::begin(Kind::Write, &mut random);
        let (id, word) = (write.id, write.block[0]);
        write.apply(&mut items);
        write.end();
        let mut read = Operation { kind: Kind::Read, id, block: Block::new() };
        read.apply(&mut items);
        assert_eq!(read.block, vec![word; WORDS]);
        read.end();
    }

    #[test]
    #[should_panic(expected = "parts of two blocks")]
    fn a_torn_block_is_found_out() {
        let mut block = vec![stamp(7, 1); WORDS];
        block[WORDS - 1] = stamp(7, 2);
        Operation { kind: Kind::Read, id: 7, block }.end();
    }
}

//! Blocks on disk, as reads have them: what is from a border of two hours on is read from memory alone; what is before
//! it from blocks, and from memory, which holds some of it for a while and may have what came late and is in no block yet.
//! What both have is found once ([`join`]).
//!
//! Executors know two numbers of the blocks, how far back they reach and the border, and ask for batches of series or texts
//! as they ask shards; a few threads beside them ([`threads`]) read the files. Nobody waits for a lock on an executor, nor for
//! the disk. What reads hold and what is kept of files is bounded ([`memory`], `BlockCache`). Knows neither how blocks come to
//! be nor when they go: [`LocalBlocks::refresh`] looks at the directory.

mod deletion;
mod floor;
mod join;
mod label_set_list;
mod matching;
mod memory;
mod open;
mod page;
mod rewrite;
mod rows;
mod series;
mod texts;
mod threads;

pub(crate) use open::{LocalBlocks, OpenBlockCounts, UnreadBlocks};
pub(crate) use page::{BlockBatch, BlockPages, BlockRead};
pub(crate) use rewrite::RewriteLocation;

//! A Prometheus TSDB block, read and written: a directory with `meta.json`, `index` (version 2), `chunks/` and perhaps
//! `tombstones`. [`Block`] reads one from its begin to its end, [`OpenBlock`] what is asked for of one, [`BlockWriter`] writes one, [`cut_chunks`] makes a series' chunks fit into one,
//! [`verify`] says whether one is whole, and [`ChecksumPass`] whether its bytes are those that were written, which is
//! less.
//!
//! The reader trusts no byte: what is malformed is a [`BlockError`] that names the file and the place in it. The
//! writer keeps to the memory that it is given, whatever it writes: [`WriterMemory`]. Knows nothing of a node. Blocks the
//! thread that it runs on: none of an executor.
#![forbid(unsafe_code)]

mod checksums;
mod chunks;
pub mod cursor;
mod cut;
pub mod error;
mod meta;
mod open;
mod reader;
mod series;
mod symbols;
mod toc;
mod tombstones;
mod verify;
mod whole_file;
pub mod window;
mod write;

#[cfg(test)]
mod tests;

pub use checksums::ChecksumPass;
pub use chunks::{Chunk, Contents};
pub use cut::{CutChunk, CutError, SourceChunk, cut_chunks};
pub use error::BlockError;
pub use meta::{BlockOrigin, Cut, Meta, Rewritten, Stats};
pub use open::{BlockCache, CacheCounts, LabelNumbers, OpenBlock, PostingsPlace};
pub use reader::{Block, BlockSeries};
pub use series::ChunkPlace;
pub use tombstones::{DeletedRange, tombstones_sum};
pub use ulid::Ulid;
pub use verify::{SamplesError, Verified, VerifyError, read_samples, verify};
pub use whole_file::put_file;
pub use write::{BlockWriteError, BlockWriter, FinishedBlock, SeriesChunksWriter, WriterMemory};

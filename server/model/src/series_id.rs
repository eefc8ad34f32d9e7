//! Series ids: the routing key, and the cell and shard that follow from it.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::limits::CELL_COUNT;

/// The 128-bit hash of tenant and canonical label set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub u128);

/// A fixed fraction of the series-id space: `0..CELL_COUNT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CellId(pub u16);

/// A shard of this node: `0..shards`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u16);

impl SeriesId {
    /// The cell that this series lies in, forever: the id's top bits.
    #[inline]
    pub fn cell(self) -> CellId {
        CellId((self.0 >> (128 - CELL_COUNT.trailing_zeros())) as u16)
    }
}

/// Hashes one tenant's canonical label blocks to series ids.
#[derive(Debug, Clone, Copy)]
pub struct SeriesIdHasher {
    seed: u64,
}

impl SeriesIdHasher {
    /// The hasher of one tenant. `node_seed` is drawn once for a data directory, so that nobody
    /// outside can look for labels that collide. How the seeds of two tenants differ isn't hidden, and XXH3 isn't made
    /// to keep hashes of seeds apart that differ in a known way: before a node has a second tenant, its seed is to come
    /// from a keyed hash.
    pub fn new(node_seed: u64, tenant: &str) -> Self {
        Self { seed: node_seed ^ xxh3_64(tenant.as_bytes()) }
    }

    /// The id of a label set, given as a canonical [`crate::LabelBlock`]'s bytes.
    #[inline]
    pub fn hash_canonical(&self, block: &[u8]) -> SeriesId {
        SeriesId(xxh3_128_with_seed(block, self.seed))
    }

    /// The tenant's own fingerprint of any bytes, to know them again by. No series id.
    #[inline]
    pub fn fingerprint(&self, bytes: &[u8]) -> u128 {
        xxh3_128_with_seed(bytes, self.seed)
    }
}

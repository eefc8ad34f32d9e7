//! The routing table: cell → shard. Every core has its own copy.

use crate::limits::{CELL_COUNT, SHARDS_MAX};
use crate::model::{CellId, SeriesId, ShardId};

/// The version of a routing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Which shard owns which cell.
#[derive(Debug, Clone)]
pub struct RoutingTable {
    epoch: Epoch,
    shards: usize,
    owner: Box<[ShardId; CELL_COUNT]>,
}

impl RoutingTable {
    /// Cells dealt out evenly over `shards`, which lie between 1 and [`SHARDS_MAX`].
    pub fn even(shards: usize) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shards), "{shards} shards");
        let owner = std::array::from_fn(|cell| ShardId((cell * shards / CELL_COUNT) as u16));
        Self { epoch: Epoch(1), shards, owner: Box::new(owner) }
    }

    /// The shard that owns a series' cell.
    #[inline]
    pub fn shard_of(&self, id: SeriesId) -> ShardId {
        self.owner[usize::from(id.cell().0)]
    }

    /// The shard that owns a cell.
    pub fn owner(&self, cell: CellId) -> ShardId {
        self.owner[usize::from(cell.0)]
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Its version.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_dealt_out_evenly() {
        for shards in [1, 2, 3, 7, 64, SHARDS_MAX] {
            let table = RoutingTable::even(shards);
            let mut cells = vec![0usize; shards];
            (0..CELL_COUNT).for_each(|c| cells[usize::from(table.owner(CellId(c as u16)).0)] += 1);
            let (least, most) = (cells.iter().min().unwrap(), cells.iter().max().unwrap());
            assert!(*least > 0 && most - least <= 1, "{shards} shards: {least} to {most} cells");
        }
    }
}

//! The routing table: cell → shard. Every core has its own copy.

use crate::limits::{CELL_COUNT, SHARDS_MAX};
use crate::model::{CellId, Epoch, SeriesId, ShardId};

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
        Self { epoch: Epoch::FIRST, shards, owner: Box::new(owner) }
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

    /// Every cell with its shard, by number.
    pub fn owners(&self) -> impl Iterator<Item = (CellId, ShardId)> + '_ {
        (0..).map(CellId).zip(self.owner.iter().copied())
    }

    /// Gives a cell to a shard: the table is then of that epoch, where its own was a former one.
    pub fn give(&mut self, cell: CellId, owner: ShardId, epoch: Epoch) {
        self.owner[usize::from(cell.0)] = owner;
        self.epoch = self.epoch.max(epoch);
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
    fn a_cell_that_is_given_is_routed_to_its_new_owner_and_the_epoch_never_falls() {
        let mut table = RoutingTable::even(2);
        table.give(CellId(3), ShardId(1), Epoch(7));
        table.give(CellId(1023), ShardId(0), Epoch(5));
        assert_eq!((table.owner(CellId(3)), table.owner(CellId(1023))), (ShardId(1), ShardId(0)));
        assert_eq!((table.owner(CellId(2)), table.epoch()), (ShardId(0), Epoch(7)));
        assert_eq!(table.owners().filter(|(_, owner)| *owner == ShardId(1)).count(), 512);
    }

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

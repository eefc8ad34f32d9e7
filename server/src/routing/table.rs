//! The routing table: cell → shard. Every core has its own copy.

use std::collections::BTreeMap;

use silverback_model::limits::{CELL_COUNT, SHARDS_MAX};
use silverback_model::{CellId, Epoch, SeriesId, ShardId};
use silverback_storage::shard::ownership::Ownership;
use silverback_storage::wal::Claims;

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

    /// What the shards' logs say together, in the shards' order: of those that speak of a cell the one
    /// with the highest epoch has it, the others are where they were dealt out.
    pub fn of_claims(claims: &[Claims]) -> Self {
        let mut table = Self::even(claims.len());
        let mut highest = [Epoch::FIRST; CELL_COUNT];
        for (shard, claims) in (0..).map(ShardId).zip(claims) {
            for (cell, epoch) in claims.held() {
                let highest = &mut highest[usize::from(cell.0)];
                if epoch > *highest {
                    *highest = epoch;
                    table.give(cell, shard, epoch);
                }
            }
            table.epoch = table.epoch.max(claims.newest());
        }
        table
    }

    /// A shard's side of it; `claims` are those of its log.
    pub fn ownership_of(&self, shard: ShardId, claims: &Claims) -> Ownership {
        let since: BTreeMap<CellId, Epoch> = claims.held().collect();
        let since = |cell| since.get(&cell).copied().unwrap_or(Epoch::FIRST);
        Ownership::of(self.epoch, |cell| (self.owner(cell) == shard).then(|| since(cell)))
    }

    /// The shard that owns a series' cell.
    #[inline]
    pub(crate) fn shard_of(&self, id: SeriesId) -> ShardId {
        self.owner[usize::from(id.cell().0)]
    }

    /// The shard that owns a cell.
    pub(crate) fn owner(&self, cell: CellId) -> ShardId {
        self.owner[usize::from(cell.0)]
    }

    /// Gives a cell to a shard: the table is then of that epoch, where its own was a former one.
    pub(crate) fn give(&mut self, cell: CellId, owner: ShardId, epoch: Epoch) {
        self.owner[usize::from(cell.0)] = owner;
        self.epoch = self.epoch.max(epoch);
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
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
    use silverback_storage::wal::record::{Claim, ClaimKind};

    #[test]
    fn a_cell_that_is_given_is_routed_to_its_new_owner_and_the_epoch_never_falls() {
        let mut table = RoutingTable::even(2);
        table.give(CellId(3), ShardId(1), Epoch(7));
        table.give(CellId(1023), ShardId(0), Epoch(5));
        assert_eq!((table.owner(CellId(3)), table.owner(CellId(1023))), (ShardId(1), ShardId(0)));
        assert_eq!((table.owner(CellId(2)), table.epoch()), (ShardId(0), Epoch(7)));
        assert_eq!((0..1024).filter(|cell| table.owner(CellId(*cell)) == ShardId(1)).count(), 512);
    }

    /// The owner of cell 0 by the claims of these logs: epochs by which each owns it, or gave it.
    fn check_owner(owned: [Option<u64>; 3], given: [Option<u64>; 3], expect: (u16, u64)) {
        let log = |shard: usize| {
            let claim = |kind, epoch| Claim { cell: CellId(0), epoch: Epoch(epoch), kind, other: ShardId(9) };
            let owned = owned[shard].map(|epoch| claim(ClaimKind::Owned, epoch));
            let given = given[shard].map(|epoch| claim(ClaimKind::Given, epoch));
            owned.into_iter().chain(given).collect::<Claims>()
        };
        let claims = [0, 1, 2].map(log);
        let table = RoutingTable::of_claims(&claims);
        assert_eq!((table.owner(CellId(0)).0, table.epoch().0), expect, "{owned:?}, {given:?}");
        let owns =
            |shard: u16| table.ownership_of(ShardId(shard), &claims[usize::from(shard)]).owns(CellId(0));
        assert_eq!([0, 1, 2].map(owns), [0, 1, 2].map(|shard| shard == expect.0));
    }

    #[test]
    fn the_highest_claim_has_a_cell_whatever_a_crash_left_of_the_others() {
        check_owner([None; 3], [None; 3], (0, 1));
        check_owner([None, Some(4), None], [None; 3], (1, 4));
        check_owner([None, Some(4), Some(6)], [Some(4), None, None], (2, 6));
        // It came back, or it stayed after all.
        check_owner([Some(7), Some(4), Some(6)], [Some(4), None, None], (0, 7));
        // The last target was asked to forget it before its source's claim was on disk.
        check_owner([None, Some(4), None], [None, Some(5), None], (0, 5));
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

//! Whose each cell is, as the logs of all shards say it together.
//!
//! A shard's log says from which epoch on it owns a cell, and from which on it doesn't. Of all logs,
//! the one with the highest epoch has the cell; where none speaks of a cell, it is where the
//! node's first start dealt it out.

use std::collections::BTreeMap;

use crate::wal::record::{Claim, ClaimKind, ClaimsRecord, Record, RecordError};
use crate::wal::replay::{Restore, RestoreError};
use silverback_model::{CellId, Epoch};

/// What one log says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    owned: BTreeMap<CellId, Epoch>,
    given: BTreeMap<CellId, Epoch>,
}

impl Claims {
    /// Adds what a record says. Records may come in any order, and more than once.
    pub(crate) fn read(&mut self, record: &ClaimsRecord<'_>) -> Result<(), RecordError> {
        record.iter().try_for_each(|claim| claim.map(|claim| self.note(claim)))
    }

    fn note(&mut self, claim: Claim) {
        let of_kind = match claim.kind {
            ClaimKind::Owned => &mut self.owned,
            ClaimKind::Given => &mut self.given,
        };
        let epoch = of_kind.entry(claim.cell).or_insert(claim.epoch);
        *epoch = claim.epoch.max(*epoch);
    }

    /// The cells that are the shard's, each with its epoch.
    pub fn held(&self) -> impl Iterator<Item = (CellId, Epoch)> + '_ {
        let owned = self.owned.iter().map(|(cell, epoch)| (*cell, *epoch));
        owned.filter(|(cell, owned)| self.given.get(cell).is_none_or(|given| given < owned))
    }

    /// The highest epoch that it speaks of.
    pub fn newest(&self) -> Epoch {
        self.owned.values().chain(self.given.values()).copied().max().unwrap_or(Epoch::FIRST)
    }
}

impl FromIterator<Claim> for Claims {
    fn from_iter<I: IntoIterator<Item = Claim>>(claims: I) -> Self {
        let mut all = Self::default();
        claims.into_iter().for_each(|claim| all.note(claim));
        all
    }
}

/// Reads a log for its claims alone.
impl Restore for Claims {
    fn record(&mut self, record: Record<'_>) -> Result<(), RestoreError> {
        match record {
            Record::Claims(record) => self.read(&record).map_err(|error| RestoreError(error.to_string())),
            Record::Series(_)
            | Record::Samples(_)
            | Record::StartTimestamps(_)
            | Record::Removed(_)
            | Record::Histograms(_)
            | Record::Replaced(_)
            | Record::Chunks(_)
            | Record::Exemplars(_)
            | Record::Metadata(_)
            | Record::CheckpointEnd { .. } => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::ShardId;

    fn check(claims: &[(ClaimKind, u16, u64)], held: &[(u16, u64)]) {
        for order in [claims.to_vec(), claims.iter().rev().copied().collect()] {
            let mut read = Claims::default();
            for (kind, cell, epoch) in order {
                read.note(Claim { cell: CellId(cell), epoch: Epoch(epoch), kind, other: ShardId(1) });
            }
            let found: Vec<_> = read.held().map(|(cell, epoch)| (cell.0, epoch.0)).collect();
            assert_eq!(found, held, "{claims:?}");
        }
    }

    #[test]
    fn a_cell_is_held_until_a_later_epoch_gives_it() {
        use ClaimKind::{Given, Owned};
        check(&[], &[]);
        check(&[(Owned, 5, 2), (Owned, 7, 3), (Owned, 5, 2)], &[(5, 2), (7, 3)]);
        check(&[(Owned, 5, 2), (Given, 5, 3)], &[]);
        check(&[(Owned, 5, 2), (Given, 5, 3), (Owned, 5, 9)], &[(5, 9)]);
        check(&[(Given, 5, 3)], &[]);
    }
}

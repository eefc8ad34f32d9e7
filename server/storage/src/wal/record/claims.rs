//! The Claims record: cells that a shard owns, or gave away, from an epoch on.

use super::counted::{CountedRecord, CountedWriter, ReadEntry, WriteEntry};
use super::varint::take_array;
use super::{RecordError, RecordType};
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, Epoch, ShardId};

/// What a shard says of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Which.
    pub cell: CellId,
    /// From which on it holds.
    pub epoch: Epoch,
    /// What holds.
    pub kind: ClaimKind,
    /// The other shard of the migration.
    pub other: ShardId,
}

/// Whose a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ClaimKind {
    /// The log's own shard's, and all of it is in this log.
    Owned = 0,
    /// The other shard's.
    Given = 1,
}

/// Takes claims.
pub(super) type ClaimsWriter = CountedWriter<WriteClaims>;

/// Claims need nothing of each other.
#[derive(Debug, Default)]
pub(super) struct WriteClaims;

impl WriteEntry for WriteClaims {
    const KIND: RecordType = RecordType::Claims;
}

impl ClaimsWriter {
    pub(super) fn push(&mut self, claim: Claim) {
        self.put(|_, entries| {
            entries.extend(claim.cell.0.to_le_bytes());
            entries.push(claim.kind as u8);
            entries.extend(claim.other.0.to_le_bytes());
            entries.extend(claim.epoch.0.to_le_bytes());
        });
    }
}

/// The claims of a group, or those that a checkpoint has; each has 13 bytes.
pub type ClaimsRecord<'a> = CountedRecord<'a, ClaimsReader>;

/// Reads a claim.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaimsReader;

impl<'a> ReadEntry<'a> for ClaimsReader {
    type Entry = Claim;

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Claim, RecordError> {
        let cell = u16::from_le_bytes(take_array(rest)?);
        let [kind] = take_array(rest)?;
        let other = ShardId(u16::from_le_bytes(take_array(rest)?));
        let epoch = Epoch(u64::from_le_bytes(take_array(rest)?));
        let kind = match kind {
            0 => ClaimKind::Owned,
            1 => ClaimKind::Given,
            _ => return Err(RecordError::BadClaim),
        };
        if usize::from(cell) >= CELL_COUNT || epoch <= Epoch::FIRST || epoch == Epoch::NEVER {
            return Err(RecordError::BadClaim);
        }
        Ok(Claim { cell: CellId(cell), epoch, kind, other })
    }
}

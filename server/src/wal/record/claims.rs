//! The Claims record: cells that a shard owns, or gave away, from an epoch on.

use super::counted::{Counted, ReadEntry};
use super::varint::{length, take_array, take_length};
use super::{HEAD_BYTES, RecordError, RecordType, STAGING_KEPT_BYTES, head};
use crate::limits::CELL_COUNT;
use crate::model::{CellId, Epoch, ShardId};

/// The record's head and the count of claims.
const ENTRIES_AT: usize = HEAD_BYTES + 4;

/// What a shard says of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Which.
    pub cell: CellId,
    /// From which on it holds.
    pub epoch: Epoch,
    /// What holds.
    pub kind: ClaimKind,
    /// The other shard of the handoff.
    pub other: ShardId,
}

/// Whose a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ClaimKind {
    /// The log's own shard's, and all of it stands in this log.
    Owned = 0,
    /// The other shard's.
    Given = 1,
}

/// Takes claims.
#[derive(Debug, Default)]
pub(super) struct ClaimsWriter {
    count: usize,
    entries: Vec<u8>,
    head: [u8; ENTRIES_AT],
}

impl ClaimsWriter {
    pub(super) fn push(&mut self, claim: Claim) {
        self.entries.extend(claim.cell.0.to_le_bytes());
        self.entries.push(claim.kind as u8);
        self.entries.extend(claim.other.0.to_le_bytes());
        self.entries.extend(claim.epoch.0.to_le_bytes());
        self.count += 1;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn bytes(&self) -> usize {
        if self.is_empty() { 0 } else { ENTRIES_AT + self.entries.len() }
    }

    pub(super) fn finish(&mut self) {
        let content_bytes = ENTRIES_AT - HEAD_BYTES + self.entries.len();
        self.head[..HEAD_BYTES].copy_from_slice(&head(RecordType::Claims, content_bytes));
        self.head[HEAD_BYTES..].copy_from_slice(&length(self.count));
    }

    /// The record since it was finished.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        if self.is_empty() { [&[]; 2] } else { [&self.head, &self.entries] }
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.entries.clear();
        self.entries.shrink_to(STAGING_KEPT_BYTES);
    }
}

/// The claims of a group, or those that a checkpoint has.
#[derive(Debug, Clone)]
pub struct ClaimsRecord<'a> {
    count: usize,
    entries: &'a [u8],
}

impl<'a> ClaimsRecord<'a> {
    pub(super) fn parse(mut rest: &'a [u8]) -> Result<Self, RecordError> {
        let count = take_length(&mut rest)?;
        Ok(Self { count, entries: rest })
    }

    /// How many claims it says that it holds; each has 13 bytes.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The claims. Nothing comes after an error.
    pub fn iter(&self) -> ClaimsIter<'a> {
        Counted::new(ClaimsReader, self.count, self.entries)
    }
}

impl<'a> IntoIterator for &ClaimsRecord<'a> {
    type Item = Result<Claim, RecordError>;
    type IntoIter = ClaimsIter<'a>;

    fn into_iter(self) -> ClaimsIter<'a> {
        self.iter()
    }
}

/// Iterates over the claims of a [`ClaimsRecord`].
pub type ClaimsIter<'a> = Counted<'a, ClaimsReader>;

/// Reads a claim.
#[derive(Debug, Clone, Copy)]
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

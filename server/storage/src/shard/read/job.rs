//! One request of a read at work on a shard: its turns beside the traffic, and when it is to stop.

use std::cell::RefCell;
use std::rc::Rc;

use super::OrEnds;
use crate::message::{ReadTicket, ShardReadError};
use crate::shard::read::memory::{OfRead, ReadReservation};
use crate::shard::{Host, Shard};
use silverback_model::Epoch;

/// A batch pays for so many bytes at once.
const PAID_AHEAD_BYTES: usize = 16 << 10;

/// A request at work.
pub(super) struct ReadJob<H> {
    pub(super) shard: Rc<RefCell<Shard>>,
    pub(super) host: H,
    pub(super) ticket: ReadTicket,
    pub(super) epoch: Epoch,
    pub(super) memory: OfRead,
}

impl<H: Host> ReadJob<H> {
    /// Called at each step of a loop: lets traffic have its turn where the slice is spent. An error:
    /// nobody waits for the read any more.
    pub(super) async fn yield_if_needed(&self) -> OrEnds<()> {
        self.host.yield_if_needed().await;
        self.check_cancelled()
    }

    fn check_cancelled(&self) -> OrEnds<()> {
        if self.ticket.is_cancelled() { Err(ShardReadError::Cancelled) } else { Ok(()) }
    }

    /// Waits for memory that the read is to collect something in. No slice is held meanwhile.
    pub(super) async fn reserve(&self, bytes: usize) -> OrEnds<ReadReservation> {
        let mut reserved = self.memory.nothing();
        self.grow(&mut reserved, bytes).await?;
        Ok(reserved)
    }

    /// Waits until a batch that has grown to so many bytes is paid for.
    pub(super) async fn pay(&self, reserved: &mut ReadReservation, batch_bytes: usize) -> OrEnds<()> {
        match batch_bytes.checked_sub(reserved.bytes()) {
            None | Some(0) => Ok(()),
            Some(owed) => self.grow(reserved, owed.max(PAID_AHEAD_BYTES)).await,
        }
    }

    /// Waits for so many bytes more.
    pub(super) async fn grow(&self, reserved: &mut ReadReservation, bytes: usize) -> OrEnds<()> {
        if reserved.try_grow(bytes)? {
            return Ok(());
        }
        self.host.release_slice();
        while !reserved.try_grow(bytes)? {
            self.check_cancelled()?;
            reserved.released().await;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::shard::read::ReadMemory;
    use silverback_host::Alone;
    use silverback_model::ShardId;

    /// On an empty shard, with memory as it likes.
    pub(crate) fn job() -> ReadJob<Alone> {
        let ticket = ReadTicket::issue();
        let memory = ReadMemory::new(usize::MAX).of(&ticket);
        let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
        ReadJob { shard, host: Alone, ticket, epoch: Epoch::FIRST, memory }
    }
}

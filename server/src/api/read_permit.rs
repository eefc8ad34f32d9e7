//! How many reads one core has under way: a bounded number, so that reads cost bounded memory.

use std::rc::Rc;

use crate::api::core::Core;
use crate::api::read_fault::ReadFault;

/// The right to one read; given back when dropped.
pub struct ReadPermit {
    core: Rc<Core>,
}

impl ReadPermit {
    /// One of this core's share of the node's reads. A core always has one.
    pub fn take(core: &Rc<Core>) -> Result<Self, ReadFault> {
        core.check_replayed()?;
        let max = core.config.max_reads.div_ceil(core.router.shards().count()).max(1);
        if core.reads.get() >= max {
            return Err(ReadFault::TooManyReads);
        }
        core.reads.set(core.reads.get() + 1);
        Ok(Self { core: Rc::clone(core) })
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        self.core.reads.set(self.core.reads.get() - 1);
    }
}

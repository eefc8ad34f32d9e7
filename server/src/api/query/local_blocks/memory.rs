//! What all reads of blocks may hold together, in bytes, whichever threads they are at.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::threads::BlockJobError;

/// A bound on bytes.
#[derive(Debug)]
pub(super) struct BlockMemory {
    taken: AtomicUsize,
    bytes_max: usize,
}

/// What a read has of it, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct TakenMemory {
    memory: Arc<BlockMemory>,
    bytes: usize,
}

impl BlockMemory {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), bytes_max })
    }

    pub(super) fn taken_bytes(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn begin(self: &Arc<Self>) -> TakenMemory {
        TakenMemory { memory: Arc::clone(self), bytes: 0 }
    }
}

impl TakenMemory {
    /// What it may hold at most.
    pub(super) fn bytes_max(&self) -> usize {
        self.memory.bytes_max
    }

    /// Holds so many bytes from now on, or says why not.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), BlockJobError> {
        let BlockMemory { taken, bytes_max } = &*self.memory;
        if bytes > *bytes_max {
            return Err(BlockJobError::TooLarge { bytes_max: *bytes_max });
        }
        if bytes <= self.bytes {
            taken.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        } else {
            let more = bytes - self.bytes;
            let fits = |taken: usize| taken.checked_add(more).filter(|all| all <= bytes_max);
            taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
                .map_err(|_full| BlockJobError::BudgetExceeded)?;
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for TakenMemory {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_never_fit_is_told_apart_from_what_others_hold() {
        let memory = BlockMemory::new(100);
        let (mut one, mut other) = (memory.begin(), memory.begin());
        one.set(80).unwrap();
        assert!(matches!(other.set(101), Err(BlockJobError::TooLarge { bytes_max: 100 })));
        assert!(matches!(other.set(21), Err(BlockJobError::BudgetExceeded)));
        other.set(20).unwrap();
        one.set(10).unwrap();
        assert_eq!(memory.taken_bytes(), 30);
        drop((one, other));
        assert_eq!(memory.taken_bytes(), 0);
    }
}

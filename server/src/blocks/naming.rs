//! A block that is cut and a deletion don't meet: the block has its name before the deletion looks for blocks, or it is
//! dropped. Knows no directory and no sample.
#![expect(clippy::disallowed_types, reason = "threads beside the executors take it, and nobody else")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many deletions there were, and whether a block is being named.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    deletions: AtomicU64,
    /// Held while a block is given its name.
    lock: Mutex<()>,
}

impl Naming {
    /// Samples were deleted of memory, and are deleted of the blocks that are there next: one that is cut meanwhile may have
    /// them, and is given no name from here on. Waits for nobody.
    pub(crate) fn note_deletion(&self) {
        self.deletions.fetch_add(1, Ordering::AcqRel);
    }

    /// How many were noted.
    pub(crate) fn deletions(&self) -> u64 {
        self.deletions.load(Ordering::Acquire)
    }

    /// Waits for a block that was being named as a deletion was noted: whoever looks for blocks then finds it.
    pub(crate) fn wait(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Runs `name`, which gives a block its name, unless a deletion was noted since there were so many.
    pub(crate) fn unless_deleted<T>(&self, deletions: u64, name: impl FnOnce() -> T) -> Option<T> {
        let _named_before_others_look = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        (self.deletions() == deletions).then(name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_block_has_its_name_before_a_deletion_looks_for_blocks_or_gets_none() {
        let (naming, is_named) = (Arc::new(Naming::default()), Arc::new(AtomicBool::new(false)));
        let before = naming.deletions();
        let looked = naming.unless_deleted(before, || {
            let (naming, named) = (Arc::clone(&naming), Arc::clone(&is_named));
            let deletion = thread::spawn(move || {
                naming.note_deletion();
                naming.wait();
                named.load(Ordering::Acquire)
            });
            // Time enough for it, if it didn't wait.
            thread::sleep(Duration::from_millis(100));
            is_named.store(true, Ordering::Release);
            deletion
        });
        let deletion = looked.expect("nothing was deleted before");
        assert!(deletion.join().unwrap(), "the deletion looked before the block had its name");
        assert_eq!(naming.unless_deleted(before, || ()), None);
        assert_eq!(naming.unless_deleted(before + 1, || ()), Some(()));
    }
}

//! The log that keeps nothing: a commit is at once, and a crash loses what memory held.
//!
//! For measuring what the shard costs by itself, and for tests. A node has a log on disk.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use crate::wal::{Durable, Log, LogError, LogReport, Lsn, NoJournal};

/// Stores nothing.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog {
    journal: Rc<RefCell<NoJournal>>,
}

impl Log for MemoryLog {
    type Journal = NoJournal;

    fn check(&self) -> Result<(), LogError> {
        Ok(())
    }

    fn journal(&self) -> RefMut<'_, NoJournal> {
        self.journal.borrow_mut()
    }

    fn filling(&self) -> Lsn {
        Lsn(0)
    }

    fn report(&self, _now_us: u64) -> LogReport {
        LogReport::default()
    }

    /// Promises its first one, which never comes.
    fn ask_checkpoint(&self) -> u64 {
        1
    }

    async fn commit(&self) -> Result<Durable, LogError> {
        Ok(Durable { upto: Lsn(0) })
    }

    async fn flush(&self) -> Result<Durable, LogError> {
        self.commit().await
    }
}

//! The log that keeps nothing: a commit is at once, and a crash loses what memory held.

use crate::wal::{Durable, Entry, Log, LogError, Lsn};

/// Counts entries, stores none.
#[derive(Debug, Default)]
pub struct MemoryLog {
    appended: Lsn,
}

impl Log for MemoryLog {
    fn append(&mut self, entry: Entry<'_>) -> Lsn {
        match entry {
            Entry::Samples(_) => self.appended.0 += 1,
        }
        self.appended
    }

    async fn commit(&mut self) -> Result<Durable, LogError> {
        Ok(Durable { upto: self.appended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_covers_all_that_was_appended() {
        let mut log = MemoryLog::default();
        log.append(Entry::Samples(&[]));
        let last = log.append(Entry::Samples(&[]));
        let durable = futures::executor::block_on(log.commit()).unwrap();
        assert_eq!(durable.upto(), last);
    }
}

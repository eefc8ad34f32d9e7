//! What goes wrong with the disk in one life, and when.

use std::io;

/// The faults to come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// The power goes at this step of an operation.
    pub crash_at_step: Option<u64>,
    /// Syncs that go well until one fails.
    pub good_syncs: Option<u64>,
    /// Writes that go well until one fails.
    pub good_writes: Option<u64>,
    /// Bytes that files may take together.
    pub capacity_bytes: Option<usize>,
    /// No operation goes on.
    pub is_hung: bool,
}

/// What a sync is worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// All that it should be.
    #[default]
    Honest,
    /// It says that data are durable, and they are not.
    LieOfData,
    /// It says that names are durable, and they are not.
    LieOfNames,
}

impl Faults {
    pub(crate) fn sync_fails(&mut self) -> bool {
        runs_out(&mut self.good_syncs)
    }

    pub(crate) fn write_fails(&mut self) -> bool {
        runs_out(&mut self.good_writes)
    }
}

/// Whether the good ones are used up. One fails, and those after it go well again.
fn runs_out(good: &mut Option<u64>) -> bool {
    match good {
        Some(0) => {
            *good = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

pub(crate) fn broken() -> io::Error {
    io::Error::from_raw_os_error(5)
}

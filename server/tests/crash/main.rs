//! The node as a process that is killed, on a disk that is damaged or full: what was acknowledged is
//! there afterwards, and what can't be had is told.

mod counted;
mod damage;
mod deletes;
mod full_disk;
mod kills;
mod late;
mod moves;
mod start_timestamps;
mod starts;
mod wal_command;
mod written_log;

use silverback_test_support::home::Home;

/// An empty place for nodes of the command, on the disk that builds are on.
fn home(name: &str) -> Home {
    Home::new(env!("CARGO_BIN_EXE_silverback"), env!("CARGO_TARGET_TMPDIR"), name)
}

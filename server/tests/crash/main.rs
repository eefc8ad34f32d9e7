//! The node as a process that is killed, on a disk that is damaged or full: what was acknowledged is
//! there afterwards, and what can't be had is told.
#[path = "../disk/directory.rs"]
mod directory;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../disk/mount.rs"]
#[allow(dead_code, reason = "the tests of disks use all of it")]
mod mount;
#[path = "../bad_input/request.rs"]
#[allow(dead_code, reason = "the tests of bad input use all of it")]
mod request;
#[path = "../reads/written.rs"]
#[allow(dead_code, reason = "the tests of reads use all of it")]
mod written;

mod counted;
mod damage;
mod deletes;
mod full_disk;
mod kills;
mod ledger;
mod moves;
mod process;
mod sender;
mod starts;
mod wal_command;
mod written_log;

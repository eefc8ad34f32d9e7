//! The client library against the node: what it reports as written is there, bit for bit, however
//! often the node is killed meanwhile.
#[path = "../disk/directory.rs"]
mod directory;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../crash/process.rs"]
#[allow(dead_code, reason = "the trials with kills use all of it")]
mod process;
#[path = "../reads/written.rs"]
#[allow(dead_code, reason = "the tests of reads use all of it")]
mod written;

mod cable;
mod kills;
mod reads;

//! The client library against the node: what it reports as written is there, bit for bit, however
//! often the node is killed meanwhile.

mod cable;
mod histograms;
mod kills;
mod reads;

use silverback_test_support::home::Home;

/// An empty place for nodes of the command, on the disk that builds are on.
fn home(name: &str) -> Home {
    Home::new(env!("CARGO_BIN_EXE_silverback"), env!("CARGO_TARGET_TMPDIR"), name)
}

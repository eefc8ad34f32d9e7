//! What was freed leaves the process within seconds, though nobody asks for memory any more: what reads took is
//! back when the last reader has gone.
//!
//! One test, in a process of its own: it measures the process.

use std::path::Path;
use std::time::Duration;

use silverback_host::metrics;
use silverback_storage::cell::heap;
use silverback_test_support::Waiting;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: usize = 1 << 20;
const TAKEN: usize = 128 * MIB;
const BLOCK: usize = MIB;

fn resident_bytes() -> usize {
    metrics::resident_bytes(Path::new(metrics::PROC)).expect("Linux tells a process its memory") as usize
}

#[test]
fn what_was_freed_is_given_back_without_another_request() {
    let blocks: Vec<Vec<u8>> = (0..TAKEN / BLOCK).map(|_| vec![1; BLOCK]).collect();
    let held = resident_bytes();
    assert!(held > TAKEN, "{} MiB resident", held / MIB);
    drop(blocks);
    let waiting = Waiting::begin();
    while resident_bytes() + TAKEN * 3 / 4 > held {
        waiting.check(|| format!("{} of {} MiB resident", resident_bytes() / MIB, held / MIB));
        std::thread::sleep(Duration::from_millis(500));
        heap::give_back();
    }
}

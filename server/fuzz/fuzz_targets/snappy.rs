//! Snappy: corrupt blocks are refused, and what is decompressed is what the block claims to hold,
//! whatever the buffer held before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silverback::api::ingest::remote_write::snappy;
use silverback_storage::message::BodyBytes;

const LIMIT_BYTES: usize = 1 << 20;

fuzz_target!(|compressed: &[u8]| {
    let mut used = BodyBytes::from(vec![0xa5; 4096]);
    let mut fresh = BodyBytes::default();
    let first = snappy::decompress(compressed, LIMIT_BYTES, &mut used);
    let second = snappy::decompress(compressed, LIMIT_BYTES, &mut fresh);
    assert_eq!(first, second);
    assert_eq!(*used, *fresh);
    match first {
        Ok(()) => assert_eq!(snappy::claimed_bytes(compressed, LIMIT_BYTES), Ok(used.len())),
        Err(_) => assert!(used.is_empty()),
    }
});

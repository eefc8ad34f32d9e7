//! Hostile bytes as a file's header and as a frame: reading never panics, never asks for more than
//! the file has, and what it calls whole is what a writer would write.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silverback_storage::wal::frame::{FRAME_HEADER_BYTES, FrameCheck, FrameKey, check, encode_header};
use silverback_storage::wal::segment::{CheckpointHeader, FILE_HEADER_BYTES, SegmentHeader};

fuzz_target!(|input: (u64, u64, u16, bool, Vec<u8>)| {
    let (seed, file_number, bytes_after, with_checksum, mut bytes) = input;
    let key = FrameKey::new(seed);
    let bytes_left = bytes.len() as u64 + u64::from(bytes_after);
    if with_checksum && bytes.len() >= FRAME_HEADER_BYTES {
        sign(key, file_number, &mut bytes);
    }
    match check(key, file_number, &bytes, bytes_left) {
        FrameCheck::Whole { header, payload } => {
            assert_eq!(header.frame_bytes(), payload.end);
            let again = encode_header(key, file_number, header.group, &[&bytes[payload]]);
            assert_eq!(again, bytes[..FRAME_HEADER_BYTES]);
        }
        FrameCheck::NeedsBytes(total) => {
            assert!(total > bytes.len() && total as u64 <= bytes_left);
        }
        FrameCheck::Nothing => assert!(bytes.iter().take(FRAME_HEADER_BYTES).all(|&byte| byte == 0)),
        FrameCheck::Invalid => assert!(!with_checksum || bytes.len() < FRAME_HEADER_BYTES),
    }
    if let Ok(header) = SegmentHeader::decode(&bytes, seed) {
        let header_bytes = if header.made.is_some() { FILE_HEADER_BYTES } else { FIRST_HEADER_BYTES };
        assert_eq!(header.encode(seed)[..header_bytes], bytes[..header_bytes]);
    }
    if let Ok(header) = CheckpointHeader::decode(&bytes, seed) {
        assert_eq!(header.encode(seed)[..FIRST_HEADER_BYTES], bytes[..FIRST_HEADER_BYTES]);
    }
});

/// The header of format version 1.
const FIRST_HEADER_BYTES: usize = 40;

/// Makes these bytes a frame: chance alone would find no checksum.
fn sign(key: FrameKey, file_number: u64, bytes: &mut [u8]) {
    let (head, payload) = bytes.split_at_mut(FRAME_HEADER_BYTES);
    let mut group = [0; 8];
    group.copy_from_slice(&head[16..]);
    let group = silverback_storage::wal::Lsn(u64::from_le_bytes(group));
    head.copy_from_slice(&encode_header(key, file_number, group, &[payload]));
}

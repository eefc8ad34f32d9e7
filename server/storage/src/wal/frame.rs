//! Frames: a payload in a file, with what distinguishes a whole one of this file from all other bytes.
//!
//! A frame says its file's number, since a recycled file still holds frames of its former life,
//! and its checksum begins with a key of the data directory, so that nobody outside can send
//! labels that look like a frame. Knows nothing of what a payload means.
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Lsn;
use silverback_model::limits::WAL_FRAME_PAYLOAD_MAX;

/// The length of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 24;

/// The checksum is first and covers what is after it.
const CHECKED_FROM: usize = 4;

/// A data directory's own beginning of every frame's checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FrameKey([u8; 8]);

/// What a frame says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The length of the payload.
    pub payload_bytes: usize,
    /// The number of the file that it was written to: a segment's own, or a checkpoint's first group.
    pub file_number: u64,
    /// In a segment the group; in a checkpoint the number of the frame, from 0.
    pub group: Lsn,
}

/// What is at a place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameCheck {
    /// A frame of this file, every bit of it as it was written.
    Whole {
        /// What it says of itself.
        header: FrameHeader,
        /// Where its payload is in the bytes that were looked at.
        payload: Range<usize>,
    },
    /// What may be a frame; so many bytes from here are needed to know. The file has them.
    NeedsBytes(usize),
    /// A header of zeros: nothing was written here since the file was made.
    Nothing,
    /// No whole frame of this file.
    Invalid,
}

impl FrameKey {
    /// The key of the data directory that this seed was drawn for.
    pub fn new(node_seed: u64) -> Self {
        Self(xxh3_64_with_seed(b"silverback wal frame", node_seed).to_le_bytes())
    }

    fn checksum<'a>(self, parts: impl Iterator<Item = &'a [u8]>) -> [u8; 4] {
        let key = crc32c::crc32c(&self.0);
        parts.fold(key, crc32c::crc32c_append).to_le_bytes()
    }
}

/// Shown to nobody: who knows the key can write frames.
impl std::fmt::Debug for FrameKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FrameKey(..)")
    }
}

impl FrameHeader {
    /// The length of the frame, without the zeros after it.
    pub const fn frame_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.payload_bytes
    }

    /// The length that the frame takes in a file of these blocks: the next one begins after it.
    pub(crate) const fn padded_bytes(&self, block_bytes: usize) -> usize {
        self.frame_bytes().next_multiple_of(block_bytes)
    }

    /// What the header at the beginning of `bytes` says, whether or not it is one.
    pub(crate) fn peek(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(Self::read)
    }

    fn read(bytes: &[u8; FRAME_HEADER_BYTES]) -> Self {
        let [_, _, _, _, a, b, c, d, rest @ ..] = *bytes;
        let (numbers, _) = rest.as_chunks();
        Self {
            payload_bytes: u32::from_le_bytes([a, b, c, d]) as usize,
            file_number: u64::from_le_bytes(numbers[0]),
            group: Lsn(u64::from_le_bytes(numbers[1])),
        }
    }
}

/// The header of a frame whose payload is `parts`, one after the other.
///
/// # Panics
///
/// When the payload is beyond [`WAL_FRAME_PAYLOAD_MAX`]: nobody could read it again.
pub fn encode_header(
    key: FrameKey,
    file_number: u64,
    group: Lsn,
    parts: &[&[u8]],
) -> [u8; FRAME_HEADER_BYTES] {
    let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
    assert!(payload_bytes <= WAL_FRAME_PAYLOAD_MAX, "a payload of {payload_bytes} bytes is too long");
    let mut header = [0; FRAME_HEADER_BYTES];
    header[4..8].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    header[8..16].copy_from_slice(&file_number.to_le_bytes());
    header[16..].copy_from_slice(&group.0.to_le_bytes());
    let checksum = key.checksum([&header[CHECKED_FROM..]].into_iter().chain(parts.iter().copied()));
    header[..CHECKED_FROM].copy_from_slice(&checksum);
    header
}

/// What the frame at the beginning of `bytes` is. The file, whose number is `file_number`, has
/// `bytes_left` bytes from there: no header can ask for more.
pub fn check(key: FrameKey, file_number: u64, bytes: &[u8], bytes_left: u64) -> FrameCheck {
    let Some(head) = bytes.first_chunk() else { return too_short(bytes, bytes_left) };
    if head == &[0; FRAME_HEADER_BYTES] {
        return FrameCheck::Nothing;
    }
    let header = FrameHeader::read(head);
    let frame_bytes = header.frame_bytes();
    let fits = header.payload_bytes <= WAL_FRAME_PAYLOAD_MAX && frame_bytes as u64 <= bytes_left;
    if !fits || header.file_number != file_number {
        return FrameCheck::Invalid;
    }
    let Some(frame) = bytes.get(..frame_bytes) else { return FrameCheck::NeedsBytes(frame_bytes) };
    let (checksum, checked) = frame.split_at(CHECKED_FROM);
    if checksum == key.checksum([checked].into_iter()) {
        FrameCheck::Whole { header, payload: FRAME_HEADER_BYTES..frame_bytes }
    } else {
        FrameCheck::Invalid
    }
}

/// Where not even a header is.
fn too_short(bytes: &[u8], bytes_left: u64) -> FrameCheck {
    if bytes_left >= FRAME_HEADER_BYTES as u64 {
        FrameCheck::NeedsBytes(FRAME_HEADER_BYTES)
    } else if bytes.iter().all(|&byte| byte == 0) {
        FrameCheck::Nothing
    } else {
        FrameCheck::Invalid
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: u64 = 7;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let header = encode_header(FrameKey::new(1), FILE, Lsn(9), &[payload]);
        [&header, payload].concat()
    }

    fn check_all(bytes: &[u8]) -> FrameCheck {
        check(FrameKey::new(1), FILE, bytes, bytes.len() as u64)
    }

    #[test]
    fn a_frame_of_another_directory_or_file_is_invalid() {
        let frame = frame(b"payload");
        let bytes_left = frame.len() as u64;
        assert_eq!(check(FrameKey::new(2), FILE, &frame, bytes_left), FrameCheck::Invalid);
        assert_eq!(check(FrameKey::new(1), FILE + 1, &frame, bytes_left), FrameCheck::Invalid);
    }

    #[test]
    fn no_header_asks_for_more_than_the_file_has() {
        let frame = frame(&[1; 100]);
        let check = |len: usize, bytes_left| check(FrameKey::new(1), FILE, &frame[..len], bytes_left);
        assert_eq!(check(0, 24), FrameCheck::NeedsBytes(24));
        assert_eq!(check(24, 124), FrameCheck::NeedsBytes(124));
        assert_eq!(check(123, 124), FrameCheck::NeedsBytes(124));
        assert_eq!(check(24, 123), FrameCheck::Invalid);
        assert_eq!(check(23, 23), FrameCheck::Invalid);
        let mut too_long = frame.clone();
        too_long[4..8].copy_from_slice(&(WAL_FRAME_PAYLOAD_MAX as u32 + 1).to_le_bytes());
        assert_eq!(super::check(FrameKey::new(1), FILE, &too_long, u64::MAX), FrameCheck::Invalid);
    }

    #[test]
    fn zeros_are_nothing() {
        assert_eq!(check_all(&[0; 4096]), FrameCheck::Nothing);
        assert_eq!(check_all(&[0; 3]), FrameCheck::Nothing);
        assert_eq!(check_all(&[]), FrameCheck::Nothing);
    }

    #[test]
    fn a_frame_is_padded_to_whole_blocks() {
        let header = |payload_bytes| FrameHeader { payload_bytes, file_number: FILE, group: Lsn(1) };
        assert_eq!(header(488).padded_bytes(512), 512);
        assert_eq!(header(489).padded_bytes(512), 1024);
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_written_whatever_parts_it_came_in(
            payload: Vec<u8>, cut: prop::sample::Index, file_number: u64, group: u64, seed: u64,
        ) {
            let (a, b) = payload.split_at(cut.index(payload.len() + 1));
            let header = encode_header(FrameKey::new(seed), file_number, Lsn(group), &[a, &[], b]);
            let mut bytes = [&header[..], &payload, &[0xaa; 30]].concat();
            let bytes_left = bytes.len() as u64;
            let expect = FrameHeader { payload_bytes: payload.len(), file_number, group: Lsn(group) };
            let whole = FrameCheck::Whole { header: expect, payload: 24..24 + payload.len() };
            prop_assert_eq!(check(FrameKey::new(seed), file_number, &bytes, bytes_left), whole);
            bytes.truncate(24);
            prop_assert!(check(FrameKey::new(seed), file_number, &bytes, bytes_left) != FrameCheck::Invalid);
        }

        #[test]
        fn a_flipped_bit_is_noticed(payload: Vec<u8>, bit: prop::sample::Index) {
            let mut bytes = frame(&payload);
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(check_all(&bytes), FrameCheck::Invalid);
        }
    }
}

//! Segments and checkpoints as files: their names, and the header in their first block.
use crc32c::crc32c;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Lsn;
use crate::limits::SHARDS_MAX;

/// The length of a file's header. The first frame begins with the next block.
pub const FILE_HEADER_BYTES: usize = 40;

/// The version of the format that is written and read.
pub const FORMAT_VERSION: u32 = 1;

const SEGMENT_MAGIC: [u8; 8] = *b"SBWALSEG";
const CHECKPOINT_MAGIC: [u8; 8] = *b"SBWALCKP";

/// The checksum stands last and covers what is before it.
const CHECKED_BYTES: usize = FILE_HEADER_BYTES - 4;

const SEGMENT_SUFFIX: &str = ".wal";
const CHECKPOINT_SUFFIX: &str = ".checkpoint";
const SPARE_PREFIX: &str = "spare-";
const NAME_DIGITS: usize = 20;

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The shard whose log it is of.
    pub shard: u16,
    /// The shards of that generation.
    pub shards: u16,
    /// Its number.
    pub seq: u64,
    /// Frames begin at multiples of this: a power of two.
    pub block_bytes: u32,
}

/// What a checkpoint says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// The shard whose series it has.
    pub shard: u16,
    /// The shards of that generation.
    pub shards: u16,
    /// The first group that it may not have all of, and its number.
    pub first_group: Lsn,
    /// Frames begin at multiples of this: a power of two.
    pub block_bytes: u32,
}

/// Why a file's first bytes are not the header that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It is another kind of file, or too short to be one.
    #[error("this is no such file of a write-ahead log")]
    OtherKind,
    /// Another version wrote it.
    #[error("it has format version {0}; this is {FORMAT_VERSION}")]
    OtherVersion(u32),
    /// It is of another data directory.
    #[error("it was written by another node")]
    OtherNode,
    /// Its checksum doesn't match, or no writer would write it.
    #[error("its header is damaged")]
    Damaged,
}

impl SegmentHeader {
    /// The header's bytes, in a data directory of this seed.
    pub fn encode(&self, node_seed: u64) -> [u8; FILE_HEADER_BYTES] {
        let Self { shard, shards, seq, block_bytes } = *self;
        let fields = Fields { shard, shards, number: seq, block_bytes };
        fields.encode(SEGMENT_MAGIC, node_seed)
    }

    /// From a file's first bytes.
    pub fn decode(bytes: &[u8], node_seed: u64) -> Result<Self, HeaderError> {
        let fields = Fields::decode(bytes, SEGMENT_MAGIC, node_seed)?;
        let Fields { shard, shards, number: seq, block_bytes } = fields;
        Ok(Self { shard, shards, seq, block_bytes })
    }
}

impl CheckpointHeader {
    /// The header's bytes, in a data directory of this seed.
    pub fn encode(&self, node_seed: u64) -> [u8; FILE_HEADER_BYTES] {
        let Self { shard, shards, first_group, block_bytes } = *self;
        let fields = Fields { shard, shards, number: first_group.0, block_bytes };
        fields.encode(CHECKPOINT_MAGIC, node_seed)
    }

    /// From a file's first bytes.
    pub fn decode(bytes: &[u8], node_seed: u64) -> Result<Self, HeaderError> {
        let fields = Fields::decode(bytes, CHECKPOINT_MAGIC, node_seed)?;
        let Fields { shard, shards, number, block_bytes } = fields;
        Ok(Self { shard, shards, first_group: Lsn(number), block_bytes })
    }
}

/// What the headers of both kinds of files have.
struct Fields {
    shard: u16,
    shards: u16,
    number: u64,
    block_bytes: u32,
}

impl Fields {
    fn encode(&self, magic: [u8; 8], node_seed: u64) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..8].copy_from_slice(&magic);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.block_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&node_check(node_seed));
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.shard.to_le_bytes());
        bytes[34..36].copy_from_slice(&self.shards.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[CHECKED_BYTES..].copy_from_slice(&checksum);
        bytes
    }

    fn decode(bytes: &[u8], magic: [u8; 8], node_seed: u64) -> Result<Self, HeaderError> {
        let bytes = bytes.first_chunk::<FILE_HEADER_BYTES>().ok_or(HeaderError::OtherKind)?;
        if bytes[..8] != magic {
            return Err(HeaderError::OtherKind);
        }
        let version = u32::from_le_bytes(field(bytes, 8));
        if version != FORMAT_VERSION {
            return Err(Self::judge_version(*bytes, version));
        }
        if checksum(bytes) != field(bytes, CHECKED_BYTES) {
            return Err(HeaderError::Damaged);
        }
        if field(bytes, 16) != node_check(node_seed) {
            return Err(HeaderError::OtherNode);
        }
        let fields = Self {
            shard: u16::from_le_bytes(field(bytes, 32)),
            shards: u16::from_le_bytes(field(bytes, 34)),
            number: u64::from_le_bytes(field(bytes, 24)),
            block_bytes: u32::from_le_bytes(field(bytes, 12)),
        };
        if fields.are_possible() { Ok(fields) } else { Err(HeaderError::Damaged) }
    }

    /// Another version may have its checksum elsewhere. But where this version's checksum is right for
    /// this version's number, the number itself is damaged.
    fn judge_version(mut bytes: [u8; FILE_HEADER_BYTES], version: u32) -> HeaderError {
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        match checksum(&bytes) == field(&bytes, CHECKED_BYTES) {
            true => HeaderError::Damaged,
            false => HeaderError::OtherVersion(version),
        }
    }

    fn are_possible(&self) -> bool {
        let holds_header = self.block_bytes as usize >= FILE_HEADER_BYTES;
        let shards = usize::from(self.shards);
        self.block_bytes.is_power_of_two() && holds_header && self.shard < self.shards && shards <= SHARDS_MAX
    }
}

fn checksum(header: &[u8; FILE_HEADER_BYTES]) -> [u8; 4] {
    crc32c(&header[..CHECKED_BYTES]).to_le_bytes()
}

fn field<const N: usize>(header: &[u8; FILE_HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| header[at + i])
}

/// Tells data directories apart without giving the seed or the key of the frames away.
fn node_check(node_seed: u64) -> [u8; 8] {
    xxh3_64_with_seed(b"silverback wal node", node_seed).to_le_bytes()
}

/// The name of a segment.
pub fn segment_name(seq: u64) -> String {
    name(seq, SEGMENT_SUFFIX)
}

/// The number of the segment that has this name, if it is one's.
pub fn parse_segment_name(name: &str) -> Option<u64> {
    parse_name(name, SEGMENT_SUFFIX)
}

/// The name of a checkpoint.
pub fn checkpoint_name(first_group: Lsn) -> String {
    name(first_group.0, CHECKPOINT_SUFFIX)
}

/// The first group of the checkpoint that has this name, if it is one's.
pub fn parse_checkpoint_name(name: &str) -> Option<Lsn> {
    parse_name(name, CHECKPOINT_SUFFIX).map(Lsn)
}

/// The name of a spare: a segment that no replay needs, to be used again.
pub fn spare_name(number: u64) -> String {
    format!("{SPARE_PREFIX}{number}")
}

/// The number of the spare that has this name, if it is one's.
pub fn parse_spare_name(name: &str) -> Option<u64> {
    name.strip_prefix(SPARE_PREFIX)?.parse().ok()
}

fn name(number: u64, suffix: &str) -> String {
    format!("{number:0NAME_DIGITS$}{suffix}")
}

fn parse_name(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    let whole = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 5;
    const SEGMENT: SegmentHeader = SegmentHeader { shard: 1, shards: 2, seq: 3, block_bytes: 4096 };

    /// What is said of a segment's header after `change`.
    fn check(change: impl Fn(&mut [u8; FILE_HEADER_BYTES]), expect: Result<SegmentHeader, HeaderError>) {
        let mut bytes = SEGMENT.encode(SEED);
        change(&mut bytes);
        assert_eq!(SegmentHeader::decode(&bytes, SEED), expect);
    }

    #[test]
    fn headers_are_read_as_written() {
        check(|_| {}, Ok(SEGMENT));
        let checkpoint =
            CheckpointHeader { shard: 127, shards: 128, first_group: Lsn(u64::MAX), block_bytes: 512 };
        assert_eq!(CheckpointHeader::decode(&checkpoint.encode(SEED), SEED), Ok(checkpoint));
    }

    #[test]
    fn a_header_tells_what_is_wrong_with_it() {
        check(|bytes| bytes[0] = b'X', Err(HeaderError::OtherKind));
        let other_version = |bytes: &mut [u8; FILE_HEADER_BYTES]| {
            bytes[8] = 2;
            let checksum = checksum(bytes);
            bytes[CHECKED_BYTES..].copy_from_slice(&checksum);
        };
        check(other_version, Err(HeaderError::OtherVersion(2)));
        for at in 8..FILE_HEADER_BYTES {
            check(|bytes| bytes[at] ^= 1, Err(HeaderError::Damaged));
        }
        let bytes = SEGMENT.encode(SEED);
        assert_eq!(SegmentHeader::decode(&bytes, SEED + 1), Err(HeaderError::OtherNode));
        assert_eq!(SegmentHeader::decode(&bytes[..39], SEED), Err(HeaderError::OtherKind));
        assert_eq!(CheckpointHeader::decode(&bytes, SEED), Err(HeaderError::OtherKind));
    }

    #[test]
    fn a_header_that_no_writer_would_write_is_damaged() {
        let check = |header: SegmentHeader| {
            let decoded = SegmentHeader::decode(&header.encode(SEED), SEED);
            assert_eq!(decoded, Err(HeaderError::Damaged), "{header:?}");
        };
        check(SegmentHeader { shard: 2, ..SEGMENT });
        check(SegmentHeader { shards: 129, ..SEGMENT });
        check(SegmentHeader { block_bytes: 0, ..SEGMENT });
        check(SegmentHeader { block_bytes: 32, ..SEGMENT });
        check(SegmentHeader { block_bytes: 4095, ..SEGMENT });
    }

    #[test]
    fn names_sort_by_their_numbers_and_are_read_again() {
        assert_eq!(segment_name(42), "00000000000000000042.wal");
        assert_eq!(parse_segment_name(&segment_name(u64::MAX)), Some(u64::MAX));
        assert_eq!(checkpoint_name(Lsn(42)), "00000000000000000042.checkpoint");
        assert_eq!(parse_checkpoint_name(&checkpoint_name(Lsn(7))), Some(Lsn(7)));
    }

    #[test]
    fn other_names_are_nobodys() {
        let names = [
            "42.wal",
            "+0000000000000000042.wal",
            "99999999999999999999.wal",
            "00000000000000000042.checkpoint",
            "00000000000000000042.wal.tmp",
            "spare-1",
            "",
        ];
        for name in names {
            assert_eq!(parse_segment_name(name), None, "{name:?}");
        }
        assert_eq!(parse_checkpoint_name("00000000000000000042.checkpoint.tmp"), None);
    }
}

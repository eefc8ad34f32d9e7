//! Segments and checkpoints as files: their names, and the header in their first block.
use crc32c::crc32c;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Lsn;
use silverback_model::limits::SHARDS_MAX;

/// The length of a file's header, of the longest kind. The first frame begins with the next block.
pub const FILE_HEADER_BYTES: usize = 56;

/// The newest version of the format: of segments that say how they were made. Checkpoints and older segments
/// have the first one.
pub(crate) const FORMAT_VERSION: u32 = 2;

const SEGMENT_MAGIC: [u8; 8] = *b"SBWALSEG";
const CHECKPOINT_MAGIC: [u8; 8] = *b"SBWALCKP";
const CLOSING_MAGIC: [u8; 8] = *b"SBWALEND";

/// The checksum is last and covers what is before it: so many bytes, in each version.
const CHECKED_BYTES: [usize; FORMAT_VERSION as usize] = [36, FILE_HEADER_BYTES - 4];

const SEGMENT_SUFFIX: &str = ".wal";
/// The name of the file that a clean stop leaves.
pub(crate) const CLOSING_NAME: &str = "closed";

const CHECKPOINT_SUFFIX: &str = ".checkpoint";
const SPARE_PREFIX: &str = "spare-";
const NEWEST_PREFIX: &str = "newest-";
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
    /// How it was made; those of version 1 don't say.
    pub made: Option<Made>,
}

/// A segment as it was made: what is missing of it, or before it, was there once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// Its size.
    pub bytes: u64,
    /// The last group that was on disk then: no later than the one before its first.
    pub after: Lsn,
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
    #[error("it has format version {0}; this node reads versions up to {FORMAT_VERSION}")]
    OtherVersion(u32),
    /// It is of another data directory.
    #[error("it was written by another node")]
    OtherNode,
    /// It is of another shard's log: directories were swapped, or a file was moved.
    #[error("it is of shard {0}'s log: put it back where it was")]
    OtherShard(u16),
    /// Its checksum doesn't match, or no writer would write it.
    #[error("its header is damaged")]
    Damaged,
}

impl SegmentHeader {
    /// The header's bytes, in a data directory of this seed.
    pub fn encode(&self, node_seed: u64) -> [u8; FILE_HEADER_BYTES] {
        let Self { shard, shards, seq, block_bytes, made } = *self;
        let fields = Fields { shard, shards, number: seq, block_bytes, made };
        fields.encode(SEGMENT_MAGIC, node_seed)
    }

    /// From a file's first bytes.
    pub fn decode(bytes: &[u8], node_seed: u64) -> Result<Self, HeaderError> {
        let fields = Fields::decode(bytes, SEGMENT_MAGIC, node_seed)?;
        let Fields { shard, shards, number: seq, block_bytes, made } = fields;
        Ok(Self { shard, shards, seq, block_bytes, made })
    }
}

impl CheckpointHeader {
    /// The header's bytes, in a data directory of this seed.
    pub fn encode(&self, node_seed: u64) -> [u8; FILE_HEADER_BYTES] {
        let Self { shard, shards, first_group, block_bytes } = *self;
        let fields = Fields { shard, shards, number: first_group.0, block_bytes, made: None };
        fields.encode(CHECKPOINT_MAGIC, node_seed)
    }

    /// From a file's first bytes.
    pub fn decode(bytes: &[u8], node_seed: u64) -> Result<Self, HeaderError> {
        let fields = Fields::decode(bytes, CHECKPOINT_MAGIC, node_seed)?;
        let Fields { shard, shards, number, block_bytes, .. } = fields;
        Ok(Self { shard, shards, first_group: Lsn(number), block_bytes })
    }
}

/// What a clean stop says of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClosingHeader {
    /// The last group that is on disk.
    pub last: Lsn,
    /// What the log's segments say of themselves, whatever their numbers.
    pub of: SegmentHeader,
}

impl ClosingHeader {
    /// The file's bytes, in a data directory of this seed.
    pub(crate) fn encode(&self, node_seed: u64) -> [u8; FILE_HEADER_BYTES] {
        let SegmentHeader { shard, shards, block_bytes, .. } = self.of;
        let fields = Fields { shard, shards, number: self.last.0, block_bytes, made: None };
        fields.encode(CLOSING_MAGIC, node_seed)
    }

    /// The last group, from the file's bytes.
    pub(crate) fn decode(bytes: &[u8], node_seed: u64) -> Result<Lsn, HeaderError> {
        Fields::decode(bytes, CLOSING_MAGIC, node_seed).map(|fields| Lsn(fields.number))
    }
}

/// What the headers of all kinds of files have.
struct Fields {
    shard: u16,
    shards: u16,
    number: u64,
    block_bytes: u32,
    /// Of version 2.
    made: Option<Made>,
}

impl Fields {
    fn encode(&self, magic: [u8; 8], node_seed: u64) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..8].copy_from_slice(&magic);
        let version: u32 = if self.made.is_some() { 2 } else { 1 };
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.block_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&node_check(node_seed));
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.shard.to_le_bytes());
        bytes[34..36].copy_from_slice(&self.shards.to_le_bytes());
        if let Some(made) = self.made {
            bytes[36..44].copy_from_slice(&made.bytes.to_le_bytes());
            bytes[44..52].copy_from_slice(&made.after.0.to_le_bytes());
        }
        let checked = CHECKED_BYTES[version as usize - 1];
        let checksum = checksum(&bytes, checked);
        bytes[checked..checked + 4].copy_from_slice(&checksum);
        bytes
    }

    fn decode(bytes: &[u8], magic: [u8; 8], node_seed: u64) -> Result<Self, HeaderError> {
        if bytes.len() < CHECKED_BYTES[0] + 4 || bytes[..8] != magic {
            return Err(HeaderError::OtherKind);
        }
        // A file of the first version may end before the longer header would.
        let mut header = [0; FILE_HEADER_BYTES];
        let there = bytes.len().min(FILE_HEADER_BYTES);
        header[..there].copy_from_slice(&bytes[..there]);
        let bytes = &header;
        let newest = if magic == SEGMENT_MAGIC { FORMAT_VERSION } else { 1 };
        let (checked, made) = match u32::from_le_bytes(field(bytes, 8)) {
            1 => (CHECKED_BYTES[0], None),
            2 if newest >= 2 => {
                let made = [field(bytes, 36), field(bytes, 44)].map(u64::from_le_bytes);
                (CHECKED_BYTES[1], Some(Made { bytes: made[0], after: Lsn(made[1]) }))
            }
            // There was never one of this number.
            0 => return Err(HeaderError::Damaged),
            other => return Err(Self::judge_version(*bytes, other, newest)),
        };
        if there < checked + 4 || checksum(bytes, checked) != field(bytes, checked) {
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
            made,
        };
        if fields.are_possible() { Ok(fields) } else { Err(HeaderError::Damaged) }
    }

    /// Another version may have its checksum elsewhere. But where a known version's checksum is right for
    /// that version's number, the number itself is damaged.
    fn judge_version(bytes: [u8; FILE_HEADER_BYTES], version: u32, newest: u32) -> HeaderError {
        let is_known = (1..=newest).zip(CHECKED_BYTES).any(|(known, checked)| {
            let mut bytes = bytes;
            bytes[8..12].copy_from_slice(&known.to_le_bytes());
            checksum(&bytes, checked) == field(&bytes, checked)
        });
        if is_known { HeaderError::Damaged } else { HeaderError::OtherVersion(version) }
    }

    fn are_possible(&self) -> bool {
        let holds_header = self.block_bytes as usize >= FILE_HEADER_BYTES;
        let shards = usize::from(self.shards);
        self.block_bytes.is_power_of_two() && holds_header && self.shard < self.shards && shards <= SHARDS_MAX
    }
}

fn checksum(header: &[u8; FILE_HEADER_BYTES], checked: usize) -> [u8; 4] {
    crc32c(&header[..checked]).to_le_bytes()
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
pub(crate) fn parse_segment_name(name: &str) -> Option<u64> {
    parse_name(name, SEGMENT_SUFFIX)
}

/// The name of a checkpoint.
pub fn checkpoint_name(first_group: Lsn) -> String {
    name(first_group.0, CHECKPOINT_SUFFIX)
}

/// The first group of the checkpoint that has this name, if it is one's.
pub(crate) fn parse_checkpoint_name(name: &str) -> Option<Lsn> {
    parse_name(name, CHECKPOINT_SUFFIX).map(Lsn)
}

/// The name of a spare: a segment that no replay needs, to be used again.
pub fn spare_name(number: u64) -> String {
    format!("{SPARE_PREFIX}{number}")
}

/// The number of the spare that has this name, if it is one's.
pub(crate) fn parse_spare_name(name: &str) -> Option<u64> {
    parse_prefixed(name, SPARE_PREFIX)
}

/// The name of the file that says which segment of a log is its newest; 0: it has none.
pub(crate) fn newest_name(seq: u64) -> String {
    format!("{NEWEST_PREFIX}{seq}")
}

/// The segment that the file of this name calls the newest, if it is such a file.
pub(crate) fn parse_newest_name(name: &str) -> Option<u64> {
    parse_prefixed(name, NEWEST_PREFIX)
}

fn parse_prefixed(name: &str, prefix: &str) -> Option<u64> {
    // The last number has no next one.
    name.strip_prefix(prefix)?.parse().ok().filter(|number| *number < u64::MAX)
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
    const MADE: Made = Made { bytes: 16 << 20, after: Lsn(41) };
    const SEGMENT: SegmentHeader =
        SegmentHeader { shard: 1, shards: 2, seq: 3, block_bytes: 4096, made: Some(MADE) };

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
    fn the_header_of_a_former_version_is_shorter() {
        let former = SegmentHeader { made: None, ..SEGMENT };
        let bytes = former.encode(SEED);
        assert_eq!(bytes[40..], [0; FILE_HEADER_BYTES - 40]);
        assert_eq!(SegmentHeader::decode(&bytes[..40], SEED), Ok(former));
        assert_eq!(CheckpointHeader::decode(&bytes, SEED), Err(HeaderError::OtherKind));
        for at in 8..40 {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            // One bit makes no other known version of its number.
            assert_eq!(SegmentHeader::decode(&damaged, SEED), Err(HeaderError::Damaged), "{at}");
        }
    }

    #[test]
    fn a_header_tells_what_is_wrong_with_it() {
        check(|bytes| bytes[0] = b'X', Err(HeaderError::OtherKind));
        let other_version = |bytes: &mut [u8; FILE_HEADER_BYTES]| {
            bytes[8] = 3;
            let checksum = checksum(bytes, CHECKED_BYTES[1]);
            bytes[CHECKED_BYTES[1]..].copy_from_slice(&checksum);
        };
        check(other_version, Err(HeaderError::OtherVersion(3)));
        for at in 8..FILE_HEADER_BYTES {
            check(|bytes| bytes[at] ^= 1, Err(HeaderError::Damaged));
        }
        let bytes = SEGMENT.encode(SEED);
        assert_eq!(SegmentHeader::decode(&bytes, SEED + 1), Err(HeaderError::OtherNode));
        assert_eq!(SegmentHeader::decode(&bytes[..39], SEED), Err(HeaderError::OtherKind));
        assert_eq!(SegmentHeader::decode(&bytes[..55], SEED), Err(HeaderError::Damaged));
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
        assert_eq!(parse_newest_name(&newest_name(42)), Some(42));
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

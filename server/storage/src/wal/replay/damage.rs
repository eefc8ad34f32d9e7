//! What a replay couldn't read, in words for whoever has to decide what to do about it.

use std::fmt;

use crate::wal::Lsn;
use crate::wal::segment::HeaderError;
use silverback_host::disk::DiskError;
use silverback_model::ShardId;

/// A group at the end that isn't whole. Most likely a crash cut its write short, and then it was never
/// acknowledged; but one that was damaged later looks the same, unless a clean stop noted that it was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The group.
    pub group: Lsn,
    /// The segment.
    pub file: Box<str>,
    /// Where the group begins, in bytes.
    pub offset: u64,
}

/// Something that was written and can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: Box<str>,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is lost.
    pub loss: Loss,
}

/// What damage costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// Groups of the log, both ends inclusive.
    Groups(Lsn, Lsn),
    /// The same, and maybe more: the segment that tells of them was made while the last of them was written, and the
    /// one before it, which is gone, may have got others.
    AtLeast(Lsn, Lsn),
    /// Frames of a checkpoint, both ends inclusive: the series in them, up to the groups behind it.
    Frames(u64, u64),
    /// A checkpoint's end: an unknown number of frames before it.
    CheckpointEnd,
    /// The end of a segment: so many bytes, and all groups after the one named that were in them.
    End(u64, Lsn),
    /// A whole file: its header can't be read.
    File(HeaderError),
    /// Records of a whole frame: they contradict what came before.
    Records(String),
    /// The newest segment isn't there: all groups after the one named that were in it, or in later ones.
    Newest(Lsn),
    /// None of the segments of this shard's log is there: all groups after the one named.
    Log(ShardId, Lsn),
}

/// Why a log can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Something is damaged, and the recovery is strict.
    #[error(
        "the write-ahead log is damaged: {0}. Nothing was changed. `silverback wal verify` lists all damage; \
         `--wal-recovery=salvage` starts with what can be read"
    )]
    Damaged(Damage),
    /// A file was written by another version, by a node of another data directory, or for another shard.
    #[error("{0}: {1}")]
    Foreign(Box<str>, HeaderError),
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, file, offset } = self;
        write!(
            f,
            "{file} at byte {offset}: group {} isn't whole. A crash cut its write short, and then it was never \
             acknowledged; or it was damaged later, and then it may have been: which of both can't be told, for no \
             file `closed` beside it says that it was there at a clean stop. If the node was stopped cleanly after \
             it, that file is missing, and this is damage",
            group.0
        )
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if !matches!(self.loss, Loss::Newest(_) | Loss::Log(..)) {
            write!(f, " at byte {}", self.offset)?;
        }
        f.write_str(": ")?;
        match &self.loss {
            Loss::Groups(first, last) if first == last => write!(f, "group {} is lost", first.0),
            Loss::Groups(first, last) => write!(f, "groups {} to {} are lost", first.0, last.0),
            Loss::AtLeast(first, last) if first == last => {
                write!(f, "group {} is lost, and what came after it in the same segment", first.0)
            }
            Loss::AtLeast(first, last) => {
                let (first, last) = (first.0, last.0);
                write!(f, "groups {first} to {last} are lost, and what came after them in the same segment")
            }
            Loss::Frames(first, last) if first == last => {
                write!(f, "frame {first} of the checkpoint is lost")
            }
            Loss::Frames(first, last) => write!(f, "frames {first} to {last} of the checkpoint are lost"),
            Loss::CheckpointEnd => f.write_str("the checkpoint's end is lost, and what came before it"),
            Loss::End(bytes, last) => write!(
                f,
                "the last {bytes} bytes of the file are missing, and with them what came after group {}",
                last.0
            ),
            Loss::File(error) => write!(f, "the file can't be read ({error})"),
            Loss::Records(reason) => write!(f, "records are lost ({reason})"),
            Loss::Newest(last) => {
                write!(f, "the log's newest segment is missing, and with it what came after group {}", last.0)
            }
            Loss::Log(shard, Lsn(0)) => write!(
                f,
                "the log of shard {} is gone: none of its segments is there, and all that was in them is lost",
                shard.0
            ),
            Loss::Log(shard, last) => write!(
                f,
                "the segments of shard {}'s log are gone, and with them what came after group {}",
                shard.0, last.0
            ),
        }
    }
}

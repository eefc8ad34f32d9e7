//! What a replay couldn't read, in words for whoever has to decide what to do about it.

use crate::wal::Lsn;
use crate::wal::segment::HeaderError;
use silverback_host::disk::DiskError;
use silverback_model::ShardId;

/// A group at the end that isn't whole. Most likely a crash cut its write short, and then it was never
/// acknowledged; but one that was damaged later looks the same, unless a clean stop noted that it was there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file} at byte {offset}: group {} isn't whole. A crash cut its write short, and then it was never acknowledged; \
     or it was damaged later, and then it may have been: which of the two can't be known, because no file `closed` \
     beside it says that it was there at a clean stop. If the node was stopped cleanly after it, that file is missing, and this \
     is damage", group.0
)]
pub struct Torn {
    /// The group.
    pub group: Lsn,
    /// The segment.
    pub file: Box<str>,
    /// Where the group begins, in bytes.
    pub offset: u64,
}

/// Something that was written and can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {loss}", self.place())]
pub struct Damage {
    /// The file.
    pub file: Box<str>,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is lost.
    pub loss: Loss,
}

impl Damage {
    fn place(&self) -> String {
        let is_of_a_file = !matches!(self.loss, Loss::Newest(_) | Loss::Log(..));
        if is_of_a_file { format!(" at byte {}", self.offset) } else { String::new() }
    }
}

/// What damage costs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Groups of the log, both ends inclusive.
    #[error("{}", lost("group", "", .0.0, .1.0))]
    Groups(Lsn, Lsn),
    /// The same, and maybe more: the segment that names them was made while the last of them was written, and the
    /// one before it, which is gone, may have got others.
    #[error(
        "{}, and what came after {} in the same segment",
        lost("group", "", .0.0, .1.0), if .0 == .1 { "it" } else { "them" }
    )]
    AtLeast(Lsn, Lsn),
    /// Frames of a checkpoint, both ends inclusive: the series in them, up to the groups after it.
    #[error("{}", lost("frame", " of the checkpoint", *.0, *.1))]
    Frames(u64, u64),
    /// A checkpoint's end: an unknown number of frames before it.
    #[error("the checkpoint's end is lost, and what came before it")]
    CheckpointEnd,
    /// The end of a segment: so many bytes, and all groups after the one named that were in them.
    #[error("the last {} bytes of the file are missing, and with them what came after group {}", .0, .1.0)]
    End(u64, Lsn),
    /// A whole file: its header can't be read.
    #[error("the file can't be read ({0})")]
    File(HeaderError),
    /// Records of a whole frame: they contradict what came before.
    #[error("records are lost ({0})")]
    Records(String),
    /// The newest segment isn't there: all groups after the one named that were in it, or in later ones.
    #[error("the log's newest segment is missing, and with it what came after group {}", .0.0)]
    Newest(Lsn),
    /// None of the segments of this shard's log is there: all groups after the one named.
    #[error("{}", gone(.0.0, *.1))]
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

/// What of a log or a checkpoint is lost, both ends inclusive.
fn lost(what: &str, of: &str, first: u64, last: u64) -> String {
    match first == last {
        true => format!("{what} {first}{of} is lost"),
        false => format!("{what}s {first} to {last}{of} are lost"),
    }
}

fn gone(shard: u16, last: Lsn) -> String {
    match last.0 {
        0 => format!(
            "the log of shard {shard} is gone: none of its segments is there, and all that was in them is lost"
        ),
        last => format!(
            "the segments of shard {shard}'s log are gone, and with them what came after group {last}"
        ),
    }
}

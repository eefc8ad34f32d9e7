//! Replay: the newest checkpoint, and after it the groups of the segments, in order.
//!
//! Groups are numbered without gaps, so a missing one is known. A group that isn't whole at the very end
//! is cut: a torn tail, or one that was damaged later, which look the same. A group that is missing
//! before a later one, or that a file says was there, was acknowledged: that is damage, and ends a strict
//! replay. What the records mean to a shard is the shard's ([`Restore`]).
pub mod damage;
#[cfg(test)]
mod damage_tests;
pub mod files;
#[cfg(test)]
mod tests;

use crate::wal::Lsn;
use crate::wal::WalRecovery;
use crate::wal::closing::{self, Closed};
use crate::wal::frame::{FRAME_HEADER_BYTES, FrameKey};
use crate::wal::progress::ReplayProgress;
use crate::wal::reader::{FoundFrame, FrameReader};
use crate::wal::record::{Record, records};
use crate::wal::segment::{
    CLOSING_NAME, CheckpointHeader, FILE_HEADER_BYTES, HeaderError, Made, SegmentHeader, checkpoint_name,
    segment_name,
};
use crate::wal::segments::{SealedSegment, SegmentSet, Spare, Unfilled};
use silverback_host::Host;
use silverback_host::disk::{Disk, DiskError, File};

pub use damage::{Damage, Loss, ReplayError, Torn};
pub use files::{LogFiles, LogPlace, MissingSegments};

/// Takes the records of a log in their order.
pub trait Restore {
    /// One record. An error means that it contradicts what came before.
    fn record(&mut self, record: Record<'_>) -> Result<(), RestoreError>;

    /// There are no more. An error means that something was missing.
    fn finish(&mut self) -> Result<(), RestoreError>;
}

/// A record that doesn't fit to those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RestoreError(pub String);

/// What a replay found.
#[derive(Debug, Default)]
pub struct Replayed {
    /// The last group.
    pub last: Lsn,
    /// The number for the next segment.
    pub next_seq: u64,
    /// The segment that the log goes on in, if one has room. Not in the set.
    pub unfilled: Option<Unfilled>,
    /// The other files, for the log that goes on.
    pub segment_set: SegmentSet,
    /// Bytes of the groups after the checkpoint, with the zeros after them.
    pub since_checkpoint_bytes: u64,
    /// Bytes of the checkpoint.
    pub checkpoint_bytes: u64,
    /// Groups that were replayed.
    pub groups: u64,
    /// The tail that was cut.
    pub torn: Option<Torn>,
    /// Where the last group is.
    pub tail: Option<Tail>,
    /// What was lost; none after a strict replay.
    pub damage: Vec<Damage>,
    /// Why what the last clean stop left can't be read. Nothing is known to be lost; but the end of the log is not
    /// known, either.
    pub unread_closing: Option<HeaderError>,
}

/// The last group's frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The segment's path.
    pub file: Box<str>,
    /// Where the frame begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: usize,
}

/// Makes sure that the last group is on disk, before anything builds on it. A process that was
/// killed may have written it and not synced it, or its sync failed, and then only what is written
/// again is synced by the next one. The groups before it were synced: one is in flight at a time.
pub async fn make_tail_durable<D: Disk>(disk: &D, replayed: &Replayed) -> Result<(), DiskError> {
    let Some(tail) = &replayed.tail else { return Ok(()) };
    let file = disk.open(&tail.file).await?;
    // The segment may be of a disk with smaller blocks than this one has.
    let begin = tail.offset - tail.offset % disk.block_bytes() as u64;
    let before = (tail.offset - begin) as usize;
    let mut blocks = Vec::new();
    file.read_at(begin, before + tail.bytes, &mut blocks).await?;
    file.write_at(begin, &[&blocks]).await?;
    file.sync_data().await?;
    file.close().await
}

/// Replays one log.
pub async fn replay<D: Disk, H: Host, R: Restore>(
    place: &LogPlace<D>,
    recovery: WalRecovery,
    host: &H,
    progress: &ReplayProgress,
    restore: &mut R,
) -> Result<Replayed, ReplayError> {
    let files = place.files().await?;
    progress.expect(files.bytes);
    let segment_set = SegmentSet {
        spares: place.spares(&files).await?,
        next_spare: files.spares.last().map_or(0, |newest| newest + 1),
        marked: files.marked,
        ..SegmentSet::default()
    };
    // No number means two segments, whatever became of the first one.
    let newest = files.segments.last().copied().max(files.marked).unwrap_or(0);
    let beyond = || ReplayError::Foreign(place.path(&segment_name(newest)).into(), HeaderError::OtherKind);
    let next_seq = newest.checked_add(1).ok_or_else(beyond)?;
    let found = Replayed { next_seq, segment_set, ..Replayed::default() };
    let closed = closing::read(place).await?;
    let (expected, broken, cut) = (1, None, None);
    let mut replay = Replay { place, recovery, host, progress, restore, found, expected, broken, cut };
    if let Some(first) = files.checkpoint {
        replay.checkpoint(first).await?;
    }
    for seq in files.segments {
        replay.segment(seq).await?;
    }
    replay.finish(closed, files.lacking)
}

/// What a file's header says.
struct Head {
    shard: u16,
    number: u64,
    block_bytes: u32,
    made: Option<Made>,
}

fn segment_header(bytes: &[u8], seed: u64) -> Result<Head, HeaderError> {
    let SegmentHeader { shard, seq, block_bytes, made, .. } = SegmentHeader::decode(bytes, seed)?;
    Ok(Head { shard, number: seq, block_bytes, made })
}

fn checkpoint_header(bytes: &[u8], seed: u64) -> Result<Head, HeaderError> {
    let CheckpointHeader { shard, first_group, block_bytes, .. } = CheckpointHeader::decode(bytes, seed)?;
    Ok(Head { shard, number: first_group.0, block_bytes, made: None })
}

struct Replay<'a, D, H, R> {
    place: &'a LogPlace<D>,
    recovery: WalRecovery,
    host: &'a H,
    progress: &'a ReplayProgress,
    restore: &'a mut R,
    found: Replayed,
    /// The group that comes next.
    expected: u64,
    /// Where the next group was begun and isn't whole.
    broken: Option<Torn>,
    /// The segment that ends before it should, unless all that it lacks is known by later groups.
    cut: Option<Damage>,
}

/// Whether a file is read on.
enum Step {
    More,
    Done,
}

impl<D: Disk, H: Host, R: Restore> Replay<'_, D, H, R> {
    /// Reads a checkpoint; the groups from `first` on come after it.
    async fn checkpoint(&mut self, first: Lsn) -> Result<(), ReplayError> {
        let name = checkpoint_name(first);
        // No group has number 0, whatever a file is called.
        self.expected = first.0.max(1);
        let Some((mut reader, _)) = self.open(&name, first.0, checkpoint_header).await? else {
            return Ok(());
        };
        let mut next_frame = 0;
        loop {
            let at = reader.at();
            let step = match reader.next().await? {
                FoundFrame::Frame(header, payload) => {
                    let frame = header.group.0;
                    if frame > next_frame {
                        self.lost(&name, at, Loss::Frames(next_frame, frame - 1))?;
                    }
                    next_frame = frame.saturating_add(1);
                    self.apply(&name, at, payload)?
                }
                FoundFrame::Nothing | FoundFrame::Broken(_) => Step::More,
            };
            if matches!(step, Step::Done) {
                break;
            }
            if reader.at() == at && !reader.skip_block() {
                self.lost(&name, at, Loss::CheckpointEnd)?;
                break;
            }
            self.progress.advance(reader.at() - at);
            self.host.yield_if_needed().await;
        }
        self.found.checkpoint_bytes = reader.size();
        self.host.release_slice();
        Ok(reader.close().await?)
    }

    /// Reads a segment: groups that the checkpoint holds are passed over.
    async fn segment(&mut self, seq: u64) -> Result<(), ReplayError> {
        let name = segment_name(seq);
        let Some((mut reader, made)) = self.open(&name, seq, segment_header).await? else {
            return self.shelve_unread(&name, seq).await;
        };
        if let Some(made) = made {
            self.skip_to(&name, 0, made.after.0.saturating_add(1), Loss::AtLeast)?;
        }
        let block_bytes = reader.block_bytes();
        let mut last = None;
        let (mut end, mut is_clean) = (reader.at(), true);
        loop {
            let at = reader.at();
            match reader.next().await? {
                FoundFrame::Frame(header, payload) => {
                    last = Some(header.group);
                    (end, is_clean) = (at.saturating_add(header.padded_bytes(block_bytes) as u64), true);
                    if header.group.0 >= self.expected {
                        // As a running log counts them: with the zeros after them.
                        self.found.since_checkpoint_bytes += header.padded_bytes(block_bytes) as u64;
                        self.group(&name, at, header.group.0, payload)?;
                        let (file, bytes) =
                            (self.place.path(&name).into(), FRAME_HEADER_BYTES + payload.len());
                        self.found.tail = Some(Tail { file, offset: at, bytes });
                    }
                }
                FoundFrame::Broken(group) => {
                    is_clean = false;
                    if group.0 == self.expected && self.broken.is_none() {
                        self.broken = Some(Torn { group, file: name.clone().into(), offset: at });
                    }
                }
                FoundFrame::Nothing => {}
            }
            // Groups may follow what can't be read.
            if reader.at() == at && !reader.skip_block() {
                break;
            }
            self.progress.advance(reader.at() - at);
            self.host.yield_if_needed().await;
        }
        let bytes = reader.size();
        let missing = made.map_or(0, |made| made.bytes.saturating_sub(bytes));
        if missing > 0 {
            let loss = Loss::End(missing, Lsn(self.expected - 1));
            self.cut.get_or_insert(Damage { file: name.clone().into(), offset: bytes, loss });
        }
        if last.is_some() || self.found.unfilled.is_none() {
            let has_room =
                is_clean && missing == 0 && end < bytes && bytes.is_multiple_of(block_bytes as u64);
            // The next groups go to blocks of the disk as it is now.
            let has_room = has_room && block_bytes == self.place.disk.block_bytes();
            let last = last.unwrap_or(Lsn(self.expected - 1));
            self.found.unfilled = has_room.then_some(Unfilled { seq, at: end, bytes, last });
        }
        self.shelve(name, seq, reader.size(), last);
        self.host.release_slice();
        Ok(reader.close().await?)
    }

    fn group(&mut self, name: &str, at: u64, group: u64, payload: &[u8]) -> Result<(), ReplayError> {
        self.skip_to(name, at, group, Loss::Groups)?;
        (self.broken, self.cut) = (None, None);
        self.expected = group.saturating_add(1);
        self.found.groups += 1;
        self.apply(name, at, payload)?;
        Ok(())
    }

    /// Goes on with this group, as a place in a file says. Those before it that didn't come are a loss.
    fn skip_to(
        &mut self,
        name: &str,
        at: u64,
        group: u64,
        loss: fn(Lsn, Lsn) -> Loss,
    ) -> Result<(), ReplayError> {
        if group <= self.expected {
            return Ok(());
        }
        let begun = self.broken.take().map(|torn| (torn.file, torn.offset));
        let cut = self.cut.take().map(|cut| (cut.file, cut.offset));
        let (file, offset) = begun.or(cut).unwrap_or((name.into(), at));
        let loss = loss(Lsn(self.expected), Lsn(group - 1));
        self.expected = group;
        self.note(Damage { file, offset, loss })
    }

    /// Applies a frame's records. Done: the last of them was a checkpoint's end.
    fn apply(&mut self, name: &str, at: u64, payload: &[u8]) -> Result<Step, ReplayError> {
        let mut step = Step::More;
        for record in records(payload) {
            let applied = match record {
                Ok(record) => {
                    if let Record::CheckpointEnd { .. } = record {
                        step = Step::Done;
                    }
                    self.restore.record(record).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(reason) = applied {
                self.lost(name, at, Loss::Records(reason))?;
            }
        }
        Ok(step)
    }

    /// Takes the segment that the log goes on in from the set. A log that was salvaged leaves its files to
    /// the checkpoint that is written of it.
    fn take_unfilled(&mut self) {
        let unfilled = self.found.unfilled.take().filter(|_| self.found.damage.is_empty());
        if let Some(Unfilled { seq, .. }) = unfilled {
            let name = segment_name(seq);
            self.found.segment_set.kept.retain(|kept| kept.seq != seq);
            self.found.segment_set.spares.retain(|spare| *spare.name != *name);
        }
        self.found.unfilled = unfilled;
    }

    /// A segment without groups can be used again at once.
    fn shelve(&mut self, name: String, seq: u64, bytes: u64, last: Option<Lsn>) {
        match last {
            Some(last) => self.found.segment_set.kept.push_back(SealedSegment { seq, last, bytes }),
            None => self.found.segment_set.spares.push(Spare { name: name.into(), bytes }),
        }
    }

    /// One that can't be read stays until what was salvaged is in a checkpoint: were it never removed,
    /// each later start would find the same damage.
    async fn shelve_unread(&mut self, name: &str, seq: u64) -> Result<(), ReplayError> {
        let bytes = self.place.size_of(name).await?;
        self.found.segment_set.kept.push_back(SealedSegment { seq, last: Lsn(self.expected - 1), bytes });
        Ok(())
    }

    fn finish(mut self, closed: Closed, lacking: MissingSegments) -> Result<Replayed, ReplayError> {
        match closed {
            Closed::Never => {}
            Closed::At(closed) => {
                self.skip_to(CLOSING_NAME, 0, closed.0.saturating_add(1), Loss::Groups)?;
            }
            Closed::Unknown(error) => self.found.unread_closing = Some(error),
        }
        self.tell_lacking(lacking)?;
        if let Err(error) = self.restore.finish() {
            self.lost(".", 0, Loss::Records(error.to_string()))?;
        }
        if let Some(cut) = self.cut.take() {
            self.broken = None;
            self.note(cut)?;
        }
        self.take_unfilled();
        self.found.last = Lsn(self.expected - 1);
        self.found.torn = self.broken;
        Ok(self.found)
    }

    fn tell_lacking(&mut self, lacking: MissingSegments) -> Result<(), ReplayError> {
        let last = Lsn(self.expected - 1);
        match lacking {
            MissingSegments::Nothing => Ok(()),
            MissingSegments::Newest(seq) => {
                // What was begun there was not the end.
                self.broken = None;
                self.lost(&segment_name(seq), 0, Loss::Newest(last))
            }
            MissingSegments::All => self.lost("", 0, Loss::Log(self.place.shard, last)),
        }
    }

    /// Opens a file and checks its header. `None`: it is damaged, and passed over.
    async fn open(
        &mut self,
        name: &str,
        number: u64,
        header: impl Fn(&[u8], u64) -> Result<Head, HeaderError>,
    ) -> Result<Option<(FrameReader<D::File>, Option<Made>)>, ReplayError> {
        let file = self.place.disk.open(&self.place.path(name)).await?;
        file.settle().await?;
        let mut block = Vec::new();
        file.read_at(0, FILE_HEADER_BYTES, &mut block).await?;
        match header(&block, self.place.seed) {
            // Salvaged as damage it would be gone: what is only in the wrong place can be put back.
            Ok(head) if head.shard != self.place.shard.0 => {
                let error = HeaderError::OtherShard(head.shard);
                Err(ReplayError::Foreign(self.place.path(name).into(), error))
            }
            Ok(head) if head.number == number => {
                let key = FrameKey::new(self.place.seed);
                let reader = FrameReader::open(file, key, number, u64::from(head.block_bytes)).await?;
                Ok(Some((reader, head.made)))
            }
            Ok(_) => {
                self.lost(name, 0, Loss::File(HeaderError::OtherKind))?;
                Ok(None)
            }
            Err(error @ (HeaderError::OtherVersion(_) | HeaderError::OtherNode)) => {
                Err(ReplayError::Foreign(self.place.path(name).into(), error))
            }
            Err(error) => {
                self.lost(name, 0, Loss::File(error))?;
                Ok(None)
            }
        }
    }

    fn lost(&mut self, name: &str, offset: u64, loss: Loss) -> Result<(), ReplayError> {
        self.note(Damage { file: name.into(), offset, loss })
    }

    /// Damage ends a strict replay; a salvaging one goes on.
    fn note(&mut self, mut damage: Damage) -> Result<(), ReplayError> {
        damage.file = self.place.path(&damage.file).into();
        match self.recovery {
            WalRecovery::Strict => Err(ReplayError::Damaged(damage)),
            WalRecovery::Salvage => {
                self.found.damage.push(damage);
                Ok(())
            }
        }
    }
}

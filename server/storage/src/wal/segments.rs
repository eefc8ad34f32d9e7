//! The segments of one shard's log: the one that is written, the next one made ready ahead, those
//! that a replay needs, and the spares.
//!
//! A write into blocks that were written before costs half of one into fresh ones, so segments are
//! filled with zeros before use, and used again once a checkpoint has made them superfluous.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use crate::wal::ahead::AheadSlot;
use crate::wal::frame::{FRAME_HEADER_BYTES, FrameKey, encode_header};
use crate::wal::log::DiskLog;
use crate::wal::record::Group;
use crate::wal::segment::{Made, SegmentHeader, parse_segment_name, segment_name, spare_name};
use crate::wal::{Lsn, closing, newest};
use silverback_host::Host;
use silverback_host::disk::{Disk, DiskError, File};

/// At most so much is written at a time when a segment is filled with zeros.
const ZEROS: &[u8] = &[0; 256 << 10];

/// How long nobody tries to make the next segment ahead after an attempt that failed. Each one on a full
/// disk takes what room is left for a moment, and others want it.
const AHEAD_RETRY: Duration = Duration::from_secs(5);

/// Where a shard's segments are and what they are made as.
#[derive(Debug, Clone)]
pub struct SegmentPlace<D> {
    /// The disk.
    pub disk: D,
    /// The log's directory.
    pub dir: Rc<str>,
    /// The data directory's seed.
    pub seed: u64,
    /// Seals its frames.
    pub key: FrameKey,
    /// What is in each header, but for the number.
    pub header: SegmentHeader,
    /// A segment's size; a larger group gets a larger one.
    pub segment_bytes: u64,
}

impl<D> SegmentPlace<D> {
    /// The path of one of the log's files.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }
}

impl<D: Disk> SegmentPlace<D> {
    /// Removes a file that came to nothing. Where that fails too it stays until the next start: what
    /// matters is the first failure.
    pub(super) async fn remove_unfinished(&self, path: &str) {
        if let Err(error) = self.disk.remove(path).await {
            silverback_host::warn_limited!(%error, "an unfinished file of the write-ahead log stays until the next start");
        }
    }
}

/// A segment that a replay may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedSegment {
    /// Its number.
    pub seq: u64,
    /// The last group in it; the one before it where it has none.
    pub last: Lsn,
    /// Its size.
    pub bytes: u64,
}

/// A segment that has room after its last group, and nothing there that was begun: a log goes on in it,
/// so that a start costs no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfilled {
    /// Its number.
    pub seq: u64,
    /// Where the next group goes.
    pub at: u64,
    /// Its size.
    pub bytes: u64,
    /// The last group in it; the one before it where it has none.
    pub last: Lsn,
}

/// A file that the next segment can be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spare {
    /// Its name.
    pub name: Box<str>,
    /// Its size.
    pub bytes: u64,
}

/// The segments that are not written now. Shared with the checkpoints, which let them go.
#[derive(Debug, Default)]
pub struct SegmentSet {
    /// Oldest first; the one that is written is not among them.
    pub kept: VecDeque<SealedSegment>,
    /// To be used again.
    pub spares: Vec<Spare>,
    /// Names the next spare.
    pub next_spare: u64,
    /// The segment that is written: its number and its size; 0 before there is one.
    pub current: (u64, u64),
    /// The segment that is said to be the newest; 0: that there is none. `None`: an older version made the
    /// log, and nothing is said yet.
    pub marked: Option<u64>,
}

impl SegmentSet {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept_bytes() + self.spare_bytes() + self.current.1
    }

    /// Bytes of the segments that a checkpoint would release, however little is in them.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept.iter().map(|segment| segment.bytes).sum()
    }

    /// The numbers of those that have a segment's name, but for one that is made ahead.
    pub(crate) fn segments(&self) -> impl Iterator<Item = u64> {
        let kept = self.kept.iter().map(|segment| segment.seq);
        let spares = self.spares.iter().filter_map(|spare| parse_segment_name(&spare.name));
        kept.chain(spares).chain([self.current.0])
    }

    fn spare_bytes(&self) -> u64 {
        self.spares.iter().map(|spare| spare.bytes).sum()
    }
}

/// The segments of one log, for its committer.
#[derive(Debug)]
pub struct Segments<D: Disk, H> {
    place: SegmentPlace<D>,
    host: H,
    log: DiskLog,
    segment_set: Rc<RefCell<SegmentSet>>,
    /// Where the first group goes, instead of a new segment.
    unfilled: Option<Unfilled>,
    current: Option<Current<D::File>>,
    ahead: Rc<AheadSlot<D::File>>,
    next_seq: u64,
}

#[derive(Debug)]
struct Current<F> {
    file: F,
    seq: u64,
    /// Where the next group goes.
    at: u64,
    bytes: u64,
    last: Lsn,
}

impl<D: Disk, H: Host> Segments<D, H> {
    /// Goes on in a new segment of number `next_seq`.
    pub fn new(
        place: SegmentPlace<D>,
        host: H,
        log: DiskLog,
        segment_set: Rc<RefCell<SegmentSet>>,
        next_seq: u64,
    ) -> Self {
        let ahead = AheadSlot::new();
        Self { place, host, log, segment_set, unfilled: None, current: None, ahead, next_seq }
    }

    /// Goes on in a segment that has room first, if there is one.
    pub fn going_on_in(self, unfilled: Option<Unfilled>) -> Self {
        Self { unfilled, ..self }
    }

    /// Makes the first segment ready, so that the first commit needn't wait for it.
    pub(crate) async fn begin(&mut self) -> Result<(), DiskError> {
        let Some(unfilled) = self.unfilled else { return self.rotate(0, Lsn(0)).await };
        let Unfilled { seq, at, bytes, last } = unfilled;
        let file = self.place.disk.open_durable(&self.place.path(&segment_name(seq))).await?;
        // Its maker may have ended between giving it its name and having that on disk.
        self.place.disk.sync_dir(&self.place.dir).await?;
        self.current = Some(Current { file, seq, at, bytes, last });
        self.segment_set.borrow_mut().current = (seq, bytes);
        self.count_bytes();
        let newest = self.segment_set.borrow().segments().max().unwrap_or(seq);
        if let Err(error) = newest::mark(&self.place, &self.segment_set, newest).await {
            // It can be said when the next one is made: nothing more is written here than before.
            tracing::warn!(%error, "which segment of the write-ahead log is its newest is not noted yet");
        }
        Ok(())
    }

    /// Whether there is a segment to write to.
    pub(crate) fn has_begun(&self) -> bool {
        self.current.is_some()
    }

    /// Writes a group as one frame and syncs it. Returns the bytes that it takes. After an error the
    /// same group may be written again: it goes to the same place.
    pub(crate) async fn write(&mut self, lsn: Lsn, group: &mut Group) -> Result<u64, DiskError> {
        let block = self.place.disk.block_bytes() as u64;
        let bytes = (FRAME_HEADER_BYTES + group.bytes()).next_multiple_of(block as usize) as u64;
        if self.current.as_ref().is_none_or(|current| current.at + bytes > current.bytes) {
            self.rotate(bytes, lsn).await?;
        }
        let current = self.current.as_mut().expect("a rotation leaves a segment");
        let payload = group.parts();
        let header = encode_header(self.place.key, current.seq, lsn, &payload);
        let parts: Vec<&[u8]> = std::iter::once(header.as_slice()).chain(payload.iter().copied()).collect();
        current.file.write_durable(current.at, &parts).await?;
        current.at += bytes;
        current.last = lsn;
        Ok(bytes)
    }

    /// Has the next segment made in the background once half of this one is used.
    pub(crate) fn look_ahead(&mut self) {
        let Some(current) = &self.current else { return };
        if current.at * 2 < current.bytes {
            return;
        }
        let Some(maker) = self.ahead.begin(self.host.monotonic_us()) else { return };
        let (place, segment_set) = (self.place.clone(), Rc::clone(&self.segment_set));
        let (seq, after) = (self.next_seq, self.log.durable());
        self.host.spawn_background(move |host| async move {
            let made = make(&place, &segment_set, &host, (seq, after), 0).await;
            match made {
                Ok((file, bytes)) => maker.made(file, bytes),
                Err(error) => {
                    silverback_host::warn_limited!(%error, "the next segment of the write-ahead log can't be made yet");
                    maker.failed(host.monotonic_us() + AHEAD_RETRY.as_micros() as u64);
                }
            }
        });
    }

    /// Goes on in the next segment, which has room for a frame of `bytes`.
    async fn rotate(&mut self, bytes: u64, next: Lsn) -> Result<(), DiskError> {
        let (file, size) = self.next_segment(bytes).await?;
        let at = self.place.disk.block_bytes() as u64;
        let seq = self.next_seq;
        self.next_seq += 1;
        let last = Lsn(next.0.saturating_sub(1));
        let fresh = Current { file, seq, at, bytes: size, last };
        let full = self.current.replace(fresh);
        self.segment_set.borrow_mut().current = (seq, size);
        if let Some(full) = full {
            let kept = SealedSegment { seq: full.seq, last: full.last, bytes: full.bytes };
            self.segment_set.borrow_mut().kept.push_back(kept);
            full.file.close().await?;
        }
        self.count_bytes();
        Ok(())
    }

    fn count_bytes(&self) {
        let segment_bytes = self.segment_set.borrow().bytes();
        self.log.count(|counts| counts.segment_bytes = segment_bytes);
    }

    async fn next_segment(&mut self, bytes: u64) -> Result<(D::File, u64), DiskError> {
        match self.ahead.take().await {
            Some((file, size)) if has_room(&self.place, size, bytes) => return Ok((file, size)),
            // Written again under the same name, larger.
            Some((file, _)) => file.close().await?,
            None => {}
        }
        let named = (self.next_seq, self.log.durable());
        make(&self.place, &self.segment_set, &self.host, named, bytes).await
    }

    /// Leaves beside the log that the groups up to `last` are on disk.
    pub(crate) async fn note_closing(&self, last: Lsn) {
        if let Err(error) = closing::write(&self.place, last).await {
            tracing::warn!(%error, "that the write-ahead log ended well is not noted; all that is in it was synced");
        }
    }

    /// Closes what is open, once the next segment is made, where one is on its way.
    pub(crate) async fn close(self) {
        let made = self.ahead.take().await.map(|(file, _)| file);
        for file in self.current.map(|current| current.file).into_iter().chain(made) {
            if let Err(error) = file.close().await {
                tracing::warn!(%error, "a segment was not closed properly; all that is in it was synced");
            }
        }
    }
}

fn has_room<D: Disk>(place: &SegmentPlace<D>, size: u64, frame_bytes: u64) -> bool {
    size >= place.disk.block_bytes() as u64 + frame_bytes
}

/// Makes segment `seq` with room for a frame of `bytes`: of a spare where one is large enough. The groups
/// up to `after` are on disk.
async fn make<D: Disk, H: Host>(
    place: &SegmentPlace<D>,
    segment_set: &RefCell<SegmentSet>,
    host: &H,
    (seq, after): (u64, Lsn),
    bytes: u64,
) -> Result<(D::File, u64), DiskError> {
    let path = place.path(&format!("{}.tmp", segment_name(seq)));
    let made = match take_spare(place, segment_set, bytes) {
        Some(spare) => {
            let header = header(place, seq, Made { bytes: spare.bytes, after });
            make_of(place, segment_set, &spare, &path, &header).await.map(|file| (file, spare.bytes))
        }
        None => {
            let block = place.disk.block_bytes() as u64;
            let size = place.segment_bytes.max(block + bytes).next_multiple_of(block);
            let header = header(place, seq, Made { bytes: size, after });
            make_fresh(place, host, &path, &header, size).await.map(|file| (file, size))
        }
    };
    if made.is_err() {
        // A full disk is not to stay full of half a segment.
        place.remove_unfinished(&path).await;
    }
    let made = made?;
    newest::mark(place, segment_set, seq).await?;
    Ok(made)
}

fn header<D>(place: &SegmentPlace<D>, seq: u64, made: Made) -> SegmentHeader {
    SegmentHeader { seq, made: Some(made), ..place.header }
}

async fn make_of<D: Disk>(
    place: &SegmentPlace<D>,
    segment_set: &RefCell<SegmentSet>,
    spare: &Spare,
    path: &str,
    header: &SegmentHeader,
) -> Result<D::File, DiskError> {
    newest::unmark(place, segment_set, &spare.name).await?;
    place.disk.rename(&place.path(&spare.name), path).await?;
    // Before its header changes: a crash could leave it under the name of the segment that it was,
    // and that segment would count as damaged.
    place.disk.sync_dir(&place.dir).await?;
    let file = place.disk.open(path).await?;
    name_segment(place, file, path, header).await
}

async fn make_fresh<D: Disk, H: Host>(
    place: &SegmentPlace<D>,
    host: &H,
    path: &str,
    header: &SegmentHeader,
    size: u64,
) -> Result<D::File, DiskError> {
    let file = place.disk.create(path).await?;
    fill_with_zeros(&file, host, size).await?;
    name_segment(place, file, path, header).await
}

/// Gives a file its header, and only then its name, and opens it for what is logged.
async fn name_segment<D: Disk>(
    place: &SegmentPlace<D>,
    file: D::File,
    path: &str,
    header: &SegmentHeader,
) -> Result<D::File, DiskError> {
    file.write_at(0, &[&header.encode(place.seed)]).await?;
    file.sync_data().await?;
    file.close().await?;
    let named = place.path(&segment_name(header.seq));
    place.disk.rename(path, &named).await?;
    // The directory too: without this a crash can lose the segment's name, and all that is in it.
    place.disk.sync_dir(&place.dir).await?;
    place.disk.open_durable(&named).await
}

fn take_spare<D: Disk>(
    place: &SegmentPlace<D>,
    segment_set: &RefCell<SegmentSet>,
    bytes: u64,
) -> Option<Spare> {
    let mut segment_set = segment_set.borrow_mut();
    let fits = |spare: &Spare| is_whole(place, spare.bytes) && has_room(place, spare.bytes, bytes);
    let fitting = segment_set.spares.iter().position(fits);
    fitting.map(|at| segment_set.spares.swap_remove(at))
}

/// Whether a file has the size of a segment: one of other blocks, or a shortened one, is never used again.
fn is_whole<D: Disk>(place: &SegmentPlace<D>, size: u64) -> bool {
    size.is_multiple_of(place.disk.block_bytes() as u64)
}

async fn fill_with_zeros<F: File, H: Host>(file: &F, host: &H, size: u64) -> Result<(), DiskError> {
    let mut at = 0;
    while at < size {
        host.release_slice();
        let zeros = &ZEROS[..ZEROS.len().min((size - at) as usize)];
        file.write_at(at, &[zeros]).await?;
        host.yield_if_needed().await;
        at += zeros.len() as u64;
    }
    host.release_slice();
    file.sync_data().await
}

/// Releases the segments that no replay needs any more: the groups up to `last` are in a
/// checkpoint. As many are kept as spares as were needed since the last time, of `spare_bytes_max` together:
/// what the log needs until the next time. Others give their room back, spares of former times too.
pub(crate) async fn recycle<D: Disk>(
    place: &SegmentPlace<D>,
    segment_set: &RefCell<SegmentSet>,
    last: Lsn,
    spare_bytes_max: u64,
) -> Result<(), DiskError> {
    let mut freed = 0;
    loop {
        let front = segment_set.borrow().kept.front().copied();
        let Some(segment) = front.filter(|segment| segment.last <= last) else { break };
        let name = segment_name(segment.seq);
        newest::unmark(place, segment_set, &name).await?;
        let path = place.path(&name);
        freed += 1;
        let is_of_use = segment.bytes >= place.segment_bytes && is_whole(place, segment.bytes);
        let spare_bytes = segment_set.borrow().spare_bytes().saturating_add(segment.bytes);
        if !is_of_use || spare_bytes > spare_bytes_max || segment_set.borrow().spares.len() > freed {
            place.disk.remove(&path).await?;
            segment_set.borrow_mut().kept.pop_front();
            continue;
        }
        let number = segment_set.borrow().next_spare;
        let name = spare_name(number);
        place.disk.rename(&path, &place.path(&name)).await?;
        let mut segment_set = segment_set.borrow_mut();
        segment_set.next_spare += 1;
        segment_set.kept.pop_front();
        segment_set.spares.push(Spare { name: name.into(), bytes: segment.bytes });
    }
    while segment_set.borrow().spare_bytes() > spare_bytes_max {
        let Some(spare) = segment_set.borrow_mut().spares.pop() else { break };
        newest::unmark(place, segment_set, &spare.name).await?;
        place.disk.remove(&place.path(&spare.name)).await?;
    }
    place.disk.sync_dir(&place.dir).await
}

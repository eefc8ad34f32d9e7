//! `wal inspect`: which files the newest logs have and what is in them, frame by frame. What the
//! records are to each other is not looked at.

use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use futures::executor::block_on;

use super::counts::WalCounts;
use super::{OfflineLogs, WalCommandError};
use crate::node::table::{TextTable, size};
use silverback_host::disk::blocking::{BlockingDisk, BlockingFile};
use silverback_host::disk::{Disk, File};
use silverback_storage::wal::Lsn;
use silverback_storage::wal::frame::{FrameHeader, FrameKey};
use silverback_storage::wal::reader::{FoundFrame, FrameReader};
use silverback_storage::wal::record::{Claim, ClaimKind, ClaimsRecord, Record, RecordError, records};
use silverback_storage::wal::replay::{LogFiles, LogPlace};
use silverback_storage::wal::segment::{
    CheckpointHeader, FILE_HEADER_BYTES, HeaderError, SegmentHeader, checkpoint_name, segment_name,
    spare_name,
};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A line for each file.
    Files,
    /// Also a line for each record.
    Records,
}

/// What a file is.
#[derive(Debug, Clone, Copy)]
enum WalFileKind {
    Checkpoint(Lsn),
    Segment(u64),
}

/// What is in a file.
#[derive(Debug, Default)]
struct Contents {
    /// Its first and its last whole frame.
    frames: Option<(Lsn, Lsn)>,
    counts: WalCounts,
    /// Of its frames, without the zeros after them.
    bytes: u64,
    /// What can't be read, in words.
    faults: Vec<String>,
    records: Vec<[String; 4]>,
}

/// Lists what is in the newest logs of the data directory at `root`.
pub fn inspect(
    root: &Path,
    detail: Detail,
    now: SystemTime,
    out: &mut impl Write,
) -> Result<(), WalCommandError> {
    let logs = OfflineLogs::open(root)?;
    let shards = logs.generation.shards;
    writeln!(out, "generation {}, {shards} {}", logs.generation.number, plural(shards, "shard"))?;
    for shard in 0..shards {
        let place = logs.place(shard);
        let files = block_on(place.files())?;
        writeln!(out, "\nshard {shard}: {}", place.dir)?;
        inspect_log(root, &place, &files, detail, now, out)?;
    }
    Ok(())
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}

fn inspect_log(
    root: &Path,
    place: &LogPlace<BlockingDisk>,
    files: &LogFiles,
    detail: Detail,
    now: SystemTime,
    out: &mut impl Write,
) -> Result<(), WalCommandError> {
    let mut table =
        TextTable::new(&[&["file", "size", "groups"][..], &WalCounts::WORDS, &["bytes/sample"]].concat());
    let (mut faults, mut listings) = (Vec::new(), Vec::new());
    let segments = files.segments.iter().copied().map(WalFileKind::Segment);
    for kind in files.checkpoint.map(WalFileKind::Checkpoint).into_iter().chain(segments) {
        let (bytes, contents) = block_on(read(place, kind))?;
        table.row(kind.row(bytes, &contents));
        faults.extend(contents.faults.iter().map(|fault| format!("{}{fault}", kind.name())));
        listings.push((kind, contents.records));
    }
    for spare in files.spares.iter().map(|number| spare_name(*number)) {
        let bytes = block_on(open(place, &spare))?.1;
        table.row(
            [spare, size(bytes)]
                .into_iter()
                .chain(std::iter::repeat_n("-".to_owned(), 2 + WalCounts::WORDS.len())),
        );
    }
    table.write(out, "  ")?;
    if let Some(first) = files.checkpoint {
        let path = root.join(place.path(&checkpoint_name(first)));
        let written = path.metadata().and_then(|metadata| metadata.modified())?;
        let age = now.duration_since(written).unwrap_or_default().as_secs();
        writeln!(out, "  checkpoint written {} ago", show_age(age))?;
    }
    for fault in faults {
        writeln!(out, "  {fault}")?;
    }
    match detail {
        Detail::Files => Ok(()),
        Detail::Records => list_records(listings, out),
    }
}

fn list_records(
    listings: Vec<(WalFileKind, Vec<[String; 4]>)>,
    out: &mut impl Write,
) -> Result<(), WalCommandError> {
    for (kind, records) in listings {
        let mut table = TextTable::new(&["record", "of", kind.frames_are(), "at byte"]);
        records.into_iter().for_each(|record| table.row(record));
        writeln!(out, "\n  {}", kind.name())?;
        table.write(out, "    ")?;
    }
    Ok(())
}

/// In the two largest units that it has.
fn show_age(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h {minutes}m"),
        (days, hours, _, _) => format!("{days}d {hours}h"),
    }
}

impl WalFileKind {
    fn name(self) -> String {
        match self {
            Self::Checkpoint(first) => checkpoint_name(first),
            Self::Segment(seq) => segment_name(seq),
        }
    }

    fn number(self) -> u64 {
        match self {
            Self::Checkpoint(first) => first.0,
            Self::Segment(seq) => seq,
        }
    }

    fn frames_are(self) -> &'static str {
        match self {
            Self::Checkpoint(_) => "frame",
            Self::Segment(_) => "group",
        }
    }

    /// The size of the file's blocks, and the one that it had when it was made if it says so, out of its
    /// header.
    fn sizes(self, header: &[u8], seed: u64) -> Result<(u32, Option<u64>), HeaderError> {
        let (number, block_bytes, made) = match self {
            Self::Checkpoint(_) => {
                CheckpointHeader::decode(header, seed).map(|h| (h.first_group.0, h.block_bytes, None))?
            }
            Self::Segment(_) => {
                SegmentHeader::decode(header, seed).map(|h| (h.seq, h.block_bytes, h.made))?
            }
        };
        let is_its_own = number == self.number();
        if is_its_own { Ok((block_bytes, made.map(|made| made.bytes))) } else { Err(HeaderError::OtherKind) }
    }

    fn row(self, bytes: u64, contents: &Contents) -> Vec<String> {
        let groups = match (self, contents.frames) {
            (Self::Checkpoint(first), _) => format!("before {}", first.0),
            (Self::Segment(_), Some((first, last))) => format!("{} to {}", first.0, last.0),
            (Self::Segment(_), None) => "-".to_owned(),
        };
        let per_sample = match contents.counts.samples {
            0 => "-".to_owned(),
            samples => format!("{:.1}", contents.bytes as f64 / samples as f64),
        };
        let counts = contents.counts.numbers().map(|count| count.to_string());
        [&[self.name(), size(bytes), groups][..], &counts, &[per_sample]].concat()
    }
}

async fn open(place: &LogPlace<BlockingDisk>, name: &str) -> Result<(BlockingFile, u64), WalCommandError> {
    let file = place.disk.open(&place.path(name)).await?;
    let bytes = file.size_bytes().await?;
    Ok((file, bytes))
}

/// A file's size and what is in it.
async fn read(place: &LogPlace<BlockingDisk>, kind: WalFileKind) -> Result<(u64, Contents), WalCommandError> {
    let (file, bytes) = open(place, &kind.name()).await?;
    let (mut header, mut contents) = (Vec::new(), Contents::default());
    file.read_at(0, FILE_HEADER_BYTES, &mut header).await?;
    let block_bytes = match kind.sizes(&header, place.seed) {
        Ok((block_bytes, made)) => {
            let missing = made.unwrap_or(bytes).saturating_sub(bytes);
            if missing > 0 {
                contents.faults.push(format!(" at byte {bytes}: the last {missing} bytes are missing"));
            }
            u64::from(block_bytes)
        }
        Err(error) => {
            contents.faults.push(format!(": {error}"));
            return Ok((bytes, contents));
        }
    };
    let mut reader = FrameReader::open(file, FrameKey::new(place.seed), kind.number(), block_bytes).await?;
    loop {
        let at = reader.at();
        match reader.next().await? {
            FoundFrame::Frame(header, payload) => contents.frame(at, header, payload),
            FoundFrame::Broken(group) => {
                let fault = format!(" at byte {at}: {} {} isn't whole", kind.frames_are(), group.0);
                contents.faults.push(fault);
            }
            FoundFrame::Nothing => {}
        }
        if reader.at() == at && !reader.skip_block() {
            return Ok((bytes, contents));
        }
    }
}

impl Contents {
    fn frame(&mut self, at: u64, header: FrameHeader, payload: &[u8]) {
        let (first, _) = self.frames.unwrap_or((header.group, header.group));
        self.frames = Some((first, header.group));
        self.bytes += header.frame_bytes() as u64;
        for record in records(payload) {
            match record.and_then(|record| self.record(&record)) {
                Ok((kind, of)) => {
                    let numbers = [of, header.group.0.to_string(), at.to_string()];
                    let [of, group, at] = numbers;
                    self.records.push([kind.to_owned(), of, group, at]);
                }
                Err(error) => self.faults.push(format!(" at byte {at}: {error}")),
            }
        }
    }

    /// Counts a record in. Says what it is, and of how much.
    fn record(&mut self, record: &Record<'_>) -> Result<(&'static str, String), RecordError> {
        self.counts.add(record)?;
        Ok(match record {
            Record::Series(series) => ("series", series.count().to_string()),
            Record::Samples(samples) => ("samples", samples.count().to_string()),
            Record::StartTimestamps(starts) => ("start timestamps", starts.samples()?.to_string()),
            Record::Removed(removed) => ("removed", removed.count().to_string()),
            Record::Chunks(chunks) => ("chunks", chunks.count().to_string()),
            Record::Replaced(replaced) => ("replaced", replaced.count().to_string()),
            Record::Histograms(histograms) => ("histograms", histograms.count().to_string()),
            Record::Exemplars(exemplars) => ("exemplars", exemplars.count().to_string()),
            Record::Metadata(metadata) => ("metadata", metadata.count().to_string()),
            Record::Claims(claims) => ("claims", show_claims(claims)?),
            Record::CheckpointEnd { series, .. } => ("end", series.to_string()),
        })
    }
}

/// Each cell with its epoch, and where it came from or went to.
fn show_claims(claims: &ClaimsRecord<'_>) -> Result<String, RecordError> {
    let shown = claims.iter().map(|claim| {
        let Claim { cell, epoch, kind, other } = claim?;
        let way = match kind {
            ClaimKind::Owned => "from",
            ClaimKind::Given => "to",
        };
        Ok(format!("cell {} {way} shard {} at epoch {}", cell.0, other.0, epoch.0))
    });
    Ok(shown.collect::<Result<Vec<_>, _>>()?.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_its_two_largest_units() {
        let expect = [(5, "5s"), (65, "1m 5s"), (3725, "1h 2m"), (90_000, "1d 1h")];
        expect.into_iter().for_each(|(seconds, text)| assert_eq!(show_age(seconds), text));
    }
}

//! The files of one log, by their names and their headers.

use std::io;
use std::rc::Rc;

use crate::wal::Lsn;
use crate::wal::segment::{
    checkpoint_name, newest_name, parse_checkpoint_name, parse_newest_name, parse_segment_name,
    parse_spare_name, segment_name, spare_name,
};
use crate::wal::segments::Spare;
use silverback_host::disk::{Disk, DiskError, File};
use silverback_model::ShardId;

/// A log's directory, and what its files must say of themselves.
#[derive(Debug, Clone)]
pub struct LogPlace<D> {
    /// The disk.
    pub disk: D,
    /// The directory.
    pub dir: Rc<str>,
    /// The data directory's seed.
    pub seed: u64,
    /// The shard whose log it is.
    pub shard: ShardId,
    /// That it has said which segment is its newest is known: if it doesn't, all of its files are gone.
    pub is_marked: bool,
}

/// What a log's directory lacks, as far as the names in it show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MissingSegments {
    /// Nothing.
    #[default]
    Nothing,
    /// The segment that it calls its newest, and all that would be later.
    Newest(u64),
    /// All segments.
    All,
}

/// The files of a log, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFiles {
    /// The first group after the newest checkpoint; older ones are left over.
    pub checkpoint: Option<Lsn>,
    /// The numbers of the segments.
    pub segments: Vec<u64>,
    /// The numbers of the spares.
    pub spares: Vec<u64>,
    /// Bytes of all of them but the spares.
    pub bytes: u64,
    /// The segment that is said to be the newest; 0: that there is none. `None`: nothing is said.
    pub marked: Option<u64>,
    /// What was there and isn't.
    pub(crate) lacking: MissingSegments,
    /// What a crash left unfinished, and what a log without segments has no use for.
    pub unfinished: Vec<Box<str>>,
}

impl<D: Disk> LogPlace<D> {
    /// The path of one of its files.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// What is in the directory.
    pub async fn files(&self) -> Result<LogFiles, DiskError> {
        let mut files = LogFiles::default();
        let names = match self.disk.list(&self.dir).await {
            Ok(names) => names,
            // A log has its directory before anything else has a name.
            Err(error) if error.kind == io::ErrorKind::NotFound => {
                return Ok(LogFiles { lacking: MissingSegments::All, ..files });
            }
            Err(error) => return Err(error),
        };
        let mut marks = Vec::new();
        for name in names {
            if let Some(first) = parse_checkpoint_name(&name) {
                files.checkpoint = files.checkpoint.max(Some(first));
            } else if let Some(seq) = parse_segment_name(&name) {
                files.segments.push(seq);
            } else if let Some(number) = parse_spare_name(&name) {
                files.spares.push(number);
            } else if let Some(seq) = parse_newest_name(&name) {
                marks.push(seq);
            } else if name.ends_with(".tmp") {
                files.unfinished.push(name);
            }
        }
        files.segments.sort_unstable();
        files.spares.sort_unstable();
        files.take_marks(marks, self.is_marked);
        files.take_spares();
        let names = files.segments.iter().map(|seq| segment_name(*seq));
        for name in names.chain(files.checkpoint.map(checkpoint_name)) {
            files.bytes += self.size_of(&name).await?;
        }
        Ok(files)
    }

    /// The spares of a log, with their sizes.
    pub(crate) async fn spares(&self, files: &LogFiles) -> Result<Vec<Spare>, DiskError> {
        let mut spares = Vec::new();
        for name in files.spares.iter().map(|number| spare_name(*number)) {
            let bytes = self.size_of(&name).await?;
            spares.push(Spare { name: name.into(), bytes });
        }
        Ok(spares)
    }

    /// The size of one of its files.
    pub(crate) async fn size_of(&self, name: &str) -> Result<u64, DiskError> {
        let file = self.disk.open(&self.path(name)).await?;
        let bytes = file.size_bytes().await?;
        file.close().await?;
        Ok(bytes)
    }
}

impl LogFiles {
    fn take_marks(&mut self, mut marks: Vec<u64>, is_marked: bool) {
        marks.sort_unstable();
        self.marked = marks.pop();
        self.unfinished.extend(marks.into_iter().map(|older| newest_name(older).into()));
        self.lacking = match (self.segments.last(), self.marked) {
            (Some(last), Some(marked)) if *last < marked => MissingSegments::Newest(marked),
            (None, Some(1..)) => MissingSegments::All,
            (None, None) if is_marked => MissingSegments::All,
            (Some(_), _) | (None, Some(0) | None) => MissingSegments::Nothing,
        };
    }

    /// Where no segment says how far their numbers came, what is in spares could pass for groups of one
    /// to come.
    fn take_spares(&mut self) {
        if self.segments.is_empty() {
            let spares = std::mem::take(&mut self.spares);
            self.unfinished.extend(spares.into_iter().map(|number| spare_name(number).into()));
        }
    }
}

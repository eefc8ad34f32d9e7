//! The files of one log, by their names and their headers.

use std::rc::Rc;

use crate::disk::{Disk, DiskError, File};
use crate::model::ShardId;
use crate::wal::Lsn;
use crate::wal::segment::{
    checkpoint_name, parse_checkpoint_name, parse_segment_name, parse_spare_name, segment_name, spare_name,
};
use crate::wal::segments::Spare;

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
}

/// The files of a log, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFiles {
    /// The first group behind the newest checkpoint; older ones are left over.
    pub checkpoint: Option<Lsn>,
    /// The numbers of the segments.
    pub segments: Vec<u64>,
    /// The numbers of the spares.
    pub spares: Vec<u64>,
    /// Bytes of all of them but the spares.
    pub bytes: u64,
    /// What a crash left unfinished.
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
        for name in self.disk.list(&self.dir).await? {
            if let Some(first) = parse_checkpoint_name(&name) {
                files.checkpoint = files.checkpoint.max(Some(first));
            } else if let Some(seq) = parse_segment_name(&name) {
                files.segments.push(seq);
            } else if let Some(number) = parse_spare_name(&name) {
                files.spares.push(number);
            } else if name.ends_with(".tmp") {
                files.unfinished.push(name);
            }
        }
        files.segments.sort_unstable();
        files.spares.sort_unstable();
        let names = files.segments.iter().map(|seq| segment_name(*seq));
        for name in names.chain(files.checkpoint.map(checkpoint_name)) {
            files.bytes += self.size_of(&name).await?;
        }
        Ok(files)
    }

    /// The spares of a log, with their sizes.
    pub async fn spares(&self, files: &LogFiles) -> Result<Vec<Spare>, DiskError> {
        let mut spares = Vec::new();
        for name in files.spares.iter().map(|number| spare_name(*number)) {
            let bytes = self.size_of(&name).await?;
            spares.push(Spare { name: name.into(), bytes });
        }
        Ok(spares)
    }

    /// The size of one of its files.
    pub async fn size_of(&self, name: &str) -> Result<u64, DiskError> {
        let file = self.disk.open(&self.path(name)).await?;
        let bytes = file.size_bytes().await?;
        file.close().await?;
        Ok(bytes)
    }
}

//! Where the logs of a node's shards are: `wal/g<generation>-s<shards>/<shard>/`.
//!
//! A generation has one number of shards. A node with another number replays the former generation
//! into a new one, whose directory has its name only once every shard's checkpoint is in it: a crash
//! before that leaves the former one as it was.

use std::io;

use crate::wal::newest;
use crate::wal::segment::parse_newest_name;
use silverback_host::disk::{Disk, DiskError};

/// Holds the generations.
const ROOT: &str = "wal";

/// Logs of one number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation {
    /// Counts up from 1.
    pub number: u64,
    /// How many logs it has.
    pub shards: usize,
}

/// The generations of a data directory, as a node finds or makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The logs go on where they are.
    Same(Generation),
    /// The shards' number has changed.
    Changed {
        /// To be replayed.
        from: Generation,
        /// Where the logs go on; unfinished.
        to: Generation,
    },
}

/// Logs that were there once, and no later ones are there either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the write-ahead logs are gone: {} is missing, and with it all that was in it", .0.dir())]
pub struct LogsMissingError(pub Generation);

impl LogsMissingError {
    /// Whether logs that were `noted` are gone, with these as the newest.
    pub fn judge(noted: Option<Generation>, newest: Option<Generation>) -> Option<Self> {
        noted.filter(|_| newest < noted).map(Self)
    }
}

impl Generation {
    fn name(self) -> String {
        format!("g{}-s{}", self.number, self.shards)
    }

    fn parse(name: &str) -> Option<Self> {
        let (number, shards) = name.strip_prefix('g')?.split_once("-s")?;
        Some(Self { number: number.parse().ok()?, shards: shards.parse().ok()? })
    }

    /// Its directory.
    pub fn dir(self) -> String {
        format!("{ROOT}/{}", self.name())
    }

    /// The directory of a shard's log.
    pub fn log_dir(self, shard: usize) -> String {
        format!("{}/{shard}", self.dir())
    }

    /// The same before the generation is finished.
    pub fn unfinished_log_dir(self, shard: usize) -> String {
        format!("{}.tmp/{shard}", self.dir())
    }

    /// Whether each of its logs says which segment is its newest. Those that an older version made don't,
    /// until a node has gone on in them.
    pub async fn is_marked<D: Disk>(self, disk: &D) -> Result<bool, DiskError> {
        for shard in 0..self.shards {
            let names = match disk.list(&self.log_dir(shard)).await {
                Ok(names) => names,
                Err(error) if error.kind == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            };
            if !names.iter().any(|name| parse_newest_name(name).is_some()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn create<D: Disk>(self, disk: &D) -> Result<(), DiskError> {
        let dir = format!("{}.tmp", self.dir());
        disk.create_dir(&dir).await?;
        for shard in 0..self.shards {
            let log_dir = self.unfinished_log_dir(shard);
            disk.create_dir(&log_dir).await?;
            newest::mark_none(disk, &log_dir).await?;
        }
        disk.sync_dir(&dir).await
    }

    async fn remove<D: Disk>(self, disk: &D) -> Result<(), DiskError> {
        disk.remove_dir(&self.dir()).await
    }
}

/// The newest finished generation of a data directory; `None` where there are no logs yet.
pub async fn newest<D: Disk>(disk: &D) -> Result<Option<Generation>, DiskError> {
    let names = match disk.list(ROOT).await {
        Ok(names) => names,
        Err(error) if error.kind == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(names.iter().filter_map(|name| Generation::parse(name)).max())
}

/// Finds or makes the generation of a node with so many shards.
pub async fn prepare<D: Disk>(disk: &D, shards: usize) -> Result<Layout, DiskError> {
    disk.create_dir(ROOT).await?;
    // What is found may have been named by a process that ended before it could sync the names: a
    // crash could still take them away, with all logs in them.
    disk.sync_dir(".").await?;
    disk.sync_dir(ROOT).await?;
    let newest = newest(disk).await?;
    for name in disk.list(ROOT).await? {
        let unfinished = name.strip_suffix(".tmp").is_some_and(|name| Generation::parse(name).is_some());
        // Left over by a crash after the point where the newer one counts.
        let superfluous = Generation::parse(&name).is_some_and(|older| Some(older) < newest);
        if unfinished || superfluous {
            disk.remove_dir(&format!("{ROOT}/{name}")).await?;
        }
    }
    match newest {
        Some(same) if same.shards == shards => Ok(Layout::Same(same)),
        Some(from) => {
            let to = Generation { number: from.number + 1, shards };
            to.create(disk).await?;
            Ok(Layout::Changed { from, to })
        }
        None => {
            let first = Generation { number: 1, shards };
            first.create(disk).await?;
            finish(disk, first).await?;
            Ok(Layout::Same(first))
        }
    }
}

/// Gives a generation its name; from then on it counts.
pub(crate) async fn finish<D: Disk>(disk: &D, generation: Generation) -> Result<(), DiskError> {
    let dir = generation.dir();
    disk.rename(&format!("{dir}.tmp"), &dir).await?;
    disk.sync_dir(ROOT).await
}

/// Finishes a generation that takes a former one's place.
pub async fn replace<D: Disk>(disk: &D, from: Generation, to: Generation) -> Result<(), DiskError> {
    finish(disk, to).await?;
    from.remove(disk).await
}

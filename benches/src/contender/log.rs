//! The contender's log: the node's records in the node's frames, one synced write for all that waits
//! (`O_DSYNC`, as the node's), on tokio's own means. What is acknowledged is as durable as on the node.
//!
//! Each stripe has a group of its own behind its lock; a task takes the groups of all stripes, writes their
//! frames one after the other with a thread for blocking work, and tells whoever waits. What is appended
//! meanwhile forms the next groups. Like the node's segments its file is written over its whole length
//! before it is used. It is used again from its beginning: nothing is read back, and no checkpoint is made,
//! which spares the contender what the node pays for both.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use silverback::config::Config;
use silverback_storage::wal::AckMode;
use silverback_storage::wal::frame::{FrameKey, encode_header};
use silverback_storage::wal::record::Group;
use silverback_storage::wal::{LogError, Lsn};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;

use super::stripes::Stripes;

const FILE_NAME: &str = "contender.wal";
/// Writes begin and end at multiples of it, as the node's do.
const BLOCK_BYTES: usize = 4096;
/// How far the disk may be behind memory where writes are acknowledged from memory: the node's own.
const MEMORY_ACK_INTERVAL: Duration = Duration::from_millis(500);

/// What requests wait on.
#[derive(Debug)]
pub(super) struct Log {
    ack: AckMode,
    /// The number of the groups that are being filled.
    filling: AtomicU64,
    wanted: Notify,
    standing: watch::Sender<Standing>,
}

/// How far the log has come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// The groups up to this one are on disk.
    Durable(u64),
    /// A write or a sync failed; nothing is taken any more.
    Failed(Box<str>),
}

impl Standing {
    fn is_over(&self, number: u64) -> bool {
        match self {
            Self::Durable(upto) => *upto >= number,
            Self::Failed(_) => true,
        }
    }

    fn is_sound(&self) -> Result<(), LogError> {
        match self {
            Self::Durable(_) => Ok(()),
            Self::Failed(reason) => Err(LogError::Failed(reason.clone())),
        }
    }
}

impl Log {
    /// Makes a log in the configuration's directory, and starts on the runtime what commits these stripes.
    pub(super) fn open(
        config: &Config,
        seed: u64,
        stripes: &Arc<Stripes>,
        runtime: &Handle,
    ) -> io::Result<Arc<Self>> {
        let segment =
            Segment::create(&config.data_dir, config.wal_segment_bytes as u64, FrameKey::new(seed))?;
        let (standing, _) = watch::channel(Standing::Durable(0));
        let log = Self { ack: config.ack, filling: AtomicU64::new(1), wanted: Notify::new(), standing };
        let log = Arc::new(log);
        runtime.spawn(commit_groups(Arc::clone(&log), Arc::clone(stripes), segment));
        Ok(log)
    }

    /// Waits until all that was appended before is as durable as this log makes it.
    pub(super) async fn committed(&self) -> Result<(), LogError> {
        // What was appended lies in these groups or in earlier ones: groups are taken after the number was raised.
        let own = self.filling.load(Ordering::SeqCst);
        let mut standing = self.standing.subscribe();
        match self.ack {
            AckMode::Memory => self.is_open(),
            AckMode::Durable => {
                self.wanted.notify_one();
                let over = standing.wait_for(|standing| standing.is_over(own)).await;
                over.map_err(|_| LogError::Failed("it has ended".into()))?.is_sound()
            }
        }
    }

    /// Whether it takes anything: to be asked before something is appended.
    pub(super) fn is_open(&self) -> Result<(), LogError> {
        self.standing.borrow().is_sound()
    }

    /// A sync that failed and then succeeds says nothing about what was written before it.
    fn fail(&self, error: &impl std::fmt::Display) {
        tracing::error!(%error, "the log failed");
        self.standing.send_replace(Standing::Failed(error.to_string().into()));
    }

    /// Until there is something to commit.
    async fn wait_for_work(&self) {
        match self.ack {
            AckMode::Durable => self.wanted.notified().await,
            AckMode::Memory => tokio::time::sleep(MEMORY_ACK_INTERVAL).await,
        }
    }
}

/// Commits for as long as the runtime lives, or until the disk fails.
async fn commit_groups(log: Arc<Log>, stripes: Arc<Stripes>, mut segment: Segment) {
    let mut spare: Vec<Group> = (0..stripes.count()).map(|_| Group::default()).collect();
    loop {
        log.wait_for_work().await;
        let number = log.filling.fetch_add(1, Ordering::SeqCst);
        stripes.swap_groups(&mut spare);
        let mut groups = spare;
        let write = move || {
            let written = segment.write(Lsn(number), &mut groups);
            (segment, groups, written)
        };
        let written = match spawn_blocking(write).await {
            Ok((back, groups, written)) => {
                (segment, spare) = (back, groups);
                written
            }
            Err(error) => return log.fail(&error),
        };
        if let Err(error) = written {
            return log.fail(&error);
        }
        log.standing.send_replace(Standing::Durable(number));
    }
}

/// The file, and the place in it.
#[derive(Debug)]
struct Segment {
    file: File,
    key: FrameKey,
    bytes_max: u64,
    offset: u64,
    /// Raised when the file is begun again: old frames are then none of its own.
    number: u64,
    buffer: Vec<u8>,
}

impl Segment {
    /// Written over its whole length, so that no later write has to allocate.
    fn create(directory: &Path, bytes_max: u64, key: FrameKey) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join(FILE_NAME);
        let mut whole = File::create(&path)?;
        let zeros = vec![0; 1 << 20];
        for _ in 0..bytes_max.div_ceil(zeros.len() as u64) {
            whole.write_all(&zeros)?;
        }
        whole.sync_all()?;
        let file = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(&path)?;
        // The name, too.
        File::open(directory)?.sync_all()?;
        Ok(Self { file, key, bytes_max, offset: 0, number: 1, buffer: Vec::new() })
    }

    /// Writes what the groups hold with one write that returns once it is durable, and empties them.
    fn write(&mut self, lsn: Lsn, groups: &mut [Group]) -> io::Result<()> {
        let held = groups.iter().filter(|group| !group.is_empty());
        let bytes: usize = held.map(|group| group.bytes() + BLOCK_BYTES).sum();
        if self.offset > 0 && self.offset + bytes as u64 > self.bytes_max {
            (self.offset, self.number) = (0, self.number + 1);
        }
        self.buffer.clear();
        for group in groups.iter_mut().filter(|group| !group.is_empty()) {
            let parts = group.parts();
            self.buffer.extend_from_slice(&encode_header(self.key, self.number, lsn, &parts));
            parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
            group.clear();
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.buffer.resize(self.buffer.len().next_multiple_of(BLOCK_BYTES), 0);
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        Ok(())
    }
}

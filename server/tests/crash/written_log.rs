//! A log of many small groups in one segment, and what may become of it while no node runs.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use silverback_test_support::home::{Home, NodeProcess};

use crate::counted::Counted;
use crate::home;

/// What its node is started with.
pub(crate) const ARGUMENTS: [&str; 2] = ["--shards=1", "--wal-segment-bytes=1MiB"];
/// Where it is.
pub(crate) const GENERATION: &str = "g1-s1";
/// Its segment.
pub(crate) const SEGMENT: &str = "00000000000000000001.wal";

/// Groups in the log.
pub(crate) const GROUPS: usize = 100;

/// A log whose node was killed.
pub(crate) struct WrittenLog {
    /// Its data directory.
    pub home: Home,
    /// What is in it.
    pub counted: Counted,
    /// Its segment's path.
    pub segment: PathBuf,
    /// What each group takes.
    pub block_bytes: u64,
}

impl WrittenLog {
    /// One of [`GROUPS`] groups.
    pub(crate) fn new(name: &str) -> Self {
        Self::with_groups(name, GROUPS)
    }

    /// One of so many groups.
    pub(crate) fn with_groups(name: &str, groups: usize) -> Self {
        let (home, mut counted) = (home(name), Counted::new());
        let mut node = home.start_ready(&ARGUMENTS);
        counted.write(&mut node, groups);
        node.kill();
        let segment = home.log_dir(GENERATION, 0).join(SEGMENT);
        let header = fs::read(&segment).unwrap();
        let block_bytes = u32::from_le_bytes(header[12..16].try_into().unwrap()).into();
        Self { home, counted, segment, block_bytes }
    }

    /// Where a group begins: each has a block of its own, and the header has the first.
    pub(crate) fn group_at(&self, group: usize) -> u64 {
        group as u64 * self.block_bytes
    }

    /// Writes over what is there.
    pub(crate) fn overwrite(&self, at: u64, bytes: &[u8]) {
        OpenOptions::new().write(true).open(&self.segment).unwrap().write_all_at(bytes, at).unwrap();
    }

    /// Starts its node with an argument more.
    pub(crate) fn start_with(&self, argument: &str) -> NodeProcess {
        self.home.start_ready(&[&ARGUMENTS[..], &[argument]].concat())
    }

    /// All samples are there but those of `lost`.
    pub(crate) fn check_read(&self, node: &mut NodeProcess, lost: &[i64]) {
        let expect: Vec<i64> = (1..=GROUPS as i64).filter(|number| !lost.contains(number)).collect();
        assert_eq!(self.counted.read(node), expect);
    }
}

/// All of `parts` are in the text.
pub(crate) fn check_holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
}

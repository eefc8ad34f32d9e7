//! The directory of blocks: what is in it, under which names blocks come and go. Only for a thread that may wait for
//! the disk.
#![expect(clippy::disallowed_methods, reason = "for a thread of its own, and before executors start")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use silverback_block::{Cut, Meta, Ulid, tombstones_sum};

use super::BlockCounts;

/// Below the data directory.
const DIR: &str = "blocks";
/// After the name of one that isn't whole, as Prometheus has it.
const UNFINISHED: &str = "tmp-for-creation";
/// After the name of one that is being deleted.
const DOOMED: &str = "tmp-for-deletion";

/// Where blocks are.
#[derive(Debug, Clone)]
pub struct BlocksDir(PathBuf);

/// A block whose `meta.json` can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalBlock {
    /// Its name.
    pub ulid: Ulid,
    /// Its first sample's time, in ms.
    pub begin_ms: i64,
    /// After its last sample's, in ms.
    pub end_ms: i64,
    /// All its files.
    pub bytes: u64,
    /// Whether it has late samples alone.
    pub is_late: bool,
    /// What this node cut it from; `None`: it is somebody else's.
    pub cut: Option<Cut>,
}

/// What is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockList {
    /// Blocks by their names, which begin with the time of their making.
    pub blocks: BTreeMap<Ulid, LocalBlock>,
    /// Blocks that can't be read, with the reason. They are left alone.
    pub damaged: BTreeMap<Ulid, String>,
}

impl BlockList {
    /// Notes how much is there.
    pub(crate) fn note_in(&self, counts: &BlockCounts) {
        let bytes = self.blocks.values().map(|block| block.bytes).sum();
        counts.blocks.store(self.blocks.len() as u64, Ordering::Relaxed);
        counts.bytes.store(bytes, Ordering::Relaxed);
        counts.damaged.store(self.damaged.len() as u64, Ordering::Relaxed);
    }
}

impl BlocksDir {
    /// The one in a data directory.
    pub fn below(data_dir: &Path) -> Self {
        Self(data_dir.join(DIR))
    }

    /// Its path. It may not be there yet.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A block's path.
    pub fn block(&self, ulid: Ulid) -> PathBuf {
        self.0.join(ulid.to_string())
    }

    /// The path of one that isn't whole yet.
    pub(crate) fn unfinished(&self, ulid: Ulid) -> PathBuf {
        self.0.join(format!("{ulid}.{UNFINISHED}"))
    }

    /// Makes it, durably, where it isn't there.
    pub(crate) fn make(&self) -> io::Result<()> {
        if self.0.exists() {
            return Ok(());
        }
        fs::create_dir(&self.0)?;
        self.0.parent().map_or(Ok(()), sync)
    }

    /// What is in it now. What `before` has needs no second look: a block doesn't change.
    pub(crate) fn list(&self, before: &BlockList) -> io::Result<BlockList> {
        let mut listed = BlockList::default();
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listed),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            let Some(ulid) = name.to_str().and_then(|name| name.parse::<Ulid>().ok()) else { continue };
            if let Some(known) = before.blocks.get(&ulid) {
                listed.blocks.insert(ulid, known.clone());
                continue;
            }
            match self.look_at(ulid) {
                Ok(block) => {
                    listed.blocks.insert(ulid, block);
                }
                Err(reason) => {
                    listed.damaged.insert(ulid, reason);
                }
            }
        }
        Ok(listed)
    }

    fn look_at(&self, ulid: Ulid) -> Result<LocalBlock, String> {
        let dir = self.block(ulid);
        let meta = Meta::read(&dir).map_err(|fault| fault.to_string())?;
        let is_late = meta.is_of_out_of_order();
        let Meta { min_ms, end_ms, cut, .. } = meta;
        let bytes = bytes_of(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(LocalBlock { ulid, begin_ms: min_ms, end_ms, bytes, is_late, cut })
    }

    /// What was deleted of blocks, as one number that changes with it; 0: nothing.
    pub(crate) fn deleted_of(&self, blocks: &[Ulid]) -> io::Result<u64> {
        let mut all = 0_u64;
        for ulid in blocks {
            all = all.wrapping_add(tombstones_sum(&self.block(*ulid))?.into());
        }
        Ok(all)
    }

    /// Deletes a block: by another name first, so that nobody finds half of it.
    pub(crate) fn delete(&self, ulid: Ulid) -> io::Result<()> {
        let doomed = self.0.join(format!("{ulid}.{DOOMED}"));
        fs::rename(self.block(ulid), &doomed)?;
        sync(&self.0)?;
        fs::remove_dir_all(&doomed)?;
        sync(&self.0)
    }

    /// Removes what a node that ended left unfinished, or was deleting. Before anything is served. What can't be removed
    /// takes room and keeps nobody from starting.
    pub(crate) fn remove_leftovers(&self) {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                return tracing::warn!(%error, dir = %self.0.display(), "the blocks can't be looked at");
            }
        };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_leftover(path)) {
            match fs::remove_dir_all(&path) {
                Ok(()) => tracing::info!(path = %path.display(), "what was left of a block was removed"),
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "what was left of a block can't be removed");
                }
            }
        }
    }
}

/// Whether it is a directory that this node named so.
fn is_leftover(path: &Path) -> bool {
    let is_ours =
        path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem.parse::<Ulid>().is_ok());
    let extension = path.extension().and_then(|extension| extension.to_str());
    is_ours && matches!(extension, Some(UNFINISHED | DOOMED)) && path.is_dir()
}

fn bytes_of(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { bytes_of(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use silverback_test_support::Scratch;

    use super::*;

    const META: &str = r#"{"ulid":"x","minTime":7200000,"maxTime":7200009,"version":1,
        "silverback":{"rangeBegin":7200000,"held":[1,2]}}"#;

    fn block(dir: &BlocksDir, number: u128, meta: &str) -> Ulid {
        let ulid = Ulid::from_parts(1, number);
        fs::create_dir_all(dir.block(ulid).join("chunks")).unwrap();
        fs::write(dir.block(ulid).join("meta.json"), meta).unwrap();
        fs::write(dir.block(ulid).join("chunks/000001"), "chunks").unwrap();
        ulid
    }

    #[test]
    fn blocks_are_listed_with_what_they_are_of_and_damaged_ones_apart() {
        let scratch = Scratch::new();
        let dir = BlocksDir::below(scratch.path());
        assert_eq!(dir.list(&BlockList::default()).unwrap(), BlockList::default());
        dir.make().unwrap();
        dir.make().unwrap();
        let (whole, damaged) = (block(&dir, 1, META), block(&dir, 2, "{"));
        fs::create_dir(dir.unfinished(Ulid::from_parts(1, 3))).unwrap();
        let listed = dir.list(&BlockList::default()).unwrap();
        let found = &listed.blocks[&whole];
        assert_eq!(
            (found.begin_ms, found.end_ms, found.bytes),
            (7_200_000, 7_200_009, META.len() as u64 + 6)
        );
        assert_eq!(found.cut, Some(Cut { begin_ms: 7_200_000, held: vec![1, 2], is_so_far: false }));
        assert!(listed.damaged[&damaged].contains("meta.json"), "{listed:?}");
        let counts = BlockCounts::default();
        listed.note_in(&counts);
        let noted =
            [&counts.blocks, &counts.bytes, &counts.damaged].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(noted, [1, META.len() as u64 + 6, 1]);
        // Known ones aren't read again; those that are gone are.
        fs::write(dir.block(whole).join("meta.json"), "{").unwrap();
        assert_eq!(dir.list(&listed).unwrap(), listed);
        dir.delete(whole).unwrap();
        assert_eq!(dir.list(&listed).unwrap().blocks.len(), 0);
        assert!(dir.delete(whole).is_err());
    }

    #[test]
    fn what_is_unfinished_or_half_deleted_goes_at_a_start_and_nothing_else() {
        let scratch = Scratch::new();
        let dir = BlocksDir::below(scratch.path());
        dir.remove_leftovers();
        let whole = block(&dir, 1, META);
        let (unfinished, doomed) = (block(&dir, 2, ""), block(&dir, 3, META));
        fs::rename(dir.block(unfinished), dir.unfinished(unfinished)).unwrap();
        fs::rename(dir.block(doomed), dir.path().join(format!("{doomed}.{DOOMED}"))).unwrap();
        let others = dir.path().join(format!("mine.{UNFINISHED}"));
        fs::create_dir(&others).unwrap();
        dir.remove_leftovers();
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert!(left == 2 && dir.block(whole).exists() && others.exists());
    }
}

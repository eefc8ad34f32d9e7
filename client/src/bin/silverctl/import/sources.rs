//! What there is to import at a path.

use std::path::{Path, PathBuf};

use super::head::HeadFiles;
use crate::error::{Context, Done};
use silverback_block::Meta;

/// What a path leads to.
#[derive(Debug)]
pub(super) enum ImportSource {
    /// What a Prometheus has kept.
    Tsdb(Tsdb),
    /// A file of samples as text.
    Text(PathBuf),
}

/// Blocks and a head.
#[derive(Debug, Default)]
pub(super) struct Tsdb {
    /// The oldest first.
    pub blocks: Vec<FoundBlock>,
    /// What is in no block yet.
    pub head: Option<HeadFiles>,
}

impl Tsdb {
    /// After the newest sample that is in a block, of those that came in order: a head's samples before are in one,
    /// too.
    pub(super) fn blocks_end_ms(&self) -> i64 {
        let in_order = self.blocks.iter().filter(|block| !block.meta.is_of_out_of_order());
        in_order.map(|block| block.meta.end_ms).max().unwrap_or(i64::MIN)
    }
}

/// A block, and what it says of itself.
#[derive(Debug, Clone)]
pub(super) struct FoundBlock {
    /// Its directory.
    pub dir: PathBuf,
    /// Its `meta.json`.
    pub meta: Meta,
}

/// Looks at a path.
pub(super) fn find(path: &Path) -> Done<ImportSource> {
    let metadata = std::fs::metadata(path).context(|| format!("can't open {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(ImportSource::Text(path.to_owned()));
    }
    let mut tsdb = if is_block(path) {
        Tsdb { blocks: vec![found(path.to_owned())?], head: None }
    } else {
        // The head first: what is cut into a block meanwhile is read of both, and nothing of neither.
        let head = HeadFiles::find(path)?;
        Tsdb { blocks: blocks_in(path)?, head }
    };
    if tsdb.blocks.is_empty() && tsdb.head.is_none() {
        return Err(format!("{} isn't a block, and has no block or head in it", path.display()).into());
    }
    // A series is taken in the order of its times.
    tsdb.blocks.sort_by(|a, b| (a.meta.min_ms, &a.meta.ulid).cmp(&(b.meta.min_ms, &b.meta.ulid)));
    Ok(ImportSource::Tsdb(tsdb))
}

/// `meta.json` is written last: without it a block isn't whole.
fn is_block(dir: &Path) -> bool {
    dir.join("meta.json").is_file() && dir.join("index").is_file()
}

fn blocks_in(dir: &Path) -> Done<Vec<FoundBlock>> {
    let list = || std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect();
    let listed: std::io::Result<Vec<PathBuf>> = list();
    let paths = listed.context(|| format!("can't list {}", dir.display()))?;
    paths.into_iter().filter(|path| is_block(path)).map(found).collect()
}

fn found(dir: PathBuf) -> Done<FoundBlock> {
    let meta = Meta::read(&dir)?;
    Ok(FoundBlock { dir, meta })
}

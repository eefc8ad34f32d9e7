//! What there is to import at a path.

use std::path::{Path, PathBuf};

use super::block::Meta;
use crate::failure::{Context, Failure};

/// What a path leads to.
#[derive(Debug)]
pub enum Source {
    /// Blocks, the oldest first.
    Blocks(Vec<FoundBlock>),
    /// A file of samples as text.
    Text(PathBuf),
}

/// A block, and what it says of itself.
#[derive(Debug, Clone)]
pub struct FoundBlock {
    /// Its directory.
    pub dir: PathBuf,
    /// Its `meta.json`.
    pub meta: Meta,
}

/// Looks at a path.
pub fn find(path: &Path) -> Result<Source, Failure> {
    let metadata = std::fs::metadata(path).context(|| format!("can't open {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(Source::Text(path.to_owned()));
    }
    let mut blocks = if is_block(path) { vec![found(path.to_owned())?] } else { blocks_in(path)? };
    if blocks.is_empty() {
        return Err(format!("{} is no block, and there are none in it", path.display()).into());
    }
    // A series is taken in the order of its times.
    blocks.sort_by(|a, b| (a.meta.min_ms, &a.meta.ulid).cmp(&(b.meta.min_ms, &b.meta.ulid)));
    Ok(Source::Blocks(blocks))
}

/// `meta.json` is written last: without it a block isn't whole.
fn is_block(dir: &Path) -> bool {
    dir.join("meta.json").is_file() && dir.join("index").is_file()
}

fn blocks_in(dir: &Path) -> Result<Vec<FoundBlock>, Failure> {
    let list = || std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect();
    let listed: std::io::Result<Vec<PathBuf>> = list();
    let paths = listed.context(|| format!("can't list {}", dir.display()))?;
    paths.into_iter().filter(|path| is_block(path)).map(found).collect()
}

fn found(dir: PathBuf) -> Result<FoundBlock, Failure> {
    let meta = Meta::read(&dir)?;
    Ok(FoundBlock { dir, meta })
}

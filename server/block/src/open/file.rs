//! A file of which any piece is read, by pages of a fixed size, which the cache keeps. What the bytes mean isn't known here.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cache::{BlockCache, CacheEntry, CachePart, Key};
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::window::open_with_len;

/// Series that are read together are next to each other, some hundred bytes each, and so are their chunks.
const PAGE_BYTES: u64 = if cfg!(test) { 64 } else { 16 << 10 };

/// A file of an open block.
#[derive(Debug)]
pub(super) struct PagedFile {
    path: PathBuf,
    file: File,
    len: u64,
    number: u64,
    cache: Arc<BlockCache>,
}

impl PagedFile {
    pub(super) fn open(path: &Path, cache: &Arc<BlockCache>) -> Result<Self, BlockError> {
        let (file, len) = open_with_len(path)?;
        Ok(Self { path: path.to_owned(), file, len, number: cache.number_file(), cache: Arc::clone(cache) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// How long it was when it was opened, in bytes.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Appends exactly these bytes; `what` they are is said where the file ends before they do.
    pub(super) fn read(
        &self,
        offset: u64,
        len: usize,
        what: &'static str,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockSectionError> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len);
        let end = end.ok_or_else(|| BlockSectionError::new(offset, BlockErrorKind::EndsEarly { what }))?;
        out.reserve(len);
        let mut at = offset;
        while at < end {
            let number = at / PAGE_BYTES;
            let page = self.page(number)?;
            let begins = number * PAGE_BYTES;
            let piece = (at - begins) as usize..page.len().min((end - begins) as usize);
            at = begins + piece.end as u64;
            out.extend_from_slice(&page[piece]);
        }
        Ok(())
    }

    /// The same, fewer where the file ends.
    pub(super) fn read_at_most(
        &self,
        offset: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockSectionError> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.read(offset.min(self.len), len.min(left), "the file", out)
    }

    fn page(&self, number: u64) -> Result<Arc<[u8]>, BlockSectionError> {
        let key = Key { file: self.number, part: CachePart::Page(number) };
        if let Some(CacheEntry::Page(page)) = self.cache.get(key) {
            return Ok(page);
        }
        let offset = number * PAGE_BYTES;
        let mut bytes = vec![0; PAGE_BYTES.min(self.len - offset) as usize];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| BlockSectionError::new(offset, error))?;
        let page: Arc<[u8]> = bytes.into();
        self.cache.put(key, CacheEntry::Page(Arc::clone(&page)));
        Ok(page)
    }
}

impl Drop for PagedFile {
    fn drop(&mut self) {
        self.cache.forget(self.number);
    }
}

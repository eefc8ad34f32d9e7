//! What is in memory of the files of open blocks: pages of them, and the sampled tables of their indexes. Bounded in bytes;
//! what was used least recently goes first. All threads that read blocks share it.
//!
//! Its lock is held for a look into a map alone, never while a file is read: so two threads that miss the same page at the
//! same time both read it.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::tables::Tables;

/// What an entry takes beside its contents, in bytes: its places in the map and in the order of use, and its count of users.
const ENTRY_BYTES: usize = 128;

/// Pages and tables of open blocks.
pub struct BlockCache {
    kept: Mutex<CacheEntries>,
    /// As it was when the lock was last released.
    bytes: AtomicUsize,
    bytes_max: usize,
    files: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct CacheEntries {
    entries: LruCache<Key, CacheEntry>,
    bytes: usize,
}

/// A file that was opened with the cache, and what of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) file: u64,
    pub(super) part: CachePart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CachePart {
    /// Pages are numbered from the file's begin.
    Page(u64),
    Tables,
}

#[derive(Debug, Clone)]
pub(super) enum CacheEntry {
    Page(Arc<[u8]>),
    Tables(Arc<Tables>),
}

impl CacheEntry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES
            + match self {
                Self::Page(bytes) => bytes.len(),
                Self::Tables(tables) => tables.bytes(),
            }
    }
}

/// How much a cache has, and how often it was of use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Looks that found what they looked for.
    pub hits: u64,
    /// Looks after which a file was read.
    pub misses: u64,
    /// What is kept.
    pub bytes: usize,
}

impl BlockCache {
    /// For so many bytes, all blocks together.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            kept: Mutex::new(CacheEntries { entries: LruCache::unbounded(), bytes: 0 }),
            bytes: AtomicUsize::new(0),
            bytes_max,
            files: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    /// How it does. Waits for nobody.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// A number that no other file of the cache has.
    pub(super) fn number_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, key: Key) -> Option<CacheEntry> {
        let found = self.with(|kept| kept.entries.get(&key).cloned());
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// What all entries may take.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Keeps something that was read. False: it alone is more than may be kept.
    pub(super) fn put(&self, key: Key, entry: CacheEntry) -> bool {
        let bytes = entry.bytes();
        if bytes > self.bytes_max {
            return false;
        }
        let gone = self.with(|kept| {
            let mut gone: Vec<CacheEntry> = kept.entries.put(key, entry).into_iter().collect();
            kept.bytes += bytes;
            kept.bytes -= gone.iter().map(CacheEntry::bytes).sum::<usize>();
            while kept.bytes > self.bytes_max
                && let Some((_, oldest)) = kept.entries.pop_lru()
            {
                kept.bytes -= oldest.bytes();
                gone.push(oldest);
            }
            gone
        });
        // Freed without the lock.
        drop(gone);
        true
    }

    /// Frees what is kept of a file that is closed.
    pub(super) fn forget(&self, file: u64) {
        let gone = self.with(|kept| {
            let keys: Vec<Key> =
                kept.entries.iter().map(|(key, _)| *key).filter(|key| key.file == file).collect();
            let gone: Vec<CacheEntry> = keys.iter().filter_map(|key| kept.entries.pop(key)).collect();
            kept.bytes -= gone.iter().map(CacheEntry::bytes).sum::<usize>();
            gone
        });
        drop(gone);
    }

    fn with<T>(&self, act: impl FnOnce(&mut CacheEntries) -> T) -> T {
        // Nothing in `act` panics half-way through a change.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let done = act(&mut kept);
        self.bytes.store(kept.bytes, Ordering::Relaxed);
        done
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u64) -> Key {
        Key { file: 1, part: CachePart::Page(number) }
    }

    #[test]
    fn what_was_used_least_lately_goes_and_no_more_is_kept_than_may_be() {
        let cache = BlockCache::new(3 * (1000 + ENTRY_BYTES));
        let put = |number| assert!(cache.put(page(number), CacheEntry::Page(vec![0; 1000].into())));
        (0..3).for_each(put);
        assert!(cache.get(page(0)).is_some());
        put(3);
        let is_kept = [0, 1, 2, 3].map(|number| cache.get(page(number)).is_some());
        assert_eq!(is_kept, [true, false, true, true]);
        assert_eq!(cache.counts(), CacheCounts { hits: 4, misses: 1, bytes: 3 * (1000 + ENTRY_BYTES) });
        // In its own place a page isn't counted twice, and one that can't fit throws nothing out.
        put(3);
        assert!(!cache.put(page(9), CacheEntry::Page(vec![0; 9000].into())));
        assert_eq!(cache.counts().bytes, 3 * (1000 + ENTRY_BYTES));
        cache.forget(1);
        assert_eq!(cache.counts().bytes, 0);
    }
}

//! A disk with a write cache, in memory: what is written is durable once the cache was flushed, and
//! a power cut takes the cache away, or a part of it. Knows nothing of how it is reached.

use std::collections::BTreeMap;

/// What a disk writes whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];

/// Of the sectors that were written but not flushed, those that a power cut leaves on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survivors {
    /// None.
    None,
    /// About half of them, whatever the order that they were written in: large writes are torn, and
    /// later ones are there where earlier ones aren't.
    Half {
        /// Which half.
        seed: u64,
    },
    /// All: the cache was written just in time.
    All,
}

/// The disk.
pub(crate) struct VolatileDisk {
    stable: Vec<u8>,
    cache: BTreeMap<usize, Sector>,
    flushes: u64,
}

impl VolatileDisk {
    /// A disk of zeros, of whole sectors.
    pub(crate) fn new(bytes: usize) -> Self {
        assert!(bytes.is_multiple_of(SECTOR_BYTES));
        Self { stable: vec![0; bytes], cache: BTreeMap::new(), flushes: 0 }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.stable.len()
    }

    /// How often the cache was flushed.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes
    }

    /// What is at `offset`, as it was last written; less where the disk ends.
    pub(crate) fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let end = offset.saturating_add(bytes).min(self.stable.len());
        let begin = offset.min(end);
        let mut read = self.stable[begin..end].to_vec();
        for (&number, sector) in self.cache.range(begin / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)) {
            let at = number * SECTOR_BYTES;
            let (from, to) = (at.max(begin), (at + SECTOR_BYTES).min(end));
            read[from - begin..to - begin].copy_from_slice(&sector[from - at..to - at]);
        }
        read
    }

    /// Puts whole sectors into the cache; `false` when they aren't whole or not on the disk.
    #[must_use]
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let (sectors, rest) = bytes.as_chunks::<SECTOR_BYTES>();
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= self.stable.len());
        if !rest.is_empty() || !offset.is_multiple_of(SECTOR_BYTES) || !fits {
            return false;
        }
        let first = offset / SECTOR_BYTES;
        self.cache.extend(sectors.iter().enumerate().map(|(i, sector)| (first + i, *sector)));
        true
    }

    /// Makes all that was written durable.
    pub(crate) fn flush(&mut self) {
        self.flushes += 1;
        self.keep(|_| true);
    }

    /// Takes the power away.
    pub(crate) fn cut(&mut self, survivors: Survivors) {
        match survivors {
            Survivors::None => self.keep(|_| false),
            Survivors::Half { seed } => self.keep(|sector| coin(seed, sector as u64)),
            Survivors::All => self.keep(|_| true),
        }
    }

    fn keep(&mut self, survives: impl Fn(usize) -> bool) {
        for (number, sector) in std::mem::take(&mut self.cache) {
            if survives(number) {
                let at = number * SECTOR_BYTES;
                self.stable[at..at + SECTOR_BYTES].copy_from_slice(&sector);
            }
        }
    }
}

/// The same for the same seed and number, and even over many of them.
fn coin(seed: u64, number: u64) -> bool {
    // The finalizer of splitmix64.
    let mut x = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTORS: usize = 64;

    /// A disk of ones that are durable and of twos that aren't, after a cut.
    fn check(survivors: Survivors) -> Vec<u8> {
        let mut disk = VolatileDisk::new(SECTORS * SECTOR_BYTES);
        assert!(disk.write(0, &[1; SECTORS * SECTOR_BYTES]));
        disk.flush();
        assert!(disk.write(0, &[2; SECTORS * SECTOR_BYTES]));
        assert_eq!(disk.read(700, 1000), [2; 1000]);
        disk.cut(survivors);
        disk.read(0, usize::MAX)
    }

    #[test]
    fn a_cut_leaves_what_was_flushed_and_of_the_rest_what_survives() {
        assert!(check(Survivors::None).iter().all(|&byte| byte == 1));
        assert!(check(Survivors::All).iter().all(|&byte| byte == 2));
    }

    #[test]
    fn half_of_the_sectors_survive_each_whole_and_by_the_seed() {
        let after = check(Survivors::Half { seed: 1 });
        let kept = after.chunks(SECTOR_BYTES).filter(|sector| sector[0] == 2).count();
        assert!((SECTORS / 4..SECTORS * 3 / 4).contains(&kept), "{kept} of {SECTORS}");
        assert!(after.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|&byte| byte == sector[0])));
        assert!(after == check(Survivors::Half { seed: 1 }));
        assert!(after != check(Survivors::Half { seed: 2 }));
    }

    #[test]
    fn only_whole_sectors_on_the_disk_are_written() {
        let mut disk = VolatileDisk::new(2 * SECTOR_BYTES);
        assert!(!disk.write(0, &[1; 100]));
        assert!(!disk.write(100, &[1; SECTOR_BYTES]));
        assert!(!disk.write(SECTOR_BYTES, &[1; 2 * SECTOR_BYTES]));
        assert_eq!(disk.read(0, usize::MAX), [0; 2 * SECTOR_BYTES]);
        assert!(disk.read(5 * SECTOR_BYTES, 1).is_empty());
    }
}

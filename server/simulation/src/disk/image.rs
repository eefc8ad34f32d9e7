//! One file's content: what the process sees, what a crash is sure to leave, and what lies between.

use std::collections::BTreeMap;

use crate::random::Random;

/// What a disk writes whole at best.
pub(crate) const SECTOR: usize = 512;

/// A file's content.
#[derive(Debug, Default)]
pub(crate) struct FileImage {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Written since the last sync, with what a sector held meanwhile.
    unsynced: BTreeMap<usize, Vec<Box<[u8]>>>,
}

impl FileImage {
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn read(&self, offset: usize, len: usize) -> &[u8] {
        let end = offset.saturating_add(len).min(self.live.len());
        &self.live[offset.min(end)..end]
    }

    /// Writes whole sectors.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset.is_multiple_of(SECTOR) && bytes.len().is_multiple_of(SECTOR));
        if self.live.len() < offset + bytes.len() {
            self.live.resize(offset + bytes.len(), 0);
        }
        for (i, sector) in bytes.chunks(SECTOR).enumerate() {
            let at = offset / SECTOR + i;
            let place = &mut self.live[at * SECTOR..][..SECTOR];
            match self.unsynced.get_mut(&at) {
                Some(former) => former.push(Box::from(&*place)),
                None => drop(self.unsynced.insert(at, Vec::new())),
            }
            place.copy_from_slice(sector);
        }
    }

    pub(crate) fn sync(&mut self) {
        self.durable.resize(self.live.len(), 0);
        for at in std::mem::take(&mut self.unsynced).into_keys() {
            self.durable[at * SECTOR..][..SECTOR].copy_from_slice(&self.live[at * SECTOR..][..SECTOR]);
        }
    }

    /// A sync that failed: each sector reached the disk or didn't, and none counts as unwritten any
    /// more, so that a second sync does nothing for it. The process still sees what it wrote.
    pub(crate) fn fail_sync(&mut self, random: &mut Random) {
        self.durable.resize(self.live.len(), 0);
        for at in std::mem::take(&mut self.unsynced).into_keys() {
            if random.one_in(2) {
                self.durable[at * SECTOR..][..SECTOR].copy_from_slice(&self.live[at * SECTOR..][..SECTOR]);
            }
        }
    }

    /// The power goes: each unsynced sector is kept, lost or torn by itself, in no order.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        let grown_to = *random.pick(&[self.durable.len(), self.live.len()]);
        self.durable.resize(grown_to, 0);
        let kept_of_eight = random.below(9);
        for (at, former) in std::mem::take(&mut self.unsynced) {
            if (at + 1) * SECTOR > self.durable.len() {
                continue;
            }
            let newest = &self.live[at * SECTOR..][..SECTOR];
            let place = &mut self.durable[at * SECTOR..][..SECTOR];
            if random.one_in(32) {
                let cut = random.below(SECTOR);
                place[..cut].copy_from_slice(&newest[..cut]);
            } else if random.below(8) < kept_of_eight {
                let version = random.below(former.len() + 1);
                place.copy_from_slice(former.get(version).map_or(newest, |former| former));
            }
        }
        self.live.clone_from(&self.durable);
    }

    /// Turns one bit over, where it is on the disk.
    pub(crate) fn flip_bit(&mut self, at: usize, bit: u32) {
        for content in [&mut self.live, &mut self.durable] {
            if let Some(byte) = content.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
    }
}

#[test]
fn a_synced_write_is_never_lost_and_an_unsynced_one_can_be() {
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..500 {
        let mut file = FileImage::default();
        file.write(0, &[1; SECTOR]);
        file.sync();
        file.write(SECTOR, &[2; SECTOR]);
        file.crash(&mut Random::new(seed));
        assert_eq!(file.read(0, SECTOR), [1; SECTOR]);
        match file.read(SECTOR, SECTOR) {
            [] => lost += 1,
            sector if sector == [2; SECTOR] => kept += 1,
            sector if sector == [0; SECTOR] => lost += 1,
            _ => torn += 1,
        }
    }
    assert!(lost > 100 && kept > 100 && torn > 0, "{lost} lost, {kept} kept, {torn} torn");
}

#[test]
fn the_later_of_two_writes_can_be_kept_without_the_earlier() {
    let reordered = (0..500).any(|seed| {
        let mut file = FileImage::default();
        file.write(0, &[1; SECTOR]);
        file.write(SECTOR, &[2; SECTOR]);
        file.crash(&mut Random::new(seed));
        file.read(0, 2 * SECTOR) == [[0; SECTOR], [2; SECTOR]].concat()
    });
    assert!(reordered);
}

#[test]
fn a_sync_after_a_failed_one_lies() {
    let lied = (0..50).any(|seed| {
        let mut random = Random::new(seed);
        let mut file = FileImage::default();
        file.write(0, &[1; SECTOR]);
        file.fail_sync(&mut random);
        file.sync();
        assert_eq!(file.read(0, SECTOR), [1; SECTOR]);
        file.crash(&mut random);
        file.read(0, SECTOR) != [1; SECTOR]
    });
    assert!(lied);
}

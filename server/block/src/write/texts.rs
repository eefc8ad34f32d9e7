//! Each text and each pair of a name and a value once, by numbers in the order in which they came.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::WriteError;

/// An entry of a table, with its share of free places.
const TABLE_ENTRY_BYTES: usize = 10;

/// Texts.
#[derive(Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Texts {
    /// The number of a text, a new one where it wasn't there.
    pub fn id_of(&mut self, text: &str) -> Result<u32, WriteError> {
        let hash = self.hasher.hash_one(text.as_bytes());
        let (bytes, ends) = (&self.bytes, &self.ends);
        if let Some(id) = self.table.find(hash, |id| text_at(bytes, ends, *id) == text.as_bytes()) {
            return Ok(*id);
        }
        let end = u32::try_from(self.bytes.len() + text.len());
        let max = u64::from(u32::MAX);
        let end = end.map_err(|_large| WriteError::TooMuch { what: "the bytes of all symbols", max })?;
        let id = self.ends.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(end);
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        self.table.insert_unique(hash, id, |id| hasher.hash_one(text_at(bytes, ends, *id)));
        Ok(id)
    }

    pub fn get(&self, id: u32) -> &[u8] {
        text_at(&self.bytes, &self.ends, id)
    }

    /// All numbers, texts ascending.
    pub fn sorted(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..self.ends.len() as u32).collect();
        ids.sort_unstable_by(|left, right| self.get(*left).cmp(self.get(*right)));
        ids
    }

    /// Frees what finds a text's number.
    pub fn forget_numbers(&mut self) {
        self.table = HashTable::new();
    }

    /// With both orders of them that an index takes.
    pub fn memory_bytes(&self) -> usize {
        let of_each = size_of::<u32>() + TABLE_ENTRY_BYTES.max(2 * size_of::<u32>());
        self.bytes.capacity() + self.ends.capacity() * of_each
    }
}

fn text_at<'a>(bytes: &'a [u8], ends: &[u32], id: u32) -> &'a [u8] {
    let begin = (id as usize).checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[begin as usize..ends[id as usize] as usize]
}

/// Pairs of the numbers of a name and a value, with how many series have each.
#[derive(Debug, Default)]
pub struct Pairs {
    pairs: Vec<Pair>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub name: u32,
    pub value: u32,
    pub series: u32,
}

impl Pairs {
    /// Counts a series for a pair, and gives its number.
    pub fn count(&mut self, name: u32, value: u32) -> Result<u32, WriteError> {
        let hash = self.hasher.hash_one((name, value));
        let pairs = &mut self.pairs;
        let found = self.table.find(hash, |id| {
            let pair = pairs[*id as usize];
            (pair.name, pair.value) == (name, value)
        });
        if let Some(id) = found {
            pairs[*id as usize].series += 1;
            return Ok(*id);
        }
        let max = u64::from(u32::MAX);
        let id = u32::try_from(pairs.len());
        let id = id.map_err(|_many| WriteError::TooMuch { what: "pairs of names and values", max })?;
        pairs.push(Pair { name, value, series: 1 });
        let hasher = &self.hasher;
        self.table.insert_unique(hash, id, |id| {
            let Pair { name, value, .. } = pairs[*id as usize];
            hasher.hash_one((name, value))
        });
        Ok(id)
    }

    /// Their numbers are places.
    pub fn into_pairs(self) -> Vec<Pair> {
        self.pairs
    }

    /// With both orders of them that an index takes, and where each one's postings are filled to.
    pub fn memory_bytes(&self) -> usize {
        self.pairs.capacity() * (size_of::<Pair>() + TABLE_ENTRY_BYTES.max(3 * size_of::<u32>()))
    }
}

//! Write-ahead logs that tests write, byte by byte as Prometheus does.

use std::path::Path;

use super::block::{uvarint, varint};

/// A segment that is written.
#[derive(Debug, Default)]
pub struct Written {
    /// As it is in its file.
    pub bytes: Vec<u8>,
}

/// In bytes.
pub const PAGE: usize = 32 << 10;

impl Written {
    /// A record in as many fragments as its pages need; `bits` tell how it is compressed.
    pub fn add(&mut self, record: &[u8], bits: u8) -> &mut Self {
        let (mut rest, mut is_first) = (record, true);
        loop {
            let left = PAGE - self.bytes.len() % PAGE;
            if left < 7 {
                self.bytes.resize(self.bytes.len() + left, 0);
                continue;
            }
            let (part, after) = rest.split_at(rest.len().min(left - 7));
            let kind = match (is_first, after.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            self.bytes.push(kind | bits);
            self.bytes.extend((part.len() as u16).to_be_bytes());
            self.bytes.extend(crc32c::crc32c(part).to_be_bytes());
            self.bytes.extend(part);
            if after.is_empty() {
                return self;
            }
            (rest, is_first) = (after, false);
        }
    }

    /// A record that isn't compressed.
    pub fn plain(&mut self, record: &[u8]) -> &mut Self {
        self.add(record, 0)
    }

    /// Puts the segment into a file.
    ///
    /// # Panics
    ///
    /// Where it can't be written.
    pub fn put(&self, path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &self.bytes).unwrap();
    }
}

/// A record that names series.
pub fn series(all: &[(u64, &[(&str, &str)])]) -> Vec<u8> {
    let mut record = vec![1];
    for (reference, labels) in all {
        record.extend(reference.to_be_bytes());
        uvarint(&mut record, labels.len() as u64);
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            uvarint(&mut record, text.len() as u64);
            record.extend(text.as_bytes());
        }
    }
    record
}

/// A record of samples: series, times in ms, values.
///
/// # Panics
///
/// Where there is none.
pub fn samples(all: &[(u64, i64, f64)]) -> Vec<u8> {
    let (mut record, first) = (vec![2], all[0]);
    record.extend(first.0.to_be_bytes());
    record.extend(first.1.to_be_bytes());
    for (reference, at_ms, value) in all {
        varint(&mut record, reference.cast_signed() - first.0.cast_signed());
        varint(&mut record, at_ms - first.1);
        record.extend(value.to_bits().to_be_bytes());
    }
    record
}

/// A record of a deleted range.
pub fn tombstone(reference: u64, min_ms: i64, max_ms: i64) -> Vec<u8> {
    let mut record = vec![3];
    record.extend(reference.to_be_bytes());
    varint(&mut record, min_ms);
    varint(&mut record, max_ms);
    record
}

//! What a writer may have of memory, and which of its parts has how much of it. Whose memory it is is not known here.

/// What a writer may have in bytes, whatever it writes: more texts and series take more files that it sorts on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterMemory(usize);

/// Of buffers of files, the largest that makes writing faster.
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// What is read of a run at a time: no less, where that leaves many runs a place, ...
const READ_BYTES_MIN: usize = 4 << 10;
/// ... and no more.
const READ_BYTES_MAX: usize = 32 << 10;
/// Runs that are merged at a time, at least.
const FAN_IN_MIN: usize = 2;

impl WriterMemory {
    /// The least to work well with.
    pub const MIN: Self = Self(512 << 10);
    /// More makes no block faster.
    pub const MAX: Self = Self(8 << 20);

    /// So many bytes, within the two.
    pub fn of(bytes: usize) -> Self {
        Self(bytes.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// All of it, in bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }

    #[cfg(test)]
    pub(super) const fn tiny(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Of each file that is written or read from its begin to its end; there are four at a time.
    pub(super) fn buffer_bytes(self) -> usize {
        (self.0 / 32).min(BUFFER_BYTES_MAX)
    }

    /// Of the table of distinct texts, while series come.
    pub(super) const fn texts_bytes(self) -> usize {
        self.0 / 2
    }

    /// Of what is sorted, until it goes to disk.
    pub(super) const fn sorted_bytes(self) -> usize {
        self.0 / 8 * 3
    }

    /// Of the places of symbols.
    pub(super) const fn places_bytes(self) -> usize {
        self.0 / 8
    }

    /// What is read of each run at a time.
    pub(super) fn read_bytes(self) -> usize {
        (self.0 / 1024).clamp(READ_BYTES_MIN.min(self.0 / 64), READ_BYTES_MAX)
    }

    /// Runs that are merged at a time, whose records have so many bytes at most: a quarter is for them.
    pub(super) fn fan_in(self, record_bytes: usize) -> usize {
        (self.0 / 4 / (self.read_bytes() + record_bytes)).max(FAN_IN_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_that_are_there_at_a_time_fit() {
        for bytes in [512 << 10, 1 << 20, 3 << 20, 8 << 20] {
            let memory = WriterMemory::of(bytes);
            assert_eq!(memory.bytes(), bytes);
            let buffers = 4 * memory.buffer_bytes();
            let merging = memory.fan_in(100) * (memory.read_bytes() + 100);
            // A text has its number beside it once texts are sorted, and its symbol's once symbols are written.
            let of_texts = memory.texts_bytes() / 8;
            assert!(memory.texts_bytes() + of_texts + buffers <= bytes, "series come");
            assert!(merging + memory.sorted_bytes() + of_texts + buffers <= bytes, "series are written");
            assert!(merging + memory.places_bytes() + buffers <= bytes, "postings are written");
            assert!(memory.fan_in(100) >= 30, "few passes");
        }
        assert_eq!(
            (WriterMemory::of(0), WriterMemory::of(usize::MAX)),
            (WriterMemory::MIN, WriterMemory::MAX)
        );
    }
}

//! A column of numbers of which most follow from the one before: the same again, or one more.
//! Each run is stored as its distance from what was to follow and how often it goes on.
use super::RecordError;
use super::varint::{put_varint, take_varint, unzigzag, varint_len, zigzag};

/// Writes a column whose runs rise by `STEP`.
#[derive(Debug, Default)]
pub(super) struct RunWriter<const STEP: i64> {
    /// What goes on with the run.
    next: i64,
    run: Run,
    ended: Vec<u8>,
    /// The open run, as it stood when the column was last looked at.
    tail: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Run {
    distance: u64,
    count: u64,
}

impl<const STEP: i64> RunWriter<STEP> {
    #[inline]
    pub(super) fn push(&mut self, value: i64) {
        if value != self.next {
            self.start_run(value);
        }
        self.run.count += 1;
        self.next = value.wrapping_add(STEP);
    }

    fn start_run(&mut self, value: i64) {
        self.run.put(&mut self.ended);
        self.run = Run { distance: zigzag(value.wrapping_sub(self.next)), count: 0 };
    }

    pub(super) fn bytes(&self) -> usize {
        self.ended.len() + self.run.bytes()
    }

    /// Writes the open run out, to be read until the next push: it can still go on.
    pub(super) fn finish(&mut self) {
        self.tail.clear();
        self.run.put(&mut self.tail);
    }

    /// The column since it was finished, in two parts.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.ended, &self.tail]
    }

    pub(super) fn clear(&mut self, kept_bytes: usize) {
        (self.next, self.run) = (0, Run::default());
        self.ended.clear();
        self.ended.shrink_to(kept_bytes);
    }
}

impl Run {
    fn put(self, out: &mut Vec<u8>) {
        if self.count > 0 {
            put_varint(out, self.distance);
            put_varint(out, self.count);
        }
    }

    const fn bytes(self) -> usize {
        if self.count > 0 { varint_len(self.distance) + varint_len(self.count) } else { 0 }
    }
}

/// Reads what a [`RunWriter`] of the same step wrote.
#[derive(Debug, Clone)]
pub(super) struct RunReader<'a, const STEP: i64> {
    rest: &'a [u8],
    next: i64,
    left: u64,
}

impl<'a, const STEP: i64> RunReader<'a, STEP> {
    pub(super) const fn new(column: &'a [u8]) -> Self {
        Self { rest: column, next: 0, left: 0 }
    }

    #[inline]
    pub(super) fn take(&mut self) -> Result<i64, RecordError> {
        if self.left == 0 {
            self.take_run()?;
        }
        let value = self.next;
        self.left -= 1;
        self.next = value.wrapping_add(STEP);
        Ok(value)
    }

    fn take_run(&mut self) -> Result<(), RecordError> {
        let distance = take_varint(&mut self.rest)?;
        self.next = self.next.wrapping_add(unzigzag(distance));
        self.left = take_varint(&mut self.rest)?;
        if self.left == 0 { Err(RecordError::EmptyRun) } else { Ok(()) }
    }

    /// That the column ends here.
    pub(super) fn end(&self) -> Result<(), RecordError> {
        if self.left == 0 && self.rest.is_empty() { Ok(()) } else { Err(RecordError::TrailingBytes) }
    }
}

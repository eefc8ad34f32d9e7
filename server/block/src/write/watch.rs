//! Asks by the clock whether to go on with a block, while it is finished, and says how much was written by then.

use std::time::{Duration, Instant};

use super::BlockWriteError;

/// It is asked at once, and each time that so much has passed since.
const ASK_EVERY: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_millis(50) };
/// Between two looks at the clock: so many steps, where each takes some microseconds, ...
const STEPS: u32 = if cfg!(test) { 64 } else { 512 };
/// ... or so many bytes, where a step is a buffer.
const BYTES: u64 = 1 << 20;

pub(super) struct WriteWatch<'a> {
    go_on: &'a dyn Fn(u64) -> bool,
    /// Since the last look.
    steps: u32,
    bytes: u64,
    written_bytes: u64,
    asked: Option<Instant>,
}

impl<'a> WriteWatch<'a> {
    /// Asks whether to go on, after so many bytes.
    pub(super) fn new(go_on: &'a dyn Fn(u64) -> bool) -> Self {
        Self { go_on, steps: 0, bytes: 0, written_bytes: 0, asked: None }
    }

    /// One step more, in which about so many bytes were written.
    pub(super) fn step(&mut self, written_bytes: usize) -> Result<(), BlockWriteError> {
        self.steps += 1;
        self.bytes += written_bytes as u64;
        self.written_bytes += written_bytes as u64;
        if self.steps < STEPS && self.bytes < BYTES && self.asked.is_some() {
            return Ok(());
        }
        (self.steps, self.bytes) = (0, 0);
        if self.asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY) {
            self.asked = Some(Instant::now());
            return if (self.go_on)(self.written_bytes) { Ok(()) } else { Err(BlockWriteError::Unwanted) };
        }
        Ok(())
    }
}

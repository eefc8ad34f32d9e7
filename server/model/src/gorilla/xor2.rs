//! Prometheus' XOR2 chunk (encoding 4), written bit for bit as its appender writes it, and read.
//!
//! Knows neither series nor files.
//!
//! ```text
//! header: u16 count of samples | start byte: top bit: the first sample has a start timestamp;
//!                                            low seven: the first sample from which on each has (0: none)
//! sample 0: varint time | 64 bits value | [varint: time - start]
//! sample 1: uvarint delta | value | [start]
//! later:    0       as long after the last, and the last value
//!           10      as long after the last, then a changed value: 0 in the window | 1 in a new one
//!           110     13 bits delta of delta, value
//!           1110    20 bits, value
//!           11110   64 bits, value
//!           11111   as long after the last, a staleness marker
//!           and after each [start]
//! value:    0 the last | 10 in the window | 110 in a new one | 111 a staleness marker
//! start:    how far it is before the time of the sample *before* its own, as the change of that (varbit)
//! ```
//!
//! The last value is the last that was no staleness marker.
mod iterate;

pub use iterate::Xor2Iter;

use super::bit_writer::{BitSink, BitWriter};
use super::bits::BitRun;
use super::varbit;
use super::window::BitWindow;
use crate::limits::{CHUNK_RANGE_MS, CHUNK_SAMPLES};
use crate::{STALE_NAN_BITS, Sample};

/// The count of samples, and the byte that says which of them have start timestamps.
const HEADER_BYTES: usize = 3;

/// Of the start byte: the first sample has one.
const FIRST_HAS_START: u8 = 0x80;

/// Of the start byte: from which sample on each has one. The sample of this number has one in any case, for a later
/// one couldn't be named.
const STARTS_FROM: u8 = 0x7f;

/// What is before a changed value.
#[derive(Clone, Copy)]
struct ChangePrefix {
    in_window: BitRun,
    in_new: BitRun,
}

/// Where it is as long after the last sample as that was after the one before.
const AFTER_SAME_DELTA: ChangePrefix =
    ChangePrefix { in_window: BitRun::new(0b0, 1), in_new: BitRun::new(0b1, 1) };

/// Where it isn't, so that the value may be the last or a staleness marker.
const AFTER_OTHER_DELTA: ChangePrefix =
    ChangePrefix { in_window: BitRun::new(0b10, 2), in_new: BitRun::new(0b110, 3) };

impl ChangePrefix {
    /// How many bits more a new window takes.
    const fn cost_of_new(self) -> u32 {
        self.in_new.width + BitWindow::WIDTH - self.in_window.width
    }
}

/// An XOR2 chunk that is written, in memory of its own.
#[derive(Debug, Clone, Default)]
pub struct OpenXor2 {
    stream: BitWriter,
    count: u16,
    start_byte: u8,
    timestamp_ms: i64,
    delta_ms: u64,
    /// Of the last value that was no staleness marker.
    value_bits: u64,
    window: Option<BitWindow>,
    /// 0: unset.
    start_timestamp_ms: i64,
    /// From the start timestamp to the time of the sample before.
    start_distance_ms: i64,
}

impl OpenXor2 {
    /// How many samples it holds.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether a sample at this time, newer than the last, has to begin another chunk: this one has its samples,
    /// or the time lies in another range. Its bytes are not bounded beyond that, so that what one XOR chunk holds is one
    /// of these, though some samples take more bits here.
    pub fn is_full_for(&self, next_timestamp_ms: i64) -> bool {
        let range_of = |timestamp_ms: i64| timestamp_ms.div_euclid(CHUNK_RANGE_MS);
        self.count as usize >= CHUNK_SAMPLES || range_of(self.timestamp_ms) != range_of(next_timestamp_ms)
    }

    /// Adds a sample and since when it counts (ms since the Unix epoch; `None` or 0: not known).
    ///
    /// # Panics
    ///
    /// When it holds 65,535 samples already: its header counts no more.
    pub fn append(&mut self, sample: Sample, start_timestamp_ms: Option<i64>) {
        assert!(self.count < u16::MAX, "an XOR2 chunk's header counts 65,535 samples");
        let (value_bits, start_ms) = (sample.value.to_bits(), start_timestamp_ms.unwrap_or(0));
        if self.count == 0 {
            self.put_first(sample.timestamp_ms, value_bits, start_ms);
        } else {
            let delta_ms = sample.timestamp_ms.wrapping_sub(self.timestamp_ms) as u64;
            if self.count == 1 {
                self.stream.uvarint(delta_ms);
                self.put_value(value_bits);
            } else {
                self.put_later(delta_ms.wrapping_sub(self.delta_ms) as i64, value_bits);
            }
            self.delta_ms = delta_ms;
            self.put_start(start_ms);
        }
        self.timestamp_ms = sample.timestamp_ms;
        self.start_timestamp_ms = start_ms;
        self.count += 1;
    }

    /// The chunk's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.stream.len());
        bytes.extend(self.count.to_be_bytes());
        bytes.push(self.start_byte);
        self.stream.put_to(&mut bytes);
        bytes
    }

    fn put_first(&mut self, timestamp_ms: i64, value_bits: u64, start_ms: i64) {
        self.stream.varint(timestamp_ms);
        self.stream.bits(value_bits, 64);
        if value_bits != STALE_NAN_BITS {
            self.value_bits = value_bits;
        }
        if start_ms != 0 {
            self.start_byte = FIRST_HAS_START;
            self.stream.varint(timestamp_ms.wrapping_sub(start_ms));
        }
    }

    fn put_later(&mut self, dod_ms: i64, value_bits: u64) {
        match dod_ms {
            0 if value_bits == STALE_NAN_BITS => return self.stream.bits(0b11111, 5),
            0 if value_bits == self.value_bits => return self.stream.bits(0b0, 1),
            0 => {
                self.stream.bits(0b10, 2);
                return self.put_changed(value_bits, AFTER_SAME_DELTA);
            }
            -4096..=4095 => self.stream.push(BitRun::new(0b110, 3).then(dod_ms as u64, 13)),
            -524_288..=524_287 => self.stream.push(BitRun::new(0b1110, 4).then(dod_ms as u64, 20)),
            _wide => {
                self.stream.bits(0b11110, 5);
                self.stream.bits(dod_ms as u64, 64);
            }
        }
        self.put_value(value_bits);
    }

    fn put_value(&mut self, value_bits: u64) {
        if value_bits == STALE_NAN_BITS {
            self.stream.bits(0b111, 3);
        } else if value_bits == self.value_bits {
            self.stream.bits(0b0, 1);
        } else {
            self.put_changed(value_bits, AFTER_OTHER_DELTA);
        }
    }

    fn put_changed(&mut self, value_bits: u64, prefix: ChangePrefix) {
        let changed = value_bits ^ self.value_bits;
        self.value_bits = value_bits;
        let window = match self.window_for(changed, prefix.cost_of_new()) {
            (window, true) => {
                self.stream.push(prefix.in_window);
                window
            }
            (window, false) => {
                self.stream.push(prefix.in_new);
                self.stream.push(window.run());
                self.window = Some(window);
                window
            }
        };
        self.stream.bits(changed >> window.trailing, window.significant());
    }

    /// The window for these bits, and whether it is the one there is. That one is used again unless it wastes more
    /// than a new one costs; a new one keeps the former's bits, too, where that wastes no more than half of it: the
    /// next value may have them.
    fn window_for(&self, changed: u64, cost_of_new: u32) -> (BitWindow, bool) {
        let own = BitWindow::of(changed);
        let Some(had) = self.window else { return (own, false) };
        if own.lies_in(had) {
            let is_worth_it = had.significant() <= own.significant() + cost_of_new;
            return if is_worth_it { (had, true) } else { (own, false) };
        }
        let both = own.with(had);
        let is_worth_it = both.significant() <= own.significant() + cost_of_new / 2;
        (if is_worth_it { both } else { own }, false)
    }

    fn put_start(&mut self, start_ms: i64) {
        if self.start_byte & STARTS_FROM == 0 {
            if start_ms == self.start_timestamp_ms && self.count != u16::from(STARTS_FROM) {
                return;
            }
            self.start_byte |= self.count as u8;
        }
        let distance_ms = self.timestamp_ms.wrapping_sub(start_ms);
        varbit::put_int(&mut self.stream, distance_ms.wrapping_sub(self.start_distance_ms));
        self.start_distance_ms = distance_ms;
    }
}

#[cfg(test)]
mod tests;

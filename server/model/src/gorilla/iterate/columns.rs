//! Reading a whole XOR chunk into columns, for code that computes with its samples: a sample a turn, without a look at
//! what is left of the bytes for each of its bits. Where anything is unusual the iterator reads on, and it alone finds
//! errors.
use super::{BitWindow, ChunkError, XorIter, XorPiece};
use crate::gorilla::bits::BitReader;

/// The widest sample: a delta's 4 + 64 bits, a value's 2 + 11 + 64, and the 64 that are looked at after it.
const SAMPLE_BYTES_MAX: usize = 28;
/// Bits of the narrowest.
const SAMPLE_BITS_MIN: usize = 2;

/// Adds the samples of an XOR chunk's bytes that are after one time and not after another to columns, in the order
/// written, until one is later.
pub fn read_columns(
    chunk: &[u8],
    after_ms: i64,
    until_ms: i64,
    times: &mut Vec<i64>,
    values: &mut Vec<f64>,
) -> Result<(), ChunkError> {
    let mut samples = XorIter::new(chunk);
    let mut columns = Columns { after_ms, until_ms, times, values };
    for _ in 0..2 {
        let Some(sample) = samples.next() else { return Ok(()) };
        let sample = sample?;
        if !columns.take(sample.timestamp_ms, sample.value) {
            return Ok(());
        }
    }
    if !samples.read_far(XorPiece::whole(chunk).stream, &mut columns) {
        return Ok(());
    }
    for sample in samples {
        let sample = sample?;
        if !columns.take(sample.timestamp_ms, sample.value) {
            break;
        }
    }
    Ok(())
}

/// Where samples go.
struct Columns<'a> {
    after_ms: i64,
    until_ms: i64,
    times: &'a mut Vec<i64>,
    values: &'a mut Vec<f64>,
}

impl Columns<'_> {
    /// `false`: it is later than what is wanted.
    fn take(&mut self, at_ms: i64, value: f64) -> bool {
        if at_ms > self.until_ms {
            return false;
        }
        if at_ms > self.after_ms {
            self.times.push(at_ms);
            self.values.push(value);
        }
        true
    }
}

impl<'a> XorIter<'a> {
    /// Reads samples as long as they are whole and sound. `false`: one is later than what is wanted.
    fn read_far(&mut self, stream: &'a [u8], columns: &mut Columns<'_>) -> bool {
        let end = 8 * stream.len();
        let first = end - self.reader.bits_left();
        let mut turns = Turns { at: first, end, goes_on: true };
        if let Some(last) = stream.len().checked_sub(SAMPLE_BYTES_MAX) {
            turns.run(self, stream, 8 * last, columns);
        }
        if turns.goes_on && turns.at < end {
            // What is left, with zeros after it.
            let base = turns.at / 8;
            let rest = &stream[base..];
            let mut padded = [0; 2 * SAMPLE_BYTES_MAX];
            // It is more only before an invalid window, which is left to the iterator.
            if rest.len() <= SAMPLE_BYTES_MAX
                && let Some(head) = padded.get_mut(..rest.len())
            {
                head.copy_from_slice(rest);
                let mut of_rest = Turns { at: turns.at - 8 * base, end: 8 * rest.len(), goes_on: true };
                of_rest.run(self, &padded, 8 * rest.len(), columns);
                turns.at = 8 * base + of_rest.at;
                turns.goes_on = of_rest.goes_on;
            }
        }
        self.reader = BitReader::resumed(stream, turns.at);
        turns.goes_on
    }
}

/// Samples in turn, from one place in a stream on.
struct Turns {
    /// In bits.
    at: usize,
    /// Where the stream ends, in bits.
    end: usize,
    goes_on: bool,
}

impl Turns {
    /// Reads the samples that begin up to `last`, after which there are bytes for the widest of them.
    fn run(&mut self, samples: &mut XorIter<'_>, bytes: &[u8], last: usize, columns: &mut Columns<'_>) {
        let (before, room) = (columns.times.len(), self.samples_max(samples));
        columns.times.resize(before + room, 0);
        columns.values.resize(before + room, 0.0);
        let (times, values) = (&mut columns.times[before..], &mut columns.values[before..]);
        let (mut at, mut taken, mut left) = (self.at, 0, room);
        let XorIter { mut timestamp_ms, mut delta_ms, mut value_bits, mut window, .. } = *samples;
        while left > 0 && at <= last {
            let (delta_of_delta, behind, word) = delta_of_delta(bytes, at);
            let Some((changed, behind, next_window)) = changed(bytes, behind, word, window) else { break };
            if behind > self.end {
                break;
            }
            delta_ms = delta_ms.wrapping_add_signed(delta_of_delta);
            timestamp_ms = timestamp_ms.wrapping_add_unsigned(delta_ms);
            (value_bits, window, at) = (value_bits ^ changed, next_window, behind);
            left -= 1;
            if timestamp_ms > columns.until_ms {
                self.goes_on = false;
                break;
            }
            if let (Some(time), Some(value)) = (times.get_mut(taken), values.get_mut(taken)) {
                (*time, *value) = (timestamp_ms, f64::from_bits(value_bits));
            }
            taken += usize::from(timestamp_ms > columns.after_ms);
        }
        columns.times.truncate(before + taken);
        columns.values.truncate(before + taken);
        samples.samples_left -= (room - left) as u16;
        (samples.timestamp_ms, samples.delta_ms) = (timestamp_ms, delta_ms);
        (samples.value_bits, samples.window) = (value_bits, window);
        self.at = at;
    }

    /// Those that the header counts, or the bits have room for.
    fn samples_max(&self, samples: &XorIter<'_>) -> usize {
        usize::from(samples.samples_left).min((self.end - self.at) / SAMPLE_BITS_MIN)
    }
}

/// The 64 bits from a place on; zeros where there are none.
#[inline(always)]
fn peek(bytes: &[u8], at: usize) -> u64 {
    let (byte, bit) = (at / 8, at % 8);
    let Some([head @ .., last]) = bytes.get(byte..).and_then(|rest| rest.first_chunk::<9>()) else {
        return 0;
    };
    u64::from_be_bytes(*head) << bit | (u64::from(*last) << bit) >> 8
}

/// A delta's change, what is after it, and the bits from there on: 40 at least.
#[inline(always)]
fn delta_of_delta(bytes: &[u8], at: usize) -> (i64, usize, u64) {
    let word = peek(bytes, at);
    if word >> 63 == 0 {
        return (0, at + 1, word << 1);
    }
    let (width, prefix) = match word.leading_ones() {
        1 => (14, 2),
        2 => (17, 3),
        3 => (20, 4),
        _four_or_more => {
            let wide = peek(bytes, at + 4);
            return (wide as i64, at + 68, peek(bytes, at + 68));
        }
    };
    let bits = (word << prefix >> (64 - width)) as i64;
    // The pattern of the middle alone is the positive 2^(width-1).
    let change = if bits > 1 << (width - 1) { bits - (1 << width) } else { bits };
    (change, at + prefix + width, word << (prefix + width))
}

/// What changed of a value, what is after it, and the window that it was in. `word`: the bits from there on. `None`: a
/// window that isn't valid.
#[inline(always)]
fn changed(bytes: &[u8], at: usize, word: u64, window: BitWindow) -> Option<(u64, usize, BitWindow)> {
    if word >> 63 == 0 {
        return Some((0, at + 1, window));
    }
    let (window, at) = match word >> 62 {
        0b10 => (window, at + 2),
        _new => {
            let told = (word << 2 >> (64 - BitWindow::WIDTH)) as u32;
            (BitWindow::of_told(told)?, at + 2 + BitWindow::WIDTH as usize)
        }
    };
    let significant = window.significant();
    Some((peek(bytes, at) >> (64 - significant) << window.trailing, at + significant as usize, window))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Sample;
    use crate::gorilla::reference::encode;

    type Read = (Vec<(i64, u64)>, Result<(), ChunkError>);

    fn one_by_one(chunk: &[u8], after_ms: i64, until_ms: i64) -> Read {
        let mut read = Vec::new();
        for sample in XorIter::new(chunk) {
            match sample {
                Err(error) => return (read, Err(error)),
                Ok(sample) if sample.timestamp_ms > until_ms => break,
                Ok(sample) if sample.timestamp_ms > after_ms => {
                    read.push((sample.timestamp_ms, sample.value.to_bits()));
                }
                Ok(_early) => {}
            }
        }
        (read, Ok(()))
    }

    fn in_columns(chunk: &[u8], after_ms: i64, until_ms: i64) -> Read {
        // What is there stays.
        let (mut times, mut values) = (vec![-7], vec![-7.0]);
        let result = read_columns(chunk, after_ms, until_ms, &mut times, &mut values);
        assert_eq!((times[0], values[0], times.len()), (-7, -7.0, values.len()));
        let values = values.iter().map(|value| value.to_bits());
        (times.into_iter().zip(values).skip(1).collect(), result)
    }

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            (0..1000).prop_map(f64::from),
            any::<f64>(),
            Just(1.0),
            any::<u64>().prop_map(f64::from_bits)
        ]
    }

    fn delta() -> impl Strategy<Value = i64> {
        prop_oneof![4 => Just(15_000), 2 => 14_990_i64..15_010, 1 => 0_i64..1 << 20, 1 => 0_i64..1 << 40]
    }

    proptest! {
        #[test]
        fn columns_have_what_the_iterator_gives(
            first in -1_000_000_i64..1_000_000,
            steps in prop::collection::vec((delta(), value()), 0..150),
            (after, until) in (0_usize..160, 0_usize..160),
            cut in 0_usize..40,
        ) {
            let samples: Vec<Sample> = steps
                .iter()
                .scan(first, |at_ms, (delta, value)| {
                    *at_ms += delta;
                    Some(Sample::new(*at_ms, *value))
                })
                .collect();
            let at = |place: usize, else_ms| samples.get(place).map_or(else_ms, |sample| sample.timestamp_ms);
            let (after_ms, until_ms) = (at(after, i64::MIN), at(until, i64::MAX));
            let chunk = encode(&samples);
            prop_assert_eq!(in_columns(&chunk, after_ms, until_ms), one_by_one(&chunk, after_ms, until_ms));
            let part = &chunk[..chunk.len().saturating_sub(cut)];
            prop_assert_eq!(in_columns(part, after_ms, until_ms), one_by_one(part, after_ms, until_ms));
        }

        #[test]
        fn hostile_bytes_are_read_as_the_iterator_reads_them(
            count in prop_oneof![any::<u16>(), 0_u16..300],
            stream in prop::collection::vec(any::<u8>(), 0..400),
            after_ms in any::<i64>(),
            until_ms in any::<i64>(),
        ) {
            let chunk = [count.to_be_bytes().as_slice(), &stream].concat();
            prop_assert_eq!(in_columns(&chunk, after_ms, until_ms), one_by_one(&chunk, after_ms, until_ms));
            prop_assert_eq!(in_columns(&chunk, i64::MIN, i64::MAX), one_by_one(&chunk, i64::MIN, i64::MAX));
        }
    }
}

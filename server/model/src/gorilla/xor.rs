//! Writing an XOR chunk: the state of an open one, which is all of it but its full words.
//!
//! Where the words are is the caller's affair ([`WordSink`]): the state shares one cache line with
//! its series' id, so an append touches that line and, once in a few samples, one word elsewhere.
use super::bits::{BitReader, BitRun, PendingWord, WordSink};
use super::iterate::XorPiece;
use super::sealed::SealedChunk;
use crate::Sample;
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_RANGE_MS, CHUNK_SAMPLES};

/// The count of samples in front of the bit stream.
const HEADER_BYTES: usize = 2;

/// A delta of delta at its widest, then a value with a new window and every bit significant.
const SAMPLE_BITS_MAX: usize = (4 + 64) + (2 + 5 + 6 + 64);

/// A chunk that has outgrown this might not have room for one more sample.
const FULL_BYTES: usize = CHUNK_BYTES_MAX - SAMPLE_BITS_MAX.div_ceil(8);

/// More leading zeros than this aren't counted: the format has five bits for them.
const LEADING_MAX: u32 = 31;

/// No value has this many leading zeros, so the first change of a chunk opens a window.
const NO_WINDOW: u8 = 0xff;

/// The state of an open XOR chunk: everything but its full words, which went to the sink.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenXor {
    last_timestamp_ms: i64,
    last_value_bits: u64,
    pending_bits: u64,
    delta_ms: u32,
    /// Time from the last sample to the next range, where no sample of this chunk may be.
    range_left_ms: u32,
    count: u16,
    words: u16,
    pending_len: u8,
    leading: u8,
    trailing: u8,
}
const _: () = assert!(size_of::<OpenXor>() <= 40, "64 bytes less a series id and two references");
const _: () = assert!(CHUNK_RANGE_MS < 1 << 32 && CHUNK_SAMPLES <= u16::MAX as usize);

impl OpenXor {
    /// Of a series that has no sample yet: any is of another chunk.
    pub const EMPTY: Self = Self {
        last_timestamp_ms: i64::MIN,
        last_value_bits: 0,
        pending_bits: 0,
        delta_ms: 0,
        range_left_ms: 0,
        count: 0,
        words: 0,
        pending_len: 0,
        leading: NO_WINDOW,
        trailing: 0,
    };

    /// A chunk of one sample.
    pub fn start(first: Sample, sink: &mut impl WordSink) -> Self {
        let into_range_ms = first.timestamp_ms.rem_euclid(CHUNK_RANGE_MS);
        let mut chunk = Self {
            last_timestamp_ms: first.timestamp_ms,
            last_value_bits: first.value.to_bits(),
            pending_bits: 0,
            delta_ms: 0,
            range_left_ms: (CHUNK_RANGE_MS - into_range_ms) as u32,
            count: 1,
            words: 0,
            pending_len: 0,
            leading: NO_WINDOW,
            trailing: 0,
        };
        chunk.write_first_timestamp(first.timestamp_ms, sink);
        chunk.write(BitRun::new(first.value.to_bits(), 64), sink);
        chunk
    }

    /// Adds a sample, newer than the last and of the same range; see [`Self::is_full_for`].
    #[inline]
    pub fn append(&mut self, sample: Sample, sink: &mut impl WordSink) {
        debug_assert!(sample.timestamp_ms > self.last_timestamp_ms, "out of order");
        debug_assert!(!self.is_in_another_range(sample.timestamp_ms), "belongs into another chunk");
        let delta_ms = sample.timestamp_ms.wrapping_sub(self.last_timestamp_ms) as u32;
        let timestamp = if self.count == 1 {
            BitRun::uvarint(delta_ms)
        } else {
            self.delta_of_delta(i64::from(delta_ms) - i64::from(self.delta_ms), sink)
        };
        self.write_with_value(timestamp, sample.value.to_bits(), sink);
        self.last_timestamp_ms = sample.timestamp_ms;
        self.range_left_ms = self.range_left_ms.wrapping_sub(delta_ms);
        self.delta_ms = delta_ms;
        self.count += 1;
    }

    /// How many samples it holds.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// How many words went to the sink.
    pub const fn words(&self) -> usize {
        self.words as usize
    }

    /// The newest sample.
    pub const fn last(&self) -> Sample {
        Sample::new(self.last_timestamp_ms, f64::from_bits(self.last_value_bits))
    }

    /// How long the chunk is as bytes.
    pub(crate) const fn bytes(&self) -> usize {
        HEADER_BYTES + 8 * self.words as usize + (self.pending_len as usize).div_ceil(8)
    }

    /// Whether a sample at this time, newer than the last, has to begin another chunk: this one has
    /// its samples, or might outgrow its bytes, or the time lies in another range.
    #[inline]
    pub const fn is_full_for(&self, next_timestamp_ms: i64) -> bool {
        self.is_full_at(next_timestamp_ms, CHUNK_SAMPLES)
    }

    /// The same of a chunk that has its samples with `samples_max` of them.
    #[inline]
    pub const fn is_full_at(&self, next_timestamp_ms: i64, samples_max: usize) -> bool {
        self.is_in_another_range(next_timestamp_ms)
            || self.count as usize >= samples_max
            || self.bytes() > FULL_BYTES
    }

    /// The chunk's bytes as Prometheus writes them. `words` are those that went to the sink, in order.
    pub fn to_bytes(&self, words: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        self.put_bytes(words, &mut bytes);
        bytes
    }

    /// Appends these bytes.
    pub fn put_bytes(&self, words: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend(self.count.to_be_bytes());
        for word in words.take(self.words()) {
            out.extend(word.to_be_bytes());
        }
        let pending_bytes = usize::from(self.pending_len).div_ceil(8);
        out.extend(&self.pending_bits.to_be_bytes()[..pending_bytes]);
        assert_eq!(out.len() - begin, self.bytes(), "the sink gave back fewer words than it got");
    }

    /// A piece of the chunk's stream that begins with its word number `from`, counted from 0; `words` are those that went to
    /// the sink from there on. It has as much as `bytes` has room for, in whole words.
    pub fn piece<'a>(
        &self,
        from: usize,
        words: impl Iterator<Item = u64>,
        bytes: &'a mut [u8],
    ) -> XorPiece<'a> {
        let left = self.words().saturating_sub(from);
        let pending = (usize::from(self.pending_len).div_ceil(8), self.pending_bits);
        let whole = words.take(left).map(|word| (size_of::<u64>(), word));
        let mut len = 0;
        for (room, (used, word)) in bytes.chunks_exact_mut(8).zip(whole.chain([pending])) {
            room.copy_from_slice(&word.to_be_bytes());
            len += used;
        }
        XorPiece { samples: self.count, first_bit: (64 * from) as u32, stream: &bytes[..len] }
    }

    /// The oldest sample's timestamp, which is first. `words` are those that went to the sink, in
    /// order.
    pub fn first_timestamp_ms(&self, words: impl Iterator<Item = u64>) -> i64 {
        /// A varint has ten bytes at most.
        const WORDS_MAX: usize = 2;

        let mut first = [0; 8 * WORDS_MAX];
        let all = words.take(self.words()).chain(std::iter::once(self.pending_bits));
        for (bytes, word) in first.chunks_exact_mut(8).zip(all) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        BitReader::new(&first).varint().expect("a chunk begins with its first sample")
    }

    /// Ends the chunk. `words` are those that went to the sink, in order.
    pub fn seal(self, words: impl Iterator<Item = u64>) -> SealedChunk {
        SealedChunk::from_appender(self.to_bytes(words).into_boxed_slice(), self.last_timestamp_ms)
    }

    #[inline]
    const fn is_in_another_range(&self, next_timestamp_ms: i64) -> bool {
        let since_last_ms = next_timestamp_ms.wrapping_sub(self.last_timestamp_ms) as u64;
        since_last_ms >= self.range_left_ms as u64
    }

    fn write_first_timestamp(&mut self, timestamp_ms: i64, sink: &mut impl WordSink) {
        let mut zigzag = (timestamp_ms << 1 ^ timestamp_ms >> 63) as u64;
        while zigzag >= 0x80 {
            self.write(BitRun::new(zigzag & 0x7f | 0x80, 8), sink);
            zigzag >>= 7;
        }
        self.write(BitRun::new(zigzag, 8), sink);
    }

    /// The bits of a delta of delta, or of a wide one the end, the rest being written.
    #[inline(always)]
    fn delta_of_delta(&mut self, dod_ms: i64, sink: &mut impl WordSink) -> BitRun {
        match dod_ms {
            0 => BitRun::new(0b0, 1),
            -8191..=8192 => BitRun::new(0b10, 2).then(dod_ms as u64, 14),
            -65_535..=65_536 => BitRun::new(0b110, 3).then(dod_ms as u64, 17),
            -524_287..=524_288 => BitRun::new(0b1110, 4).then(dod_ms as u64, 20),
            _wide => {
                self.write(BitRun::new(0b1111, 4).then(dod_ms as u64 >> 32, 32), sink);
                BitRun::new(dod_ms as u64 & u64::from(u32::MAX), 32)
            }
        }
    }

    /// Writes the timestamp's last bits and after them the value: in one piece where it fits, for
    /// each piece costs a branch that the processor cannot foresee.
    #[inline(always)]
    fn write_with_value(&mut self, timestamp: BitRun, value_bits: u64, sink: &mut impl WordSink) {
        let changed_bits = value_bits ^ self.last_value_bits;
        if changed_bits == 0 {
            return self.write(timestamp.then(0b0, 1), sink);
        }
        self.last_value_bits = value_bits;
        let leading = changed_bits.leading_zeros().min(LEADING_MAX);
        let trailing = changed_bits.trailing_zeros();
        let head = if leading >= u32::from(self.leading) && trailing >= u32::from(self.trailing) {
            timestamp.then(0b10, 2)
        } else {
            self.leading = leading as u8;
            self.trailing = trailing as u8;
            // 64 significant bits become the six bits' 0: none at all is the case above.
            let window = u64::from(leading << 6 | (64 - leading - trailing) & 63);
            timestamp.then(0b11, 2).then(window, 5 + 6)
        };
        let significant_width = 64 - u32::from(self.leading) - u32::from(self.trailing);
        let significant = BitRun::new(changed_bits >> self.trailing, significant_width);
        if head.width + significant.width <= 64 {
            self.write(head.then(significant.bits, significant.width), sink);
        } else {
            self.write(head, sink);
            self.write(significant, sink);
        }
    }

    #[inline(always)]
    fn write(&mut self, run: BitRun, sink: &mut impl WordSink) {
        let mut pending = PendingWord { bits: self.pending_bits, len: self.pending_len };
        if let Some(word) = pending.push(run) {
            sink.push_word(word);
            self.words += 1;
        }
        self.pending_bits = pending.bits;
        self.pending_len = pending.len;
    }
}

#[cfg(test)]
mod tests;

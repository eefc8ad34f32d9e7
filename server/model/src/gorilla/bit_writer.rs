//! A bit stream that is written to memory of its own.
use super::bits::{BitReader, BitRun, PendingWord};
use super::prefetch;

/// The bytes of a bit stream that are whole words, and the bits that aren't one yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    pending: PendingWord,
}

/// What bits are written to.
pub(crate) trait BitSink {
    /// The next bits.
    fn push(&mut self, run: BitRun);

    /// The low `width` (1 to 64) bits.
    #[inline(always)]
    fn bits(&mut self, bits: u64, width: u32) {
        self.push(BitRun::new(bits & (u64::MAX >> (64 - width)), width));
    }
}

/// A writer for many numbers in a row: what isn't a whole word yet stays in registers.
pub(crate) struct ManyBits<'a> {
    bytes: &'a mut Vec<u8>,
    pending: PendingWord,
}

impl BitSink for BitWriter {
    #[inline(always)]
    fn push(&mut self, run: BitRun) {
        if let Some(word) = self.pending.push(run) {
            self.bytes.extend_from_slice(&word.to_be_bytes());
        }
    }
}

impl BitSink for ManyBits<'_> {
    #[inline(always)]
    fn push(&mut self, run: BitRun) {
        if let Some(word) = self.pending.push(run) {
            self.bytes.extend_from_slice(&word.to_be_bytes());
        }
    }
}

impl BitWriter {
    /// Lets `put` write.
    #[inline(always)]
    pub(crate) fn many(&mut self, put: impl FnOnce(&mut ManyBits<'_>)) {
        let mut many = ManyBits { bytes: &mut self.bytes, pending: self.pending };
        put(&mut many);
        self.pending = many.pending;
    }

    /// Goes on with a stream of which `bits` are written.
    pub(crate) fn resume(stream: &[u8], bits: usize) -> Self {
        let whole = bits / 64 * 8;
        let mut writer = Self { bytes: stream[..whole].to_vec(), pending: PendingWord::default() };
        let left = (bits % 64) as u32;
        if left > 0 {
            let last = BitReader::new(&stream[whole..]).bits(left).expect("the stream has so many bits");
            writer.push(BitRun::new(last, left));
        }
        writer
    }

    /// A varint: seven bits a byte, the lowest first.
    pub(crate) fn uvarint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bits(value & 0x7f | 0x80, 8);
            value >>= 7;
        }
        self.bits(value, 8);
    }

    /// A varint whose lowest bit is the sign.
    pub(crate) fn varint(&mut self, value: i64) {
        self.uvarint((value << 1 ^ value >> 63) as u64);
    }

    /// Brings the place of the next bits towards the core.
    pub(crate) fn prefetch_end(&self) {
        self.bytes.last().into_iter().for_each(prefetch);
    }

    /// How long the stream is in bytes, the last one filled up.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.pending_bytes()
    }

    pub(crate) fn put_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        out.extend_from_slice(&self.pending.bits.to_be_bytes()[..self.pending_bytes()]);
    }

    pub(crate) const fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn pending_bytes(&self) -> usize {
        usize::from(self.pending.len).div_ceil(8)
    }
}

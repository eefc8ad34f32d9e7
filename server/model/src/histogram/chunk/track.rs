//! One number that changes from sample to sample, and how its change is written.
use crate::gorilla::ChunkError;
use crate::gorilla::bit_writer::BitSink;
use crate::gorilla::bits::BitReader;
use crate::gorilla::varbit;
use crate::gorilla::window::BitWindow;

/// More leading zeros than this aren't counted: the format has five bits for them.
const LEADING_MAX: u32 = 31;

/// In place of leading zeros: no window was opened yet. A reader takes it for one of all 64 bits.
const NO_WINDOW: u64 = 0xff;

/// The last value of a number and what its next is written against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) last: u64,
    /// An integer's last difference; a float's window: leading zeros, and trailing ones in the second byte.
    step: u64,
}

impl Track {
    /// An integer, written as the difference of differences.
    pub(super) const fn integer(first: u64) -> Self {
        Self { last: first, step: 0 }
    }

    /// A float, of which the bits that changed are written.
    pub(super) const fn float(first_bits: u64) -> Self {
        Self { last: first_bits, step: NO_WINDOW }
    }

    #[inline(always)]
    pub(super) fn put_integer(&mut self, value: u64, out: &mut impl BitSink) {
        varbit::put_int(out, self.step_to(value));
    }

    /// Takes an integer as the next without writing it; returns the difference of differences.
    #[inline(always)]
    pub(super) fn step_to(&mut self, value: u64) -> i64 {
        let step = value.wrapping_sub(self.last);
        let change = step.wrapping_sub(self.step) as i64;
        (self.last, self.step) = (value, step);
        change
    }

    #[inline]
    pub(super) fn read_integer(&mut self, reader: &mut BitReader) -> Result<(), ChunkError> {
        self.step = self.step.wrapping_add_signed(varbit::read_int(reader)?);
        self.last = self.last.wrapping_add(self.step);
        Ok(())
    }

    #[inline]
    pub(super) fn put_float(&mut self, bits: u64, out: &mut impl BitSink) {
        let changed = bits ^ self.last;
        self.last = bits;
        if changed == 0 {
            return out.bits(0, 1);
        }
        let leading = changed.leading_zeros().min(LEADING_MAX);
        let trailing = changed.trailing_zeros();
        let (mut own_leading, mut own_trailing) = (self.step as u8, (self.step >> 8) as u8);
        if leading >= u32::from(own_leading) && trailing >= u32::from(own_trailing) {
            out.bits(0b10, 2);
        } else {
            (own_leading, own_trailing) = (leading as u8, trailing as u8);
            self.step = u64::from(leading) | u64::from(trailing) << 8;
            // 64 significant bits become the six bits' 0: none at all is the case above.
            out.bits(0b11 << 11 | u64::from(leading << 6 | (64 - leading - trailing) & 63), 2 + 5 + 6);
        }
        out.bits(changed >> own_trailing, 64 - u32::from(own_leading) - u32::from(own_trailing));
    }

    #[inline]
    pub(super) fn read_float(&mut self, reader: &mut BitReader) -> Result<(), ChunkError> {
        match reader.ones(2)? {
            0 => return Ok(()),
            1 => {}
            _two => self.step = read_window(reader)?,
        }
        let (leading, trailing) = match self.step {
            NO_WINDOW => (0, 0),
            window => (window as u8, (window >> 8) as u8),
        };
        let significant = reader.bits(64 - u32::from(leading) - u32::from(trailing))?;
        self.last ^= significant << trailing;
        Ok(())
    }
}

fn read_window(reader: &mut BitReader) -> Result<u64, ChunkError> {
    let BitWindow { leading, trailing } = BitWindow::read(reader)?;
    Ok(u64::from(leading) | u64::from(trailing) << 8)
}

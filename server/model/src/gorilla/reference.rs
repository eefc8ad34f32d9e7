//! The XOR chunk once more, for tests alone: bit by bit as the format's text has it, and slow.
//!
//! Shares no code with the appender, so that a mistake would have to be made twice.
use crate::Sample;

/// What Prometheus writes for these samples.
pub(super) fn encode(samples: &[Sample]) -> Vec<u8> {
    let mut bits = Bits::default();
    let (mut delta, mut window) = (0_i128, None);
    for (i, sample) in samples.iter().enumerate() {
        let Some(before) = i.checked_sub(1).map(|before| samples[before]) else {
            let (t, negative) = (i128::from(sample.timestamp_ms), sample.timestamp_ms < 0);
            bits.uvarint(if negative { -2 * t - 1 } else { 2 * t });
            bits.low(i128::from(sample.value.to_bits()), 64);
            continue;
        };
        let last_delta = delta;
        delta = i128::from(sample.timestamp_ms) - i128::from(before.timestamp_ms);
        if i == 1 {
            bits.uvarint(delta)
        } else {
            bits.delta_of_delta(delta - last_delta)
        }
        bits.value(before.value.to_bits() ^ sample.value.to_bits(), &mut window);
    }
    [&(samples.len() as u16).to_be_bytes(), bits.bytes().as_slice()].concat()
}

#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn text(&mut self, zeros_and_ones: &str) {
        self.0.extend(zeros_and_ones.chars().map(|digit| digit == '1'));
    }

    /// The low bits of a number, two's complement where it is negative.
    fn low(&mut self, number: i128, width: u32) {
        self.0.extend((0..width).rev().map(|bit| number >> bit & 1 == 1));
    }

    fn uvarint(&mut self, mut number: i128) {
        while number >= 128 {
            self.low(number % 128 + 128, 8);
            number /= 128;
        }
        self.low(number, 8);
    }

    fn delta_of_delta(&mut self, dod: i128) {
        let fits = |width: u32| -((1 << (width - 1)) - 1) <= dod && dod <= 1 << (width - 1);
        if dod == 0 {
            return self.text("0");
        }
        for (prefix, width) in [("10", 14), ("110", 17), ("1110", 20)] {
            if fits(width) {
                self.text(prefix);
                return self.low(dod, width);
            }
        }
        self.text("1111");
        self.low(dod, 64);
    }

    fn value(&mut self, changed: u64, window: &mut Option<(u32, u32)>) {
        if changed == 0 {
            return self.text("0");
        }
        let (leading, trailing) = (changed.leading_zeros().min(31), changed.trailing_zeros());
        if let Some((had_leading, had_trailing)) = *window
            && leading >= had_leading
            && trailing >= had_trailing
        {
            self.text("10");
            return self.low(i128::from(changed >> had_trailing), 64 - had_leading - had_trailing);
        }
        *window = Some((leading, trailing));
        self.text("11");
        self.low(i128::from(leading), 5);
        self.low(i128::from((64 - leading - trailing) % 64), 6);
        self.low(i128::from(changed >> trailing), 64 - leading - trailing);
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| {
            bits.iter().enumerate().fold(0, |byte, (i, &bit)| byte | u8::from(bit) << (7 - i))
        };
        self.0.chunks(8).map(byte).collect()
    }
}

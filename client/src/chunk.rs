//! Reading Prometheus' XOR chunks: samples out of bytes, whoever wrote them.
//!
//! Trusts no byte and never panics. Knows nothing of how chunks are fetched, nor how they are written.
//!
//! ```
//! // Two samples of 5, at 1,700,000,000 s and 15 s later.
//! let bytes = [
//!     0x00, 0x02, 0x80, 0xa0, 0xab, 0xfe, 0xf9, 0x62, 0x40, 0x14, 0, 0, 0, 0, 0, 0, 0x98, 0x75, 0x00,
//! ];
//! let samples = silverback_client::chunk::decode(&bytes)?;
//! assert_eq!(samples, [(1_700_000_000_000, 5.0), (1_700_000_015_000, 5.0)]);
//! # Ok::<(), silverback_client::chunk::XorChunkError>(())
//! ```

use silverback_model::gorilla::{self, XorIter};

/// Why bytes are no XOR chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XorChunkError {
    /// The bytes end before the samples that the header counts.
    #[error("the chunk ends before its last sample")]
    Truncated,
    /// A timestamp's varint is longer than 64 bits.
    #[error("a varint in the chunk is longer than 64 bits")]
    VarintTooLong,
    /// A value's leading zeros and significant bits are more than 64.
    #[error("a value in the chunk is wider than 64 bits")]
    ValueTooWide,
}

/// All samples of a chunk: timestamps in ms since the Unix epoch, and values bit for bit.
pub fn decode(chunk: &[u8]) -> Result<Vec<(i64, f64)>, XorChunkError> {
    XorSamples::new(chunk)?.collect()
}

/// The samples of a chunk, one by one. Ends after the first error.
#[derive(Debug, Clone)]
pub struct XorSamples<'a>(XorIter<'a>);

impl<'a> XorSamples<'a> {
    /// Of a chunk's bytes, its count of samples in front.
    pub fn new(chunk: &'a [u8]) -> Result<Self, XorChunkError> {
        if chunk.len() < 2 { Err(XorChunkError::Truncated) } else { Ok(Self(XorIter::new(chunk))) }
    }
}

impl Iterator for XorSamples<'_> {
    type Item = Result<(i64, f64), XorChunkError>;

    fn next(&mut self) -> Option<Self::Item> {
        let sample = self.0.next()?;
        Some(sample.map(|sample| (sample.timestamp_ms, sample.value)).map_err(XorChunkError::from))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl From<gorilla::ChunkError> for XorChunkError {
    fn from(error: gorilla::ChunkError) -> Self {
        match error {
            gorilla::ChunkError::Truncated => Self::Truncated,
            gorilla::ChunkError::VarintTooLong => Self::VarintTooLong,
            gorilla::ChunkError::BadWindow => Self::ValueTooWide,
            gorilla::ChunkError::Empty | gorilla::ChunkError::NotOfAnOpenChunk => {
                unreachable!("said of a chunk that is gone on with, not of one that is read")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(bits: &str) -> Vec<u8> {
        let digits: Vec<u8> = bits.bytes().filter(|digit| *digit != b' ').collect();
        let byte =
            |bits: &[u8]| bits.iter().enumerate().fold(0, |byte, (i, bit)| byte | (bit - b'0') << (7 - i));
        digits.chunks(8).map(byte).collect()
    }

    fn check(chunk: &[u8], expect: &[(i64, f64)]) {
        let decoded = decode(chunk).unwrap();
        let bits =
            |samples: &[(i64, f64)]| samples.iter().map(|(t, v)| (*t, v.to_bits())).collect::<Vec<_>>();
        assert_eq!(bits(&decoded), bits(expect));
    }

    /// 0x3ff0… is 1.0.
    const ONE: &str = "00111111 11110000 00000000 00000000 00000000 00000000 00000000 00000000";

    #[test]
    fn a_chunk_worked_by_hand_is_read() {
        let by_hand = [
            // Five samples; time 0, the value 1.
            "00000000 00000101",
            "00000000",
            ONE,
            // 15000 = 0b1110101_0011000: the low seven bits first, with the mark that more follow; same value.
            "1 0011000 0 1110101 0",
            // As long after the second; 0x3ff0 ^ 0x4000 = 0x7ff0: 1 zero before, 11 bits, 52 zeros after.
            "0 11 00001 001011 11111111111",
            // 1 ms later than that; 0x4000 ^ 0x4008 = 0x0008: 12 zeros, 1 bit, 51 zeros: left of no window.
            "10 00000000000001 11 01100 000001 1",
            // 9 ms sooner: -9 in 14 bits of two's complement; the same bit changes, in the window.
            "10 11111111110111 10 1",
        ];
        let expect = [(0, 1.0), (15_000, 1.0), (30_000, 2.0), (45_001, 3.0), (59_993, 2.0)];
        check(&bytes_of(&by_hand.concat()), &expect);
    }

    #[test]
    fn chunks_as_promtool_wrote_them_are_read_with_the_byte_behind_them() {
        let one = [0x00, 0x01, 0x80, 0xa0, 0xab, 0xfe, 0xf9, 0x62, 0x40, 0x14, 0, 0, 0, 0, 0, 0, 0];
        check(&one, &[(1_700_000_000_000, 5.0)]);
        let two = [&[0x00, 0x02], &one[2..16], &[0x98, 0x75, 0x00]].concat();
        check(&two, &[(1_700_000_000_000, 5.0), (1_700_000_015_000, 5.0)]);
    }

    #[test]
    fn every_edge_of_the_delta_of_delta_widths_is_read() {
        let after = |bits: &str, dod: i64| {
            // 1,000,000 = 0b0111101_0000100_1000000.
            let second = "1 1000000 1 0000100 0 0111101 0";
            let chunk = ["00000000 00000011", "00000000", ONE, second, bits, "0"].concat();
            check(&bytes_of(&chunk), &[(0, 1.0), (1_000_000, 1.0), (2_000_000 + dod, 1.0)]);
        };
        after("0", 0);
        after("10 10000000000000", 8192);
        after("10 10000000000001", -8191);
        after("110 10000000000000000", 65_536);
        after("110 10000000000000001", -65_535);
        after("1110 10000000000000000000", 524_288);
        after("1110 10000000000000000001", -524_287);
        after(&format!("1111 {:064b}", 524_289), 524_289);
        after(&format!("1111 {:064b}", -524_288_i64), -524_288);
    }

    #[test]
    fn values_are_read_bit_for_bit() {
        // The staleness marker after 1.0: 0x7ff0…0002 ^ 0x3ff0…0000 is 1 zero, 62 bits, 1 zero.
        let significant = format!("{:062b}", (0x7ff0_0000_0000_0002_u64 ^ 0x3ff0_0000_0000_0000) >> 1);
        let chunk =
            ["00000000 00000010", "00000000", ONE, "0 0000001", "11 00001 111110", &significant].concat();
        check(&bytes_of(&chunk), &[(0, 1.0), (1, f64::from_bits(0x7ff0_0000_0000_0002))]);
        // All 64 bits change: 64 is written as 0.
        let all = "1".repeat(64);
        let chunk = ["00000000 00000010", "00000000", ONE, "0 0000001", "11 00000 000000", &all].concat();
        check(&bytes_of(&chunk), &[(0, 1.0), (1, f64::from_bits(!1.0_f64.to_bits()))]);
    }

    #[test]
    fn times_before_the_epoch_are_read() {
        check(&bytes_of(&["00000000 00000001", "00000001", ONE].concat()), &[(-1, 1.0)]);
    }

    #[test]
    fn every_cut_of_a_chunk_is_told_and_none_panics() {
        let chunk =
            [0x00, 0x02, 0x80, 0xa0, 0xab, 0xfe, 0xf9, 0x62, 0x40, 0x14, 0, 0, 0, 0, 0, 0, 0x98, 0x75, 0];
        for length in 0..chunk.len() {
            assert_eq!(decode(&chunk[..length]), Err(XorChunkError::Truncated), "{length}");
        }
        assert_eq!(decode(&[0, 0]), Ok(vec![]));
    }

    #[test]
    fn what_no_writer_writes_is_an_error() {
        let varint = [&[0, 1][..], &[0xff; 11]].concat();
        assert_eq!(decode(&varint), Err(XorChunkError::VarintTooLong));
        // 31 leading zeros and 63 significant bits.
        let wide = ["00000000 00000010", "00000000", ONE, "0 0000001", "11 11111 111111"].concat();
        assert_eq!(decode(&bytes_of(&wide)), Err(XorChunkError::ValueTooWide));
    }
}

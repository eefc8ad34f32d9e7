//! The appender and the reader against vectors worked by hand, against each other, and on hostile bytes. Against
//! Prometheus' own chunks: `tests/xor2_chunks.rs`.
use proptest::prelude::*;

use super::*;
use crate::gorilla::ChunkError;

/// A sample's time, its value's bits, and its start timestamp.
type Timed = (i64, u64, Option<i64>);

fn encode(samples: &[Timed]) -> Vec<u8> {
    let mut open = OpenXor2::default();
    for (timestamp_ms, bits, start_ms) in samples {
        open.append(Sample::new(*timestamp_ms, f64::from_bits(*bits)), *start_ms);
    }
    assert_eq!(open.count(), samples.len());
    open.to_bytes()
}

fn decode(bytes: &[u8]) -> Result<Vec<Timed>, ChunkError> {
    let (mut iter, mut samples) = (Xor2Iter::new(bytes), Vec::new());
    while let Some(sample) = iter.next() {
        let sample = sample?;
        samples.push((sample.timestamp_ms, sample.value.to_bits(), iter.start_timestamp_ms()));
    }
    Ok(samples)
}

/// A chunk whose stream is written as zeros and ones; spaces are for the eye.
fn chunk(count: u16, start_byte: u8, stream: &str) -> Vec<u8> {
    let digits: Vec<u8> = stream.bytes().filter(|digit| *digit != b' ').collect();
    let byte =
        |bits: &[u8]| bits.iter().enumerate().fold(0, |byte, (i, digit)| byte | (digit - b'0') << (7 - i));
    count.to_be_bytes().into_iter().chain([start_byte]).chain(digits.chunks(8).map(byte)).collect()
}

/// The first sample: at 0, of value 0.
fn first() -> String {
    "0".repeat(8 + 64)
}

const ONE: u64 = 1.0_f64.to_bits();
const TWO: u64 = 2.0_f64.to_bits();

#[test]
fn a_chunk_worked_by_hand_has_the_same_bits_and_is_read_again() {
    let samples = [
        (0, ONE, None),
        (100, STALE_NAN_BITS, None),
        (200, ONE, None),
        (300, TWO, None),
        (400, STALE_NAN_BITS, None),
        (501, ONE, None),
        (5602, ONE, Some(400)),
        (7_005_602, TWO, Some(500)),
    ];
    let by_hand = [
        // The first: time 0, the value's 64 bits (0x3ff0 and zeros).
        "00000000 00111111 11110000 00000000 00000000 00000000 00000000 00000000 00000000",
        // 100 ms later a staleness marker.
        "01100100 111",
        // As long after it, and the last value before it.
        "0",
        // 0x3ff0 ^ 0x4000 = 0x7ff0: 1 zero before, 11 bits, 52 zeros after.
        "10 1 00001 001011 11111111111",
        // As long after it a staleness marker.
        "11111",
        // 1 ms later than that; the same bits change again.
        "110 0000000000001 10 11111111111",
        // 5000 ms later than that; the same value. It counts since 101 ms before the sample before it.
        "1110 00000001001110001000 0  1110 001100101",
        // 6,994,899 ms later than that: 64 bits. It counts since 5102 ms before the sample before it: 5001 more.
        "11110",
        "0000000000000000000000000000000000000000011010101011101111010011",
        "10 11111111111  111110 000001001110001001",
    ];
    let bytes = encode(&samples);
    assert_eq!(bytes, chunk(8, 6, &by_hand.concat()));
    assert_eq!(decode(&bytes).as_deref(), Ok(&samples[..]));
}

#[test]
fn from_the_127th_sample_on_each_says_when_it_starts() {
    let samples: Vec<Timed> = (0..130).map(|n| (n * 10, ONE, (n == 129).then_some(7))).collect();
    let bytes = encode(&samples);
    assert_eq!(bytes[2], 127);
    assert_eq!(decode(&bytes), Ok(samples));
    assert_eq!(encode(&(0..127).map(|n| (n * 10, ONE, None)).collect::<Vec<_>>())[2], 0);
}

#[test]
fn a_chunk_without_samples_has_none() {
    assert_eq!(encode(&[]), [0, 0, 0]);
    assert_eq!(decode(&[0, 0, 0]), Ok(vec![]));
}

#[test]
fn every_cut_of_a_chunk_is_told() {
    let samples = [(-5, ONE, Some(-9)), (7, TWO, Some(-5)), (19, ONE, None), (40, STALE_NAN_BITS, None)];
    let bytes = encode(&samples);
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length]), Err(ChunkError::Truncated), "{length}");
    }
    let mut iter = Xor2Iter::new(&bytes[..bytes.len() - 1]);
    assert_eq!(iter.by_ref().filter(Result::is_ok).count(), 3);
    assert_eq!((iter.next(), iter.samples_left()), (None, 0));
}

#[test]
fn what_no_writer_writes_is_an_error() {
    assert_eq!(decode(&chunk(1, 0, &"1".repeat(8 * 20))), Err(ChunkError::VarintTooLong));
    let endless_start = first() + &"1".repeat(8 * 20);
    assert_eq!(decode(&chunk(1, FIRST_HAS_START, &endless_start)), Err(ChunkError::VarintTooLong));
    // 31 leading zeros, 34 significant bits: one too many.
    let wide = first() + "00000001 110 11111 100010" + &"1".repeat(100);
    assert_eq!(decode(&chunk(2, 0, &wide)), Err(ChunkError::BadWindow));
}

#[test]
fn a_value_before_any_window_has_all_of_its_bits() {
    // Prometheus writes this when it takes up a chunk of equal values after a restart.
    let all = format!("{ONE:064b}");
    let at_second = first() + "00000001 10" + &all;
    assert_eq!(decode(&chunk(2, 0, &at_second)), Ok(vec![(0, 0, None), (1, ONE, None)]));
    let later = first() + "00000001 0 10 0" + &all;
    assert_eq!(decode(&chunk(3, 0, &later)), Ok(vec![(0, 0, None), (1, 0, None), (2, ONE, None)]));
}

#[test]
#[should_panic(expected = "65,535 samples")]
fn more_samples_than_the_header_counts_are_a_mistake() {
    encode(&(0..=65_535).map(|n| (n, ONE, None)).collect::<Vec<_>>());
}

fn value_bits() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(ONE),
        1 => Just(STALE_NAN_BITS),
        1 => any::<u64>(),
        2 => (1_u64..256, 0_u32..64).prop_map(|(mask, shift)| ONE ^ mask << shift),
        2 => any::<i16>().prop_map(|hundredths| (f64::from(hundredths) / 100.0).to_bits()),
    ]
}

fn timestamp_step() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => Just(15_000),
        2 => 14_990_i64..15_010,
        2 => prop::sample::select(vec![10_903, 10_904, 10_905, 19_095, 19_096, 539_287, 539_288]),
        1 => any::<i64>(),
    ]
}

fn start_ms() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![
        6 => Just(None),
        6 => Just(Some(1_700_000_000_000)),
        1 => any::<i64>().prop_map(|start_ms| (start_ms != 0).then_some(start_ms)),
    ]
}

proptest! {
    #[test]
    fn any_samples_are_read_as_they_were_written(
        begin_ms in any::<i64>(),
        samples in prop::collection::vec((timestamp_step(), value_bits(), start_ms()), 0..200),
    ) {
        let mut timestamp_ms = begin_ms;
        let samples: Vec<_> = samples.into_iter().map(|(step_ms, bits, start_ms)| {
            timestamp_ms = timestamp_ms.wrapping_add(step_ms);
            (timestamp_ms, bits, start_ms)
        }).collect();
        prop_assert_eq!(decode(&encode(&samples)), Ok(samples));
    }

    #[test]
    fn hostile_bytes_end_within_the_samples_they_count(
        count in any::<u16>(),
        stream in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let bytes = [count.to_be_bytes().as_slice(), &stream].concat();
        let items: Vec<_> = Xor2Iter::new(&bytes).collect();
        prop_assert!(items.len() <= usize::from(count).max(1));
        prop_assert!(items.iter().rev().skip(1).all(Result::is_ok));
    }
}

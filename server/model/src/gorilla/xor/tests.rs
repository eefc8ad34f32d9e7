//! The appender against vectors worked by hand, against the reference, and at its limits.
use proptest::prelude::*;

use super::*;
use crate::STALE_NAN_BITS;
use crate::gorilla::reference;

/// Appends until the chunk is full; how many samples it took.
fn fill(samples: &[Sample]) -> (OpenXor, Vec<u64>, usize) {
    let mut words = Vec::new();
    let mut chunk = OpenXor::start(samples[0], &mut words);
    let mut taken = 1;
    for &sample in &samples[1..] {
        if chunk.is_full_for(sample.timestamp_ms) {
            break;
        }
        chunk.append(sample, &mut words);
        taken += 1;
    }
    (chunk, words, taken)
}

/// The appender, the reference and the reader agree, and the open chunk knows its own figures.
/// Gives back how many samples a chunk takes of these.
fn check(samples: &[Sample]) -> usize {
    let (open, words, taken) = fill(samples);
    let samples = &samples[..taken];
    let bytes = open.to_bytes(words.iter().copied());
    assert_eq!(bytes, reference::encode(samples), "{samples:?}");
    assert_eq!((open.count(), open.words(), open.bytes()), (taken, words.len(), bytes.len()));
    assert_eq!(Some(&open.last()), samples.last());
    assert!(bytes.len() <= CHUNK_BYTES_MAX);

    let sealed = open.seal(words.into_iter());
    assert_eq!(sealed.bytes(), bytes);
    assert_eq!(sealed.samples().collect::<Result<Vec<_>, _>>().as_deref(), Ok(samples));
    assert_eq!(sealed, SealedChunk::from_bytes(bytes.into()).unwrap());
    taken
}

/// All of these are of one chunk.
fn check_all(samples: &[Sample]) {
    assert_eq!(check(samples), samples.len());
}

fn at(timestamp_ms: i64, value: f64) -> Sample {
    Sample::new(timestamp_ms, value)
}

/// Zeros and ones to bytes; spaces are for the eye.
fn bytes_of(bits: &str) -> Vec<u8> {
    let digits: Vec<u8> = bits.bytes().filter(|digit| *digit != b' ').collect();
    let byte =
        |bits: &[u8]| bits.iter().enumerate().fold(0, |byte, (i, digit)| byte | (digit - b'0') << (7 - i));
    digits.chunks(8).map(byte).collect()
}

#[test]
fn a_chunk_worked_by_hand_has_the_same_bits() {
    let samples = [at(0, 1.0), at(15_000, 1.0), at(30_000, 2.0), at(45_001, 3.0), at(59_993, 2.0)];
    let by_hand = [
        // Five samples.
        "00000000 00000101",
        // The first: time 0, the value's 64 bits (0x3ff0 and zeros).
        "00000000 00111111 11110000 00000000 00000000 00000000 00000000 00000000 00000000",
        // 15000 = 0b1110101_0011000: the low seven bits first, with the mark that more follow; same value.
        "1 0011000 0 1110101 0",
        // As long after the second; 0x3ff0 ^ 0x4000 = 0x7ff0: 1 zero before, 11 bits, 52 zeros after.
        "0 11 00001 001011 11111111111",
        // 1 ms later than that; 0x4000 ^ 0x4008 = 0x0008: 12 zeros, 1 bit, 51 zeros: left of no window.
        "10 00000000000001 11 01100 000001 1",
        // 9 ms sooner: -9 in 14 bits of two's complement; the same bit changes, in the window.
        "10 11111111110111 10 1",
    ];
    let (open, words, _) = fill(&samples);
    assert_eq!(open.to_bytes(words.into_iter()), bytes_of(&by_hand.concat()));
    check_all(&samples);
}

#[test]
fn chunks_as_promtool_wrote_them_are_written_again() {
    // One sample 5 at 1700000000 s; then the same and another 15 s later. Prometheus before 3.0
    // put a zero byte after the first, which is left out here.
    let one = [0x00, 0x01, 0x80, 0xa0, 0xab, 0xfe, 0xf9, 0x62, 0x40, 0x14, 0, 0, 0, 0, 0, 0];
    let two = [&[0x00, 0x02], &one[2..], &[0x98, 0x75, 0x00]].concat();
    let samples = [at(1_700_000_000_000, 5.0), at(1_700_000_015_000, 5.0)];
    for (samples, expect) in [(&samples[..1], one.as_slice()), (&samples[..], &two)] {
        let (open, words, _) = fill(samples);
        assert_eq!(open.to_bytes(words.into_iter()), expect);
    }
}

#[test]
fn every_edge_of_the_delta_of_delta_widths_is_kept() {
    let edges = [1, 8191, 8192, 8193, 65_535, 65_536, 65_537, 524_287, 524_288, 524_289, 1_000_000];
    for edge in edges {
        for dod in [edge, -edge] {
            // A delta that leaves room for the next to be smaller by as much.
            let delta = 1_100_000;
            check_all(&[at(0, 1.0), at(delta, 1.0), at(2 * delta + dod, 1.0), at(3 * delta + dod, 1.0)]);
        }
    }
}

#[test]
fn deltas_of_one_to_four_varint_bytes_are_kept() {
    for delta in [1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, CHUNK_RANGE_MS - 1] {
        check_all(&[at(0, 1.0), at(delta, 1.0)]);
    }
}

#[test]
fn values_are_kept_bit_for_bit() {
    let bits = [
        STALE_NAN_BITS,
        f64::NAN.to_bits(),
        0xfff8_0000_dead_beef,
        0.0_f64.to_bits(),
        (-0.0_f64).to_bits(),
        f64::INFINITY.to_bits(),
        f64::NEG_INFINITY.to_bits(),
        f64::MIN_POSITIVE.to_bits(),
        1,
        u64::MAX,
        f64::MAX.to_bits(),
    ];
    let step = if cfg!(miri) { 3 } else { 1 };
    for first in bits.into_iter().step_by(step) {
        for second in bits.into_iter().step_by(step) {
            let values = [first, second, second, first, second ^ 1].map(f64::from_bits);
            let times = [0, 10, 20, 30, 40];
            check_all(&std::array::from_fn::<_, 5, _>(|i| at(times[i], values[i])));
        }
    }
}

#[test]
fn every_window_is_opened_used_again_and_left() {
    // Miri takes a thousand times as long.
    let step = if cfg!(miri) { 21 } else { 1 };
    for leading in (0..64).step_by(step) {
        for trailing in (0..64 - leading).step_by(step) {
            let widest = (u64::MAX >> leading) >> trailing << trailing;
            let (inside, lowest) = (widest & widest << 1, 1 << trailing);
            let changes = [widest, lowest, inside, widest, u64::MAX, lowest, widest];
            let mut value_bits = 0x4059_0000_0000_0000;
            let samples = changes.map(|change| {
                value_bits ^= change;
                value_bits
            });
            check_all(&std::array::from_fn::<_, 7, _>(|i| at(i as i64, f64::from_bits(samples[i]))));
        }
    }
}

#[test]
fn a_chunk_is_full_after_120_samples() {
    let samples: Vec<_> = (0..200).map(|i| at(i * 1000, 1.0)).collect();
    assert_eq!(check(&samples), CHUNK_SAMPLES);
}

#[test]
fn a_chunk_of_wide_samples_is_full_shortly_before_1024_bytes() {
    // Each time is off by 2 ms, and each value changes at both of its ends.
    let values = [f64::from_bits(0), f64::from_bits(u64::MAX)];
    let samples: Vec<_> = (0..120).map(|i| at(2 * i + i % 2, values[i as usize % 2])).collect();
    let taken = check(&samples);
    assert!((90..CHUNK_SAMPLES).contains(&taken), "{taken}");
    let (full, ..) = fill(&samples);
    assert!((FULL_BYTES + 1..=CHUNK_BYTES_MAX).contains(&full.bytes()), "{}", full.bytes());
}

#[test]
fn the_widest_sample_still_fits_the_fullest_chunk() {
    let mut words = Vec::new();
    let mut chunk = OpenXor::start(at(0, 0.0), &mut words);
    let mut fullest = chunk;
    while !chunk.is_full_for(chunk.last().timestamp_ms + 3) {
        fullest = chunk;
        let last = chunk.last();
        let step_ms = if chunk.count().is_multiple_of(2) { 1 } else { 3 };
        // All bits but the lowest, which is left to the widest sample.
        let changed = f64::from_bits(last.value.to_bits() ^ u64::MAX << 1);
        chunk.append(at(last.timestamp_ms + step_ms, changed), &mut words);
    }
    assert!(fullest.bytes() > FULL_BYTES - 12);

    // Ten minutes later, which takes 68 bits, and a change outside the window.
    let (before, last) = (fullest.bytes(), fullest.last());
    let widest = at(last.timestamp_ms + 600_000, f64::from_bits(last.value.to_bits() ^ u64::MAX));
    fullest.append(widest, &mut words);
    assert!((SAMPLE_BITS_MAX / 8..=SAMPLE_BITS_MAX.div_ceil(8)).contains(&(fullest.bytes() - before)));
    assert!(fullest.bytes() <= CHUNK_BYTES_MAX);
}

#[test]
fn a_chunk_ends_with_its_range_on_both_sides_of_zero() {
    for range in [-3, -1, 0, 1, 236_111] {
        let (start, end) = (range * CHUNK_RANGE_MS, (range + 1) * CHUNK_RANGE_MS);
        for first in [start, start + 1, end - 2] {
            let mut words = Vec::new();
            let mut chunk = OpenXor::start(at(first, 1.0), &mut words);
            for _ in 0..2 {
                assert!(!chunk.is_full_for(end - 1) && chunk.is_full_for(end), "{first}");
                assert!(chunk.is_full_for(i64::MAX));
                if chunk.count() == 1 && first < end - 2 {
                    chunk.append(at(end - 2, 1.0), &mut words);
                }
            }
        }
    }
}

#[test]
fn the_earliest_and_the_latest_time_there_is_are_kept() {
    check_all(&[at(i64::MIN, 1.0), at(i64::MIN + 1, 2.0)]);
    check_all(&[at(i64::MAX - 1, 1.0), at(i64::MAX, 2.0)]);
    assert_eq!(check(&[at(i64::MIN, 1.0), at(i64::MAX, 2.0)]), 1);
}

/// How a generated value follows from the one before.
#[derive(Debug, Clone)]
enum Next {
    Same,
    Bits(u64),
    Changed { mask: u64, shift: u32 },
    Added(i32),
    Decimal(i16),
}

fn next_value() -> impl Strategy<Value = Next> {
    prop_oneof![
        Just(Next::Same),
        any::<u64>().prop_map(Next::Bits),
        (1_u64..256, 0_u32..64).prop_map(|(mask, shift)| Next::Changed { mask, shift }),
        any::<i32>().prop_map(Next::Added),
        any::<i16>().prop_map(Next::Decimal),
    ]
}

fn delta_of_delta() -> impl Strategy<Value = i64> {
    let edges = vec![0_i64, 8191, 8192, 8193, 65_535, 65_536, 65_537, 524_287, 524_288, 524_289];
    prop_oneof![
        4 => Just(0),
        2 => -20_i64..=20,
        1 => -600_000_i64..=600_000,
        2 => (prop::sample::select(edges), prop::bool::ANY).prop_map(|(edge, up)| if up { edge } else { -edge }),
    ]
}

fn follow(start_ms: i64, first_delta_ms: i64, steps: &[(i64, Next)]) -> Vec<Sample> {
    let mut samples = vec![at(start_ms, 0.0)];
    let mut delta_ms = first_delta_ms;
    for (dod_ms, next) in steps {
        let last = samples[samples.len() - 1];
        delta_ms = (delta_ms + dod_ms).max(1);
        let Some(timestamp_ms) = last.timestamp_ms.checked_add(delta_ms) else { break };
        let value = match *next {
            Next::Same => last.value,
            Next::Bits(bits) => f64::from_bits(bits),
            Next::Changed { mask, shift } => f64::from_bits(last.value.to_bits() ^ mask << shift),
            Next::Added(added) => last.value + f64::from(added),
            Next::Decimal(hundredths) => f64::from(hundredths) / 100.0,
        };
        samples.push(at(timestamp_ms, value));
    }
    samples
}

proptest! {
    #[test]
    fn any_samples_are_written_as_the_reference_has_them_and_read_back(
        start_ms in any::<i64>(),
        first_delta_ms in 1_i64..600_000,
        steps in prop::collection::vec((delta_of_delta(), next_value()), 0..130),
    ) {
        check(&follow(start_ms, first_delta_ms, &steps));
    }

    #[test]
    fn samples_a_second_apart_fill_a_chunk(
        start_ms in any::<i32>(),
        values in prop::collection::vec(next_value(), 0..130),
    ) {
        let steps: Vec<_> = values.into_iter().map(|next| (0, next)).collect();
        check(&follow(i64::from(start_ms), 1000, &steps));
    }
}

//! Chunks, and samples to make chunks of.

use silverback_model::gorilla::{OpenXor, OpenXor2};
use silverback_model::{STALE_NAN_BITS, Sample};

use crate::{START_MS, Seeds};

/// Chunks as our appenders write them, the encoding in front, and one of each that ends early.
pub(crate) fn decode() -> Seeds {
    let regular = chunk((0..100).map(|n| (n * 15_000, n as f64)));
    let noise = chunk(
        (0..60).map(|n| (n * 15_000 + n % 7, f64::from_bits(0x3ff0_0000_0000_0000 | (n as u64) << 31))),
    );
    let special = chunk((0..).zip([0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, f64::MAX]));
    let cut = regular[..regular.len() / 2].to_vec();
    let xor = [
        ("cut", cut),
        ("noise", noise),
        ("one", chunk([(0, 1.0)])),
        ("regular", regular),
        ("special", special),
    ];
    let of = |encoding: u8, chunk: Vec<u8>| [&[encoding][..], &chunk].concat();
    let seeds = xor.into_iter().map(|(name, chunk)| (name, of(0, chunk)));
    seeds.chain(xor2().into_iter().map(|(name, chunk)| (name, of(1, chunk)))).collect()
}

fn xor2() -> Seeds {
    let stale = f64::from_bits(STALE_NAN_BITS);
    let regular = xor2_chunk((0..140).map(|n| (n * 15_000, (n / 3) as f64, None)));
    let jittered = (0..60).map(|n| (n * 15_000 + n % 7 * (n % 9) * 1000, (n % 11) as f64 / 10.0, None));
    let stale_now_and_then =
        (0..40).map(|n| (n * 15_000 + n % 2, if n % 3 == 0 { stale } else { n as f64 }, None));
    let starts = xor2_chunk((0..60).map(|n| (n * 15_000, n as f64, Some(START_MS + n / 20 * 300_000))));
    let late_starts = (0..60).map(|n| (n * n * 100_000, 1.0, (n > 5).then_some(START_MS + n)));
    vec![
        ("xor2-cut", starts[..starts.len() / 2].to_vec()),
        ("xor2-jittered", xor2_chunk(jittered)),
        ("xor2-late-starts", xor2_chunk(late_starts)),
        ("xor2-none", xor2_chunk([])),
        ("xor2-regular", regular),
        ("xor2-stale", xor2_chunk(stale_now_and_then)),
        ("xor2-starts", starts),
    ]
}

fn xor2_chunk(samples: impl IntoIterator<Item = (i64, f64, Option<i64>)>) -> Vec<u8> {
    let mut open = OpenXor2::default();
    for (at_ms, value, start_ms) in samples {
        open.append(Sample::new(START_MS + at_ms, value), start_ms);
    }
    open.to_bytes()
}

fn chunk(samples: impl IntoIterator<Item = (i64, f64)>) -> Vec<u8> {
    let mut samples = samples.into_iter().map(|(at_ms, value)| Sample::new(START_MS + at_ms, value));
    let mut words = Vec::new();
    let mut open = OpenXor::start(samples.next().expect("a sample"), &mut words);
    samples.for_each(|sample| open.append(sample, &mut words));
    open.seal(words.into_iter()).bytes().to_vec()
}

/// What the target takes for a start time, a first value, and steps. Any bytes are some of these.
pub(crate) fn roundtrip() -> Seeds {
    let begin = [&START_MS.to_le_bytes()[..], &1.5_f64.to_bits().to_le_bytes()].concat();
    let with = |steps: &[u8]| [&begin, steps].concat();
    let ascending: Vec<u8> = (0..=255).collect();
    vec![
        ("few", with(&ascending[..64])),
        ("many", with(&ascending.repeat(8))),
        ("none", begin.clone()),
        ("same", with(&[0; 512])),
    ]
}

#[test]
fn what_is_called_a_chunk_is_one() {
    use silverback_model::gorilla::{FloatEncoding, FloatIter};

    for (name, bytes) in decode() {
        let encoding = if bytes[0] == 0 { FloatEncoding::Xor } else { FloatEncoding::Xor2 };
        assert_eq!(encoding == FloatEncoding::Xor2, name.starts_with("xor2"));
        let is_whole = FloatIter::new(encoding, &bytes[1..]).all(|sample| sample.is_ok());
        assert_eq!(is_whole, !name.ends_with("cut"), "{name}");
    }
}

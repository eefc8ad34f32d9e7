//! Chunks, and samples to make chunks of.

use silverback_model::Sample;
use silverback_model::gorilla::OpenXor;

use crate::{START_MS, Seeds};

/// Chunks as our appender writes them, and one that ends early.
pub fn decode() -> Seeds {
    let regular = chunk((0..100).map(|n| (n * 15_000, n as f64)));
    let noise = chunk(
        (0..60).map(|n| (n * 15_000 + n % 7, f64::from_bits(0x3ff0_0000_0000_0000 | (n as u64) << 31))),
    );
    let special = chunk((0..).zip([0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, f64::MAX]));
    let cut = regular[..regular.len() / 2].to_vec();
    vec![
        ("cut", cut),
        ("noise", noise),
        ("one", chunk([(0, 1.0)])),
        ("regular", regular),
        ("special", special),
    ]
}

fn chunk(samples: impl IntoIterator<Item = (i64, f64)>) -> Vec<u8> {
    let mut samples = samples.into_iter().map(|(at_ms, value)| Sample::new(START_MS + at_ms, value));
    let mut words = Vec::new();
    let mut open = OpenXor::start(samples.next().expect("a sample"), &mut words);
    samples.for_each(|sample| open.append(sample, &mut words));
    open.seal(words.into_iter()).bytes().to_vec()
}

/// What the target takes for a start time, a first value, and steps. Any bytes are some of these.
pub fn roundtrip() -> Seeds {
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
    use silverback_model::gorilla::SealedChunk;

    for (name, bytes) in decode() {
        assert_eq!(SealedChunk::from_bytes(bytes.into()).is_ok(), name != "cut", "{name}");
    }
}

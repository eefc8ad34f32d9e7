//! Hostile bytes as an XOR chunk: reading never panics, ends within the samples counted, and what
//! was read, where our appender may write it at all, is read again from what it writes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silverback_model::Sample;
use silverback_model::gorilla::{OpenXor, SealedChunk, XorIter};
use silverback_model::limits::CHUNK_RANGE_MS;

fuzz_target!(|bytes: &[u8]| {
    let counted = bytes.first_chunk().map_or(1, |count| usize::from(u16::from_be_bytes(*count)));
    let items: Vec<_> = XorIter::new(bytes).collect();
    assert!(items.len() <= counted);
    let samples: Result<Vec<Sample>, _> = items.into_iter().collect();
    let sealed = SealedChunk::from_bytes(bytes.into());
    match samples {
        Ok(samples) if samples.is_empty() => assert!(sealed.is_err()),
        Ok(samples) => {
            assert_eq!(sealed.map(|chunk| chunk.count()), Ok(samples.len()));
            if is_ours(&samples) {
                check_written_again(&samples);
            }
        }
        Err(error) => assert_eq!(sealed, Err(error)),
    }
});

/// Whether these are in order and in one range, as the appender's callers see to.
fn is_ours(samples: &[Sample]) -> bool {
    let range = |sample: &Sample| sample.timestamp_ms.div_euclid(CHUNK_RANGE_MS);
    samples
        .windows(2)
        .all(|pair| pair[0].timestamp_ms < pair[1].timestamp_ms && range(&pair[0]) == range(&pair[1]))
}

fn check_written_again(samples: &[Sample]) {
    let mut words = Vec::new();
    let mut chunk = OpenXor::start(samples[0], &mut words);
    for &sample in &samples[1..] {
        chunk.append(sample, &mut words);
    }
    let again = chunk.seal(words.into_iter());
    assert_eq!(again.samples().collect::<Result<Vec<_>, _>>().as_deref(), Ok(samples));
}

//! Hostile bytes as a chunk of floats, the first telling its encoding: reading never panics, ends within the samples
//! counted, and what was read, where our appender may write it at all, is read again from what it writes. Cut for a block,
//! its samples come out in either encoding, each time once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silverback_block::{Contents, CutChunk, SourceChunk, cut_chunks};
use silverback_model::Sample;
use silverback_model::gorilla::{
    ChunkError, FloatEncoding, FloatIter, OpenXor, OpenXor2, SealedChunk, Xor2Iter,
};
use silverback_model::limits::{CHUNK_BYTES_MAX, CHUNK_RANGE_MS, CHUNK_SAMPLES};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, chunk)) = bytes.split_first() else { return };
    let encoding = if first & 1 == 0 { FloatEncoding::Xor } else { FloatEncoding::Xor2 };
    let iter = FloatIter::new(encoding, chunk);
    let counted = iter.samples_left();
    let items: Vec<_> = iter.collect();
    assert!(items.len() <= counted);
    let samples: Result<Vec<_>, _> = items.into_iter().collect();
    if let Ok(samples) = &samples {
        check_cut(encoding, chunk, samples);
    }
    match encoding {
        FloatEncoding::Xor => check_xor(chunk, samples),
        FloatEncoding::Xor2 if samples.is_ok() => check_xor2_written_again(chunk),
        FloatEncoding::Xor2 => {}
    }
});

fn check_xor(chunk: &[u8], samples: Result<Vec<Sample>, ChunkError>) {
    let sealed = SealedChunk::from_bytes(chunk.into());
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
}

/// Twice the same chunk: what overlaps is encoded again. A sample that isn't newer than one before it is left out.
fn check_cut(encoding: FloatEncoding, chunk: &[u8], samples: &[Sample]) {
    let times = || samples.iter().map(|sample| sample.timestamp_ms);
    let (Some(min_ms), Some(max_ms)) = (times().min(), times().max()) else { return };
    let (mut iter, mut newest_ms, mut expect) = (FloatIter::new(encoding, chunk), None, Vec::new());
    while let Some(sample) = iter.next() {
        let sample = sample.expect("it was read before");
        if newest_ms.is_none_or(|newest_ms| sample.timestamp_ms > newest_ms) {
            newest_ms = Some(sample.timestamp_ms);
            expect.push((sample.timestamp_ms, sample.value.to_bits(), iter.start_timestamp_ms()));
        }
    }
    let source = SourceChunk { contents: Contents::Floats(encoding), min_ms, max_ms, bytes: chunk };
    // A sample of an XOR2 chunk is of 219 bits at most, and only their number is bounded.
    for (wanted, bytes_max) in [(FloatEncoding::Xor2, 28 * CHUNK_SAMPLES), (FloatEncoding::Xor, CHUNK_BYTES_MAX)] {
        let mut found = Vec::new();
        let put = |cut: CutChunk<'_>| -> Result<(), ()> {
            assert_eq!(cut.contents, Contents::Floats(wanted));
            assert!(cut.samples <= CHUNK_SAMPLES && cut.bytes.len() <= bytes_max);
            let mut iter = FloatIter::new(wanted, cut.bytes);
            while let Some(sample) = iter.next() {
                let sample = sample.expect("what was cut is read");
                found.push((sample.timestamp_ms, sample.value.to_bits(), iter.start_timestamp_ms()));
            }
            Ok(())
        };
        cut_chunks([source; 2], &(i64::MIN..=i64::MAX), wanted, put).expect("what was read is cut");
        if wanted == FloatEncoding::Xor {
            expect.iter_mut().for_each(|(.., start_ms)| *start_ms = None);
        }
        assert_eq!(found, expect);
    }
}

/// Samples of any times, and their start timestamps.
fn check_xor2_written_again(chunk: &[u8]) {
    let (mut iter, mut open) = (Xor2Iter::new(chunk), OpenXor2::default());
    while let Some(sample) = iter.next() {
        open.append(sample.expect("it was read before"), iter.start_timestamp_ms());
    }
    let again = open.to_bytes();
    let (mut iter, mut again) = (Xor2Iter::new(chunk), Xor2Iter::new(&again));
    assert_eq!(iter.samples_left(), again.samples_left());
    while let Some(sample) = iter.next() {
        assert_eq!(again.next(), Some(sample));
        assert_eq!(again.start_timestamp_ms(), iter.start_timestamp_ms());
    }
}

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

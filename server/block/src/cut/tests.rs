//! In which encoding floats come out, and what goes along with them. What of samples that overlap stays, and that nothing
//! is lost: `write::tests`.

use std::convert::Infallible;

use silverback_model::STALE_NAN_BITS;
use silverback_model::limits::CHUNK_SAMPLES;

use super::*;

const ENCODINGS: [FloatEncoding; 2] = [FloatEncoding::Xor, FloatEncoding::Xor2];

/// A sample's time, its value's bits and its start timestamp.
type Timed = (i64, u64, Option<i64>);

/// However many samples there are, in one chunk.
fn encoded(encoding: FloatEncoding, samples: &[Timed]) -> Vec<u8> {
    let mut samples =
        samples.iter().map(|(at_ms, bits, start_ms)| (Sample::new(*at_ms, f64::from_bits(*bits)), *start_ms));
    let (first, start_ms) = samples.next().unwrap();
    let mut open = OpenFloats::start(encoding, first, start_ms);
    samples.for_each(|(sample, start_ms)| open.append(sample, start_ms));
    open.seal().bytes().to_vec()
}

/// The chunks that come of these, each with its samples.
fn cut(sources: &[(FloatEncoding, Vec<Timed>)], wanted: FloatEncoding) -> Vec<(Vec<u8>, Vec<Timed>)> {
    let bytes: Vec<_> = sources.iter().map(|(encoding, samples)| encoded(*encoding, samples)).collect();
    let chunks = sources.iter().zip(&bytes).map(|((encoding, samples), bytes)| SourceChunk {
        contents: Contents::Floats(*encoding),
        min_ms: samples[0].0,
        max_ms: samples[samples.len() - 1].0,
        bytes,
    });
    let mut cut = Vec::new();
    let put = |chunk: CutChunk<'_>| -> Result<(), Infallible> {
        assert_eq!(chunk.contents, Contents::Floats(wanted));
        let (mut iter, mut samples) = (FloatIter::new(wanted, chunk.bytes), Vec::new());
        while let Some(sample) = iter.next() {
            let sample = sample.unwrap();
            samples.push((sample.timestamp_ms, sample.value.to_bits(), iter.start_timestamp_ms()));
        }
        assert_eq!((chunk.samples, chunk.min_ms), (samples.len(), samples[0].0));
        assert_eq!(chunk.max_ms, samples[samples.len() - 1].0);
        cut.push((chunk.bytes.to_vec(), samples));
        Ok(())
    };
    cut_chunks(chunks, &(i64::MIN..=i64::MAX), wanted, put).unwrap();
    cut
}

/// Counters that rest now and then, a staleness marker among them.
fn samples(count: i64, start_ms: Option<i64>) -> Vec<Timed> {
    let value = |nth: i64| if nth % 50 == 7 { STALE_NAN_BITS } else { ((nth / 3) as f64).to_bits() };
    (0..count).map(|nth| (1000 * nth + nth % 3, value(nth), start_ms)).collect()
}

#[test]
fn a_chunk_in_the_wanted_encoding_is_copied_and_one_in_another_is_encoded_anew() {
    // More than a chunk of this node's has: only a copy has as many.
    let samples = samples(CHUNK_SAMPLES as i64 + 10, None);
    for encoding in ENCODINGS {
        for wanted in ENCODINGS {
            let cut = cut(&[(encoding, samples.clone())], wanted);
            let counts: Vec<_> = cut.iter().map(|(_, samples)| samples.len()).collect();
            let expect = if encoding == wanted { vec![CHUNK_SAMPLES + 10] } else { vec![CHUNK_SAMPLES, 10] };
            assert_eq!(counts, expect, "{encoding:?} as {wanted:?}");
            for (bytes, samples) in &cut {
                assert_eq!(*bytes, encoded(wanted, samples), "{encoding:?} as {wanted:?}");
            }
            assert_eq!(cut.into_iter().flat_map(|(_, samples)| samples).collect::<Vec<_>>(), samples);
        }
    }
}

#[test]
fn a_chunk_without_samples_is_an_error_whether_it_is_copied_or_encoded_anew() {
    for encoding in ENCODINGS {
        let bytes: &[u8] = if encoding == FloatEncoding::Xor { &[0, 0] } else { &[0, 0, 0] };
        let chunk = SourceChunk { contents: Contents::Floats(encoding), min_ms: 1, max_ms: 2, bytes };
        for wanted in ENCODINGS {
            let put = |chunk: CutChunk<'_>| -> Result<(), Infallible> { panic!("{chunk:?}") };
            let cut = cut_chunks([chunk], &(0..=9), wanted, put);
            assert_eq!(cut, Err(CutError::Floats(ChunkError::Empty)), "{encoding:?} as {wanted:?}");
            // And where it lies between others that are merged with it.
            let own = encoded(wanted, &samples(5, None));
            let contents = Contents::Floats(wanted);
            let others = [(0, 4002), (0, 4002)].map(|(min_ms, max_ms)| SourceChunk {
                contents,
                min_ms,
                max_ms,
                bytes: &own,
            });
            let cut =
                cut_chunks([others[0], chunk, others[1]], &(0..=9000), wanted, |_| Ok::<_, Infallible>(()));
            assert_eq!(cut, Err(CutError::Floats(ChunkError::Empty)), "{encoding:?} as {wanted:?}");
        }
    }
}

#[test]
fn start_timestamps_go_along_into_an_encoding_that_has_them() {
    let with_starts = samples(20, Some(-5));
    let late: Vec<Timed> = (5..15).map(|nth| (1000 * nth + 500, 1, None)).collect();
    let mut together = [&with_starts[..], &late].concat();
    together.sort_by_key(|(at_ms, ..)| *at_ms);
    let sources = [(FloatEncoding::Xor2, with_starts.clone()), (FloatEncoding::Xor, late)];
    let found =
        |wanted| cut(&sources, wanted).into_iter().flat_map(|(_, samples)| samples).collect::<Vec<_>>();
    assert_eq!(found(FloatEncoding::Xor2), together);
    together.iter_mut().for_each(|(.., start_ms)| *start_ms = None);
    assert_eq!(found(FloatEncoding::Xor), together);
    // And with a chunk that is copied.
    let alone = cut(&sources[..1], FloatEncoding::Xor2).remove(0);
    assert_eq!(alone.1, with_starts);
}

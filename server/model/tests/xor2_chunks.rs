//! XOR2 chunks that Prometheus' own appender wrote: they are read as the samples that they were made of, and the same
//! samples become the same bytes. How they were made is beside them, in `xor2_vectors/README.md`.
use silverback_model::Sample;
use silverback_model::gorilla::{FloatEncoding, FloatIter, OpenXor2, Xor2Iter};

const VECTORS: &[u8] = include_bytes!("xor2_vectors/vectors.bin");

/// Samples with their start timestamps, and the chunks that hold them.
struct Series {
    samples: Vec<(Sample, Option<i64>)>,
    chunk: &'static [u8],
    /// Written by two appenders, one after the other.
    taken_up: &'static [u8],
}

fn all_series() -> Vec<Series> {
    let mut rest = VECTORS;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let samples = (0..uvarint(&mut rest)).map(|_| sample(&mut rest)).collect();
        all.push(Series { samples, chunk: piece(&mut rest), taken_up: piece(&mut rest) });
    }
    all
}

fn sample(rest: &mut &'static [u8]) -> (Sample, Option<i64>) {
    let [start_ms, timestamp_ms, value_bits] = std::array::from_fn(|_| {
        let word = rest.split_off(..8).expect("a word");
        u64::from_be_bytes(word.try_into().expect("of eight bytes"))
    });
    let sample = Sample::new(timestamp_ms as i64, f64::from_bits(value_bits));
    (sample, (start_ms != 0).then_some(start_ms as i64))
}

fn piece(rest: &mut &'static [u8]) -> &'static [u8] {
    let len = uvarint(rest);
    rest.split_off(..len).expect("a piece")
}

fn uvarint(rest: &mut &'static [u8]) -> usize {
    let len = 1 + rest.iter().position(|byte| *byte < 0x80).expect("a varint");
    let bytes = rest.split_off(..len).expect("a varint");
    bytes.iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f))
}

fn check_read(nth: usize, chunk: &[u8], samples: &[(Sample, Option<i64>)]) {
    let mut iter = Xor2Iter::new(chunk);
    assert_eq!(iter.samples_left(), samples.len());
    for (at, (expect, start_ms)) in samples.iter().enumerate() {
        let read = iter.next().expect("no fewer than are counted").expect("a whole chunk");
        let bits = |sample: &Sample| (sample.timestamp_ms, sample.value.to_bits());
        assert_eq!(bits(&read), bits(expect), "sample {at} of series {nth}");
        assert_eq!(iter.start_timestamp_ms(), *start_ms, "sample {at} of series {nth}");
    }
    assert_eq!(iter.next(), None);
}

#[test]
fn chunks_are_read_as_the_samples_that_they_were_made_of() {
    let (mut lens, mut starts, mut stale) = (Vec::new(), 0, 0);
    for (nth, series) in all_series().iter().enumerate() {
        check_read(nth, series.chunk, &series.samples);
        check_read(nth, series.taken_up, &series.samples);
        lens.push(series.samples.len());
        starts += series.samples.iter().filter(|(_, start_ms)| start_ms.is_some()).count();
        stale += series.samples.iter().filter(|(sample, _)| sample.is_stale()).count();
    }
    // What the vectors are to show is in them.
    assert!([0, 1, 2, 120, 127, 128, 260].iter().all(|len| lens.contains(len)), "{lens:?}");
    assert!(starts > 1000 && stale > 100, "{starts} and {stale}");
}

#[test]
fn the_same_samples_become_prometheus_own_bytes() {
    for (nth, series) in all_series().iter().enumerate() {
        let mut open = OpenXor2::default();
        for (sample, start_ms) in &series.samples {
            open.append(*sample, *start_ms);
        }
        let made = open.to_bytes();
        assert!(made == series.chunk, "series {nth}:\n{made:02x?}\n{:02x?}", series.chunk);
    }
}

#[test]
fn a_chunk_is_read_by_the_number_of_its_encoding() {
    assert_eq!(
        [1, 4].map(FloatEncoding::of_chunk_encoding),
        [FloatEncoding::Xor, FloatEncoding::Xor2].map(Some)
    );
    assert_eq!([0, 2, 3, 5, 6, 7].map(FloatEncoding::of_chunk_encoding), [None; 6]);
    for series in all_series() {
        let mut samples = FloatIter::new(FloatEncoding::Xor2, series.chunk);
        assert_eq!(samples.samples_left(), series.samples.len());
        let read: Vec<_> = samples.by_ref().map(|sample| sample.expect("a whole chunk")).collect();
        assert_eq!(read.len(), series.samples.len());
        assert_eq!((read.last(), samples.samples_left()), (series.samples.last().map(|(last, _)| last), 0));
    }
}

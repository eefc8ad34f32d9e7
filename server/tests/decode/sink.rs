//! Decodes a request and collects all that came of it, labels read back through their spans.

use std::cell::{Cell, RefCell};

use silverback::api::ingest::remote_write::{
    DecodeProgress, Decoder, Decoding, MalformedError, RequestTally, SeriesSink, Version,
};
use silverback_model::{Labels, Sample, SeriesId, SeriesIdHasher};
use silverback_storage::message::{LabelSpan, WriteBody};

/// A series as it came out: labels and samples.
pub(crate) type Series = (Vec<(String, String)>, Vec<Sample>);

#[derive(Default)]
struct Collected(Vec<(SeriesId, LabelSpan, u32, Vec<Sample>)>);

/// The start timestamps of each series' samples, 0 where one has none.
#[derive(Default)]
struct CollectedStarts(Vec<Vec<i64>>);

impl SeriesSink for CollectedStarts {
    fn series(&mut self, _id: SeriesId, _labels: LabelSpan, _samples: u32) {
        self.0.push(Vec::new());
    }

    fn sample(&mut self, _sample: Sample) {
        self.0.last_mut().expect("a series comes first").push(0);
    }

    fn start_timestamp(&mut self, start_ms: i64) {
        let of_sample = self.0.last_mut().and_then(|series| series.last_mut()).expect("a sample comes first");
        assert!(*of_sample == 0 && start_ms != 0, "one for a sample, and only where it says something");
        *of_sample = start_ms;
    }
}

/// Decodes `bytes` for the start timestamps of its samples, when its label sets are new and when they are known.
pub(crate) fn decode_starts(version: Version, bytes: &[u8]) -> Result<Vec<Vec<i64>>, MalformedError> {
    let (mut decoder, hasher) = (Decoder::default(), fresh_tenant());
    let mut decoded = || {
        let mut body = WriteBody { bytes: bytes.to_vec().into(), ..WriteBody::default() };
        let (mut sink, mut decoding) = (CollectedStarts::default(), Decoding::start(version));
        while decoder.decode(&mut body, &mut decoding, &hasher, 3, &mut sink)? == DecodeProgress::More {}
        Ok(sink.0)
    };
    let first = decoded();
    assert_eq!(first, decoded());
    first
}

impl SeriesSink for Collected {
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        self.0.push((id, labels, samples, Vec::new()));
    }

    fn sample(&mut self, sample: Sample) {
        self.0.last_mut().expect("a series comes first").3.push(sample);
    }
}

/// Decodes `bytes` in slices of `series_max` series and checks what holds for every request: ids
/// are those of the labels, sample counts are kept, and the tally is of what came out.
pub(crate) fn decode_with(
    decoder: &mut Decoder,
    hasher: &SeriesIdHasher,
    version: Version,
    bytes: &[u8],
    series_max: usize,
) -> Result<(Vec<Series>, RequestTally), MalformedError> {
    decode_started(decoder, hasher, Decoding::start(version), bytes, series_max)
}

/// The same of a request that is begun.
pub(crate) fn decode_started(
    decoder: &mut Decoder,
    hasher: &SeriesIdHasher,
    mut decoding: Decoding,
    bytes: &[u8],
    series_max: usize,
) -> Result<(Vec<Series>, RequestTally), MalformedError> {
    let mut body = WriteBody { bytes: bytes.to_vec().into(), ..WriteBody::default() };
    // What is passed on is noted, and not what is known.
    decoder.forget_metadata();
    let mut sink = Collected::default();
    let slices_max = 4 + bytes.len();
    for _slice in 0..slices_max {
        if decoder.decode(&mut body, &mut decoding, hasher, series_max, &mut sink)? == DecodeProgress::Done {
            return Ok((collect(&body, hasher, sink, &decoding.tally), decoding.tally));
        }
    }
    panic!("more slices than bytes");
}

thread_local! {
    /// Kept, like that of a core, so that a fuzzer needn't make one for each input.
    static DECODER: RefCell<Decoder> = RefCell::default();
    static TENANT_SEED: Cell<u64> = const { Cell::new(0) };
}

/// A tenant that no label set was seen of.
///
/// The seeds are far apart, as those that nodes draw are: under seeds that differ by one, XXH3 gives label sets of 16
/// bytes that differ by that bit the same hash, so one tenant's would be known by the other's.
fn fresh_tenant() -> SeriesIdHasher {
    const APART: u64 = 0x9e37_79b9_7f4a_7c15;
    SeriesIdHasher::new(TENANT_SEED.replace(TENANT_SEED.get().wrapping_add(APART)), "tenant")
}

/// [`decode_with`] label sets that were not seen before, and then twice more.
pub(crate) fn decode(version: Version, bytes: &[u8]) -> Result<(Vec<Series>, RequestTally), MalformedError> {
    let hasher = fresh_tenant();
    DECODER.with_borrow_mut(|decoder| {
        let first = decode_with(decoder, &hasher, version, bytes, usize::MAX / 8);
        for series_max in [1, usize::MAX / 8] {
            let again = decode_with(decoder, &hasher, version, bytes, series_max);
            assert_eq!(first, again, "labels that were seen before, and slices, change nothing");
        }
        first
    })
}

/// Decodes `bytes` after `before`, and holds that against what comes of them where nothing was seen before.
pub(crate) fn check_after(version: Version, before: &[u8], bytes: &[u8]) {
    let (hasher, other) = (fresh_tenant(), fresh_tenant());
    DECODER.with_borrow_mut(|decoder| {
        let _seen = decode_with(decoder, &hasher, version, before, usize::MAX / 8);
        let warm = decode_with(decoder, &hasher, version, bytes, usize::MAX / 8);
        assert_eq!(warm, decode_with(decoder, &other, version, bytes, usize::MAX / 8));
    });
}

/// The same with a byte of `bytes` that is another one before.
pub(crate) fn check_after_another_byte(version: Version, bytes: &[u8]) {
    let Some(at) = bytes
        .iter()
        .fold(bytes.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)))
        .checked_rem(bytes.len())
    else {
        return;
    };
    let mut before = bytes.to_vec();
    before[at] = before[at].wrapping_add(1);
    check_after(version, &before, bytes);
    check_after(version, bytes, &before);
}

fn collect(body: &WriteBody, hasher: &SeriesIdHasher, sink: Collected, tally: &RequestTally) -> Vec<Series> {
    assert_eq!(tally.series, sink.0.len() as u64);
    assert_eq!(tally.samples, sink.0.iter().map(|s| s.3.len() as u64).sum::<u64>());
    sink.0
        .into_iter()
        .map(|(id, span, count, samples)| {
            assert_eq!(count as usize, samples.len());
            assert!(count > 0, "a series without samples is not passed on");
            let mut labels = Vec::new();
            body.for_each_label(span, |name, value| labels.push((text(name), text(value))));
            assert!(labels.is_sorted_by(|a, b| a.0 < b.0), "{labels:?}");
            let canonical = Labels::from_pairs(labels.iter().map(|(n, v)| (&**n, &**v))).to_canonical();
            assert_eq!(id, hasher.hash_canonical(&canonical));
            (labels, samples)
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("labels are UTF-8")
}

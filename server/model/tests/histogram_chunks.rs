//! Chunks of native histograms that Prometheus' own head wrote: the same histograms, taken in one by one, become the
//! same bytes, and the bytes are read as the histograms that they were made of. How they were made is beside
//! them, in `histogram_vectors/README.md`.
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Histogram, HistogramKind, OpenHistogram, SealedHistogram};

const VECTORS: &[u8] = include_bytes!("histogram_vectors/vectors.bin");

/// A series: its samples as remote write carries them, and its chunks, their encoding in front.
struct Series {
    samples: Vec<&'static [u8]>,
    chunks: Vec<&'static [u8]>,
}

fn all_series() -> Vec<Series> {
    let mut rest = VECTORS;
    let mut all = Vec::new();
    while !rest.is_empty() {
        all.push(Series { samples: pieces(&mut rest), chunks: pieces(&mut rest) });
    }
    all
}

fn pieces(rest: &mut &'static [u8]) -> Vec<&'static [u8]> {
    (0..uvarint(rest)).map(|_| piece(rest)).collect()
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

fn read(message: &[u8]) -> (HistogramTimes, Histogram) {
    let mut histogram = Histogram::default();
    let times = histogram.read_message(message).expect("a message of Prometheus");
    (times, histogram)
}

/// The chunks that we make of a series' samples, their encoding in front.
fn made_of(samples: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut sealed = Vec::new();
    let mut open: Option<OpenHistogram> = None;
    for message in samples {
        let (times, histogram) = read(message);
        match &mut open {
            Some(open) => sealed.extend(open.append(times.timestamp_ms, &histogram)),
            None => open = Some(OpenHistogram::start(times.timestamp_ms, &histogram, None)),
        }
    }
    sealed.extend(open.map(OpenHistogram::seal));
    sealed.iter().map(|chunk| [&[chunk.kind().chunk_encoding()], chunk.bytes()].concat()).collect()
}

#[test]
fn the_same_histograms_become_prometheus_own_bytes() {
    let mut chunks = 0;
    for (nth, series) in all_series().iter().enumerate() {
        let made = made_of(&series.samples);
        for (at, (ours, theirs)) in made.iter().zip(&series.chunks).enumerate() {
            assert!(ours == theirs, "chunk {at} of series {nth}:\n{ours:x?}\n{theirs:x?}");
        }
        assert_eq!(made.len(), series.chunks.len(), "series {nth}");
        chunks += made.len();
    }
    assert!(chunks >= 200, "{chunks}");
}

#[test]
fn chunks_are_read_as_the_histograms_that_they_were_made_of() {
    for series in all_series() {
        let mut samples = series.samples.iter().map(|message| read(message));
        for chunk in series.chunks {
            let kind = HistogramKind::of_chunk_encoding(chunk[0]).expect("a chunk of histograms");
            let sealed = SealedHistogram::from_bytes(kind, chunk[1..].into()).expect("a whole chunk");
            let mut iter = sealed.histograms();
            let mut histogram = Histogram::default();
            while iter.samples_left() > 0 {
                let timestamp_ms = iter.next_into(&mut histogram).expect("a histogram");
                let (times, expect) = samples.next().expect("no more than came");
                assert_eq!(timestamp_ms, times.timestamp_ms);
                assert!(histogram.is_same(&expect), "{histogram:?}\n{expect:?}");
            }
        }
        assert!(samples.next().is_none());
    }
}

#[test]
fn chunks_that_are_taken_up_after_a_restart_go_on_to_the_same_bytes() {
    for series in all_series() {
        let mut theirs = series.chunks.iter();
        let (first, rest) = series.samples.split_first().expect("a sample");
        let (times, histogram) = read(first);
        let mut open = OpenHistogram::start(times.timestamp_ms, &histogram, None);
        for message in rest {
            let (times, histogram) = read(message);
            open =
                OpenHistogram::resume(open.kind(), &open.to_bytes(), open.plan()).expect("a chunk of ours");
            if let Some(sealed) = open.append(times.timestamp_ms, &histogram) {
                assert_eq!(sealed.bytes(), &theirs.next().expect("a chunk")[1..]);
            }
        }
        assert_eq!(open.seal().bytes(), &theirs.next().expect("a chunk")[1..]);
        assert_eq!(theirs.next(), None);
    }
}

#[test]
fn messages_are_written_as_prometheus_writes_them() {
    for series in all_series() {
        for message in series.samples {
            let (times, histogram) = read(message);
            assert_eq!(histogram.validate(), Ok(()));
            let mut again = Vec::new();
            histogram.put_message(times, &mut again);
            assert_eq!(again, message);
        }
    }
}

//! Chunks of floats in any of Prometheus' encodings. Memory's are XOR; those of blocks may be XOR2.
use super::iterate::{ChunkError, XorIter};
use super::xor::OpenXor;
use super::xor2::{OpenXor2, Xor2Iter};
use crate::Sample;
use crate::sealed::Sealed;

/// How a chunk of floats is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatEncoding {
    /// As every Prometheus reads it.
    Xor,
    /// Smaller, and with start timestamps where there are any. Prometheus before 3.12 doesn't read it.
    Xor2,
}

impl FloatEncoding {
    /// The number that Prometheus gives to chunks in this encoding.
    pub const fn chunk_encoding(self) -> u8 {
        match self {
            Self::Xor => 1,
            Self::Xor2 => 4,
        }
    }

    /// The encoding of the chunks of floats that Prometheus gives this number.
    pub const fn of_chunk_encoding(encoding: u8) -> Option<Self> {
        match encoding {
            1 => Some(Self::Xor),
            4 => Some(Self::Xor2),
            _other => None,
        }
    }
}

/// The samples of a chunk's bytes, in the order written. Ends after the first error.
#[derive(Debug, Clone)]
pub enum FloatIter<'a> {
    /// Of an XOR chunk.
    Xor(XorIter<'a>),
    /// Of an XOR2 chunk.
    Xor2(Xor2Iter<'a>),
}

impl<'a> FloatIter<'a> {
    /// Of a chunk's bytes, its count of samples in front.
    pub const fn new(encoding: FloatEncoding, chunk: &'a [u8]) -> Self {
        match encoding {
            FloatEncoding::Xor => Self::Xor(XorIter::new(chunk)),
            FloatEncoding::Xor2 => Self::Xor2(Xor2Iter::new(chunk)),
        }
    }

    /// Samples not read yet, as the header counts them.
    pub const fn samples_left(&self) -> usize {
        match self {
            Self::Xor(samples) => samples.samples_left(),
            Self::Xor2(samples) => samples.samples_left(),
        }
    }

    /// Since when the sample that was read last counts, in ms since the Unix epoch; `None`: that isn't known, as of
    /// every sample of an XOR chunk.
    pub const fn start_timestamp_ms(&self) -> Option<i64> {
        match self {
            Self::Xor(_) => None,
            Self::Xor2(samples) => samples.start_timestamp_ms(),
        }
    }
}

impl Iterator for FloatIter<'_> {
    type Item = Result<Sample, ChunkError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Xor(samples) => samples.next(),
            Self::Xor2(samples) => samples.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Xor(samples) => samples.size_hint(),
            Self::Xor2(samples) => samples.size_hint(),
        }
    }
}

impl std::iter::FusedIterator for FloatIter<'_> {}

/// A cut chunk of floats, in either encoding.
pub type SealedFloats = Sealed<FloatEncoding>;

impl SealedFloats {
    /// How it is encoded.
    pub const fn encoding(&self) -> FloatEncoding {
        self.encoding
    }

    /// How many samples it holds.
    pub const fn count(&self) -> usize {
        FloatIter::new(self.encoding, &self.bytes).samples_left()
    }
}

/// A chunk of floats that is written, in memory of its own.
#[derive(Debug, Clone)]
pub struct OpenFloats {
    min_timestamp_ms: i64,
    max_timestamp_ms: i64,
    stream: Stream,
}

#[derive(Debug, Clone)]
enum Stream {
    Xor { open: OpenXor, words: Vec<u64> },
    Xor2(OpenXor2),
}

impl OpenFloats {
    /// A chunk of one sample, which counts since `start_timestamp_ms` (ms since the Unix epoch; `None`: not known).
    pub fn start(encoding: FloatEncoding, first: Sample, start_timestamp_ms: Option<i64>) -> Self {
        let stream = match encoding {
            FloatEncoding::Xor => {
                let mut words = Vec::new();
                Stream::Xor { open: OpenXor::start(first, &mut words), words }
            }
            FloatEncoding::Xor2 => {
                let mut open = OpenXor2::default();
                open.append(first, start_timestamp_ms);
                Stream::Xor2(open)
            }
        };
        Self { min_timestamp_ms: first.timestamp_ms, max_timestamp_ms: first.timestamp_ms, stream }
    }

    /// Whether a sample at this time, newer than the last, has to begin another chunk: this one has its samples,
    /// the time lies in another range, or an XOR chunk has its bytes. What one XOR chunk holds is one XOR2 chunk.
    pub fn is_full_for(&self, next_timestamp_ms: i64) -> bool {
        match &self.stream {
            Stream::Xor { open, .. } => open.is_full_for(next_timestamp_ms),
            Stream::Xor2(open) => open.is_full_for(next_timestamp_ms),
        }
    }

    /// Adds a sample, newer than the last and of the same range, and since when it counts, which an XOR chunk has no place
    /// for.
    pub fn append(&mut self, sample: Sample, start_timestamp_ms: Option<i64>) {
        match &mut self.stream {
            Stream::Xor { open, words } => open.append(sample, words),
            Stream::Xor2(open) => open.append(sample, start_timestamp_ms),
        }
        self.max_timestamp_ms = sample.timestamp_ms;
    }

    /// Ends the chunk.
    pub fn seal(self) -> SealedFloats {
        let Self { min_timestamp_ms, max_timestamp_ms, stream } = self;
        let (encoding, bytes) = match stream {
            Stream::Xor { open, words } => (FloatEncoding::Xor, open.to_bytes(words.into_iter())),
            Stream::Xor2(open) => (FloatEncoding::Xor2, open.to_bytes()),
        };
        SealedFloats { encoding, min_timestamp_ms, max_timestamp_ms, bytes: bytes.into_boxed_slice() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::STALE_NAN_BITS;
    use crate::limits::{CHUNK_BYTES_MAX, CHUNK_RANGE_MS, CHUNK_SAMPLES};

    /// Samples, each with its start timestamp.
    type Timed = Vec<(Sample, Option<i64>)>;

    fn write(encoding: FloatEncoding, samples: &Timed) -> Vec<SealedFloats> {
        let (mut sealed, mut open) = (Vec::new(), None::<OpenFloats>);
        for &(sample, start_ms) in samples {
            match &mut open {
                Some(open) if !open.is_full_for(sample.timestamp_ms) => open.append(sample, start_ms),
                full => {
                    let next = OpenFloats::start(encoding, sample, start_ms);
                    sealed.extend(full.replace(next).map(OpenFloats::seal));
                }
            }
        }
        sealed.extend(open.map(OpenFloats::seal));
        sealed
    }

    /// Times, bits of values and start timestamps.
    fn read(chunks: &[SealedFloats]) -> Vec<(i64, u64, Option<i64>)> {
        let mut all = Vec::new();
        for chunk in chunks {
            let mut samples = FloatIter::new(chunk.encoding(), chunk.bytes());
            assert_eq!(samples.samples_left(), chunk.count());
            let begin = all.len();
            while let Some(sample) = samples.next() {
                let sample = sample.expect("a whole chunk");
                all.push((sample.timestamp_ms, sample.value.to_bits(), samples.start_timestamp_ms()));
            }
            let bounds = (all[begin].0, all[all.len() - 1].0);
            assert_eq!(bounds, (chunk.min_timestamp_ms(), chunk.max_timestamp_ms()));
        }
        all
    }

    /// A sample of an XOR2 chunk is of 219 bits at most, its start timestamp among them.
    fn bytes_max(encoding: FloatEncoding) -> usize {
        match encoding {
            FloatEncoding::Xor => CHUNK_BYTES_MAX,
            FloatEncoding::Xor2 => 28 * CHUNK_SAMPLES,
        }
    }

    fn samples() -> impl Strategy<Value = Timed> {
        let step = prop_oneof![4 => Just(15_000), 2 => 1_i64..30_000, 1 => 1_i64..i64::MAX >> 10];
        let bits = prop_oneof![
            2 => Just(1.0_f64.to_bits()),
            1 => Just(STALE_NAN_BITS),
            1 => (1_u64..1 << 51).prop_map(|payload| 0x7ff0_0000_0000_0000 | payload),
            4 => any::<u64>(),
        ];
        let start = prop_oneof![2 => Just(None), 1 => (1_i64..1 << 60).prop_map(Some)];
        let samples = prop::collection::vec((step, bits, start), 1..400);
        (-1_i64 << 60..1 << 60, samples).prop_map(|(begin_ms, samples)| {
            let timed = samples.into_iter().scan(begin_ms, |at_ms, (step_ms, bits, start_ms)| {
                *at_ms += step_ms;
                Some((Sample::new(*at_ms, f64::from_bits(bits)), start_ms))
            });
            timed.collect()
        })
    }

    proptest! {
        #[test]
        fn chunks_of_any_samples_are_read_as_written_and_keep_their_bounds(
            encoding in prop::sample::select(vec![FloatEncoding::Xor, FloatEncoding::Xor2]),
            samples in samples(),
        ) {
            let chunks = write(encoding, &samples);
            let starts = encoding == FloatEncoding::Xor2;
            let expect: Vec<_> = samples
                .iter()
                .map(|(sample, start_ms)| {
                    (sample.timestamp_ms, sample.value.to_bits(), start_ms.filter(|_| starts))
                })
                .collect();
            prop_assert_eq!(read(&chunks), expect);
            for chunk in &chunks {
                prop_assert_eq!(chunk.encoding(), encoding);
                prop_assert!(chunk.count() <= CHUNK_SAMPLES && chunk.bytes().len() <= bytes_max(encoding));
                let range_of = |at_ms: i64| at_ms.div_euclid(CHUNK_RANGE_MS);
                prop_assert_eq!(range_of(chunk.min_timestamp_ms()), range_of(chunk.max_timestamp_ms()));
            }
        }
    }

    /// Windows that are narrowed, widened and left, at times that jitter by whatever takes the most bits.
    fn jittered() -> impl Strategy<Value = Timed> {
        let jitter = prop::sample::select(vec![0_i64, 1, 4095, 8192, 14_999]);
        let changed =
            prop_oneof![any::<u64>(), (1_u64..256, 0_u32..64).prop_map(|(mask, shift)| mask << shift)];
        prop::collection::vec((jitter, changed), 1..400).prop_map(|samples| {
            let timed = samples.into_iter().zip(0..).scan(0, |bits, ((jitter_ms, changed), nth)| {
                *bits ^= changed;
                Some((Sample::new(15_000 * nth + jitter_ms, f64::from_bits(*bits)), None))
            });
            timed.collect()
        })
    }

    proptest! {
        #[test]
        fn what_an_xor_chunk_holds_is_one_xor2_chunk(samples in prop_oneof![jittered(), samples()]) {
            for chunk in write(FloatEncoding::Xor, &samples) {
                let own = FloatIter::new(FloatEncoding::Xor, chunk.bytes());
                let again = write(FloatEncoding::Xor2, &own.map(|sample| (sample.unwrap(), None)).collect());
                prop_assert_eq!(again.len(), 1);
            }
        }
    }

    #[test]
    fn a_chunk_goes_on_until_it_has_its_samples_its_bytes_or_its_range() {
        for encoding in [FloatEncoding::Xor, FloatEncoding::Xor2] {
            let counts = |at_ms: fn(i64) -> i64, bits: fn(u64) -> u64| {
                let sample = |nth: i64| Sample::new(at_ms(nth), f64::from_bits(bits(nth as u64)));
                let chunks = write(encoding, &(0..300).map(|nth| (sample(nth), None)).collect());
                chunks.iter().map(SealedFloats::count).collect::<Vec<_>>()
            };
            assert_eq!(counts(|nth| 1000 * nth, |_| 0), [CHUNK_SAMPLES, CHUNK_SAMPLES, 60]);
            assert_eq!(counts(|nth| CHUNK_RANGE_MS / 100 * nth, |_| 0), [100; 3]);
            // Some ten bytes a sample.
            let noise =
                counts(|nth| 1000 * nth + nth % 2 * 500, |nth| nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            match encoding {
                FloatEncoding::Xor => {
                    assert!(noise[..noise.len() - 1].iter().all(|count| (80..110).contains(count)))
                }
                FloatEncoding::Xor2 => assert_eq!(noise, [CHUNK_SAMPLES, CHUNK_SAMPLES, 60]),
            }
        }
    }
}

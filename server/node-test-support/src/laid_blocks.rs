//! Blocks of known samples, laid where a node looks for its own.
//!
//! Knows the format through the crate that writes it; what a node does with blocks is its tests' to know.

use std::fs;
use std::path::{Path, PathBuf};

use silverback_block::{
    BlockWriteError, BlockWriter, Contents, CutChunk, SourceChunk, Ulid, WriterMemory, cut_chunks,
};
use silverback_model::Sample;
use silverback_model::gorilla::{FloatEncoding, OpenXor};
use silverback_model::histogram::{Histogram, OpenHistogram, SealedHistogram};

/// The length of a block's range, in ms.
pub const RANGE_MS: i64 = 7_200_000;

/// A series that goes into blocks: labels, names ascending, and samples, times ascending.
#[derive(Debug, Clone, Default)]
pub struct BlockSeries {
    /// Names and values.
    pub labels: Vec<(String, String)>,
    /// Times, and bits of values.
    pub floats: Vec<(i64, u64)>,
    /// Times that no float has.
    pub histograms: Vec<(i64, Histogram)>,
}

/// Writes a block for each range of two hours that series have samples in, as a node does that cuts them, and gives their
/// directories. `number` is the first one's. Those of late samples say so.
///
/// # Panics
///
/// Where the disk takes them not, or the series aren't sorted.
pub fn put(data_dir: &Path, number: u64, series: &[BlockSeries], are_late: bool) -> Vec<PathBuf> {
    put_as(FloatEncoding::Xor, data_dir, number, series, are_late)
}

/// Likewise, with chunks of floats in this encoding.
///
/// # Panics
///
/// As [`put`].
pub fn put_as(
    floats: FloatEncoding,
    data_dir: &Path,
    number: u64,
    series: &[BlockSeries],
    are_late: bool,
) -> Vec<PathBuf> {
    let dir = data_dir.join("blocks");
    fs::create_dir_all(&dir).unwrap();
    let times = || {
        series.iter().flat_map(|one| {
            one.floats.iter().map(|(at_ms, _)| *at_ms).chain(one.histograms.iter().map(|(at_ms, _)| *at_ms))
        })
    };
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Vec::new() };
    let ranges = first.div_euclid(RANGE_MS)..=last.div_euclid(RANGE_MS);
    let ranges = ranges.map(|range| range * RANGE_MS..=(range + 1) * RANGE_MS - 1);
    let write = |(number, range_ms)| {
        let ulid = Ulid::from_parts(number, u128::from(number));
        let mut writer = BlockWriter::create(dir.join(ulid.to_string()), ulid, WriterMemory::MAX).unwrap();
        for one in series {
            let labels = one.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let chunks = chunks_of(one);
            let sources = chunks.iter().map(Chunk::source);
            let added: Result<(), BlockWriteError> = writer.add_series(labels, |out| {
                let cut = cut_chunks(sources, &range_ms, floats, |chunk: CutChunk<'_>| out.put(chunk));
                cut.map_err(|error| panic!("{error}"))
            });
            added.unwrap();
        }
        writer.finish(&|_| true).unwrap()?;
        let block = dir.join(ulid.to_string());
        if are_late {
            let meta = fs::read_to_string(block.join("meta.json")).unwrap();
            let told = meta.replace("\"level\": 1,", "\"level\": 1, \"hints\": [\"from-out-of-order\"],");
            assert_ne!(told, meta);
            fs::write(block.join("meta.json"), told).unwrap();
        }
        Some(block)
    };
    (number..).zip(ranges).filter_map(write).collect()
}

struct Chunk {
    contents: Contents,
    times_ms: (i64, i64),
    bytes: Vec<u8>,
}

impl Chunk {
    fn source(&self) -> SourceChunk<'_> {
        let Self { contents, times_ms: (min_ms, max_ms), ref bytes } = *self;
        SourceChunk { contents, min_ms, max_ms, bytes }
    }
}

/// As a head has them, by their oldest samples.
fn chunks_of(series: &BlockSeries) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut floats =
        series.floats.iter().map(|(at_ms, bits)| Sample::new(*at_ms, f64::from_bits(*bits))).peekable();
    while let Some(first) = floats.next() {
        let mut words = Vec::new();
        let mut open = OpenXor::start(first, &mut words);
        while let Some(next) = floats.next_if(|next| !open.is_full_for(next.timestamp_ms)) {
            open.append(next, &mut words);
        }
        let sealed = open.seal(words.into_iter());
        chunks.push(Chunk {
            contents: Contents::Floats(FloatEncoding::Xor),
            times_ms: (sealed.min_timestamp_ms(), sealed.max_timestamp_ms()),
            bytes: sealed.bytes().to_vec(),
        });
    }
    let of_histograms = |sealed: &SealedHistogram| Chunk {
        contents: Contents::Histograms(sealed.kind()),
        times_ms: (sealed.min_timestamp_ms(), sealed.max_timestamp_ms()),
        bytes: sealed.bytes().to_vec(),
    };
    let mut open = None::<OpenHistogram>;
    for (at_ms, histogram) in &series.histograms {
        match &mut open {
            None => open = Some(OpenHistogram::start(*at_ms, histogram, None)),
            Some(open) => chunks.extend(open.append(*at_ms, histogram).iter().map(of_histograms)),
        }
    }
    chunks.extend(open.map(|open| of_histograms(&open.seal())));
    chunks.sort_by_key(|chunk| chunk.times_ms);
    chunks
}

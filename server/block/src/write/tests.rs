//! Blocks that are written here and read back, their postings too, and what no block is made of.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;
use silverback_model::Sample;
use silverback_model::gorilla::{FloatEncoding, FloatIter, OpenFloats};
use silverback_model::histogram::{Buckets, Histogram, HistogramIter, HistogramKind, OpenHistogram, Span};

use super::*;
use crate::cut::{SourceChunk, cut_chunks};
use crate::series::SeriesWalk;
use crate::symbols::Symbols;
use crate::toc::Toc;
use crate::window::FileWindow;
use crate::{Block, Contents, verify};

pub(crate) const RANGE_MS: i64 = 7_200_000;

/// A sample's time, and its value's bits or a histogram's sum.
pub(crate) type Samples = BTreeMap<i64, (bool, u64)>;

#[derive(Debug, Clone)]
pub(crate) struct Source {
    contents: Contents,
    samples: Vec<(i64, f64)>,
}

fn histogram(sum: f64) -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: 0, length: 2 }], words: vec![1, 2] };
    Histogram { count: 3, sum_bits: sum.to_bits(), positive, ..Histogram::default() }
}

impl Source {
    fn bytes(&self) -> Vec<u8> {
        let (first, rest) = self.samples.split_first().unwrap();
        match self.contents {
            Contents::Floats(encoding) => {
                let sample = |(at_ms, value): (i64, f64)| (Sample::new(at_ms, value), Some(at_ms - 1));
                let (first, start_ms) = sample(*first);
                let mut open = OpenFloats::start(encoding, first, start_ms);
                for (sample, start_ms) in rest.iter().copied().map(sample) {
                    open.append(sample, start_ms);
                }
                open.seal().bytes().to_vec()
            }
            Contents::Histograms(_) => {
                let mut open = OpenHistogram::start(first.0, &histogram(first.1), None);
                for (at_ms, value) in rest {
                    assert!(open.append(*at_ms, &histogram(*value)).is_none(), "one chunk is enough");
                }
                open.to_bytes()
            }
        }
    }

    fn put_into(&self, samples: &mut Samples) {
        let is_float = matches!(self.contents, Contents::Floats(_));
        for (at_ms, value) in &self.samples {
            samples.entry(*at_ms).or_insert((is_float, value.to_bits()));
        }
    }
}

pub(crate) fn float_encodings() -> impl Strategy<Value = FloatEncoding> {
    prop_oneof![Just(FloatEncoding::Xor), Just(FloatEncoding::Xor2)]
}

fn contents() -> impl Strategy<Value = Contents> {
    prop_oneof![
        2 => float_encodings().prop_map(Contents::Floats),
        1 => Just(Contents::Histograms(HistogramKind::Integer)),
    ]
}

/// Label sets with the chunks of each, as a head would give them: within aligned ranges, some of them late.
pub(crate) fn sources() -> impl Strategy<Value = BTreeMap<Vec<(String, String)>, Vec<Source>>> {
    let labels = prop::collection::btree_map("[a-d]", "[é-ìx-z]{1,3}", 1..4);
    let chunk = (contents(), -1_i64..3, 0..RANGE_MS / 2, prop::collection::vec(1..200_000_i64, 1..18));
    let chunk = chunk.prop_map(|(contents, range, begin_ms, steps)| {
        let begin_ms = range * RANGE_MS + begin_ms;
        let times = steps.iter().scan(begin_ms, |at_ms, step| {
            *at_ms += step;
            Some(*at_ms)
        });
        let samples = times.map(|at_ms| (at_ms, (at_ms % 977) as f64)).collect();
        Source { contents, samples }
    });
    let chunks = prop::collection::vec(chunk, 0..6).prop_map(|mut chunks| {
        chunks.sort_by_key(|chunk| chunk.samples[0].0);
        chunks
    });
    let labels = labels.prop_map(|labels| labels.into_iter().collect::<Vec<_>>());
    prop::collection::btree_map(labels, chunks, 0..25)
}

pub(crate) fn write_all(
    parent: &Path,
    series: &BTreeMap<Vec<(String, String)>, Vec<Source>>,
    range_ms: std::ops::RangeInclusive<i64>,
    floats: FloatEncoding,
) -> Result<Option<FinishedBlock>, BlockWriteError> {
    write_all_in(WriterMemory::MAX, parent, series, range_ms, floats)
}

fn write_all_in(
    memory: WriterMemory,
    parent: &Path,
    series: &BTreeMap<Vec<(String, String)>, Vec<Source>>,
    range_ms: std::ops::RangeInclusive<i64>,
    floats: FloatEncoding,
) -> Result<Option<FinishedBlock>, BlockWriteError> {
    let ulid = Ulid::from_parts(1, 2);
    let mut writer = BlockWriter::create(parent.join(ulid.to_string()), ulid, memory)?;
    for (labels, sources) in series {
        let bytes: Vec<_> = sources.iter().map(Source::bytes).collect();
        let chunks = sources.iter().zip(&bytes).map(|(source, bytes)| SourceChunk {
            contents: source.contents,
            min_ms: source.samples[0].0,
            max_ms: source.samples[source.samples.len() - 1].0,
            bytes,
        });
        let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        writer.add_series(labels, |out| {
            let cut = cut_chunks(chunks, &range_ms, floats, |chunk| out.put(chunk));
            cut.map_err(|error| match error {
                crate::CutError::Put(fault) => fault,
                other => panic!("{other}"),
            })
        })?;
    }
    assert!(writer.memory_bytes() >= memory.bytes());
    writer.finish(&|_| true)
}

pub(crate) fn decode(contents: Option<Contents>, bytes: &[u8], samples: &mut Vec<(i64, (bool, u64))>) {
    match contents {
        Some(Contents::Floats(encoding)) => {
            let floats = FloatIter::new(encoding, bytes).map(Result::unwrap);
            samples.extend(floats.map(|sample| (sample.timestamp_ms, (true, sample.value.to_bits()))));
        }
        Some(Contents::Histograms(kind)) => {
            let (mut iter, mut histogram) = (HistogramIter::new(kind, bytes), Histogram::default());
            while iter.samples_left() > 0 {
                let at_ms = iter.next_into(&mut histogram).unwrap();
                samples.push((at_ms, (false, histogram.sum().to_bits())));
            }
        }
        None => panic!("nobody writes such chunks"),
    }
}

/// Reads a block's postings: which series each pair of name and value has, and all series under two empty texts.
pub(crate) fn postings(dir: &Path) -> BTreeMap<(String, String), Vec<u64>> {
    let index = std::fs::read(dir.join("index")).unwrap();
    let word = |at: usize| u32::from_be_bytes(index[at..at + 4].try_into().unwrap()) as usize;
    let checked = |at: usize| {
        let content = &index[at + 4..at + 4 + word(at)];
        assert_eq!(crc32c::crc32c(content) as usize, word(at + 4 + word(at)), "at {at}");
        content
    };
    let toc_at = index.len() - 52;
    let table_at = u64::from_be_bytes(index[toc_at + 40..toc_at + 48].try_into().unwrap()) as usize;
    let mut table = crate::cursor::Cursor::new(checked(table_at), 0, "the table");
    let mut lists = BTreeMap::new();
    let mut before = None;
    for _list in 0..table.u32().unwrap() {
        assert_eq!(table.uvarint().unwrap(), 2);
        let [name, value] = [(); 2].map(|()| {
            let len = table.uvarint().unwrap() as usize;
            String::from_utf8(table.take(len).unwrap().to_vec()).unwrap()
        });
        let at = table.uvarint().unwrap() as usize;
        assert_eq!(at % 4, 0);
        let list = checked(at);
        assert_eq!(list.len(), 4 + 4 * word(at + 4));
        let own = (name, value);
        assert!(before.as_ref().is_none_or(|before| *before < own), "the table is sorted");
        before = Some(own.clone());
        let series = list[4..].chunks(4).map(|word| u64::from(u32::from_be_bytes(word.try_into().unwrap())));
        lists.insert(own, series.collect());
    }
    assert!(table.is_at_end());
    lists
}

fn check_block(
    dir: &Path,
    expect: &BTreeMap<Vec<(String, String)>, Samples>,
    finished: &FinishedBlock,
    floats: FloatEncoding,
) {
    let mut block = Block::open(dir).unwrap();
    let (mut stats, mut references) = (Stats::default(), Vec::new());
    for (labels, samples) in expect {
        let series = block.next_series().unwrap().unwrap();
        let read = series.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(read.collect::<Vec<_>>(), *labels);
        let mut read = Vec::new();
        for place in &series.chunks {
            let chunk = block.chunk(*place).unwrap();
            let begin = read.len();
            let encoding = FloatEncoding::of_chunk_encoding(chunk.contents.unwrap().encoding());
            assert!(encoding.is_none_or(|encoding| encoding == floats), "{encoding:?}");
            decode(chunk.contents, chunk.bytes, &mut read);
            assert_eq!((read[begin].0, read[read.len() - 1].0), (place.min_ms, place.max_ms));
        }
        assert!(series.chunks.is_sorted_by(|chunk, next| chunk.max_ms < next.min_ms));
        references.extend(series.chunks.iter().map(|place| place.reference));
        assert_eq!(read, samples.iter().map(|(at_ms, value)| (*at_ms, *value)).collect::<Vec<_>>());
        stats.num_series += 1;
        stats.num_chunks += series.chunks.len() as u64;
        stats.num_samples += read.len() as u64;
        stats.num_float_samples += read.iter().filter(|(_, (is_float, _))| *is_float).count() as u64;
    }
    assert_eq!(block.next_series().unwrap(), None);
    assert!(references.is_sorted_by(|before, reference| before < reference));
    stats.num_histogram_samples = stats.num_samples - stats.num_float_samples;
    let meta = Meta::read(dir).unwrap();
    assert_eq!((&meta, meta.stats), (&finished.meta, stats));
    let times = || expect.values().flat_map(BTreeMap::keys);
    assert_eq!((meta.min_ms, meta.end_ms), (*times().min().unwrap(), times().max().unwrap() + 1));
    let mut expect_postings = BTreeMap::<_, Vec<u64>>::new();
    let path = dir.join("index");
    let mut index = FileWindow::open(&path, 1 << 20).unwrap();
    let toc = Toc::read(&mut index).unwrap();
    let (mut symbols, mut walk) = (Symbols::open(&path, toc.symbols).unwrap(), SeriesWalk::new(&toc));
    while let Some(series) = walk.next(&mut index).unwrap() {
        let mut text = |number| symbols.look_up(number, 0).unwrap().to_string();
        let pairs = series.labels.iter().map(|(name, value)| (text(*name), text(*value)));
        for pair in pairs.chain([(String::new(), String::new())]) {
            expect_postings.entry(pair).or_default().push(series.reference());
        }
    }
    assert_eq!(postings(dir), expect_postings);
}

fn bytes_of(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    files
        .map(
            |file| if file.path().is_dir() { bytes_of(&file.path()) } else { file.metadata().unwrap().len() },
        )
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn series_are_read_back_as_their_ranges_had_them(
        series in sources(),
        memory in prop::sample::select(vec![64_usize, 300, 1000, 20_000]),
        floats in float_encodings(),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        for range in -1..4 {
            let range_ms = range * RANGE_MS..=(range + 1) * RANGE_MS - 1;
            let parent = scratch.path().join(range.to_string());
            std::fs::create_dir(&parent).unwrap();
            let mut expect = BTreeMap::new();
            for (labels, sources) in &series {
                let mut samples = Samples::new();
                sources.iter().for_each(|source| source.put_into(&mut samples));
                samples.retain(|at_ms, _| range_ms.contains(at_ms));
                if !samples.is_empty() {
                    expect.insert(labels.clone(), samples);
                }
            }
            let written = write_all_in(WriterMemory::tiny(memory), &parent, &series, range_ms, floats).unwrap();
            let names: BTreeSet<PathBuf> =
                std::fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().path()).collect();
            let Some(finished) = written else {
                prop_assert!(expect.is_empty() && names.is_empty());
                continue;
            };
            let dir = names.first().unwrap();
            let files = std::fs::read_dir(dir).unwrap().count();
            prop_assert_eq!((names.len(), files), (1, 4), "index, chunks, tombstones, meta.json");
            prop_assert_eq!(bytes_of(dir), finished.bytes);
            check_block(dir, &expect, &finished, floats);
        }
    }
}

pub(super) fn chunk(min_ms: i64, max_ms: i64) -> CutChunk<'static> {
    CutChunk { contents: Contents::Floats(FloatEncoding::Xor), min_ms, max_ms, samples: 1, bytes: &[0, 1, 0] }
}

pub(super) fn add(
    writer: &mut BlockWriter,
    labels: &[(&str, &str)],
    chunks: &[CutChunk<'_>],
) -> Result<(), BlockWriteError> {
    writer.add_series(labels.iter().copied(), |out| chunks.iter().try_for_each(|chunk| out.put(*chunk)))
}

#[test]
fn what_no_block_has_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("block");
    let mut writer = BlockWriter::create(dir, Ulid::from_parts(1, 1), WriterMemory::MAX).unwrap();
    add(&mut writer, &[("a", "b"), ("c", "d")], &[chunk(1, 2)]).unwrap();
    let unordered: [&[(&str, &str)]; 5] = [
        &[("a", "b"), ("c", "d")],
        &[("a", "b")],
        &[("b", "b"), ("a", "a")],
        &[("b", "")],
        &[("b", "b"), ("b", "c")],
    ];
    for labels in unordered {
        let fault = add(&mut writer, labels, &[chunk(1, 2)]).unwrap_err();
        assert!(matches!(fault, BlockWriteError::SeriesOrder(_)), "{labels:?}: {fault}");
    }
    for chunks in [[chunk(1, 5), chunk(5, 6)], [chunk(1, 2), chunk(4, 3)]] {
        let fault = add(&mut writer, &[("z", "z")], &chunks).unwrap_err();
        assert!(matches!(fault, BlockWriteError::ChunkOrder { .. }), "{fault}");
    }
}

#[test]
fn a_block_that_nobody_wants_any_more_is_not_finished_whatever_it_is_at() {
    let mut asked = Cell::new(0);
    for wanted in 0.. {
        let scratch = tempfile::tempdir().unwrap();
        let ulid = Ulid::from_parts(1, 1);
        let dir = scratch.path().join(ulid.to_string());
        let mut writer = BlockWriter::create(dir.clone(), ulid, WriterMemory::tiny(1000)).unwrap();
        for number in 0..500 {
            add(&mut writer, &[("a", &format!("{number:05}"))], &[chunk(1, 2)]).unwrap();
        }
        asked.set(0);
        let is_wanted = |_| asked.replace(asked.get() + 1) < wanted;
        match writer.finish(&is_wanted) {
            Err(BlockWriteError::Unwanted) => {
                assert!(!dir.join("meta.json").exists());
                assert_eq!(*asked.get_mut(), wanted + 1, "it ends at once");
            }
            finished => {
                finished.unwrap().unwrap();
                // Texts, symbols, numbers, series and lists, some of them in passes.
                assert!(wanted > 20, "it was asked {wanted} times");
                return;
            }
        }
    }
}

#[test]
fn what_a_writer_takes_is_what_it_was_given_and_some_times_its_largest_series() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("block");
    let mut writer = BlockWriter::create(dir, Ulid::from_parts(1, 1), WriterMemory::MAX).unwrap();
    let chunks: Vec<_> = (0..10_000).map(|number| chunk(2 * number, 2 * number + 1)).collect();
    add(&mut writer, &[("a", "a")], &chunks).unwrap();
    let given = WriterMemory::MAX.bytes();
    let with_chunks = writer.memory_bytes();
    assert!((given + 10_000..given + (1 << 20)).contains(&with_chunks), "{with_chunks}");
    for number in 0..1000 {
        add(&mut writer, &[("b", &format!("{number:0200}"))], &chunks[..1]).unwrap();
    }
    assert!(writer.memory_bytes() < with_chunks + 2000, "{}", writer.memory_bytes());
    add(&mut writer, &[("c", &"x".repeat(1 << 20))], &chunks[..1]).unwrap();
    assert!(writer.memory_bytes() >= with_chunks + (1 << 20));
}

/// A block of two series, and where it is.
pub(crate) fn written(parent: &Path) -> PathBuf {
    let source = |begin_ms: i64| Source {
        contents: Contents::Floats(FloatEncoding::Xor),
        samples: (0..20).map(|i| (begin_ms + i * 1000, i as f64)).collect(),
    };
    let histograms = Source { contents: Contents::Histograms(HistogramKind::Integer), ..source(100_000) };
    let labels =
        |job: &str| vec![("__name__".to_owned(), "up".to_owned()), ("job".to_owned(), job.to_owned())];
    let series = BTreeMap::from([
        (labels("a"), vec![source(0), source(50_000)]),
        (labels("b"), vec![source(7), histograms]),
    ]);
    write_all(parent, &series, 0..=RANGE_MS, FloatEncoding::Xor).unwrap().unwrap();
    parent.join(Ulid::from_parts(1, 2).to_string())
}

fn damages(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    verify(dir, |damage| all.push(damage.to_string()));
    all
}

#[test]
fn a_whole_block_is_verified_and_what_is_wrong_with_another_is_told() {
    let parent = tempfile::tempdir().unwrap();
    let dir = written(parent.path());
    let mut all = Vec::new();
    let verified = verify(&dir, |damage| all.push(damage));
    assert!(all.is_empty(), "{all:?}");
    let stats = verified.stats;
    assert_eq!((stats.num_series, stats.num_chunks), (2, 4));
    assert_eq!((stats.num_samples, stats.num_histogram_samples, verified.chunks_not_decoded), (80, 20, 0));
    let meta = std::fs::read_to_string(dir.join("meta.json")).unwrap();
    let check = |from: &str, to: &str, words: &str| {
        assert!(meta.contains(from), "{meta}");
        std::fs::write(dir.join("meta.json"), meta.replace(from, to)).unwrap();
        let told = damages(&dir);
        assert!(told.len() == 1 && told[0].contains(words), "{told:?}");
    };
    check("\"numSamples\": 80", "\"numSamples\": 79", "meta.json says 79 samples, but there are 80");
    check("\"numSeries\": 2", "\"numSeries\": 3", "meta.json says 3 series, but there are 2");
    check("\"minTime\": 0", "\"minTime\": 1", "{__name__=\"up\", job=\"a\"}: it has samples outside");
    std::fs::write(dir.join("meta.json"), &meta).unwrap();
    assert_eq!(damages(&dir), Vec::<String>::new());
}

#[test]
fn every_bit_of_chunks_and_every_cut_of_a_file_is_found_by_verifying() {
    let parent = tempfile::tempdir().unwrap();
    let dir = written(parent.path());
    for name in ["chunks/000001", "index", "meta.json", "tombstones"] {
        let path = dir.join(name);
        let whole = std::fs::read(&path).unwrap();
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            // A JSON object may lose the end of its last line.
            assert!(
                !damages(&dir).is_empty() || len + 1 == whole.len() && name == "meta.json",
                "{name}: {len}"
            );
        }
        // Bits of the first file: its head's last three bytes are filling.
        for bit in (0..whole.len() * 8).filter(|bit| name == "chunks/000001" && !(40..64).contains(bit)) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, bytes).unwrap();
            assert!(!damages(&dir).is_empty(), "{name}: bit {bit}");
        }
        std::fs::write(&path, whole).unwrap();
    }
    assert!(damages(&dir).is_empty());
}

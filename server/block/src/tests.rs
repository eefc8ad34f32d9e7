//! Blocks that are written here and read back: whole ones, and such with any bit turned over.

use std::path::Path;

use proptest::prelude::*;
use silverback_model::STALE_NAN_BITS;
use silverback_model::gorilla::{ChunkError, FloatIter};
use silverback_test_support::prometheus::block::{Written, WrittenChunk, WrittenSeries};

use super::*;

type Samples = Vec<(i64, u64)>;

/// All of a block: each series' labels, the samples of its float chunks but for deleted ones, and how
/// many other chunks it has.
fn read_all(dir: &Path) -> Result<Vec<(String, Samples, usize)>, BlockError> {
    Meta::read(dir)?;
    let mut block = Block::open(dir)?;
    let mut all = Vec::new();
    while let Some(series) = block.next_series()? {
        let labels: Vec<_> = series.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (mut samples, mut others) = (Vec::new(), 0);
        for place in &series.chunks {
            let chunk = block.chunk(*place)?;
            let Some(Contents::Floats(encoding)) = chunk.contents else {
                others += 1;
                continue;
            };
            let decoded: Result<Vec<_>, ChunkError> = FloatIter::new(encoding, chunk.bytes).collect();
            let decoded = decoded.map_err(|error| block.chunk_error(*place, error))?;
            let kept = decoded
                .iter()
                .filter(|sample| !series.deleted.iter().any(|range| range.holds(sample.timestamp_ms)));
            samples.extend(kept.map(|sample| (sample.timestamp_ms, sample.value.to_bits())));
        }
        all.push((labels.join(","), samples, others));
    }
    Ok(all)
}

fn floats(samples: &[(i64, f64)]) -> WrittenChunk {
    WrittenChunk { encoding: 1, samples: samples.to_vec() }
}

fn small() -> Written {
    let series = [
        WrittenSeries {
            labels: vec![("__name__", "up"), ("job", "a")],
            chunks: vec![floats(&[(1000, 1.0), (2000, 1.0), (3500, 0.5)]), floats(&[(4000, f64::NAN)])],
        },
        WrittenSeries {
            labels: vec![("__name__", "up"), ("job", "b")],
            chunks: vec![
                floats(&[(-5, -1.0), (7, 1e9)]),
                WrittenChunk { encoding: 2, samples: vec![(9, 0.0)] },
            ],
        },
    ];
    Written::new(&series, &[(1, 0, 7), (1, 100, 200)])
}

fn expected() -> Vec<(String, Samples, usize)> {
    let bits = |samples: &[(i64, f64)]| samples.iter().map(|(at, value)| (*at, value.to_bits())).collect();
    vec![
        ("__name__=up,job=a".to_owned(), bits(&[(1000, 1.0), (2000, 1.0), (3500, 0.5), (4000, f64::NAN)]), 0),
        ("__name__=up,job=b".to_owned(), bits(&[(-5, -1.0)]), 1),
    ]
}

/// What Prometheus' own database wrote with XOR2 chunks; `xor2_vectors/README.md` beside it says how.
const XOR2_BLOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/xor2_vectors/block");

#[test]
fn a_block_of_xor2_chunks_that_prometheus_wrote_is_read_and_whole() {
    let sample = |series: i64, nth: i64| {
        let value = if nth % 50 == 49 { STALE_NAN_BITS } else { ((nth * series) as f64 / 4.0).to_bits() };
        (1_700_000_000_000 + 15_000 * nth + nth % 7 * (nth % 2), value)
    };
    let expect: Vec<_> = (0..3)
        .map(|series| {
            let samples: Samples = (0..250).map(|nth| sample(series, nth)).collect();
            (format!("__name__=xor2,series={series}"), samples, 0)
        })
        .collect();
    assert_eq!(read_all(Path::new(XOR2_BLOCK)).unwrap(), expect);

    let verified = verify(Path::new(XOR2_BLOCK), |damage| panic!("{damage}"));
    let Stats { num_samples, num_float_samples, num_chunks, .. } = verified.stats;
    assert_eq!((num_samples, num_float_samples, num_chunks), (750, 750, 6));
    assert_eq!(verified.chunks_not_decoded, 0);
}

#[test]
fn each_encoding_of_floats_is_read_by_its_number() {
    let samples = [(-5, 1.0), (7, f64::from_bits(STALE_NAN_BITS)), (9, 1.0), (20, -0.5)];
    for encoding in [1, 4] {
        let labels = vec![("__name__", "up")];
        let chunks = vec![WrittenChunk { encoding, samples: samples.to_vec() }];
        let dir = tempfile::tempdir().unwrap();
        Written::new(&[WrittenSeries { labels, chunks }], &[]).put(dir.path());
        let expect = samples.map(|(at_ms, value)| (at_ms, value.to_bits())).to_vec();
        assert_eq!(read_all(dir.path()).unwrap(), [("__name__=up".to_owned(), expect, 0)], "{encoding}");
    }
}

fn check_fault(change: impl Fn(&mut Written), words: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut written = small();
    change(&mut written);
    written.put(dir.path());
    let fault = read_all(dir.path()).expect_err(words).to_string();
    assert!(fault.contains(words), "{fault}");
}

#[test]
fn a_block_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    small().put(dir.path());
    assert_eq!(read_all(dir.path()).unwrap(), expected());
    let meta = Meta::read(dir.path()).unwrap();
    assert_eq!((meta.min_ms, meta.end_ms, meta.stats.num_series), (-5, 4001, 2));
    std::fs::remove_file(dir.path().join("tombstones")).unwrap();
    assert_eq!(read_all(dir.path()).unwrap()[1].1.len(), 2);
}

#[test]
fn series_can_be_skipped() {
    let dir = tempfile::tempdir().unwrap();
    small().put(dir.path());
    let mut block = Block::open(dir.path()).unwrap();
    assert!(block.skip_series().unwrap());
    assert_eq!(&*block.next_series().unwrap().unwrap().labels[1].1, "b");
    assert!(!block.skip_series().unwrap());
    assert_eq!(block.next_series().unwrap(), None);
}

#[test]
fn symbols_far_behind_each_other_are_found() {
    let names: Vec<String> = (0..200).map(|index| format!("label_{index:03}")).collect();
    let names: Vec<&'static str> = names.into_iter().map(|name| &*name.leak()).collect();
    let labels: Vec<_> = names.iter().map(|name| (*name, "v")).collect();
    let series = WrittenSeries { labels, chunks: vec![floats(&[(1, 1.0)])] };
    let dir = tempfile::tempdir().unwrap();
    Written::new(&[series], &[]).put(dir.path());
    let series = Block::open(dir.path()).unwrap().next_series().unwrap().unwrap();
    let found: Vec<_> = series.labels.iter().map(|(name, _)| &**name).collect();
    assert_eq!(found, names);
}

#[test]
fn what_is_damaged_is_told_with_file_and_place() {
    check_fault(|block| block.index[0] ^= 1, "index, byte 0: not an index of version 2");
    check_fault(|block| block.index[4] = 1, "index, byte 0: not an index of version 2");
    check_fault(|block| block.index.truncate(3), "index, byte 0: the head goes on past the end");
    check_fault(|block| block.index.truncate(40), "index, byte 0: the table of contents");
    check_fault(|block| block.index[14] ^= 1, "the symbols");
    check_fault(|block| block.chunks[4] = 2, "chunks/000001, byte 0: not a chunk file of version 1");
    check_fault(|block| block.chunks[12] ^= 1, "chunks/000001, byte 8: the checksum of a chunk is wrong");
    check_fault(|block| block.chunks.truncate(20), "chunks/000001, byte");
    check_fault(|block| block.tombstones[6] ^= 1, "tombstones, byte 0: the checksum");
    check_fault(|block| block.tombstones.truncate(7), "the tombstones goes on past the end");
    check_fault(|block| block.meta.truncate(9), "meta.json, byte 0: EOF");
}

#[test]
fn a_missing_file_is_told() {
    for name in ["index", "chunks/000001", "meta.json"] {
        let dir = tempfile::tempdir().unwrap();
        small().put(dir.path());
        std::fs::remove_file(dir.path().join(name)).unwrap();
        assert!(read_all(dir.path()).is_err(), "{name}");
    }
}

/// Every bit of a file turned over, one by one.
fn check_every_bit(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    small().put(dir.path());
    let path = dir.path().join(name);
    let whole = std::fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, bytes).unwrap();
        // What nothing depends on, as the padding between series, may be anything.
        if let Ok(read) = read_all(dir.path()) {
            assert_eq!(read, expected(), "{name}: bit {bit} was turned over unnoticed");
        }
    }
}

#[test]
fn no_bit_of_a_block_is_turned_over_unnoticed() {
    check_every_bit("index");
    check_every_bit("chunks/000001");
    check_every_bit("tombstones");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_the_reader_panic(
        place in 0usize..400,
        bytes in prop::collection::vec(any::<u8>(), 1..24),
        file in 0usize..3,
        cut in any::<Option<u8>>(),
    ) {
        let mut written = small();
        let target = [&mut written.index, &mut written.chunks, &mut written.tombstones];
        let target: &mut Vec<u8> = target.into_iter().nth(file).unwrap();
        let place = place % target.len();
        let end = (place + bytes.len()).min(target.len());
        target[place..end].copy_from_slice(&bytes[..end - place]);
        target.truncate(cut.map_or(usize::MAX, usize::from));
        // Checksums that are right again lead the reader on.
        resum(&mut written);
        let dir = tempfile::tempdir().unwrap();
        written.put(dir.path());
        drop(read_all(dir.path()));
    }
}

/// Makes the table of contents' checksum right, and the tombstones'.
fn resum(written: &mut Written) {
    for (file, summed) in [(&mut written.index, 48), (&mut written.tombstones, usize::MAX)] {
        let Some(end) = file.len().checked_sub(4) else { continue };
        let begins = if summed == usize::MAX { 5.min(end) } else { end.saturating_sub(summed) };
        let sum = crc32c::crc32c(&file[begins..end]).to_be_bytes();
        file[end..].copy_from_slice(&sum);
    }
}

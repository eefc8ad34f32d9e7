//! Blocks whose parts are asked for hold what a reader of the whole finds, whatever the cache has room for; and no bit of
//! them is turned over unnoticed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use proptest::prelude::*;

use super::*;
use crate::checksums::ChecksumPass;
use crate::reader::Block;
use crate::write::tests::{RANGE_MS, float_encodings, postings, sources, write_all, written};

/// All of a block: each label's series, and each series by its reference with labels and chunks.
#[derive(Debug, PartialEq, Eq)]
struct Everything {
    names: Vec<String>,
    lists: BTreeMap<(String, String), Vec<u64>>,
    series: Vec<ReadSeries>,
}

/// Labels and chunks.
type ReadSeries = (Vec<(String, String)>, Vec<ReadChunk>);

/// Times, what is in it, its bytes.
type ReadChunk = (RangeInclusive<i64>, Contents, Vec<u8>);

fn text(block: &OpenBlock, number: u64) -> Result<String, BlockError> {
    let mut text = String::new();
    block.symbol(number, &mut text)?;
    Ok(text)
}

fn read_all(dir: &Path, cache: &Arc<BlockCache>) -> Result<Everything, BlockError> {
    let block = OpenBlock::open(dir, cache)?;
    let all = block.all_series()?;
    let wide = |list: RoaringBitmap| list.into_iter().map(u64::from).collect::<Vec<_>>();
    let mut names = Vec::new();
    block.label_names(|name| names.push(name.to_owned()))?;
    let mut lists = BTreeMap::from([((String::new(), String::new()), wide(all.clone()))]);
    for name in &names {
        let mut values = Vec::new();
        block.label_values(name, |value, place| {
            values.push((value.to_owned(), place));
            true
        })?;
        for (value, place) in values {
            assert_eq!(block.find(name, &value)?, Some(place), "{name}={value}");
            lists.insert((name.clone(), value), wide(block.postings(place)?));
        }
    }
    let mut series = Vec::new();
    for reference in all {
        let (labels, places) = block.series(reference)?;
        let labels: Result<_, BlockError> =
            labels.into_iter().map(|(name, value)| Ok((text(&block, name)?, text(&block, value)?))).collect();
        let mut chunks = Vec::new();
        for place in places {
            let mut bytes = b"before".to_vec();
            let contents = block.chunk(place, &mut bytes)?;
            chunks.push((place.min_ms..=place.max_ms, contents, bytes.split_off(6)));
        }
        series.push((labels?, chunks));
    }
    Ok(Everything { names, lists, series })
}

fn read_in_order(dir: &Path) -> Vec<ReadSeries> {
    let (mut block, mut all) = (Block::open(dir).unwrap(), Vec::new());
    while let Some(series) = block.next_series().unwrap() {
        let labels =
            series.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let mut chunks = Vec::new();
        for place in series.chunks {
            let chunk = block.chunk(place).unwrap();
            chunks.push((place.min_ms..=place.max_ms, chunk.contents.unwrap(), chunk.bytes.to_vec()));
        }
        all.push((labels, chunks));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn what_is_asked_for_is_what_a_reader_of_the_whole_finds(
        series in sources(),
        floats in float_encodings(),
        cache_bytes in 10_000usize..40_000,
    ) {
        let scratch = tempfile::tempdir().unwrap();
        if write_all(scratch.path(), &series, -RANGE_MS..=3 * RANGE_MS, floats).unwrap().is_none() {
            return Ok(());
        }
        let dir = std::fs::read_dir(scratch.path()).unwrap().next().unwrap().unwrap().path();
        let cache = BlockCache::new(cache_bytes);
        for _again in 0..2 {
            let found = read_all(&dir, &cache).unwrap();
            prop_assert_eq!(&found.series, &read_in_order(&dir));
            prop_assert_eq!(&found.lists, &postings(&dir));
            let pairs = found.lists.keys().map(|(name, _)| name.clone()).filter(|name| !name.is_empty());
            let mut names: Vec<String> = pairs.collect();
            names.dedup();
            prop_assert_eq!(&found.names, &names);
            prop_assert!(cache.counts().bytes <= cache_bytes);
        }
    }
}

#[test]
fn what_no_series_has_is_not_found() {
    let parent = tempfile::tempdir().unwrap();
    let block = OpenBlock::open(&written(parent.path()), &BlockCache::new(1 << 20)).unwrap();
    for (name, value) in [("", ""), ("job", ""), ("job", "aa"), ("job", "z"), ("nothing", "a"), ("zzz", "")] {
        assert_eq!(block.find(name, value).unwrap(), None, "{name}={value}");
    }
    assert!(block.is_whole() && block.meta().stats.num_series == 2);
    let mut values = 0;
    block
        .label_values("job", |_, _| {
            values += 1;
            false
        })
        .unwrap();
    assert_eq!(values, 1, "no more than are wanted");
    for reference in [0, 1, u32::MAX] {
        assert!(block.series(reference).is_err(), "{reference}");
    }
    let place = ChunkPlace { min_ms: 0, max_ms: 0, reference: 7 << 32 };
    assert!(block.chunk(place, &mut Vec::new()).unwrap_err().to_string().contains("chunk file 7"));
}

#[test]
fn what_was_deleted_is_known_by_series() {
    let parent = tempfile::tempdir().unwrap();
    let dir = written(parent.path());
    let cache = BlockCache::new(1 << 20);
    let all = OpenBlock::open(&dir, &cache).unwrap().all_series().unwrap();
    let first = all.min().unwrap();
    let mut stones = Vec::new();
    silverback_test_support::prometheus::block::uvarint(&mut stones, first.into());
    [5, 9].into_iter().for_each(|at| silverback_test_support::prometheus::block::varint(&mut stones, at));
    let mut file = [&crate::tombstones::MAGIC.to_be_bytes()[..], &[1], &stones].concat();
    file.extend(crc32c::crc32c(&stones).to_be_bytes());
    std::fs::write(dir.join("tombstones"), file).unwrap();
    let block = OpenBlock::open(&dir, &cache).unwrap();
    assert_eq!(block.deleted(first), [DeletedRange { min_ms: 5, max_ms: 9 }]);
    assert!(!block.is_whole() && block.deleted(all.max().unwrap()).is_empty());
}

/// Damages each file of a block in turn, and reads it all. What is read is what was written, or a fault.
fn check_damaged(name: &str, damage: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    let parent = tempfile::tempdir().unwrap();
    let dir = written(parent.path());
    let cache = BlockCache::new(1 << 16);
    let expect = read_all(&dir, &cache).unwrap();
    let path = dir.join(name);
    let whole = std::fs::read(&path).unwrap();
    for (number, bytes) in damage(&whole).into_iter().enumerate() {
        std::fs::write(&path, bytes).unwrap();
        // What nothing depends on, as the padding between series, may be anything.
        match read_all(&dir, &cache) {
            Ok(found) => assert_eq!(found, expect, "{name}: damage {number} was not found"),
            Err(fault) if name != "tombstones" => {
                assert!(pass(&dir, u64::MAX).is_err(), "{name}: the checksums are right, and yet {fault}");
            }
            Err(_of_tombstones) => {}
        }
    }
}

/// Compares all checksums, in steps of so many bytes. How many steps it took.
fn pass(dir: &Path, step_bytes: u64) -> Result<usize, BlockError> {
    let mut pass = ChecksumPass::open(dir)?;
    let mut steps = 0;
    while pass.step(step_bytes)?.is_some() {
        steps += 1;
    }
    Ok(steps)
}

#[test]
fn checksums_of_a_whole_block_are_compared_in_steps_of_any_size() {
    let parent = tempfile::tempdir().unwrap();
    let dir = written(parent.path());
    assert_eq!(pass(&dir, u64::MAX).unwrap(), 0);
    let in_steps = pass(&dir, 1).unwrap();
    let bytes = std::fs::metadata(dir.join("index")).unwrap().len();
    assert!(in_steps as u64 > bytes / 64, "{in_steps} steps for {bytes} bytes");
}

const FILES: [&str; 3] = ["index", "chunks/000001", "tombstones"];

#[test]
fn no_bit_is_turned_over_unnoticed() {
    for name in FILES {
        check_damaged(name, |whole| {
            let turned = |bit: usize| {
                let mut bytes = whole.to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            };
            (0..whole.len() * 8).map(turned).collect()
        });
    }
}

#[test]
fn no_file_is_cut_unnoticed() {
    for name in FILES {
        check_damaged(name, |whole| (0..whole.len()).map(|len| whole[..len].to_vec()).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bytes_whose_checksums_are_right_make_no_reader_panic(
        file in 0usize..2,
        place in 0usize..2000,
        bytes in prop::collection::vec(any::<u8>(), 1..12),
    ) {
        let parent = tempfile::tempdir().unwrap();
        let dir = written(parent.path());
        let path = dir.join(FILES[file]);
        let mut whole = std::fs::read(&path).unwrap();
        let place = place % whole.len();
        let end = (place + bytes.len()).min(whole.len());
        whole[place..end].copy_from_slice(&bytes[..end - place]);
        sum_again(&mut whole);
        std::fs::write(&path, whole).unwrap();
        drop(read_all(&dir, &BlockCache::new(1 << 16)));
    }
}

/// Makes the checksums of an index right again, as far as its sections are found.
fn sum_again(index: &mut [u8]) {
    let Some(toc) = index.len().checked_sub(52) else { return };
    let section = |index: &mut [u8], begins: usize| {
        let len = index.get(begins..begins.saturating_add(4))?;
        let len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize;
        let sum = crc32c::crc32c(index.get(begins + 4..begins + 4 + len)?);
        index.get_mut(begins + 4 + len..begins + 8 + len)?.copy_from_slice(&sum.to_be_bytes());
        Some(begins + 8 + len)
    };
    let offset = |index: &[u8], number: usize| {
        let bytes = index[toc + 8 * number..toc + 8 * number + 8].try_into().expect("8 bytes");
        usize::try_from(u64::from_be_bytes(bytes)).unwrap_or(usize::MAX).min(index.len())
    };
    let (symbols, lists, table) = (offset(index, 0), offset(index, 4), offset(index, 5));
    section(index, symbols);
    section(index, table);
    let mut list = Some(lists);
    while let Some(at) = list.filter(|at| *at < table) {
        list = section(index, at);
    }
    let sum = crc32c::crc32c(&index[toc..toc + 48]);
    index[toc + 48..].copy_from_slice(&sum.to_be_bytes());
}

//! Hostile bytes as the files of a block: whatever is asked for of it is answered or refused, without a panic and without
//! more memory than the files have.
#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use silverback_block::{Block, BlockCache, BlockError, OpenBlock};

/// Where the files are: in memory.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        let dir = PathBuf::from("/dev/shm").join(format!("silverback-fuzz-block-{}", std::process::id()));
        fs::create_dir_all(dir.join("chunks")).expect("a directory in memory");
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

thread_local! {
    static DIR: RefCell<Option<Dir>> = const { RefCell::new(None) };
}

const META: &str = r#"{"ulid":"01BX5ZZKBKACTAV9WEVGEMMVRZ","minTime":0,"maxTime":9,"version":1}"#;

// Lengths of the index and of the chunks, both of two bytes, the index, the chunks, the tombstones.
fuzz_target!(|input: &[u8]| {
    let Some((lens, files)) = input.split_at_checked(4) else { return };
    let len = |at: usize| usize::from(u16::from_le_bytes([lens[at], lens[at + 1]]));
    let Some((index, rest)) = files.split_at_checked(len(0)) else { return };
    let Some((chunks, tombstones)) = rest.split_at_checked(len(2)) else { return };
    let mut index = index.to_vec();
    sum_again(&mut index);
    DIR.with_borrow_mut(|dir| {
        let Dir(dir) = dir.get_or_insert_with(Dir::new);
        let files = [("index", &index[..]), ("chunks/000001", chunks), ("tombstones", tombstones), ("meta.json", META.as_bytes())];
        for (name, bytes) in files {
            fs::write(dir.join(name), bytes).expect("memory takes it");
        }
        drop(read_all(dir));
        drop(read_in_order(dir));
    });
});

fn read_all(dir: &std::path::Path) -> Result<(), BlockError> {
    let block = OpenBlock::open(dir, &BlockCache::new(1 << 16))?;
    let (mut names, mut places) = (Vec::new(), Vec::new());
    block.label_names(|name| names.push(name.to_owned()))?;
    for name in &names {
        let mut values = Vec::new();
        block.label_values(name, |value, place| {
            values.push(value.to_owned());
            places.push(place);
            values.len() < 100
        })?;
        for value in values {
            assert!(block.find(name, &value)?.is_some(), "a value that was listed is found");
        }
    }
    let mut series = block.all_series()?;
    for place in places {
        series |= block.postings(place).unwrap_or_default();
    }
    let (mut text, mut bytes) = (String::new(), Vec::new());
    for series in series.iter().take(1000) {
        let Ok((labels, chunks)) = block.series(series) else { continue };
        for (name, value) in labels {
            text.clear();
            drop(block.symbol(name, &mut text).and_then(|()| block.symbol(value, &mut text)));
        }
        for place in chunks {
            bytes.clear();
            drop(block.chunk(place, &mut bytes));
        }
        let _ranges = block.deleted(series);
    }
    Ok(())
}

fn read_in_order(dir: &std::path::Path) -> Result<(), BlockError> {
    let mut block = Block::open(dir)?;
    while let Some(series) = block.next_series()? {
        for place in series.chunks {
            drop(block.chunk(place));
        }
    }
    Ok(())
}

/// Makes the checksums of an index right: chance alone would find none.
fn sum_again(index: &mut [u8]) {
    let Some(toc) = index.len().checked_sub(52) else { return };
    let offset = |index: &[u8], number: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&index[toc + 8 * number..toc + 8 * number + 8]);
        usize::try_from(u64::from_be_bytes(bytes)).unwrap_or(usize::MAX).min(index.len())
    };
    let (symbols, lists, table) = (offset(index, 0), offset(index, 4), offset(index, 5));
    sum_section(index, symbols);
    sum_section(index, table);
    let mut list = Some(lists);
    while let Some(at) = list.filter(|at| *at < table) {
        list = sum_section(index, at);
    }
    let sum = crc32c::crc32c(&index[toc..toc + 48]);
    index[toc + 48..].copy_from_slice(&sum.to_be_bytes());
}

/// Where the next one begins.
fn sum_section(index: &mut [u8], begins: usize) -> Option<usize> {
    let len = index.get(begins..begins.checked_add(4)?)?;
    let len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize;
    let sum = crc32c::crc32c(index.get(begins + 4..begins + 4 + len)?);
    index.get_mut(begins + 4 + len..begins + 8 + len)?.copy_from_slice(&sum.to_be_bytes());
    Some(begins + 8 + len)
}

//! What a writer of blocks has at a time, whatever it writes.

use silverback_block::{Block, BlockWriteError, BlockWriter, Contents, CutChunk, Ulid, WriterMemory};
use silverback_model::gorilla::FloatEncoding;
use silverback_test_support::Scratch;

use super::held_bytes_max;

/// What nobody counts: paths, small vectors.
const SLACK_BYTES: usize = 16 << 10;

/// Writes series that have a pod each, a node that others have, too, and one chunk.
fn check(memory: WriterMemory, series: usize) {
    let scratch = Scratch::new();
    let dir = scratch.join("block");
    let chunk = CutChunk {
        contents: Contents::Floats(FloatEncoding::Xor),
        min_ms: 1,
        max_ms: 2,
        samples: 1,
        bytes: &[0, 1, 0],
    };
    let write = || {
        let mut writer = BlockWriter::create(dir.clone(), Ulid::from_parts(1, 1), memory).unwrap();
        for number in 0..series {
            let (node, pod) = (format!("node-{}", number % 2000), format!("{number:032x}"));
            let labels = [("__name__", "up"), ("kind", "pod"), ("name", &*pod), ("node", &*node)];
            writer
                .add_series(labels.into_iter(), |out| out.put(chunk))
                .map_err(|fault: BlockWriteError| fault)
                .unwrap();
        }
        writer.finish(&|_| true).unwrap().unwrap();
    };
    let held = held_bytes_max(write);
    assert!(held <= memory.bytes() + SLACK_BYTES, "{held} bytes of {memory:?} for {series} series");
    let mut block = Block::open(&dir).unwrap();
    let (mut found, mut last) = (0, String::new());
    while let Some(series) = block.next_series().unwrap() {
        last = series.labels[2].1.to_string();
        found += 1;
    }
    assert_eq!((found, last), (series, format!("{:032x}", series - 1)));
}

#[test]
fn a_writer_of_blocks_keeps_to_its_memory_however_many_texts_there_are() {
    for series in [1, 1000, 200_000] {
        check(WriterMemory::MIN, series);
    }
    check(WriterMemory::of(4 << 20), 600_000);
}

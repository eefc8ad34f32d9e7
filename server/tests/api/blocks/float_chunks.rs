//! Blocks whose chunks of floats are encoded as `--float-chunks` has it: whatever that is, the same is read of them.

use std::fs;

use silverback_model::STALE_NAN_BITS;
use silverback_model::gorilla::FloatEncoding;
use silverback_node_test_support::blocks::ReadBlock;
use silverback_node_test_support::written::Series;

use crate::blocks::cut::{cut_all, of_blocks, ranges_over, write_histograms};
use crate::blocks::{
    STEP_MS, blocks_dir, home, hours, metric, now_ms, read_all, start, start_cutting_with, write,
};

/// Staleness markers, NaNs of other payloads and whatever else a value can be, in gaps of all widths.
fn odd() -> Series {
    let (labels, samples) = hours("odd", 0, 8);
    let values =
        [STALE_NAN_BITS, STALE_NAN_BITS + 1, f64::NAN.to_bits(), f64::INFINITY.to_bits(), 1, u64::MAX, 0];
    let kept = samples.into_iter().enumerate().filter(|(nth, _)| nth % 97 < 60);
    (labels, kept.map(|(nth, (at_ms, _))| (at_ms + (nth * nth % 9000) as i64, values[nth % 7])).collect())
}

#[test]
fn what_is_cut_and_read_is_the_same_whatever_floats_are_encoded_as() {
    let home = home("blocks-float-chunks");
    let dir = blocks_dir(&home.data_dir());
    let mut node = start(&home, 2);
    let written: Vec<Series> = (0..10).map(|host| hours("load", host, 8)).chain([odd()]).collect();
    write(&mut node, &written);
    let (labels, samples) = &written[3];
    write(&mut node, &[(labels.clone(), vec![(samples[500].0 + 1, 0.25_f64.to_bits())])]);
    let begin_ms = now_ms() - 8 * 3_600_000;
    write_histograms(&mut node, (0..8 * 120).map(|step| begin_ms + step * STEP_MS));
    let all = read_all(&mut node);
    node.stop();
    let encodings =
        [("--float-chunks=xor", FloatEncoding::Xor), ("--float-chunks=xor2", FloatEncoding::Xor2)];
    for (flag, encoding) in encodings {
        let mut node = start_cutting_with(&home, 2, &[flag]);
        let blocks = cut_all(&mut node, &dir, &ranges_over(&all));
        node.stop();
        let (found, expect) = of_blocks(&blocks, &all);
        assert!(found == expect, "other samples than reads find, with {flag}");
        let of_all = || blocks.iter().flat_map(|block: &ReadBlock| &block.floats);
        assert!(of_all().count() > 50 && of_all().all(|found| *found == encoding), "{flag}");
        fs::rename(&dir, home.data_dir().join(flag)).unwrap();
    }
    // Memory drops all but the last hours, which are read from the blocks then.
    for (flag, _) in encodings {
        fs::rename(home.data_dir().join(flag), &dir).unwrap();
        let mut node = home.start_ready(&["--shards=2", "--retention=3h"]);
        assert!(read_all(&mut node) == all, "other samples than memory had, with {flag}");
        assert!(metric(&node.get("/metrics").text(), "silverback_block_reads_total") >= Some(1.0));
        node.stop();
        fs::rename(&dir, home.data_dir().join(flag)).unwrap();
    }
}

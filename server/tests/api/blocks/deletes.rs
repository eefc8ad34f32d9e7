//! Deletions beside cuts, and blocks that retention deletes.

use std::path::Path;

use silverback_block::{BlockWriteError, BlockWriter, Contents, SourceChunk, Ulid, WriterMemory, cut_chunks};
use silverback_model::Sample;
use silverback_model::gorilla::{FloatEncoding, OpenXor};
use silverback_node_test_support::blocks::{names, within};
use silverback_node_test_support::written::Series;

use crate::blocks::cut::{cut_all, of_blocks, ranges_over, wait_for};
use crate::blocks::{blocks_dir, home, hours, now_ms, read_all, start, start_cutting_with, write};

const DELETE: &str = "/api/v1/admin/tsdb/delete_series?match[]=load%7Bhost=%22h007%22%7D";
const DAY_MS: i64 = 24 * 3_600_000;

#[test]
fn a_deletion_beside_cuts_takes_nothing_else() {
    let home = home("blocks-deletes");
    let dir = blocks_dir(&home.data_dir());
    let mut node = start(&home, 2);
    for host in 0..40 {
        write(&mut node, &[hours("load", host, 8)]);
    }
    let all = read_all(&mut node);
    node.stop();
    let mut node = start_cutting_with(&home, 2, &["--admin-api=full"]);
    assert_eq!(node.post(DELETE, &[], b"").status, 204);
    let blocks = cut_all(&mut node, &dir, &ranges_over(&all));
    let others = |series: &Series| !series.0.iter().any(|(_, value)| value == "h007");
    let kept: Vec<_> = all.iter().filter(|series| others(series)).cloned().collect();
    let (mut found, expect) = of_blocks(&blocks, &kept);
    let before = found.len();
    // Of the deleted one there is what was cut before it was deleted.
    found.retain(|labels, _| others(&(labels.clone(), Vec::new())));
    assert!(found == expect && before - found.len() <= 1);
    assert!(
        within(&read_all(&mut node), |_| true).keys().all(|labels| others(&(labels.clone(), Vec::new())))
    );
}

/// A block of one sample, and its name.
fn make_block(dir: &Path, at_ms: i64, random: u128) -> String {
    let ulid = Ulid::from_parts(at_ms as u64, random);
    let mut writer = BlockWriter::create(dir.join(ulid.to_string()), ulid, WriterMemory::MAX).unwrap();
    let mut words = Vec::new();
    let sealed = OpenXor::start(Sample::new(at_ms, 1.0), &mut words).seal(words.into_iter());
    let contents = Contents::Floats(FloatEncoding::Xor);
    let chunk = SourceChunk { contents, min_ms: at_ms, max_ms: at_ms, bytes: sealed.bytes() };
    let added: Result<(), BlockWriteError> = writer.add_series([("__name__", "old")].into_iter(), |out| {
        cut_chunks([chunk], &(at_ms..=at_ms), FloatEncoding::Xor, |chunk| out.put(chunk))
            .map_err(|error| panic!("{error}"))
    });
    added.unwrap();
    writer.finish(&|_| true).unwrap().expect("it has a sample");
    ulid.to_string()
}

#[test]
fn old_blocks_go_by_time_and_by_size_and_damaged_ones_stay() {
    let home = home("blocks-retention");
    let dir = blocks_dir(&home.data_dir());
    std::fs::create_dir(&dir).unwrap();
    let days = [30, 20, 10, 5, 0].map(|days| make_block(&dir, now_ms() - days * DAY_MS, days as u128));
    let damaged = make_block(&dir, now_ms() - 40 * DAY_MS, 40);
    std::fs::write(dir.join(&damaged).join("meta.json"), "{").unwrap();
    let left = |kept: &[&String]| {
        let mut names: Vec<_> = kept.iter().map(|name| (*name).clone()).chain([damaged.clone()]).collect();
        names.sort();
        names
    };
    let mut node = start_cutting_with(&home, 1, &[]);
    wait_for(&mut node, "silverback_blocks_deleted_total", 2.0);
    assert_eq!(names(&dir), left(&[&days[2], &days[3], &days[4]]));
    node.stop();
    // What is in memory, or was a moment ago, stays whatever it takes.
    let mut node = start_cutting_with(&home, 1, &["--blocks-retention-size=1"]);
    wait_for(&mut node, "silverback_blocks_deleted_total", 2.0);
    assert_eq!(names(&dir), left(&[&days[4]]));
}

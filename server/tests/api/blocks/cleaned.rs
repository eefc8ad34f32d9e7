//! Blocks that are written again without what was deleted of them: what is in them, what reads find, what a crash leaves.

use std::path::Path;
use std::process::Command;

use silverback_node_test_support::blocks::{AllSamples, ReadBlock, names, read_blocks, together, within};
use silverback_node_test_support::laid_blocks::{BlockSeries, RANGE_MS, put};
use silverback_node_test_support::written::Series;
use silverback_test_support::home::NodeProcess;

use crate::blocks::cut::wait_for;
use crate::blocks::{blocks_dir, home, now_ms, read_all, start_cutting_with};

const CLEAN: &str = "/api/v1/admin/tsdb/clean_tombstones";

/// A sample each 15 s, four hours long from a range's begin on.
fn series(name: &str, begin_ms: i64) -> BlockSeries {
    let labels = vec![("__name__".to_owned(), name.to_owned()), ("job".to_owned(), "a".to_owned())];
    let floats = (0..960).map(|step| (begin_ms + 15_000 * step, (step as f64).to_bits())).collect();
    BlockSeries { labels, floats, histograms: Vec::new() }
}

fn post(node: &mut NodeProcess, path: &str, status: u16) {
    let answer = node.post(path, &[], b"");
    assert_eq!(answer.status, status, "{path}: {}", answer.text());
}

fn all_of(series: &[Series]) -> AllSamples {
    within(series, |_| true)
}

fn block_names(dir: &Path) -> Vec<String> {
    read_blocks(dir).into_keys().collect()
}

#[test]
fn what_was_deleted_is_in_no_block_any_more_and_reads_find_the_same() {
    let home = home("blocks-cleaned");
    let dir = blocks_dir(&home.data_dir());
    let begin_ms = (now_ms() - 10 * 24 * 3_600_000) / RANGE_MS * RANGE_MS;
    let laid = put(&home.data_dir(), 1, &[series("gone", begin_ms), series("kept", begin_ms)], false);
    // Those that nothing is deleted of.
    let whole = put(&home.data_dir(), 7, &[series("kept", begin_ms + 4 * RANGE_MS)], false);
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut node = start_cutting_with(&home, 1, &["--admin-api=full"]);
    let (from_s, to_s) = ((begin_ms + 600_000) / 1000, (begin_ms + RANGE_MS) / 1000);
    post(&mut node, "/api/v1/admin/tsdb/delete_series?match[]=gone", 204);
    post(&mut node, &format!("/api/v1/admin/tsdb/delete_series?match[]=kept&start={from_s}&end={to_s}"), 204);
    let before = all_of(&read_all(&mut node));
    let kept_samples = 2 * 960 - (RANGE_MS - 600_000) / 15_000 - 1;
    assert_eq!(before.values().map(Vec::len).collect::<Vec<_>>(), [kept_samples as usize]);
    let aside = home.data_dir().with_file_name("aside");
    assert!(Command::new("cp").arg("-r").args([&dir, &aside]).status().unwrap().success());

    post(&mut node, CLEAN, 204);
    wait_for(&mut node, "silverback_blocks_rewritten_total", 2.0);
    let blocks = read_blocks(&dir);
    assert!(laid.iter().all(|old| !blocks.contains_key(&name(old))), "{:?}", names(&dir));
    assert!(
        blocks.len() == 4 && whole.iter().all(|same| blocks.contains_key(&name(same))),
        "{:?}",
        names(&dir)
    );
    assert_eq!(together(blocks.values()), before, "nothing else is in the blocks");
    assert_eq!(names(&dir).len(), blocks.len(), "nothing else is left");
    let of_level = |block: &ReadBlock| block.meta.level();
    assert!(blocks.values().all(|block| of_level(block) == 1));
    assert_eq!(all_of(&read_all(&mut node)), before);
    // Again there is nothing to do.
    post(&mut node, CLEAN, 204);
    assert_eq!(read_blocks(&dir).into_keys().collect::<Vec<_>>(), blocks.keys().cloned().collect::<Vec<_>>());
    node.stop();

    // A crash before the old one went.
    assert!(
        Command::new("cp").arg("-r").arg(aside.join(name(&laid[0]))).arg(&dir).status().unwrap().success()
    );
    let mut node = start_cutting_with(&home, 1, &["--admin-api=full"]);
    assert_eq!(all_of(&read_all(&mut node)), before);
    post(&mut node, CLEAN, 204);
    assert_eq!(block_names(&dir), blocks.keys().cloned().collect::<Vec<_>>(), "the old one goes");
    assert_eq!(all_of(&read_all(&mut node)), before);

    post(&mut node, "/api/v1/admin/tsdb/delete_series?match[]=%7B__name__=~%22.%2B%22%7D", 204);
    post(&mut node, CLEAN, 204);
    assert_eq!(names(&dir), Vec::<String>::new(), "of what is deleted whole nothing is left");
    assert!(read_all(&mut node).is_empty());
    node.stop();
}

#[test]
fn nobody_has_blocks_written_again_who_may_change_nothing() {
    let home = home("blocks-not-cleaned");
    let begin_ms = (now_ms() - 10 * 24 * 3_600_000) / RANGE_MS * RANGE_MS;
    put(&home.data_dir(), 1, &[series("kept", begin_ms)], false);
    let before = names(&blocks_dir(&home.data_dir()));
    let mut node = start_cutting_with(&home, 1, &[]);
    post(&mut node, CLEAN, 403);
    assert_eq!(node.get(CLEAN).status, 405);
    assert_eq!(names(&blocks_dir(&home.data_dir())), before);
    node.stop();
}

//! Which blocks are open, the border, and what is set aside.

use super::super::page::BlockPages;
use super::*;

use futures::executor::block_on;
use silverback_model::{MatchOp, Matcher};
use silverback_node_test_support::laid_blocks::{BlockSeries, put};
use silverback_storage::message::{SeriesBatch, SeriesWanted};
use silverback_test_support::Scratch;
use silverback_test_support::prometheus::block::Written;

const H2: i64 = CHUNK_RANGE_MS;

fn start(data_dir: &Path, horizon_ms: i64) -> Arc<LocalBlocks> {
    LocalBlocks::start(data_dir, 1 << 20, horizon_ms).unwrap()
}

#[test]
fn the_floor_is_raised_before_retention_comes_to_it_and_holds_after_a_restart() {
    let scratch = Scratch::new();
    let blocks = start(scratch.path(), 10 * H2);
    let pass = |horizon_ms: i64| block_on(blocks.before_pass(horizon_ms));
    assert_eq!(pass(10 * H2), 10 * H2);
    assert!(!blocks.is_dropped(10 * H2) && blocks.is_dropped(10 * H2 - 1));
    assert_eq!(blocks.floor_ms.load(Ordering::Acquire), 11 * H2);
    // A leap goes no further than reads know of that have begun.
    assert_eq!(pass(20 * H2), 11 * H2);
    assert_eq!(pass(20 * H2), 20 * H2);
    assert!(!blocks.is_dropped(20 * H2));
    let again = start(scratch.path(), 5 * H2);
    assert!(again.gone_ms() > 19 * H2 && again.gone_ms() <= 20 * H2, "{}", again.gone_ms());
    assert_eq!(again.floor_ms.load(Ordering::Acquire), 21 * H2, "memory has less than the retention says");
}

#[test]
fn retention_waits_for_a_floor_that_cannot_be_written() {
    let scratch = Scratch::new();
    let blocks = start(scratch.path(), 10 * H2);
    std::fs::create_dir(scratch.join("memory-floor.tmp")).unwrap();
    for _pass in 0..2 {
        assert_eq!(block_on(blocks.before_pass(20 * H2)), 11 * H2);
    }
    std::fs::remove_dir(scratch.join("memory-floor.tmp")).unwrap();
    block_on(blocks.before_pass(20 * H2));
    assert_eq!(block_on(blocks.before_pass(20 * H2)), 20 * H2);
}

#[test]
fn a_read_is_overtaken_by_retention_past_the_floor_and_not_past_a_gap_between_blocks_and_memory() {
    let scratch = Scratch::new();
    let labels = vec![("__name__".to_owned(), "up".to_owned())];
    put(
        scratch.path(),
        1,
        &[BlockSeries { labels, floats: vec![(3 * H2, 1)], ..BlockSeries::default() }],
        false,
    );
    let blocks = start(scratch.path(), 10 * H2);
    let selection = Selection { min_ms: 0, ..Selection::everything() };
    let question =
        blocks.question::<SeriesBatch>(&selection, &SeriesWanted::Chunks).expect("the block is before it");
    assert_eq!((question.border_ms, question.floor_ms), (4 * H2, 11 * H2));
    block_on(blocks.before_pass(10 * H2));
    assert!(!blocks.is_dropped(question.floor_ms), "nobody has what is between the block and memory");
    block_on(blocks.before_pass(20 * H2));
    block_on(blocks.before_pass(20 * H2));
    assert!(blocks.is_dropped(question.floor_ms));
}

#[test]
fn a_read_has_the_blocks_of_its_range_and_no_others() {
    let scratch = Scratch::new();
    let labels = vec![("__name__".to_owned(), "up".to_owned())];
    let floats = (0..5).map(|range| (range * H2 + 10, 1)).collect();
    put(scratch.path(), 1, &[BlockSeries { labels, floats, ..BlockSeries::default() }], false);
    let blocks = start(scratch.path(), 10 * H2);
    assert_eq!(blocks.counts().open, 5);
    let check = |min_ms, max_ms, expect: &[i64]| {
        let found = blocks.in_range(ChunkRange { min_ms, max_ms });
        let begins: Vec<i64> = found.iter().map(|block| block.meta().min_ms / H2).collect();
        assert_eq!(begins, expect, "{min_ms} to {max_ms}");
    };
    check(i64::MIN, i64::MAX, &[0, 1, 2, 3, 4]);
    check(H2, 2 * H2 - 1, &[1]);
    check(H2 + 10, 2 * H2 + 10, &[1, 2]);
    check(H2 + 11, 2 * H2 + 9, &[]);
    check(4 * H2 + 10, i64::MAX, &[4]);
    check(7 * H2, 8 * H2, &[]);
    check(i64::MIN, -1, &[]);
}

#[test]
fn a_read_of_a_series_over_many_blocks_takes_no_set_of_all_of_each() {
    const BLOCKS: i64 = 10;
    let scratch = Scratch::new();
    let series = |i: usize| BlockSeries {
        labels: vec![("__name__".to_owned(), "up".to_owned()), ("instance".to_owned(), format!("i{i:05}"))],
        floats: (0..BLOCKS).map(|range| (range * H2, 1)).collect(),
        ..BlockSeries::default()
    };
    put(scratch.path(), 1, &(0..20_000).map(series).collect::<Vec<_>>(), false);
    let blocks = start(scratch.path(), BLOCKS * H2);
    let all_sets: usize = blocks.all().iter().map(|block| block.set_bytes_max()).sum();
    let one = Matcher::new("instance", MatchOp::Equal, "i00500").unwrap();
    let question = BlockRead::<SeriesBatch> {
        selection: Selection { matchers: [one].into(), ..Selection::everything() },
        wanted: SeriesWanted::Chunks,
        border_ms: BLOCKS * H2,
        floor_ms: BLOCKS * H2,
    };
    let ticket = ReadTicket::issue();
    let opened = block_on(BlockPages::open(&blocks, &ticket, question, 1 << 16));
    let (batch, _pages) = opened.expect("there is room");
    let held = blocks.counts().read_bytes;
    assert_eq!(batch.get(0).chunks().len(), BLOCKS as usize);
    assert!(held > 0 && held < all_sets / 2, "{held} of {all_sets}");
}

/// Two blocks of a range each, 0 and 1.
fn start_with_two(scratch: &Scratch) -> Arc<LocalBlocks> {
    let labels = vec![("__name__".to_owned(), "up".to_owned())];
    let series = BlockSeries { labels, floats: vec![(0, 1), (H2, 1)], ..BlockSeries::default() };
    put(scratch.path(), 1, &[series], false);
    start(scratch.path(), 10 * H2)
}

/// What a read says that finds the first one damaged.
fn damaged(blocks: &LocalBlocks) -> BlockJobError {
    let block = blocks.all().remove(0);
    let fault = OpenBlock::open(&block.dir().join("none"), &blocks.cache).expect_err("no block");
    assert!(!fault.may_pass(), "{fault}");
    BlockJobError::Damaged(block, fault)
}

#[test]
fn a_block_that_is_deleted_while_it_is_read_is_not_damaged() {
    let scratch = Scratch::new();
    let blocks = start_with_two(&scratch);
    let went = damaged(&blocks);
    std::fs::remove_dir_all(blocks.all()[0].dir()).unwrap();
    let error = block_on(blocks.error_of(went));
    assert!(matches!(error, FanoutError::Refused(ShardReadError::BlockUnreadable)), "{error}");
    assert_eq!((blocks.counts().open, blocks.counts().damaged), (1, 0));
    // The other one is there.
    let error = block_on(blocks.error_of(damaged(&blocks)));
    assert!(matches!(error, FanoutError::Refused(ShardReadError::BlockDamaged)), "{error}");
    assert_eq!((blocks.counts().open, blocks.counts().damaged), (0, 1));
}

#[test]
fn nothing_is_deleted_of_a_time_of_which_a_block_is_set_aside() {
    let scratch = Scratch::new();
    let blocks = start_with_two(&scratch);
    let at_ms = blocks.all()[0].meta().min_ms;
    let found = block_on(blocks.error_of(damaged(&blocks)));
    assert!(matches!(found, FanoutError::Refused(ShardReadError::BlockDamaged)), "{found}");
    let delete = |at_ms| {
        let selection = Selection { min_ms: at_ms, max_ms: at_ms, ..Selection::everything() };
        block_on(blocks.delete(&ReadTicket::issue(), &[selection].into(), || ()))
    };
    let refused = delete(at_ms);
    assert!(matches!(refused, Err(FanoutError::Refused(ShardReadError::BlockSetAside))), "{refused:?}");
    assert!(matches!(delete(H2 - at_ms), Ok(1)));
    // One of which nothing is known may have any time.
    std::fs::create_dir(scratch.join(DIR).join("01BX5ZZKBKACTAV9WEVGEMMVRZ")).unwrap();
    let refused = delete(H2 - at_ms);
    assert!(matches!(refused, Err(FanoutError::Refused(ShardReadError::BlockSetAside))), "{refused:?}");
}

#[test]
fn what_is_no_block_is_set_aside_once_and_other_names_are_nobody_s() {
    let scratch = Scratch::new();
    let dir = scratch.join(DIR);
    // One without postings.
    let damaged = dir.join("01BX5ZZKBKACTAV9WEVGEMMVRZ");
    Written::new(&[], &[]).put(&damaged);
    for other in ["01BX5ZZKBKACTAV9WEVGEMMVRY.tmp-for-creation", "thanos", "lost+found"] {
        std::fs::create_dir(dir.join(other)).unwrap();
    }
    let blocks = start(scratch.path(), 0);
    for _look in 0..2 {
        let OpenBlockCounts { open, damaged, .. } = blocks.counts();
        assert_eq!((open, damaged), (0, 1));
        block_on(blocks.refresh());
    }
    assert_eq!(blocks.border_for(i64::MIN, i64::MAX), None);
    std::fs::remove_dir_all(damaged).unwrap();
    block_on(blocks.refresh());
    assert!(blocks.known.with(|set| set.set_aside.is_empty()));
}

fn check(blocks: &[(i64, i64, bool)], floor: i64, expect: Option<i64>) {
    let spans = blocks.iter().map(|(begin, end, is_late)| (*begin..*end, *is_late));
    assert_eq!(border(floor * H2, spans), expect.map(|border| border * H2), "{blocks:?}");
}

#[test]
fn the_border_is_the_floor_where_a_block_has_the_range_before_it() {
    check(&[], 10, None);
    check(&[(9 * H2 + 5, 9 * H2 + 6, false)], 10, Some(10));
    check(&[(10 * H2, 11 * H2, false)], 10, None);
    check(&[(9 * H2, 10 * H2, false), (11 * H2, 12 * H2, false)], 10, Some(10));
    check(&[(7 * H2, 8 * H2 - 1, false)], 10, Some(8));
    check(&[(7 * H2, 8 * H2, false)], 10, Some(8));
    check(&[(8 * H2, 16 * H2, false)], 10, Some(10));
    // Of the range before the floor memory may have more than a block of late samples.
    check(&[(9 * H2, 10 * H2, true), (7 * H2, 8 * H2, false)], 10, Some(8));
    check(&[(5 * H2, 6 * H2, true)], 10, Some(6));
}

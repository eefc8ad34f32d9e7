//! What a node cuts, and that it cuts each range once.

use std::collections::BTreeSet;
use std::path::Path;

use silverback::api::ingest::remote_write::Version;
use silverback_model::STALE_NAN_BITS;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, HistogramKind, Span};
use silverback_node_test_support::blocks::{AllSamples, ReadBlock, names, read_blocks, together, within};
use silverback_node_test_support::request::{self, PATH, body, headers};
use silverback_node_test_support::written::Series;
use silverback_test_support::home::{NodeProcess, get};

use crate::blocks::{
    RANGE_MS, STEP_MS, blocks_dir, home, hours, is_over, metric, now_ms, read_all, start, start_cutting,
    write,
};

/// Waits until nothing is left to cut, and reads the blocks.
pub(super) fn cut_all(node: &mut NodeProcess, dir: &Path, ranges: &BTreeSet<i64>) -> Vec<ReadBlock> {
    let address = node.address();
    node.wait_until("all ranges are cut", |_| {
        let text = get(address, "/metrics").ok()?.text();
        let is_done = metric(&text, "silverback_blocks_due") == Some(0.0);
        (is_done && metric(&text, "silverback_blocks")? >= ranges.len() as f64).then_some(())
    });
    let blocks: Vec<_> = read_blocks(dir).into_values().collect();
    // One that was dropped, for samples were deleted meanwhile, comes after the next.
    let mut found: Vec<_> =
        blocks.iter().filter(|block| !block.meta.is_of_out_of_order()).map(ReadBlock::range).collect();
    found.sort_unstable();
    assert!(found.is_sorted_by(|one, next| one < next), "each once: {found:?}");
    assert!(ranges.iter().all(|range| found.contains(range)), "{found:?} of {ranges:?}");
    blocks
}

/// Ranges of these samples that are over.
pub(super) fn ranges_over(all: &[Series]) -> BTreeSet<i64> {
    let ranges =
        all.iter().flat_map(|(_, samples)| samples.iter().map(|(at_ms, _)| at_ms.div_euclid(RANGE_MS)));
    ranges.filter(|range| is_over(*range)).collect()
}

/// What is in blocks, and what is to be in them.
pub(super) fn of_blocks(blocks: &[ReadBlock], all: &[Series]) -> (AllSamples, AllSamples) {
    let ranges: BTreeSet<_> = blocks.iter().map(ReadBlock::range).collect();
    (together(blocks), within(all, |range| ranges.contains(&range)))
}

fn histogram(n: u64) -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: -3, length: 2 }], words: vec![n, 1] };
    let count = 2 + n + (n + 1);
    Histogram { schema: 3, zero_threshold: 0.001, zero_count: 2, count, positive, ..Histogram::default() }
}

/// Native histograms at these times, one of them a staleness marker.
pub(super) fn write_histograms(node: &mut NodeProcess, times_ms: impl Iterator<Item = i64>) {
    let series = request::Series::new([("__name__", "latency"), ("host", "h000")]);
    let series = (0..).zip(times_ms).fold(series, |series, (step, timestamp_ms)| {
        let stale = Histogram { sum_bits: STALE_NAN_BITS, ..Histogram::stale(HistogramKind::Integer) };
        let own = if step == 400 { stale } else { histogram(step) };
        let mut message = Vec::new();
        own.put_message(HistogramTimes { timestamp_ms, ..HistogramTimes::default() }, &mut message);
        series.histogram(message)
    });
    let answer = node.post(PATH, &headers(Version::V1), &body(Version::V1, &[series]));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

#[test]
fn all_ranges_that_are_over_are_cut_once_with_all_that_reads_find() {
    for shards in [1, 3] {
        let home = home(&format!("blocks-cut-{shards}"));
        let dir = blocks_dir(&home.data_dir());
        let mut node = start(&home, shards);
        for host in 0..20 {
            write(&mut node, &[hours("load", host, 8), hours("up", host, 8)]);
        }
        // A staleness marker, and one that comes late, before its range is cut.
        let (labels, samples) = hours("up", 0, 8);
        write(&mut node, &[(labels.clone(), vec![(samples[200].0 + 1, STALE_NAN_BITS)])]);
        let begin_ms = now_ms() - 8 * 3_600_000;
        write_histograms(&mut node, (0..8 * 120).map(|step| begin_ms + step * STEP_MS));
        node.stop();
        assert_eq!(names(&dir), [""; 0], "none without the flag");
        let mut node = start_cutting(&home, shards);
        let all = read_all(&mut node);
        assert_eq!(all.len(), 41);
        let ranges = ranges_over(&all);
        assert!((3..=4).contains(&ranges.len()), "{ranges:?}");
        let blocks = cut_all(&mut node, &dir, &ranges);
        let (found, expect) = of_blocks(&blocks, &all);
        assert!(found == expect, "other samples than reads find");
        let metrics = node.get("/metrics").text();
        let number = |name: &str| metric(&metrics, name).unwrap();
        assert_eq!(number("silverback_blocks_cut_total"), blocks.len() as f64);
        assert_eq!(number("silverback_blocks_failed_total"), 0.0);
        assert_eq!(number("silverback_blocks_bytes"), number("silverback_blocks_bytes_total"));
        assert!(number("silverback_blocks_seconds_total") > 0.0);
        let newest = blocks.iter().map(ReadBlock::range).max().unwrap();
        assert_eq!(number("silverback_blocks_cut_end_timestamp_seconds"), (newest + 1) as f64 * 7200.0);
        node.stop();
        // What was cut stays cut.
        let before = names(&dir);
        let mut node = start_cutting(&home, shards);
        let after = cut_all(&mut node, &dir, &ranges);
        assert!(names(&dir).starts_with(&before) && after.len() <= before.len() + 1);
    }
}

#[test]
fn what_a_crash_left_goes_and_what_cannot_be_read_stays() {
    let home = home("blocks-left");
    let dir = blocks_dir(&home.data_dir());
    let (half, doomed) =
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV.tmp-for-creation", "01ARZ3NDEKTSV4RRFFQ69G5FAW.tmp-for-deletion");
    let damaged = "01ARZ3NDEKTSV4RRFFQ69G5FAX";
    for name in [half, doomed, damaged] {
        std::fs::create_dir_all(dir.join(name).join("chunks")).unwrap();
    }
    std::fs::write(dir.join(damaged).join("meta.json"), "{").unwrap();
    let mut node = start_cutting(&home, 1);
    assert_eq!(names(&dir), [damaged]);
    wait_for(&mut node, "silverback_blocks_damaged", 1.0);
    assert_eq!(node.told().matches("a block can't be read: it is left alone").count(), 1);
}

#[test]
fn a_directory_that_cannot_be_had_is_told_once_counted_and_tried_again() {
    let home = home("blocks-in-the-way");
    let dir = blocks_dir(&home.data_dir());
    let mut node = start(&home, 1);
    write(&mut node, &[hours("up", 0, 8)]);
    let all = read_all(&mut node);
    node.stop();
    std::fs::write(&dir, "in the way").unwrap();
    let mut node = start_cutting(&home, 1);
    wait_for(&mut node, "silverback_blocks_failed_total", 2.0);
    std::fs::remove_file(&dir).unwrap();
    let blocks = cut_all(&mut node, &dir, &ranges_over(&all));
    let (found, expect) = of_blocks(&blocks, &all);
    assert!(found == expect);
    let told = node.told();
    assert_eq!(told.matches("is tried again until it succeeds").count(), 1, "{told}");
    assert_eq!(told.matches("the step that failed has succeeded").count(), 1, "{told}");
}

/// Waits until one of the node's numbers has reached a value.
pub(super) fn wait_for(node: &mut NodeProcess, name: &str, least: f64) {
    let address = node.address();
    node.wait_until(name, |_| {
        let value = metric(&get(address, "/metrics").ok()?.text(), name)?;
        (value >= least).then_some(())
    });
}

//! Samples that come after their range was cut: each is in a block afterwards, whatever happened between.

use std::path::Path;

use silverback_node_test_support::blocks::{AllSamples, RANGE_MS, ReadBlock, read_blocks, together, within};
use silverback_node_test_support::written::{READ_HEADERS, Series, query, read_body, samples_of};
use silverback_test_support::home::{Home, NodeProcess, get};

use crate::blocks::cut::{cut_all, ranges_over, wait_for, write_histograms};
use crate::blocks::moves::move_all_cells;
use crate::blocks::{blocks_dir, home, hours, metric, read_all, start_cutting, start_cutting_with, write};

const HOSTS: usize = 10;
/// What is written at first ends so long before now.
const FIRST_UNTIL_MS: i64 = 5 * 3_600_000;

/// Eight hours of all hosts, in what is written at first and what is written later.
fn in_two_parts() -> (Vec<Series>, Vec<Series>) {
    let all: Vec<Series> = (0..HOSTS).map(|host| hours("load", host, 8)).collect();
    let until_ms = crate::blocks::now_ms() - FIRST_UNTIL_MS;
    let part = |is_first: bool| {
        let own = |samples: &[(i64, u64)]| {
            samples.iter().copied().filter(|(at_ms, _)| (*at_ms < until_ms) == is_first).collect()
        };
        all.iter().map(|(labels, samples)| (labels.clone(), own(samples))).collect()
    };
    (part(true), part(false))
}

/// One that comes late to a host's series, between two others, and one of a new series.
fn late(first: &[Series], host: usize) -> Vec<Series> {
    let (labels, samples) = &first[host];
    let (at_ms, _) = samples[samples.len() / 2];
    let new = vec![("__name__".to_owned(), "new".to_owned()), ("host".to_owned(), format!("h{host:03}"))];
    let value = 0.25_f64.to_bits();
    vec![(labels.clone(), vec![(at_ms + 1, value)]), (new, vec![(at_ms + 2, value)])]
}

/// Waits until blocks have all samples of the ranges that they are of.
fn wait_until_all_is_in_blocks(node: &mut NodeProcess, dir: &Path) -> Vec<ReadBlock> {
    let all = read_all(node);
    let ranges = ranges_over(&all);
    node.wait_until("blocks have all samples", |_| {
        let blocks: Vec<_> = read_blocks(dir).into_values().collect();
        let is_of_all = ranges.iter().all(|range| blocks.iter().any(|block| block.range() == *range));
        (is_of_all && together(&blocks) == expected(&blocks, &all)).then_some(blocks)
    })
}

fn expected(blocks: &[ReadBlock], all: &[Series]) -> AllSamples {
    within(all, |range| blocks.iter().any(|block| block.range() == range))
}

fn late_blocks(blocks: &[ReadBlock]) -> impl Iterator<Item = &ReadBlock> {
    blocks.iter().filter(|block| block.meta.is_of_out_of_order())
}

/// A node that has cut what was written at first, and what is to be written later.
fn begin(home: &Home, flags: &[&str]) -> (NodeProcess, Vec<Series>, Vec<Series>) {
    let (first, later) = in_two_parts();
    let mut node = start_cutting_with(home, 2, flags);
    write(&mut node, &first);
    cut_all(&mut node, &blocks_dir(&home.data_dir()), &ranges_over(&first));
    wait_until_compared(&mut node);
    (node, first, later)
}

/// What was compared with its blocks after the start is marked from then on.
fn wait_until_compared(node: &mut NodeProcess) {
    let address = node.address();
    node.wait_until("it has looked at what was cut", |_| {
        let text = get(address, "/metrics").ok()?.text();
        let is_done = metric(&text, "silverback_blocks")? > 0.0;
        (is_done && metric(&text, "silverback_blocks_late_ranges")? == 0.0).then_some(())
    });
}

#[test]
fn late_samples_are_in_a_block_of_their_own_at_the_next_cut() {
    let home = home("blocks-late");
    let dir = blocks_dir(&home.data_dir());
    let (mut node, first, later) = begin(&home, &[]);
    write(&mut node, &late(&first, 3));
    write_histograms(&mut node, std::iter::once(late(&first, 3)[0].1[0].0));
    wait_for(&mut node, "silverback_blocks_late_ranges", 1.0);
    let before = late_blocks(&read_blocks(&dir).into_values().collect::<Vec<_>>()).count();
    assert_eq!(before, 0, "not before a range is cut");
    // Further ranges, and what of the last one of the first is late in the order of time.
    write(&mut node, &later);
    let blocks = wait_until_all_is_in_blocks(&mut node, &dir);
    let late_range = late(&first, 3)[0].1[0].0.div_euclid(RANGE_MS);
    let of_range: Vec<_> = late_blocks(&blocks).filter(|block| block.range() == late_range).collect();
    let series: Vec<_> = of_range.iter().map(|block| block.series.len()).collect();
    let last_of_first = first[0].1.last().unwrap().0.div_euclid(RANGE_MS);
    match late_range == last_of_first {
        true => assert!(series.iter().sum::<usize>() >= HOSTS, "{series:?}"),
        false => assert_eq!(series, [3], "the series that took late samples, and no other"),
    }
    node.stop();
    // All is known to be in blocks.
    let mut node = start_cutting(&home, 2);
    wait_for(&mut node, "silverback_blocks", blocks.len() as f64);
    let after = wait_until_all_is_in_blocks(&mut node, &dir);
    assert!(after.len() <= blocks.len() + 1, "{} after {}", after.len(), blocks.len());
}

#[test]
fn late_samples_of_a_block_that_goes_are_in_another_one_though_a_newer_one_has_what_came_since() {
    let home = home("blocks-late-gone");
    let dir = blocks_dir(&home.data_dir());
    let (mut node, first, later) = begin(&home, &[]);
    write(&mut node, &late(&first, 3));
    write(&mut node, &later);
    wait_until_all_is_in_blocks(&mut node, &dir);
    let late_range = late(&first, 3)[0].1[0].0.div_euclid(RANGE_MS);
    let remove = |is_wanted: &dyn Fn(&ReadBlock) -> bool| {
        let gone = read_blocks(&dir).into_iter().find(|(_, block)| is_wanted(block)).expect("there is one");
        std::fs::remove_dir_all(dir.join(gone.0)).unwrap();
    };
    let is_late = |block: &ReadBlock| block.meta.is_of_out_of_order() && block.range() == late_range;
    write(&mut node, &late(&first, 4));
    // What came late is cut when a range is: this one is cut again.
    remove(&|block| block.range() != late_range);
    let blocks = wait_until_all_is_in_blocks(&mut node, &dir);
    assert_eq!(blocks.iter().filter(|block| is_late(block)).count(), 2);
    remove(&is_late);
    wait_until_all_is_in_blocks(&mut node, &dir);
}

#[test]
fn late_samples_before_a_kill_are_in_a_block_after_the_next_start() {
    let home = home("blocks-late-kill");
    let dir = blocks_dir(&home.data_dir());
    let (mut node, first, _later) = begin(&home, &[]);
    write(&mut node, &late(&first, 4));
    node.kill();
    let mut node = start_cutting(&home, 2);
    let blocks = wait_until_all_is_in_blocks(&mut node, &dir);
    assert_eq!(late_blocks(&blocks).count(), 1);
    node.kill();
    // It is in one now.
    let mut node = start_cutting(&home, 2);
    let address = node.address();
    node.wait_until("it has compared all", |_| {
        let text = get(address, "/metrics").ok()?.text();
        let is_looked = metric(&text, "silverback_blocks_late_ranges") == Some(0.0);
        (is_looked && metric(&text, "silverback_blocks")? >= blocks.len() as f64).then_some(())
    });
    assert_eq!(read_blocks(&dir).len(), blocks.len());
}

#[test]
fn late_samples_of_cells_that_move_are_in_a_block() {
    let home = home("blocks-late-moves");
    let dir = blocks_dir(&home.data_dir());
    let (mut node, first, later) = begin(&home, &["--admin-api=full", "--rebalance=off"]);
    for host in 0..HOSTS {
        write(&mut node, &late(&first, host));
    }
    move_all_cells(&mut node, 1);
    write(&mut node, &later);
    wait_until_all_is_in_blocks(&mut node, &dir);
}

/// What every kind of read finds of what was written.
fn check_reads(node: &mut NodeProcess, expect: &[Series], late: &[Series]) {
    assert!(read_all(node) == expect, "chunks");
    let asked = vec![query(&[], (0, i64::MAX))];
    let samples = samples_of(&node.post("/api/v1/read", &READ_HEADERS, &read_body(asked, &[])));
    assert!(samples == [expect], "samples");
    for (labels, of_late) in late {
        let (at_ms, selector) = (of_late[0].0, format!("{}%7Bhost=%22{}%22%7D", labels[0].1, labels[1].1));
        let (_, all) = expect.iter().find(|(own, _)| own == labels).unwrap();
        let count = node.get(&format!("/api/v1/query?query=count_over_time({selector}%5B10h%5D)"));
        assert!(count.text().contains(&format!(",\"{}\"]", all.len())), "{} {}", all.len(), count.text());
        let range = format!("start={0}&end={0}", at_ms as f64 / 1000.0);
        let series = node.get(&format!("/api/v1/series?match[]={selector}&{range}"));
        assert_eq!(series.json()["data"].as_array().unwrap().len(), 1, "{}", series.text());
        let names = node.get(&format!("/api/v1/label/__name__/values?match[]={selector}&{range}"));
        assert_eq!(names.json()["data"][0].as_str(), Some(&*labels[0].1), "{}", names.text());
    }
}

#[test]
fn what_comes_late_before_the_border_is_read_at_once_and_once_before_and_after_its_cut() {
    let home = home("blocks-late-read");
    let dir = blocks_dir(&home.data_dir());
    let mut node = start_cutting(&home, 2);
    let written: Vec<Series> = (0..HOSTS).map(|host| hours("load", host, 8)).collect();
    write(&mut node, &written);
    cut_all(&mut node, &dir, &ranges_over(&written));
    node.stop();
    let flags =
        ["--shards=2", "--retention=3h", "--out-of-order-window=3h", "--blocks=on", "--blocks-delay=0s"];
    let mut node = home.start_ready(&flags);
    wait_until_compared(&mut node);
    let mut expect = read_all(&mut node);
    // Memory keeps it for some minutes, and the border is half an hour after that at least.
    let from_ms = crate::blocks::now_ms() - 3 * 3_600_000 + 10 * 60_000;
    let (labels, samples) = expect[3].clone();
    let (before_ms, _) = *samples.iter().find(|(at_ms, _)| *at_ms >= from_ms).unwrap();
    let new = vec![("__name__".to_owned(), "new".to_owned()), ("host".to_owned(), "h000".to_owned())];
    let late = [
        (labels, vec![(before_ms + 1, 0.25_f64.to_bits())]),
        (new, vec![(before_ms + 2, 0.5_f64.to_bits())]),
    ];
    write(&mut node, &late);
    expect[3].1.extend(&late[0].1);
    expect[3].1.sort_unstable();
    expect.push(late[1].clone());
    let reads = metric(&node.get("/metrics").text(), "silverback_block_reads_total");
    check_reads(&mut node, &expect, &late);
    assert!(
        metric(&node.get("/metrics").text(), "silverback_block_reads_total") > reads,
        "no block was read"
    );
    node.kill();
    let mut node = home.start_ready(&flags);
    check_reads(&mut node, &expect, &late);
    node.wait_until("a block has what came late", |_| {
        let all = together(&read_blocks(&dir).into_values().collect::<Vec<_>>());
        late.iter()
            .all(|(labels, samples)| all.get(labels).is_some_and(|own| own.contains(&samples[0])))
            .then_some(())
    });
    check_reads(&mut node, &expect, &late);
}

/// So many samples go, and as many come late, and then the node is killed; before that blocks may be cleaned.
fn check_that_came_for_those_that_went(name: &str, to_host: usize, is_cleaned: bool) {
    let home = home(name);
    let dir = blocks_dir(&home.data_dir());
    let (mut node, first, _later) = begin(&home, &["--admin-api=full"]);
    let range = first[3].1[first[3].1.len() / 2].0.div_euclid(RANGE_MS);
    let of_range: Vec<_> = first[3]
        .1
        .iter()
        .filter(|(at_ms, _)| at_ms.div_euclid(RANGE_MS) == range)
        .take(20)
        .copied()
        .collect();
    let [begin_ms, end_ms] = [of_range[0].0, of_range.last().unwrap().0].map(|at_ms| at_ms as f64 / 1000.0);
    let selected = format!("match[]=load%7Bhost=%22h003%22%7D&start={begin_ms}&end={end_ms}");
    let deleted = node.post(&format!("/api/v1/admin/tsdb/delete_series?{selected}"), &[], b"");
    assert_eq!(deleted.status, 204, "{}", deleted.text());
    let late: Vec<_> = of_range.iter().map(|(at_ms, bits)| (at_ms + 1, *bits)).collect();
    let labels = &first[to_host].0;
    write(&mut node, &[(labels.clone(), late.clone())]);
    if is_cleaned {
        let cleaned = node.post("/api/v1/admin/tsdb/clean_tombstones", &[], b"");
        assert_eq!(cleaned.status, 204, "{}", cleaned.text());
        wait_for(&mut node, "silverback_blocks_rewritten_total", 1.0);
    }
    node.kill();
    let mut node = start_cutting(&home, 2);
    node.wait_until("blocks have what came late", |_| {
        let blocks = read_blocks(&dir);
        let all = together(blocks.values());
        late.iter().all(|sample| all[labels].contains(sample)).then_some(())
    });
}

#[test]
fn what_comes_late_to_a_series_of_which_as_much_was_deleted_is_in_a_block_after_a_kill() {
    check_that_came_for_those_that_went("blocks-late-for-deleted", 3, false);
}

#[test]
fn what_comes_late_for_what_was_deleted_and_cleaned_is_in_a_block_after_a_kill() {
    check_that_came_for_those_that_went("blocks-late-for-cleaned", 3, true);
}

#[test]
fn what_comes_late_to_one_series_while_as_much_of_another_goes_is_in_a_block_after_a_kill() {
    check_that_came_for_those_that_went("blocks-late-for-others", 4, false);
}

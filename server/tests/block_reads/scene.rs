//! Two nodes that were given the same samples: one has them all in memory, the other one its last hours, and blocks.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use silverback::api::ingest::remote_write::Version;
use silverback::config::AdminAccess;
use silverback_block::{Block, BlockCache, OpenBlock};
use silverback_model::gorilla::FloatEncoding;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, Span};
use silverback_node_test_support::Node;
use silverback_node_test_support::laid_blocks::{BlockSeries, RANGE_MS, put, put_as};
use silverback_node_test_support::request::{self, PATH, body, headers};
use silverback_node_test_support::written::Series;
pub(crate) use silverback_test_support::now_ms;
use silverback_test_support::prometheus::block::{uvarint, varint};
use silverback_test_support::random::Random;

pub(crate) const HOUR_MS: i64 = 3_600_000;
/// What the node with blocks keeps in memory.
const KEPT_MS: i64 = 6 * HOUR_MS;
/// It takes nothing older; its clock goes on while samples are sent.
const SENT_AFTER_MS: i64 = 5 * 60_000;
/// Blocks of late samples have numbers from here on.
const LATE: u64 = 1000;

pub(crate) struct Scene {
    pub of_memory: Node,
    pub over_border: Node,
    /// All samples lie between these times.
    pub begin_ms: i64,
    pub end_ms: i64,
    /// The ranges of the first blocks.
    pub first_ranges_ms: Vec<RangeInclusive<i64>>,
}

impl Scene {
    pub(crate) fn start(shards: usize, seed: u64) -> Self {
        Self::start_damaging(shards, seed, |_, _| {})
    }

    /// With something done to the blocks, and to those of late samples, before the node starts.
    pub(crate) fn start_damaging(
        shards: usize,
        seed: u64,
        damage: impl FnOnce(&[PathBuf], &[PathBuf]),
    ) -> Self {
        let now_ms = now_ms();
        let begin_ms = (now_ms - 14 * HOUR_MS).div_euclid(RANGE_MS) * RANGE_MS;
        let end_ms = now_ms - 60_000;
        let mut random = Random::new(seed);
        let all = fleet(&mut random, begin_ms, end_ms);
        // As a cutter does that waits an hour for late samples.
        let cut_ms = (now_ms - HOUR_MS).div_euclid(RANGE_MS) * RANGE_MS;
        let sent_from_ms = now_ms - KEPT_MS + SENT_AFTER_MS;
        let (regular, late) = dealt(&mut random, &all, cut_ms, sent_from_ms);
        // Where these are XOR2 chunks, those of late samples are XOR chunks all the same.
        let floats = if seed.is_multiple_of(2) { FloatEncoding::Xor2 } else { FloatEncoding::Xor };
        let mut first_ranges_ms = Vec::new();
        let over_border = Node::start_with(shards, |config| {
            config.retention = Duration::from_millis(KEPT_MS as u64);
            config.admin_api = AdminAccess::Full;
            let blocks = put_as(floats, &config.data_dir, 1, &regular, false);
            let of_late = put(&config.data_dir, LATE, &late, true);
            let first = begin_ms.div_euclid(RANGE_MS);
            first_ranges_ms = (first..)
                .take(blocks.len())
                .map(|range| range * RANGE_MS..=(range + 1) * RANGE_MS - 1)
                .collect();
            damage(&blocks, &of_late);
        });
        let of_memory = Node::start_with(1, |config| {
            config.retention = Duration::from_secs(3 * 86_400);
            config.admin_api = AdminAccess::Full;
        });
        write(&of_memory, &all, i64::MIN);
        write(&over_border, &all, sent_from_ms);
        Self { of_memory, over_border, begin_ms, end_ms, first_ranges_ms }
    }
}

fn histogram(n: u64) -> Histogram {
    let positive = Buckets {
        spans: vec![Span { offset: -1, length: 2 }, Span { offset: 1, length: 1 }],
        words: vec![n, 1, 0],
    };
    Histogram { count: n + 2 * (n + 1), sum_bits: (n as f64).to_bits(), positive, ..Histogram::default() }
}

/// Counters and gauges, some with gaps of hours, some of the old hours or of the young alone; histograms, and a series
/// that has both, one after the other.
fn fleet(random: &mut Random, begin_ms: i64, end_ms: i64) -> Vec<BlockSeries> {
    let mut all = Vec::new();
    for number in 0..24_usize {
        let name = if number % 6 == 5 { "latency" } else { "load" };
        let mut labels = vec![
            ("__name__".to_owned(), name.to_owned()),
            ("host".to_owned(), format!("h{number:02}")),
            ("job".to_owned(), ["a", "b", "c"][number % 3].to_owned()),
        ];
        if number % 4 == 0 {
            labels.push(("zone".to_owned(), format!("z{}", number % 8)));
        }
        let step_ms = 15_000 + random.below(45_000) as i64;
        let (from_ms, to_ms) = match number % 8 {
            6 => (begin_ms, begin_ms + 4 * HOUR_MS),
            7 => (end_ms - 2 * HOUR_MS, end_ms),
            _others => (begin_ms, end_ms),
        };
        let gap_ms = from_ms + random.below((to_ms - from_ms) as u64) as i64;
        let gap_ms = gap_ms..gap_ms + (number as i64 % 5) * HOUR_MS;
        let times =
            (0..).map(|step| from_ms + step * step_ms + number as i64).take_while(|at_ms| *at_ms < to_ms);
        let times = times.filter(|at_ms| number % 3 == 0 || !gap_ms.contains(at_ms)).enumerate();
        let mut one = BlockSeries { labels, ..BlockSeries::default() };
        for (nth, at_ms) in times {
            let value = (nth as u64) * (number as u64 + 1);
            let is_histogram = name == "latency" && (number != 11 || at_ms > begin_ms + 5 * HOUR_MS);
            match is_histogram {
                true => one.histograms.push((at_ms, histogram(value))),
                false => one.floats.push((at_ms, (value as f64).to_bits())),
            }
        }
        all.push(one);
    }
    all.sort_by(|left, right| left.labels.cmp(&right.labels));
    all
}

/// What is in blocks, and what is in those of late samples, where some of it is once more. Some of what is in memory is in
/// none: it came late, and no block was cut of it yet.
fn dealt(
    random: &mut Random,
    all: &[BlockSeries],
    cut_ms: i64,
    sent_from_ms: i64,
) -> (Vec<BlockSeries>, Vec<BlockSeries>) {
    let (mut regular, mut late) = (Vec::new(), Vec::new());
    for series in all {
        let mut deal = |at_ms: i64| match random.below(10) {
            _young if at_ms >= cut_ms => (false, false),
            0 => (false, true),
            1 => (true, true),
            2 if at_ms >= sent_from_ms => (false, false),
            _most => (true, false),
        };
        let mut dealt =
            [0, 1].map(|_| BlockSeries { labels: series.labels.clone(), ..BlockSeries::default() });
        for float in &series.floats {
            let (is_regular, is_late) = deal(float.0);
            dealt[0].floats.extend(is_regular.then_some(*float));
            dealt[1].floats.extend(is_late.then_some(*float));
        }
        for histogram in &series.histograms {
            let (is_regular, is_late) = deal(histogram.0);
            dealt[0].histograms.extend(is_regular.then_some(histogram.clone()));
            dealt[1].histograms.extend(is_late.then_some(histogram.clone()));
        }
        let [own, of_late] = dealt;
        regular.push(own);
        late.push(of_late);
    }
    (regular, late)
}

/// Sends what isn't older.
fn write(node: &Node, all: &[BlockSeries], from_ms: i64) {
    for series in all {
        let sent = request::Series::new(series.labels.iter().map(|(name, value)| (name, value)));
        let floats = series.floats.iter().filter(|(at_ms, _)| *at_ms >= from_ms);
        let sent = floats.fold(sent, |sent, (at_ms, bits)| sent.sample(*at_ms, f64::from_bits(*bits)));
        let histograms = series.histograms.iter().filter(|(at_ms, _)| *at_ms >= from_ms);
        let sent = histograms.fold(sent, |sent, (at_ms, histogram)| {
            let mut message = Vec::new();
            let times = HistogramTimes { timestamp_ms: *at_ms, ..HistogramTimes::default() };
            histogram.put_message(times, &mut message);
            sent.histogram(message)
        });
        let answer = node.post(PATH, &headers(Version::V1), &body(Version::V1, &[sent]));
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
}

/// Deletes half an hour of the first series of a name in a block, by the block's own tombstones.
pub(crate) fn delete_half_an_hour(
    block: &Path,
    name: &str,
    begin_ms: i64,
) -> (Vec<(String, String)>, RangeInclusive<i64>) {
    let (mut read, mut nth) = (Block::open(block).unwrap(), 0);
    let series = loop {
        let series = read.next_series().unwrap().unwrap();
        if &*series.labels[0].1 == name {
            break series;
        }
        nth += 1;
    };
    let cache = BlockCache::new(1 << 20);
    let reference = OpenBlock::open(block, &cache).unwrap().all_series().unwrap().select(nth).unwrap();
    let gone_ms = begin_ms + 1000..=begin_ms + HOUR_MS / 2;
    let mut stones = Vec::new();
    uvarint(&mut stones, reference.into());
    varint(&mut stones, *gone_ms.start());
    varint(&mut stones, *gone_ms.end());
    let mut file = [&0x0130_BA30_u32.to_be_bytes()[..], &[1], &stones].concat();
    file.extend(crc32c::crc32c(&stones).to_be_bytes());
    std::fs::write(block.join("tombstones"), file).unwrap();
    let labels = series.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    (labels, gone_ms)
}

/// What lies in none of these ranges.
pub(crate) fn without_series_in(series: Vec<Series>, ranges_ms: &[RangeInclusive<i64>]) -> Vec<Series> {
    let cut = |(labels, samples): Series| {
        let kept =
            samples.into_iter().filter(|(at_ms, _)| !ranges_ms.iter().any(|range| range.contains(at_ms)));
        (labels, kept.collect::<Vec<_>>())
    };
    series.into_iter().map(cut).filter(|(_, samples)| !samples.is_empty()).collect()
}

/// The sum of a metric over its labels.
pub(crate) fn metric(node: &Node, name: &str) -> f64 {
    let text = node.get("/metrics").text();
    let is_own = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
    text.lines().filter(is_own).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

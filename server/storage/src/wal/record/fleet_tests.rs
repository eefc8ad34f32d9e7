//! What a sample takes in the log, of machines that are scraped as node_exporter is.
use super::Group;
use crate::wal::Journal;
use crate::wal::frame::FRAME_HEADER_BYTES;
use silverback_model::{Sample, SeriesRef};

const TARGETS: usize = 50;
const TARGET_SERIES: usize = 1000;
const SCRAPES: i64 = 20;
const STEP_MS: i64 = 15_000;
const START_MS: i64 = 1_700_000_000_000;

/// How a series' values follow from each other.
#[derive(Clone, Copy)]
enum Kind {
    Constant,
    Counter,
    RareCounter,
    Seconds,
    Bytes,
    Gauge,
    Float,
}

impl Kind {
    /// By their shares of a hundred series.
    fn of(percent: u64) -> Self {
        match percent {
            0..25 => Self::Constant,
            25..41 => Self::Counter,
            41..56 => Self::RareCounter,
            56..74 => Self::Seconds,
            74..80 => Self::Bytes,
            80..85 => Self::Gauge,
            _ => Self::Float,
        }
    }

    fn first(self, random: &mut Random) -> f64 {
        match self {
            Self::Constant => [0.0, 1.0, 256.0, 1e6, 67_108_864.0][random.below(5) as usize],
            Self::Counter => random.below(300_000_000) as f64,
            Self::RareCounter => random.below(50) as f64,
            Self::Seconds => random.below(1_200_000_000) as f64 / 100.0,
            Self::Bytes => random.below(10_000_000) as f64 * 4096.0,
            Self::Gauge => random.below(1000) as f64,
            Self::Float => 1.0,
        }
    }

    fn next(self, before: f64, random: &mut Random) -> f64 {
        match self {
            Self::Constant => before,
            Self::Counter => before + random.below(30_000) as f64,
            Self::RareCounter => before + f64::from(random.below(50) == 0),
            Self::Seconds => ((before * 100.0).round() + random.below(1500) as f64) / 100.0,
            Self::Bytes => before + random.below(1000) as f64 * 4096.0,
            Self::Gauge => before + random.below(3) as f64,
            Self::Float => random.below(1 << 53) as f64 / 1e12,
        }
    }
}

/// Splitmix64: the same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }
}

/// The bytes of all scrapes, each of ten targets a group in whole blocks.
fn written_bytes(block_bytes: usize) -> usize {
    let mut random = Random(1);
    let kinds: Vec<_> = (0..TARGET_SERIES).map(|_| Kind::of(random.below(100))).collect();
    let fleet = kinds.iter().cycle().take(TARGETS * TARGET_SERIES);
    let mut values: Vec<_> = fleet.map(|&kind| (kind, kind.first(&mut random))).collect();
    let (mut group, mut bytes) = (Group::default(), 0);
    for scrape in 0..SCRAPES {
        for (target, values) in values.chunks_mut(TARGET_SERIES).enumerate() {
            let timestamp_ms = START_MS + scrape * STEP_MS + 293 * target as i64;
            let first = target * TARGET_SERIES;
            for (series, (kind, value)) in (first..).zip(values) {
                *value = kind.next(*value, &mut random);
                group.stored(SeriesRef(series as u32), Sample { timestamp_ms, value: *value });
            }
            if target % 10 == 9 {
                bytes += (FRAME_HEADER_BYTES + group.bytes()).next_multiple_of(block_bytes);
                group.clear();
            }
        }
    }
    bytes
}

#[test]
fn a_sample_of_a_machine_takes_less_than_four_and_a_half_bytes() {
    let samples = SCRAPES as usize * TARGETS * TARGET_SERIES;
    let bytes_per_sample = written_bytes(4096) as f64 / samples as f64;
    println!("{bytes_per_sample:.2} bytes of log for a sample");
    assert!(bytes_per_sample < 4.5, "{bytes_per_sample:.2}");
}

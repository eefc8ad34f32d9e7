//! The write-ahead log: payloads of frames, and frames and files' headers behind what the target takes before
//! them.

use silverback_model::gorilla::{OpenXor, SealedChunk};
use silverback_model::histogram::wire::{HistogramTimes, Untimed};
use silverback_model::histogram::{Buckets, Histogram, Span};
use silverback_model::{
    CellId, Epoch, Exemplar, LabelBlock, Labels, Metadata, MetricType, Sample, SeriesId, SeriesRef, ShardId,
};
use silverback_storage::wal::frame::{FrameKey, encode_header};
use silverback_storage::wal::record::{CheckpointFrame, Claim, ClaimKind, Group};
use silverback_storage::wal::segment::{CheckpointHeader, Made, SegmentHeader};
use silverback_storage::wal::{Journal, Lsn};

use crate::{START_MS, Seeds};

const NODE_SEED: u64 = 1;
const FILE_NUMBER: u64 = 2;

/// Payloads with every kind of record, and one that ends early.
pub(crate) fn records() -> Seeds {
    let (group, snapshot) = (group(), snapshot());
    let cut = group[..group.len() - 3].to_vec();
    vec![("cut", cut), ("empty", Vec::new()), ("group", group), ("snapshot", snapshot)]
}

/// Whole frames and headers; with a sign that the target is to make the checksum itself, too.
pub(crate) fn frames() -> Seeds {
    let payload = group();
    let frame =
        [&encode_header(FrameKey::new(NODE_SEED), FILE_NUMBER, Lsn(3), &[&payload])[..], &payload].concat();
    let segment = SegmentHeader { shard: 0, shards: 2, seq: FILE_NUMBER, block_bytes: 4096, made: None };
    let made = Made { bytes: 16 << 20, after: Lsn(2) };
    let checkpoint = CheckpointHeader { shard: 1, shards: 2, first_group: Lsn(3), block_bytes: 4096 };
    vec![
        ("checkpoint", input(0, &checkpoint.encode(NODE_SEED))),
        ("cut", input(0, &frame[..frame.len() / 2])),
        ("followed", input(4096, &frame)),
        ("frame", input(0, &frame)),
        ("nothing", input(4096, &[0; 64])),
        ("made", input(0, &SegmentHeader { made: Some(made), ..segment }.encode(NODE_SEED))),
        ("segment", input(0, &segment.encode(NODE_SEED))),
        ("signed", [&input(0, &[])[..18], &[1], &frame].concat()),
    ]
}

/// What the target takes for a seed, a file's number, bytes that follow, no checksum of its own, and bytes.
fn input(bytes_after: u16, bytes: &[u8]) -> Vec<u8> {
    let numbers = [NODE_SEED.to_le_bytes(), FILE_NUMBER.to_le_bytes()].concat();
    [&numbers, &bytes_after.to_le_bytes()[..], &[0], bytes].concat()
}

fn labels(device: &str) -> [(&[u8], &[u8]); 2] {
    [(b"__name__", b"disk_up"), (b"device", device.as_bytes())]
}

fn id(series: u32) -> SeriesId {
    SeriesId(0x1000 + u128::from(series))
}

fn claim(kind: ClaimKind) -> Claim {
    Claim { cell: CellId(417), epoch: Epoch(5), kind, other: ShardId(1) }
}

fn group() -> Vec<u8> {
    let mut group = Group::default();
    for (series, device) in [(7, "sda"), (8, "sdb")] {
        group.created(SeriesRef(series), id(series), labels(device).into_iter());
    }
    for (series, value) in [(7, 0.0), (8, 1.0), (9, 300.0), (3, 0.25), (4, 12.34)] {
        group.stored(SeriesRef(series), Sample::new(START_MS + i64::from(series), value));
        if series > 7 {
            group.started(START_MS - 60_000);
        }
    }
    group.replaced(SeriesRef(7), &[chunk(0, 120)], chunk(120, 3).bytes());
    let times = |timestamp_ms| HistogramTimes { timestamp_ms, start_timestamp_ms: START_MS };
    group.stored_histogram(SeriesRef(7), times(START_MS + 20), Untimed::Unwritten(&histogram(2)));
    group.stored_late_histogram(SeriesRef(7), times(START_MS + 10), Untimed::Unwritten(&histogram(1)));
    trace(|trace| group.exemplar(SeriesRef(7), trace));
    group.metadata(&said(), START_MS);
    group.removed(SeriesRef(8), id(8));
    group.claimed(claim(ClaimKind::Given));
    group.parts().concat()
}

fn histogram(count: u64) -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: -1, length: 1 }], words: vec![count] };
    Histogram { count, positive, ..Histogram::default() }
}

/// Uses an exemplar with two labels.
fn trace(with: impl FnOnce(&Exemplar<'_>)) {
    let labels = Labels::from_pairs([("span_id", ""), ("trace_id", "a1")]).to_canonical();
    with(&Exemplar { timestamp_ms: START_MS, value: 0.5, labels: LabelBlock(&labels) });
}

fn said() -> Metadata<'static> {
    Metadata { name: "disk_up", kind: MetricType::Gauge, help: "Whether.", unit: "" }
}

fn snapshot() -> Vec<u8> {
    let mut snapshot = CheckpointFrame::default();
    snapshot.created(SeriesRef(7), id(7), labels("sda").into_iter());
    let (sealed, open) = (chunk(0, 120), chunk(120, 3));
    let spans = [(sealed.min_timestamp_ms(), sealed.max_timestamp_ms(), sealed.bytes())];
    snapshot.chunks(SeriesRef(7), spans.into_iter(), open.bytes());
    trace(|trace| snapshot.exemplar(SeriesRef(7), trace));
    snapshot.metadata(&said(), START_MS);
    snapshot.claimed(claim(ClaimKind::Owned));
    snapshot.end(1, 2);
    snapshot.parts().concat()
}

fn chunk(first: i64, samples: i64) -> SealedChunk {
    let sample = |n: i64| Sample::new(START_MS + n * 15_000, n as f64);
    let mut words = Vec::new();
    let mut open = OpenXor::start(sample(first), &mut words);
    (first + 1..first + samples).for_each(|n| open.append(sample(n), &mut words));
    open.seal(words.into_iter())
}

#[test]
fn whole_payloads_and_frames_are_read_as_such() {
    use silverback_storage::wal::frame::{FrameCheck, check};
    use silverback_storage::wal::record;

    for (name, bytes) in records() {
        assert_eq!(record::records(&bytes).all(|record| record.is_ok()), name != "cut", "{name}");
    }
    let frame = frames().into_iter().find(|(name, _)| *name == "frame").expect("a seed").1;
    let bytes = &frame[19..];
    let checked = check(FrameKey::new(NODE_SEED), FILE_NUMBER, bytes, bytes.len() as u64);
    assert!(matches!(checked, FrameCheck::Whole { .. }), "{checked:?}");
}

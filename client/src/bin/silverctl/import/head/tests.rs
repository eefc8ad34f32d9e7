//! What is read of logs, whole and damaged ones.

use std::path::Path;

use silverback_client::histogram::{Buckets, HistogramKind, Span};
use silverback_test_support::prometheus::block::{uvarint, varint};
use silverback_test_support::prometheus::log::{PAGE, Written, samples, series, tombstone};

use super::*;

const A: &[(&str, &str)] = &[("__name__", "a"), ("job", "x")];
const B: &[(&str, &str)] = &[("__name__", "b")];

/// What was read: samples by series, what was counted, and the fault that ended it.
#[derive(Debug, Default, PartialEq)]
struct Read {
    samples: std::collections::BTreeMap<String, Vec<(i64, f64)>>,
    histograms: std::collections::BTreeMap<String, Vec<(i64, Histogram)>>,
    counts: HeadCounts,
    bad_series: usize,
    fault: Option<String>,
}

fn read_with(dir: &Path, floor_ms: i64, filter: &Filter, bounds: Bounds) -> Read {
    let files = HeadFiles::find(dir).unwrap().expect("a head");
    let head = Head { bounds, ..Head::survey(&files, floor_ms) };
    let (mut pieces, mut read) = (head.read(filter.clone()), Read::default());
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Ok(ImportPiece::Samples(labels, samples)) => {
                read.samples.entry(labels.to_string()).or_default().extend(samples);
            }
            Ok(ImportPiece::Histograms(labels, some)) => {
                assert!(some.len() <= PIECE_HISTOGRAMS_MAX);
                read.histograms.entry(labels.to_string()).or_default().extend(some);
            }
            Ok(ImportPiece::HeadDone(counts)) => read.counts.add(counts),
            Ok(ImportPiece::BadSeries(_)) => read.bad_series += 1,
            Ok(other) => panic!("{other:?}"),
            Err(fault) => read.fault = Some(fault.to_string()),
        }
    }
    read
}

fn every() -> Filter {
    Filter::new(None, i64::MIN..=i64::MAX).unwrap()
}

fn read(dir: &Path) -> Read {
    read_with(dir, i64::MIN, &every(), BOUNDS)
}

#[track_caller]
fn check(read: &Read, expect: &[(&str, &[(i64, f64)])]) {
    let expect = expect.iter().map(|(series, samples)| ((*series).to_owned(), samples.to_vec()));
    assert_eq!(read.samples, expect.collect(), "{read:?}");
}

#[test]
fn samples_are_gathered_by_series_over_segments_and_the_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let wal = dir.path().join("wal");
    // What the checkpoint took the place of isn't read.
    Written::default().plain(b"\xff no record").put(&wal.join("00000003"));
    Written::default()
        .plain(&series(&[(1, A), (7, B)]))
        .plain(&samples(&[(1, 10, 1.0), (7, 10, 2.0)]))
        .put(&wal.join("checkpoint.00000003/00000000"));
    Written::default()
        .plain(&[6, 1, 2])
        .plain(&samples(&[(7, 20, 3.0), (1, 21, -0.5)]))
        .put(&wal.join("00000004"));
    Written::default().plain(&samples(&[(1, 30, f64::INFINITY)])).put(&wal.join("00000005"));
    let expect: [(&str, &[_]); 2] =
        [("a{job=\"x\"}", &[(10, 1.0), (21, -0.5), (30, f64::INFINITY)]), ("b", &[(10, 2.0), (20, 3.0)])];
    check(&read(dir.path()), &expect);
    // However little is held at a time.
    for bounds in [Bounds { series: 1, samples: 1 }, Bounds { series: 1, samples: 100 }] {
        let read = read_with(dir.path(), i64::MIN, &every(), bounds);
        check(&read, &expect);
        assert_eq!((read.counts.series, read.counts.samples_nameless, read.fault), (2, 0, None));
    }
}

#[test]
fn records_span_pages_and_are_compressed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let many: Vec<_> = (0..20_000).map(|index| (1, i64::from(index), f64::from(index).sqrt())).collect();
    let record = samples(&many);
    assert!(record.len() > 5 * PAGE);
    let mut written = Written::default();
    written.plain(&series(&[(1, A)])).plain(&record[..1]);
    written.add(&snap::raw::Encoder::new().compress_vec(&record).unwrap(), 0b1000);
    let later: Vec<_> =
        many.iter().map(|(reference, at_ms, value)| (*reference, at_ms + 20_000, *value)).collect();
    written.add(&zstd::encode_all(samples(&later).as_slice(), 3).unwrap(), 0b1_0000);
    let latest: Vec<_> =
        later.iter().map(|(reference, at_ms, value)| (*reference, at_ms + 20_000, *value)).collect();
    written.plain(&samples(&latest));
    written.put(&dir.path().join("wal/00000000"));
    let read = read(dir.path());
    let all = [many, later, latest].concat();
    let expect: Vec<_> = all.iter().map(|(_, at_ms, value)| (*at_ms, *value)).collect();
    check(&read, &[("a{job=\"x\"}", &expect)]);
    assert_eq!(read.fault, None);
}

#[test]
fn what_prometheus_would_not_take_up_again_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    Written::default()
        .plain(&series(&[(1, A), (2, B), (3, &[("job", "no name")])]))
        .plain(&samples(&[(1, 99, 1.0), (1, 100, 1.0), (1, 100, 1.0), (1, 90, 1.0), (1, 101, 2.0)]))
        .plain(&samples(&[(2, 150, 1.0), (2, 151, 2.0), (2, 152, 3.0), (9, 160, 1.0), (9, 50, 1.0)]))
        .plain(&samples(&[(1, 102, 1.0), (1, 101, 1.0)]))
        .plain(&tombstone(2, 100, 151))
        .plain(&[99, 1])
        .put(&dir.path().join("wal/00000000"));
    // A block ends at 100.
    let read = read_with(dir.path(), 100, &every(), BOUNDS);
    check(&read, &[("a{job=\"x\"}", &[(100, 1.0), (101, 2.0), (102, 1.0)]), ("b", &[(152, 3.0)])]);
    let counts = HeadCounts {
        series: 2,
        unknown_records: 1,
        samples_late: 1,
        samples_nameless: 1,
        ..HeadCounts::default()
    };
    assert_eq!((read.counts, read.bad_series, read.fault), (counts, 1, None));
}

/// A record of native histograms as Prometheus writes it: its kind, then series, times in ms, histograms.
fn histograms(kind: u8, all: &[(u64, i64, Histogram)]) -> Vec<u8> {
    let (mut record, first) = (vec![kind], &all[0]);
    record.extend(first.0.to_be_bytes());
    record.extend(first.1.to_be_bytes());
    for (reference, at_ms, histogram) in all {
        let is_float = histogram.kind == HistogramKind::Float;
        varint(&mut record, reference.cast_signed() - first.0.cast_signed());
        varint(&mut record, at_ms - first.1);
        record.push(histogram.hint as u8);
        varint(&mut record, histogram.schema.into());
        record.extend(histogram.zero_threshold.to_bits().to_be_bytes());
        for count in [histogram.zero_count, histogram.count] {
            if is_float { record.extend(count.to_be_bytes()) } else { uvarint(&mut record, count) }
        }
        record.extend(histogram.sum_bits.to_be_bytes());
        let sides = [&histogram.positive, &histogram.negative];
        for side in sides {
            uvarint(&mut record, side.spans.len() as u64);
            for span in &side.spans {
                varint(&mut record, span.offset.into());
                uvarint(&mut record, span.length.into());
            }
        }
        for side in sides {
            uvarint(&mut record, side.words.len() as u64);
            for word in &side.words {
                if is_float {
                    record.extend(word.to_be_bytes())
                } else {
                    varint(&mut record, word.cast_signed())
                }
            }
        }
        if histogram.schema == -53 {
            uvarint(&mut record, histogram.bounds.len() as u64);
            histogram.bounds.iter().for_each(|bound| record.extend(bound.to_bits().to_be_bytes()));
        }
    }
    record
}

fn integer(n: u64) -> Histogram {
    let side = |offset, words: [i64; 2]| Buckets {
        spans: vec![Span { offset, length: 1 }, Span { offset: 3, length: 1 }],
        words: words.map(i64::cast_unsigned).to_vec(),
    };
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        zero_count: 2,
        count: n,
        sum_bits: (n as f64 / 3.0).to_bits(),
        positive: side(-7, [5, -3]),
        negative: side(1 << 20, [1, 0]),
        ..Histogram::default()
    }
}

fn custom(kind: HistogramKind, n: u64) -> Histogram {
    let words = match kind {
        HistogramKind::Integer => vec![n, 1],
        HistogramKind::Float => vec![(n as f64).to_bits(), 0.5_f64.to_bits()],
    };
    let positive = Buckets { spans: vec![Span { offset: 0, length: 2 }], words };
    Histogram {
        kind,
        schema: -53,
        count: n,
        positive,
        bounds: vec![-0.25, 1.0 / 3.0],
        ..Histogram::default()
    }
}

#[test]
fn histograms_of_every_kind_are_gathered_beside_samples() {
    let dir = tempfile::tempdir().unwrap();
    let float = Histogram { kind: HistogramKind::Float, ..integer(9) };
    let many: Vec<_> = (0..20).map(|n| (1, 100 + n as i64, integer(n))).collect();
    Written::default()
        .plain(&series(&[(1, A), (2, B)]))
        .plain(&samples(&[(1, 300, 0.5)]))
        .plain(&histograms(7, &many))
        // Again, one that came late, one in a block, one of no series.
        .plain(&histograms(
            7,
            &[(1, 119, integer(19)), (1, 105, integer(5)), (1, 9, integer(1)), (8, 120, integer(1))],
        ))
        .plain(&histograms(8, &[(2, 100, float.clone())]))
        .plain(&histograms(9, &[(2, 101, custom(HistogramKind::Integer, 4))]))
        .plain(&histograms(
            10,
            &[
                (2, 102, custom(HistogramKind::Float, 5)),
                (1, 120, Histogram { kind: HistogramKind::Float, ..integer(20) }),
            ],
        ))
        .plain(&[7])
        .plain(&tombstone(1, 103, 104))
        .put(&dir.path().join("wal/00000000"));
    let expect_a = many.iter().filter(|(_, at_ms, _)| !(103..=104).contains(at_ms));
    let mut expect_a: Vec<_> = expect_a.map(|(_, at_ms, histogram)| (*at_ms, histogram.clone())).collect();
    expect_a.push((120, Histogram { kind: HistogramKind::Float, ..integer(20) }));
    let expect_b =
        vec![(100, float), (101, custom(HistogramKind::Integer, 4)), (102, custom(HistogramKind::Float, 5))];
    for bounds in [BOUNDS, Bounds { series: 1, samples: 1 }] {
        let read = read_with(dir.path(), 100, &every(), bounds);
        check(&read, &[("a{job=\"x\"}", &[(300, 0.5)])]);
        assert_eq!(read.histograms["a{job=\"x\"}"], expect_a);
        assert_eq!(read.histograms["b"], expect_b);
        let counts = HeadCounts { series: 2, samples_late: 1, samples_nameless: 1, ..HeadCounts::default() };
        assert_eq!((read.counts, read.fault), (counts, None));
    }
}

#[test]
fn a_histogram_that_is_cut_short_is_damage_with_its_place() {
    let whole = histograms(7, &[(1, 100, integer(1)), (1, 101, integer(2))]);
    let dir = tempfile::tempdir().unwrap();
    let mut written = Written::default();
    written.plain(&series(&[(1, A)])).plain(&samples(&[(1, 1, 1.0)]));
    let place = format!("wal/00000000, byte {}: ", written.bytes.len());
    written.plain(&whole[..whole.len() - 1]).put(&dir.path().join("wal/00000000"));
    let read = read(dir.path());
    check(&read, &[("a{job=\"x\"}", &[(1, 1.0)])]);
    assert!(read.fault.as_ref().is_some_and(|fault| fault.contains(&place)), "{:?}", read.fault);
    assert!(read.histograms.is_empty(), "of a record that can't be read nothing is taken");
}

#[test]
fn a_histogram_that_is_larger_than_a_node_takes_is_left_out_alone() {
    let mut huge = integer(1);
    huge.positive.words = vec![0; 1 << 16];
    let dir = tempfile::tempdir().unwrap();
    Written::default()
        .plain(&series(&[(1, A)]))
        .plain(&histograms(7, &[(1, 100, integer(1)), (1, 101, huge), (1, 102, integer(2))]))
        .plain(&samples(&[(1, 1, 1.0)]))
        .put(&dir.path().join("wal/00000000"));
    let read = read(dir.path());
    check(&read, &[("a{job=\"x\"}", &[(1, 1.0)])]);
    let times: Vec<_> = read.histograms.values().flatten().map(|(at_ms, _)| *at_ms).collect();
    assert_eq!((times, read.counts.histograms_too_large, read.fault), (vec![100, 102], 1, None));
}

#[test]
fn only_what_is_asked_for_is_read() {
    let dir = tempfile::tempdir().unwrap();
    Written::default()
        .plain(&series(&[(1, A), (2, B)]))
        .plain(&samples(&[(1, 1, 1.0), (2, 1, 1.0), (1, 2, 2.0), (1, 3, 3.0)]))
        .put(&dir.path().join("wal/00000000"));
    let selector = r#"{job="x"}"#.parse().unwrap();
    let filter = Filter::new(Some(&selector), 2..=2).unwrap();
    let read = read_with(dir.path(), i64::MIN, &filter, BOUNDS);
    check(&read, &[("a{job=\"x\"}", &[(2, 2.0)])]);
    assert_eq!(read.counts.samples_nameless, 0);
}

#[test]
fn a_series_that_was_made_anew_goes_on_under_its_new_reference() {
    let dir = tempfile::tempdir().unwrap();
    Written::default()
        .plain(&series(&[(1, A)]))
        .plain(&samples(&[(1, 1, 1.0)]))
        .plain(&series(&[(5, A), (1, A)]))
        .plain(&samples(&[(5, 2, 2.0)]))
        .put(&dir.path().join("wal/00000000"));
    let one_at_a_time = read_with(dir.path(), i64::MIN, &every(), Bounds { series: 1, samples: 1 });
    check(&one_at_a_time, &[("a{job=\"x\"}", &[(1, 1.0), (2, 2.0)])]);
}

#[test]
fn a_record_that_is_being_written_ends_the_log() {
    let mut whole = Written::default();
    whole.plain(&series(&[(1, A)])).plain(&samples(&[(1, 1, 1.0)]));
    let begins = whole.bytes.len();
    whole.plain(&samples(&[(1, 2, 2.0)]));
    for end in begins..whole.bytes.len() {
        let dir = tempfile::tempdir().unwrap();
        Written { bytes: whole.bytes[..end].to_vec() }.put(&dir.path().join("wal/00000000"));
        let read_to_there = read(dir.path());
        check(&read_to_there, &[("a{job=\"x\"}", &[(1, 1.0)])]);
        assert_eq!(read_to_there.fault, None, "{end}");
        // The same before another segment is damage.
        Written::default().plain(&samples(&[(1, 3, 3.0)])).put(&dir.path().join("wal/00000001"));
        assert_eq!(read(dir.path()).fault.is_some(), end > begins, "{end}");
    }
}

#[test]
fn damage_is_told_with_its_place_and_what_is_before_it_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = Written::default();
    written.plain(&series(&[(1, A)])).plain(&samples(&[(1, 1, 1.0)]));
    let begins = written.bytes.len();
    written.plain(&samples(&[(1, 2, 2.0)]));
    let damage = |at: usize, to: u8| {
        let mut bytes = written.bytes.clone();
        bytes[at] = to;
        Written { bytes }.put(&dir.path().join("wal/00000000"));
        let read = read(dir.path());
        check(&read, &[("a{job=\"x\"}", &[(1, 1.0)])]);
        read.fault.expect("a fault")
    };
    let place = format!("wal/00000000, byte {begins}: ");
    assert!(
        damage(begins + 10, 0xee).ends_with(&format!("{place}the checksum of a record of the log is wrong"))
    );
    assert!(damage(begins, 0b111).contains(&place));
    assert!(damage(begins, 0b10_0001).contains(&place));
    assert!(damage(begins, 3).ends_with("not a record's next fragment"));
    assert!(damage(begins + 1, 0xff).ends_with("a record of the log goes on past the end"));
    // Not compressed, though it says so.
    assert!(damage(begins, 0b1001).contains(&place));
    assert!(damage(begins, 0b1_0001).contains(&place));
}

#[test]
fn segments_that_are_missing_are_told() {
    let dir = tempfile::tempdir().unwrap();
    Written::default().plain(&series(&[(1, A)])).put(&dir.path().join("wal/00000000"));
    Written::default().put(&dir.path().join("wal/00000002"));
    assert!(HeadFiles::find(dir.path()).unwrap_err().to_string().contains("segment 1 does not exist"));
}

#[test]
fn a_directory_has_a_head_or_none() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(HeadFiles::find(dir.path()).unwrap(), None);
    std::fs::create_dir_all(dir.path().join("chunks_head")).unwrap();
    assert_eq!(HeadFiles::find(dir.path()).unwrap(), None);
    std::fs::write(dir.path().join("chunks_head/000001"), "chunks").unwrap();
    assert!(HeadFiles::find(dir.path()).unwrap().unwrap().log_is_missing);
    Written::default().plain(&[6]).put(&dir.path().join("wal/00000000"));
    Written::default().plain(&[6]).put(&dir.path().join("wbl/00000000"));
    let files = HeadFiles::find(dir.path()).unwrap().unwrap();
    assert_eq!((files.segments.len(), files.out_of_order_bytes, files.log_is_missing), (1, 8, false));
}

proptest::proptest! {
    #[test]
    fn no_log_makes_its_reader_panic(bytes: Vec<u8>, record: Vec<u8>, kind in 0_u8..12) {
        let dir = tempfile::tempdir().unwrap();
        Written::default()
            .plain(&series(&[(1, A)]))
            .plain(&[&[kind], record.as_slice()].concat())
            .put(&dir.path().join("wal/00000000"));
        Written { bytes }.put(&dir.path().join("wal/00000001"));
        // Whether it is read or refused is all the same here.
        drop(read(dir.path()));
    }
}

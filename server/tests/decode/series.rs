//! Bad and odd series: each refused whole or read rightly, and the series beside it untouched.

use silverback::api::ingest::remote_write::{Decoder, Version};
use silverback_model::{
    MetadataRejected, RefusedReason, STALE_NAN_BITS, Sample, SeriesIdHasher,
    limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX},
};
use silverback_test_support::wire::*;

use crate::sink::{decode, decode_starts, decode_with};

const GOOD: Sample = Sample::new(1_700_000_000_000, 1.5);

fn good_v1() -> Vec<u8> {
    series_v1(&[label(b"__name__", b"up"), label(b"job", b"a"), sample(GOOD.timestamp_ms, GOOD.value)])
}

/// Symbols that every remote write 2 test has: those of the good series first.
const SYMBOLS: [&[u8]; 9] = [b"", b"__name__", b"up", b"job", b"a", b"b", b"\xff", b"", b"zone"];

fn good_v2() -> Vec<u8> {
    series_v2(&[refs(&[1, 2, 3, 4]), sample(GOOD.timestamp_ms, GOOD.value)])
}

fn between_good(version: Version, series: &[u8]) -> Vec<u8> {
    match version {
        Version::V1 => [&good_v1(), series, &good_v1()].concat(),
        Version::V2 => [&symbols(&SYMBOLS), &good_v2(), series, &good_v2()].concat(),
    }
}

fn check_refused(version: Version, series: &[u8], reason: RefusedReason, samples: u64) {
    let (kept, tally) = decode(version, &between_good(version, series)).unwrap();
    assert_eq!(kept.len(), 2, "{reason:?}");
    for neighbour in kept {
        assert_eq!(neighbour.1, [GOOD]);
    }
    assert_eq!(
        tally.refused.iter().collect::<Vec<_>>(),
        Vec::from_iter((samples > 0).then_some((reason, samples)))
    );
    assert_eq!(tally.series_refused, 1);
    let told = tally.examples.first().expect("the sender is told one");
    assert_eq!(told.reason, reason);
    assert!(told.words.len() < 600, "{}", told.words);
}

fn check_kept(version: Version, series: &[u8], labels: &[(&str, &str)], samples: &[Sample]) {
    let (kept, tally) = decode(version, &between_good(version, series)).unwrap();
    assert_eq!(kept.len(), 3);
    let got: Vec<_> = kept[1].0.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!((&*got, &*kept[1].1), (labels, samples));
    assert_eq!(tally.series_refused, 0);
}

fn check_labels_refused(labels: &[Vec<u8>], reason: RefusedReason) {
    let series = [labels.concat(), sample(1, 1.0), sample(2, 2.0)].concat();
    check_refused(Version::V1, &field(1, &series), reason, 2);
}

#[test]
fn bad_labels_refuse_their_series_alone() {
    let name = || label(b"__name__", b"up");
    check_labels_refused(&[], RefusedReason::MissingName);
    check_labels_refused(&[label(b"job", b"a")], RefusedReason::MissingName);
    check_labels_refused(&[label(b"__name__", b"")], RefusedReason::MissingName);
    check_labels_refused(&[label(b"__name_", b"up")], RefusedReason::MissingName);
    check_labels_refused(&[name(), label(b"", b"x")], RefusedReason::EmptyLabelName);
    check_labels_refused(&[name(), label(b"a", b"x"), label(b"a", b"x")], RefusedReason::DuplicateLabel);
    check_labels_refused(&[label(b"b", b"x"), name(), label(b"b", b"y")], RefusedReason::DuplicateLabel);
    check_labels_refused(&[name(), label(b"\xff", b"x")], RefusedReason::InvalidUtf8);
    check_labels_refused(&[name(), label(b"a", b"\xc3")], RefusedReason::InvalidUtf8);
    // Valid as a whole, but not each for itself.
    check_labels_refused(
        &[name(), label(b"a", b"\xf0\x9f"), label(b"\xa6\x8d", b"x")],
        RefusedReason::InvalidUtf8,
    );
}

#[test]
fn labels_beyond_their_limits_refuse_their_series() {
    let name = || label(b"__name__", b"up");
    let too_long = vec![b'n'; LABEL_NAME_BYTES_MAX + 1];
    check_labels_refused(&[name(), label(&too_long, b"x")], RefusedReason::LabelTooLong);
    let too_long = vec![b'v'; LABEL_VALUE_BYTES_MAX + 1];
    check_labels_refused(&[name(), label(b"a", &too_long)], RefusedReason::LabelTooLong);
    check_labels_refused(&[name(), label(b"a", &vec![b'v'; 10 << 20])], RefusedReason::LabelTooLong);
    for many in [LABELS_MAX, 2 * LABELS_MAX + 5] {
        let labels = (0..many).map(|i| label(format!("a{i:05}").as_bytes(), b"x"));
        check_labels_refused(
            &[name()].into_iter().chain(labels).collect::<Vec<_>>(),
            RefusedReason::TooManyLabels,
        );
    }
}

#[test]
fn labels_at_their_limits_are_kept() {
    let (name, value) = ("n".repeat(LABEL_NAME_BYTES_MAX), "v".repeat(LABEL_VALUE_BYTES_MAX));
    let series =
        series_v1(&[label(b"__name__", b"up"), label(name.as_bytes(), value.as_bytes()), sample(1, 1.0)]);
    check_kept(Version::V1, &series, &[("__name__", "up"), (&name, &value)], &[Sample::new(1, 1.0)]);
    let labels: Vec<_> = (1..LABELS_MAX).map(|i| format!("a{i:05}")).collect();
    let fields =
        [label(b"__name__", b"up")].into_iter().chain(labels.iter().map(|n| label(n.as_bytes(), b"x")));
    let series = field(1, &[fields.collect::<Vec<_>>().concat(), sample(1, 1.0)].concat());
    let expect: Vec<_> = [("__name__", "up")].into_iter().chain(labels.iter().map(|n| (&**n, "x"))).collect();
    check_kept(Version::V1, &series, &expect, &[Sample::new(1, 1.0)]);
}

#[test]
fn capital_letters_sort_before_the_metric_name() {
    let series = series_v1(&[label(b"Zone", b"x"), label(b"__name__", b"up"), sample(1, 1.0)]);
    check_kept(Version::V1, &series, &[("Zone", "x"), ("__name__", "up")], &[Sample::new(1, 1.0)]);
}

#[test]
fn names_alike_in_their_first_bytes_are_told_apart() {
    let names = ["__name__", "__name__x", "instance", "instance_a", "instance_b"];
    let labels: Vec<_> = names.iter().map(|n| label(n.as_bytes(), b"x")).collect();
    let expect: Vec<_> = names.iter().map(|n| (*n, "x")).collect();
    let series = field(1, &[labels.concat(), sample(1, 1.0)].concat());
    check_kept(Version::V1, &series, &expect, &[Sample::new(1, 1.0)]);
    let mut turned = labels;
    turned.swap(3, 4);
    let series = field(1, &[turned.concat(), sample(1, 1.0)].concat());
    check_kept(Version::V1, &series, &expect, &[Sample::new(1, 1.0)]);
}

#[test]
fn labels_between_and_behind_samples_belong_to_the_series() {
    let fields =
        [label(b"job", b"a"), sample(1, 1.0), label(b"__name__", b"up"), sample(2, 2.0), label(b"a", b"")];
    let expect = [("__name__", "up"), ("job", "a")];
    check_kept(Version::V1, &series_v1(&fields), &expect, &[Sample::new(1, 1.0), Sample::new(2, 2.0)]);
    let fields = [refs(&[1, 2]), sample(1, 1.0), refs(&[3, 4]), sample(2, 2.0)];
    check_kept(Version::V2, &series_v2(&fields), &expect, &[Sample::new(1, 1.0), Sample::new(2, 2.0)]);
}

#[test]
fn of_repeated_fields_the_last_counts_and_absent_ones_are_zero() {
    let twice = [field(1, b"__name__"), field(1, b"job"), field(2, b"x"), field(2, b"a")].concat();
    let sample_twice = field(2, &[number(2, 5), number(2, 6)].concat());
    let series = series_v1(&[label(b"__name__", b"up"), field(1, &twice), sample_twice, field(2, b"")]);
    let expect = [("__name__", "up"), ("job", "a")];
    check_kept(Version::V1, &series, &expect, &[Sample::new(6, 0.0), Sample::new(0, 0.0)]);
}

#[test]
fn values_and_timestamps_pass_bit_for_bit() {
    let values = [f64::from_bits(STALE_NAN_BITS), f64::from_bits(u64::MAX), -0.0, f64::INFINITY];
    let timestamps = [i64::MIN, i64::MAX, -1, 0];
    let samples: Vec<_> = timestamps.into_iter().zip(values).map(|(t, v)| Sample::new(t, v)).collect();
    let encoded: Vec<u8> = samples.iter().flat_map(|s| sample(s.timestamp_ms, s.value)).collect();
    let labels = [label(b"__name__", b"up"), label(b"job", b"b")].concat();
    let expect = [("__name__", "up"), ("job", "b")];
    check_kept(Version::V1, &series_v1(&[labels, encoded.clone()]), &expect, &samples);
    check_kept(Version::V2, &series_v2(&[refs(&[1, 2, 3, 5]), encoded]), &expect, &samples);
}

#[test]
fn version_1_keeps_the_samples_beside_native_histograms() {
    let series = series_v1(&[
        label(b"__name__", b"up"),
        sample(1, 1.0),
        field(3, b"not looked into"),
        field(4, b"\xff"),
        field(4, b""),
    ]);
    let (kept, tally) = decode(Version::V1, &between_good(Version::V1, &series)).unwrap();
    assert_eq!((kept.len(), &*kept[1].1), (3, &[Sample::new(1, 1.0)][..]));
    assert_eq!((tally.histograms, tally.refused.total()), (2, 0));
    assert_eq!((tally.exemplars, tally.series_refused), (1, 0));
}

#[test]
fn version_2_passes_histograms_on_and_refuses_series_of_both_or_neither() {
    let labels = || refs(&[1, 2, 3, 5]);
    check_refused(Version::V2, &series_v2(&[labels()]), RefusedReason::BadSeriesShape, 0);
    let both = series_v2(&[labels(), sample(1, 1.0), field(3, b""), field(3, b"")]);
    check_refused(Version::V2, &both, RefusedReason::BadSeriesShape, 3);
    let histograms = series_v2(&[labels(), field(3, b""), field(3, b"")]);
    let (kept, tally) = decode(Version::V2, &between_good(Version::V2, &histograms)).unwrap();
    assert_eq!((kept.len(), tally.histograms, tally.refused.total()), (2, 2, 0));
}

#[test]
fn bad_references_refuse_their_series_alone() {
    for bad in [&[1, 2, 3][..], &[1, 2, 3, 9], &[1, 2, 3, u64::from(u32::MAX)], &[1]] {
        let series = series_v2(&[refs(bad), sample(1, 1.0)]);
        check_refused(Version::V2, &series, RefusedReason::BadSymbolRef, 1);
    }
    for (bad, reason) in [
        (&[][..], RefusedReason::MissingName),
        (&[3, 4], RefusedReason::MissingName),
        (&[1, 2, 0, 4], RefusedReason::EmptyLabelName),
        (&[1, 2, 3, 4, 3, 5], RefusedReason::DuplicateLabel),
        (&[1, 2, 3, 6], RefusedReason::InvalidUtf8),
    ] {
        check_refused(Version::V2, &series_v2(&[refs(bad), sample(1, 1.0)]), reason, 1);
    }
}

#[test]
fn references_in_any_encoding_and_order_are_read() {
    let expect = [("__name__", "up"), ("job", "a"), ("zone", "b")];
    let samples = [Sample::new(1, 1.0)];
    let long = field(1, &[1, 2, 3, 0x84, 0x80, 0x80, 0x80, 0x80, 0x00, 8, 5]);
    let unpacked = [1, 2, 3, 4, 8, 5].map(|r| number(1, r)).concat();
    let mixed = [refs(&[1, 2, 3]), number(1, 4), refs(&[8, 5])].concat();
    for labels in [refs(&[1, 2, 3, 4, 8, 5]), refs(&[8, 5, 3, 4, 1, 2]), long, unpacked, mixed] {
        check_kept(Version::V2, &series_v2(&[labels, sample(1, 1.0)]), &expect, &samples);
    }
    let without_value = refs(&[1, 2, 3, 0, 8, 5]);
    let expect = [("__name__", "up"), ("zone", "b")];
    check_kept(Version::V2, &series_v2(&[without_value, sample(1, 1.0)]), &expect, &samples);
}

#[test]
fn start_timestamps_are_those_of_remote_write_2_alone_and_zero_is_none() {
    let with = |start: i64| field(2, &[&sample(5, 1.0)[2..], &number(3, start as u64)].concat());
    let samples = [with(7), sample(6, 1.0), with(0), with(-9)].concat();
    let body =
        [symbols(&SYMBOLS), series_v2(&[refs(&[1, 2]), samples]), series_v2(&[refs(&[1, 2]), with(8)])];
    assert_eq!(decode_starts(Version::V2, &body.concat()), Ok(vec![vec![7, 0, 0, -9], vec![8]]));
    let body = series_v1(&[label(b"__name__", b"up"), with(7)]);
    assert_eq!(decode_starts(Version::V1, &body), Ok(vec![vec![0]]), "a field that nobody knows");
}

#[test]
fn symbols_may_follow_the_series() {
    let body = [good_v2(), symbols(&SYMBOLS), good_v2()].concat();
    let (kept, tally) = decode(Version::V2, &body).unwrap();
    assert_eq!((kept.len(), tally.samples), (2, 2));
}

#[test]
fn the_same_references_mean_other_labels_with_another_table() {
    let (mut decoder, hasher) = (Decoder::default(), SeriesIdHasher::new(42, "tenant"));
    for value in ["x", "y"] {
        let table = symbols(&[b"", b"__name__", b"up", b"job", value.as_bytes()]);
        let body = [table, good_v2()].concat();
        let (kept, _tally) = decode_with(&mut decoder, &hasher, Version::V2, &body, 10).unwrap();
        assert_eq!(kept[0].0[1].1, value);
    }
}

#[test]
fn metadata_and_exemplars_are_counted_whatever_they_hold() {
    let body = [good_v1(), field(3, b"\xff\xff"), field(3, b"")].concat();
    assert_eq!(decode(Version::V1, &body).unwrap().1.metadata, 2);
    let extras = [field(4, b"\xff"), field(5, b"\x00")].concat();
    let series = series_v2(&[refs(&[1, 2]), sample(1, 1.0), extras, number(6, 7)]);
    let (kept, tally) = decode(Version::V2, &between_good(Version::V2, &series)).unwrap();
    assert_eq!((kept.len(), tally.exemplars, tally.metadata), (3, 1, 1));
}

#[test]
fn metadata_that_cant_be_kept_is_counted_for_every_series_that_has_it() {
    let no_such_help = number(3, SYMBOLS.len() as u64);
    let series = series_v2(&[refs(&[1, 2]), sample(1, 1.0), field(5, &no_such_help)]);
    let body = [&*symbols(&SYMBOLS), &*series.repeat(3)].concat();
    let (kept, tally) = decode(Version::V2, &body).unwrap();
    assert_eq!((kept.len(), tally.metadata), (3, 3));
    assert_eq!(tally.metadata_refused.get(MetadataRejected::Malformed), 3);
}

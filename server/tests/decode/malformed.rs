//! Bodies that aren't requests: refused with place and cause, never with a panic, and never after
//! memory was taken that they only claim to need.

use silverback::api::ingest::remote_write::{Decoder, MalformedErrorKind, Version};
use silverback_model::SeriesIdHasher;
use silverback_test_support::wire::*;

use crate::sink::{decode, decode_with};

fn check(version: Version, body: &[u8], offset: usize, cause: MalformedErrorKind) {
    let error = decode(version, body).expect_err("malformed");
    assert_eq!((error.offset, error.cause), (offset, cause), "{error}");
    let words = error.to_string();
    assert!(words.contains(&format!("byte {offset}")), "{words}");
}

/// In the body itself, in a series and in a sample of both versions.
fn check_everywhere(bad: &[u8], cause: MalformedErrorKind) {
    for (version, series) in [(Version::V1, 1), (Version::V2, 5)] {
        check(version, bad, 0, cause);
        check(version, &field(series, bad), 2, cause);
        check(version, &field(series, &field(2, bad)), 4, cause);
    }
    check(Version::V1, &field(1, &field(1, bad)), 4, cause);
}

#[test]
fn broken_tags_are_refused() {
    check_everywhere(&[0x00], MalformedErrorKind::FieldNumber);
    check_everywhere(&[0x02, 0x00], MalformedErrorKind::FieldNumber);
    check_everywhere(&varint(1 << 32 | 1 << 3), MalformedErrorKind::FieldNumber);
    check_everywhere(&[0x80], MalformedErrorKind::Truncated);
    check_everywhere(&[0x66, 0], MalformedErrorKind::UnknownWireType);
    check_everywhere(&[0x67, 0], MalformedErrorKind::UnknownWireType);
    check_everywhere(&[0xff; 11], MalformedErrorKind::VarintTooLong);
    check_everywhere(
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        MalformedErrorKind::VarintTooLong,
    );
}

#[test]
fn groups_are_refused_however_deep() {
    check_everywhere(&[0x63; 100], MalformedErrorKind::Group);
    check_everywhere(&[0x64], MalformedErrorKind::Group);
    check(Version::V1, &vec![0x63; 1 << 20], 0, MalformedErrorKind::Group);
}

#[test]
fn nesting_costs_no_stack() {
    let mut nested = Vec::new();
    for _level in 0..2000 {
        nested = field(1, &nested);
    }
    let len = nested.len();
    // A label in a series in the request, and in it a name of bytes.
    let (series, _tally) = decode(Version::V1, &nested).unwrap();
    assert!(series.is_empty(), "{len}");
}

#[test]
fn huge_lengths_are_refused() {
    for len in [2, 1 << 31, u64::from(u32::MAX), 1 << 62, u64::MAX] {
        let unknown = [vec![0x62], varint(len), vec![0]].concat();
        for (version, series) in [(Version::V1, 1_u64), (Version::V2, 5)] {
            check(version, &unknown, 1, MalformedErrorKind::Truncated);
            let tag = (series << 3 | 2) as u8;
            check(version, &[vec![tag], varint(len), vec![0]].concat(), 1, MalformedErrorKind::Truncated);
            for inner in [0x0a, 0x12, 0x1a, 0x22] {
                let inner = [vec![inner], varint(len), vec![0]].concat();
                let error = decode(version, &field(series, &inner)).unwrap_err();
                assert_eq!(error.cause, MalformedErrorKind::Truncated);
            }
        }
    }
}

#[test]
fn fields_of_the_protocol_with_another_wire_type_are_refused() {
    let cause = MalformedErrorKind::WrongWireType;
    for number in [1, 3] {
        check(Version::V1, &[number << 3, 1], 1, cause);
    }
    for number in [4, 5] {
        check(Version::V2, &[number << 3, 1], 1, cause);
    }
    for number in [1, 2, 3, 4] {
        check(Version::V1, &field(1, &[number << 3 | 5, 1, 2, 3, 4]), 3, cause);
        check(Version::V2, &field(5, &[number << 3 | 5, 1, 2, 3, 4]), 3, cause);
    }
    // Value and timestamp of a sample, name and value of a label.
    for bad in [&[0x08, 1][..], &[0x0d, 1, 2, 3, 4], &[0x11, 1, 2, 3, 4, 5, 6, 7, 8], &[0x12, 0]] {
        check(Version::V1, &field(1, &field(2, bad)), 5, cause);
        check(Version::V2, &field(5, &field(2, bad)), 5, cause);
    }
    check(Version::V2, &field(5, &field(2, &[0x1a, 0])), 5, cause);
    check(Version::V1, &field(1, &field(1, &[0x08, 1])), 5, cause);
    check(Version::V1, &field(1, &field(1, &[0x10, 1])), 5, cause);
}

#[test]
fn a_broken_reference_is_refused() {
    check(Version::V2, &field(5, &field(1, &[0x01, 0x80])), 5, MalformedErrorKind::Truncated);
    check(Version::V2, &field(5, &field(1, &[0xff; 12])), 4, MalformedErrorKind::VarintTooLong);
}

#[test]
fn label_sets_that_grow_beyond_all_bounds_are_refused() {
    // 8 KiB of label for two bytes of references.
    const SERIES: u64 = 200;
    let value = vec![b'v'; 8192];
    let names: Vec<_> = (0..100).map(|i| format!("label{i:03}")).collect();
    let own_names: Vec<_> = (0..SERIES).map(|i| format!("own{i:03}")).collect();
    let mut table: Vec<&[u8]> = vec![b"", b"__name__", &value];
    table.extend(names.iter().chain(&own_names).map(|n| n.as_bytes()));
    let labels: Vec<u64> = (3..103).flat_map(|name| [name, 2]).collect();
    for (is_sorted, sets) in [(true, 50), (false, 50), (true, SERIES), (false, SERIES)] {
        let mut body = symbols(&table);
        for i in 0..SERIES {
            let (name, own) = ([1, 2], [103 + i % sets, 2]);
            let refs_of = if is_sorted { [&name, &*labels, &own] } else { [&own, &*labels, &name] };
            body.extend(series_v2(&[refs(&refs_of.concat()), sample(1, 1.0)]));
        }
        let mut decoder = Decoder::default();
        let result =
            decode_with(&mut decoder, &SeriesIdHasher::new(1, ""), Version::V2, &body, usize::MAX / 8);
        if sets < SERIES {
            assert_eq!(result.unwrap().0.len(), SERIES as usize, "fifty sets, known again");
        } else {
            assert_eq!(result.unwrap_err().cause, MalformedErrorKind::LabelsTooLarge);
        }
    }
}

#[test]
fn more_symbols_than_allowed_are_refused() {
    let body = [0x22, 0].repeat(silverback_model::limits::SYMBOLS_MAX + 1);
    check(Version::V2, &body, body.len(), MalformedErrorKind::TooManySymbols);
    assert!(decode(Version::V2, &body[2..]).is_ok());
}

fn two_series(version: Version) -> Vec<u8> {
    let samples = [sample(1_700_000_000_000, 1.5), sample(1_700_000_015_000, 2.5)].concat();
    match version {
        Version::V1 => {
            let labels = [label(b"__name__", b"up"), label(b"job", b"a")].concat();
            [series_v1(&[labels.clone(), samples.clone()]), series_v1(&[labels, samples])].concat()
        }
        Version::V2 => {
            let series = series_v2(&[refs(&[1, 2, 3, 4]), samples]);
            [symbols(&[b"", b"__name__", b"up", b"job", b"a"]), series.clone(), series].concat()
        }
    }
}

#[test]
fn a_body_cut_anywhere_passes_whole_series_or_none() {
    for version in [Version::V1, Version::V2] {
        let whole = two_series(version);
        for cut in 0..whole.len() {
            match decode(version, &whole[..cut]) {
                Ok((series, _tally)) => assert!(series.iter().all(|s| s.1.len() == 2), "cut at {cut}"),
                Err(error) => assert!(error.offset <= cut, "cut at {cut}: {error}"),
            }
        }
        assert_eq!(decode(version, &whole).unwrap().0.len(), 2);
    }
}

#[test]
fn any_byte_may_be_any_other() {
    for version in [Version::V1, Version::V2] {
        let whole = two_series(version);
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone();
                changed[at] = byte;
                // Either is fine: that it neither panics nor disagrees with itself is checked within.
                if let Err(error) = decode(version, &changed) {
                    assert!(error.offset <= whole.len());
                }
            }
        }
    }
}

#[test]
fn more_samples_than_a_request_may_have_are_refused() {
    const MAX: usize = silverback_model::limits::REQUEST_SAMPLES_MAX as usize;
    let series = |samples: usize| {
        // An empty sample takes two bytes, and is one all the same.
        let content = [label(b"__name__", b"a"), [0x12, 0].repeat(samples)].concat();
        field(1, &content)
    };
    let (_series, tally) = decode(Version::V1, &series(MAX)).unwrap();
    assert_eq!(tally.samples as usize, MAX);
    let error = decode(Version::V1, &[series(MAX), series(1)].concat()).unwrap_err();
    assert_eq!(error.cause, MalformedErrorKind::TooManySamples);
}

//! Label sets that were seen before, in whatever order: what comes of them is what comes of new ones, the refused among
//! them too.

use proptest::{collection::vec, prelude::*, sample::select};
use silverback::api::ingest::remote_write::Version;
use silverback_model::limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};
use silverback_test_support::wire::*;

use crate::sink::{check_after, check_after_another_byte, decode};

/// Name and value, in whatever bytes.
type RawLabel = (Vec<u8>, Vec<u8>);

fn raw(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> RawLabel {
    (name.as_ref().to_vec(), value.as_ref().to_vec())
}

fn raw_label() -> impl Strategy<Value = RawLabel> {
    let usual = (
        select(&["job", "Zone", "instance", "instance_id", "a", "z"][..]),
        select(&["x", "a:9100", "\u{fc}"][..]),
    )
        .prop_map(|(name, value)| raw(name, value));
    let bad = select(vec![
        raw("__name__", "down"),
        raw("__name__", ""),
        raw("", "x"),
        raw("a", ""),
        raw("a", [0xc3]),
        raw([0xff], "x"),
    ]);
    let long = (0..3_usize, 0..3_usize).prop_map(|(name, value)| {
        raw(vec![b'n'; LABEL_NAME_BYTES_MAX - 1 + name], vec![b'v'; LABEL_VALUE_BYTES_MAX - 1 + value])
    });
    prop_oneof![20 => usual, 2 => bad, 1 => long]
}

fn few() -> impl Strategy<Value = Vec<RawLabel>> {
    vec(raw_label(), 0..8).prop_map(|mut set| {
        set.insert(0, raw("__name__", "up"));
        set
    })
}

fn each_once() -> impl Strategy<Value = Vec<RawLabel>> {
    few().prop_map(|mut set| {
        set.sort();
        set.dedup_by(|a, b| a.0 == b.0);
        set
    })
}

/// Sorted, as it comes, or in no order; each name once or not; few labels, or as many as there may be and more.
fn label_set() -> impl Strategy<Value = Vec<RawLabel>> {
    let many = (LABELS_MAX - 2..LABELS_MAX + 2).prop_map(|count| {
        let more = (1..count).map(|i| raw(format!("label_{i:03}"), "v"));
        [raw("__name__", "up")].into_iter().chain(more).collect::<Vec<_>>()
    });
    prop_oneof![
        4 => few(),
        4 => each_once(),
        8 => each_once().prop_shuffle(),
        2 => vec(raw_label(), 0..4),
        1 => many.prop_shuffle(),
    ]
}

/// The series of a request: which of some label sets each has, and how many samples.
type Chosen = Vec<(prop::sample::Index, usize)>;

/// Some label sets, and which of them a first and a second request have.
fn requests() -> impl Strategy<Value = (Vec<Vec<RawLabel>>, [Chosen; 2])> {
    let request =
        || vec((any::<prop::sample::Index>(), prop_oneof![8 => Just(1), 1 => Just(0), 1 => Just(3)]), 0..24);
    (vec(label_set(), 1..8), [request(), request()])
}

fn samples(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| sample(1_700_000_000_000 + i as i64, i as f64)).collect()
}

fn body_v1(sets: &[Vec<RawLabel>], chosen: &[(prop::sample::Index, usize)]) -> Vec<u8> {
    let series = chosen.iter().map(|(set, count)| {
        let labels = set.get(sets).iter().map(|(name, value)| label(name, value));
        series_v1(&labels.chain([samples(*count)]).collect::<Vec<_>>())
    });
    series.flatten().collect()
}

fn body_v2(sets: &[Vec<RawLabel>], chosen: &[(prop::sample::Index, usize)]) -> Vec<u8> {
    let mut table: Vec<&[u8]> = vec![b""];
    let mut series = Vec::new();
    for (set, count) in chosen {
        let labels = set.get(sets).iter().flat_map(|(name, value)| [&**name, &**value]);
        let numbers: Vec<u64> = labels
            .map(|symbol| {
                let known = table.iter().position(|other| *other == symbol);
                known.unwrap_or_else(|| {
                    table.push(symbol);
                    table.len() - 1
                }) as u64
            })
            .collect();
        series.extend(series_v2(&[refs(&numbers), samples(*count)]));
    }
    [symbols(&table), series].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_seen_before_changes_nothing((sets, chosen) in requests()) {
        for (version, body) in [(Version::V1, body_v1 as fn(&[_], &[_]) -> _), (Version::V2, body_v2)] {
            let [first, second] = chosen.each_ref().map(|chosen| body(&sets, chosen));
            decode(version, &first).expect("well formed");
            check_after(version, &first, &second);
            check_after_another_byte(version, &first);
        }
    }
}

#[test]
fn labels_of_the_same_bytes_in_other_fields_are_others() {
    let [up, job] = [label(b"__name__", b"up"), label(b"job", b"a")];
    let whole = series_v1(&[job.clone(), up.clone(), samples(1)]);
    // Cut elsewhere, after the samples, twice, and without one.
    for fields in [
        vec![job.clone(), samples(1), up.clone()],
        vec![samples(1), job.clone(), up.clone()],
        vec![job.clone(), up.clone(), samples(1), up.clone()],
        vec![up.clone(), job.clone(), samples(1)],
        vec![job, samples(1)],
    ] {
        let other = series_v1(&fields);
        check_after(Version::V1, &whole, &other);
        check_after(Version::V1, &other, &whole);
    }
}

#[test]
fn what_looks_like_a_sample_at_the_end_of_something_else_is_part_of_that() {
    let [up, job] = [label(b"__name__", b"up"), label(b"job", b"a")];
    let sample = samples(1);
    // In a label's value, in an exemplar and in an unknown field, with samples before it or without.
    for last in [
        label(b"x", &sample),
        label(b"x", &[sample.clone(), sample.clone()].concat()),
        field(3, &sample),
        field(9, &sample),
    ] {
        for fields in [vec![up.clone(), job.clone()], vec![job.clone(), up.clone()]] {
            let known = series_v1(&[fields.concat(), sample.clone()]);
            for before in [vec![], sample.clone(), samples(7)] {
                let other = series_v1(&[fields.concat(), before, last.clone()]);
                check_after(Version::V1, &known, &other);
                check_after(Version::V1, &other, &known);
                decode(Version::V1, &[known.clone(), other].concat()).unwrap();
            }
        }
    }
}

//! What only remote write 2 can get wrong: symbols, references to them, the shape of a series.

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{Series, body, compress};
use silverback_test_support::wire::{field, refs, sample, series_v2, symbols};

use crate::bad_input::bystander::{Expect, Scene};
use crate::bad_input::metrics::refused;

const TABLE: [&[u8]; 5] = [b"", b"__name__", b"shape", b"job", b"a"];

fn check(bytes: &[u8], expect: &Expect, scene: &Scene) {
    scene.check(Version::V2, &compress(bytes), expect);
}

/// A series of these references between good ones.
fn check_refs(bad: &[u64]) {
    let scene = Scene::start(2);
    let good = |series: u64, at| series_v2(&[refs(&[1, 2, 3, series]), sample(scene.start_ms + at, 1.0)]);
    let bad = series_v2(&[refs(bad), sample(scene.start_ms, 1.0), sample(scene.start_ms, 2.0)]);
    let expect = Expect {
        status: 400,
        words: "2 of 4 samples refused: bad_symbol_ref 2; first: {",
        written: 2,
        counted: &[(&refused("bad_symbol_ref"), 2)],
    };
    check(&[symbols(&TABLE), good(4, 1), bad, good(2, 2)].concat(), &expect, &scene);
    assert_eq!(scene.samples("shape").len(), 2);
}

#[test]
fn references_outside_the_table_and_odd_ones_are_refused() {
    check_refs(&[1, 2, 3, 5]);
    check_refs(&[1, u64::from(u32::MAX)]);
    check_refs(&[1, 2, 3]);
    check_refs(&[1]);
}

#[test]
fn symbols_may_stand_behind_the_series_and_the_first_need_not_be_empty() {
    let scene = Scene::start(2);
    let expect = Expect { status: 204, words: "", written: 1, counted: &[] };
    let at = |ms: i64| sample(scene.start_ms + ms, 1.0);
    check(&[series_v2(&[refs(&[1, 2, 3, 4]), at(1)]), symbols(&TABLE)].concat(), &expect, &scene);
    check(&[symbols(&TABLE[1..]), series_v2(&[refs(&[0, 1, 2, 3]), at(2)])].concat(), &expect, &scene);
    assert_eq!(scene.samples("shape"), [[(scene.start_ms + 1, 1.0), (scene.start_ms + 2, 1.0)]]);
}

#[test]
fn a_series_without_samples_is_told_and_counted() {
    let scene = Scene::start(1);
    let empty = series_v2(&[refs(&[1, 2, 3, 4])]);
    let only_metadata = series_v2(&[refs(&[1, 2, 3, 4]), field(5, b"")]);
    let good = series_v2(&[refs(&[1, 2]), sample(scene.start_ms, 1.0)]);
    let expect = Expect {
        status: 400,
        words: "2 series without samples refused; first: {__name__=\"shape\", job=\"a\"} \
                series needs samples or histograms, and not both",
        written: 1,
        counted: &[("silverback_series_refused_total", 2)],
    };
    check(&[symbols(&TABLE), empty, only_metadata, good].concat(), &expect, &scene);
}

#[test]
fn a_request_of_the_other_version_is_refused_and_not_taken_for_an_empty_one() {
    let scene = Scene::start(1);
    let beside = |version| {
        let series = Series::new([("__name__", "other")]).sample(scene.start_ms, 1.0);
        body(version, &[series])
    };
    scene.check_malformed(Version::V2, &beside(Version::V1), "mustn't for remote write 1");
    scene.check_malformed(Version::V1, &beside(Version::V2), "the other version of remote write");
    assert!(scene.samples("other").is_empty());
}

//! What a sender may send and this node doesn't store: native histograms, which are refused one by
//! one, and exemplars and metadata that make no sense, which never fail a request.

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{Series, VERSIONS, body, compress, encode};
use silverback_test_support::wire::{field, number, series_v2, symbols};

use crate::bystander::{Expect, Scene};
use crate::metrics::refused;

const EXEMPLARS: &str = r#"silverback_exemplars_refused_total{reason="malformed"}"#;
const METADATA: &str = r#"silverback_metadata_refused_total{reason="malformed"}"#;

fn series() -> Series {
    Series::new([("__name__", "latency"), ("job", "shop")])
}

#[test]
fn native_histograms_are_refused_one_by_one_and_samples_beside_them_are_stored() {
    for (shards, version) in [1, 3].into_iter().flat_map(|shards| VERSIONS.map(|v| (shards, v))) {
        let scene = Scene::start(shards);
        let alone = series().histograms(3);
        let expect = Expect {
            status: 400,
            words: "3 of 5 samples refused: native_histogram 3; first: \
                    {__name__=\"latency\", job=\"shop\"} native histograms are not stored",
            written: 2,
            counted: &[(&refused("native_histogram"), 3)],
        };
        scene.check(version, &body(version, &[scene.beside(), alone, scene.beside()]), &expect);
    }
}

#[test]
fn a_series_of_both_keeps_its_samples_in_version_1_and_is_refused_in_version_2() {
    for (version, reason, written) in
        [(Version::V1, "native_histogram", 2), (Version::V2, "bad_series_shape", 1)]
    {
        let scene = Scene::start(1);
        let both = series().histograms(1).sample(scene.start_ms, 1.0);
        let bad = 3 - written;
        let expect = Expect {
            status: 400,
            words: &format!("{bad} of 3 samples refused: {reason} {bad}; first: {{"),
            written,
            counted: &[(&refused(reason), bad)],
        };
        scene.check(version, &body(version, &[both, scene.beside()]), &expect);
        assert_eq!(scene.samples("latency").len() as u64, written - 1);
    }
}

#[test]
fn exemplars_that_can_t_be_read_are_counted_and_fail_nothing() {
    for version in VERSIONS {
        let scene = Scene::start(1);
        let with = series().sample(scene.start_ms, 1.0).exemplars(2);
        let expect = Expect { status: 204, words: "", written: 2, counted: &[(EXEMPLARS, 2)] };
        scene.check(version, &body(version, &[with, scene.beside()]), &expect);
        assert_eq!(scene.samples("latency"), [[(scene.start_ms, 1.0)]]);
    }
}

#[test]
fn metadata_that_can_t_be_read_is_counted_and_fails_nothing() {
    let scene = Scene::start(1);
    let expect = Expect { status: 204, words: "", written: 1, counted: &[(METADATA, 1)] };
    let metadata = field(3, &[number(1, 99), field(2, b"\xff"), field(9, b"?")].concat());
    let with = compress(&[metadata, encode(Version::V1, &[scene.beside()])].concat());
    scene.check(Version::V1, &with, &expect);

    let references = field(1, &[1, 2]);
    let sample = silverback_test_support::wire::sample(scene.start_ms, 1.0);
    let metadata = field(5, &[number(1, 99), number(3, 1 << 40 | 77)].concat());
    let with = compress(
        &[symbols(&[b"", b"__name__", b"latency"]), series_v2(&[references, sample, metadata])].concat(),
    );
    scene.check(Version::V2, &with, &expect);
}

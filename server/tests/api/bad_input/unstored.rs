//! What a sender may send and this node doesn't store: exemplars and metadata that make no sense, whose samples are
//! stored all the same.

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{Series, VERSIONS, body, compress, encode};
use silverback_test_support::wire::{field, number, series_v2, symbols};

use crate::bad_input::bystander::{Expect, Scene};

const EXEMPLARS: &str = r#"silverback_exemplars_refused_total{reason="malformed"}"#;
const METADATA: &str = r#"silverback_metadata_refused_total{reason="malformed"}"#;

fn series() -> Series {
    Series::new([("__name__", "latency"), ("job", "shop")])
}

#[test]
fn exemplars_that_can_t_be_read_are_counted_and_an_error_of_version_2_alone() {
    for version in VERSIONS {
        let scene = Scene::start(1);
        let with = series().sample(scene.start_ms, 1.0).exemplars(2);
        let (status, words) = match version {
            Version::V1 => (204, ""),
            Version::V2 => (400, "2 of 2 exemplars refused, the first one as malformed"),
        };
        let expect = Expect { status, words, written: 2, counted: &[(EXEMPLARS, 2)] };
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

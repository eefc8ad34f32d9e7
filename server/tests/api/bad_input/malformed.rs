//! Bodies that aren't write requests: refused whole, nothing of them stored, whatever they claim.

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{Series, VERSIONS, compress, encode};
use silverback_test_support::wire::{field, varint};

use crate::bad_input::bystander::{Expect, Scene};
use crate::bad_input::metrics::MALFORMED;

/// A body and a part of the text that it is refused with.
pub(super) type BadBody = (Vec<u8>, &'static str);

fn check(bad: impl Fn(Version) -> Vec<BadBody>) {
    let scene = Scene::start(2);
    for version in VERSIONS {
        for (body, words) in bad(version) {
            scene.check_malformed(version, &body, words);
        }
    }
    let stored = scene.samples("{job=\"lost\"}");
    assert!(stored.is_empty(), "of a malformed request nothing is stored: {stored:?}");
}

/// Bodies that aren't snappy, or claim more than they have.
pub(super) fn bad_snappy(version: Version) -> Vec<BadBody> {
    const NO_BLOCK: &str = "not in snappy's block format";
    let good = compress(&good(version));
    vec![
        (Vec::new(), NO_BLOCK),
        (b"no snappy at all".to_vec(), NO_BLOCK),
        (good[..good.len() - 1].to_vec(), NO_BLOCK),
        (b"\xff\x06\x00\x00sNaPpY".to_vec(), NO_BLOCK),
        (claim(32 << 20), NO_BLOCK),
        (claim(1 << 40), NO_BLOCK),
    ]
}

/// Bodies that say themselves that they would be larger than allowed.
pub(super) fn too_large_decoded() -> [BadBody; 2] {
    [
        (claim(33 << 20), "the body decompresses to 34603008 bytes, at most 33554432 are allowed"),
        (claim(u64::from(u32::MAX)), "the body decompresses to 4294967295 bytes"),
    ]
}

/// Bodies that decompress to what isn't a request, after a series that alone would be good.
pub(super) fn bad_protobuf(version: Version) -> Vec<BadBody> {
    let good = good(version);
    let series = match version {
        Version::V1 => 1,
        Version::V2 => 5,
    };
    let in_sample = |bytes: &[u8]| field(series, &field(2, bytes));
    let in_series = |bytes: &[u8]| field(series, bytes);
    let bad = |bytes: Vec<u8>, words| (compress(&[good.clone(), bytes].concat()), words);
    const TRUNCATED: &str = "ends past the end of its message";
    const WRONG_TYPE: &str = "wrong wire type";
    let mut bodies = vec![
        (compress(&good[..good.len() - 1]), TRUNCATED),
        bad(vec![0x80], TRUNCATED),
        bad(vec![0xff; 11], "longer than 64 bits"),
        bad(vec![0x00], "field number is out of range"),
        bad(vec![0x63; 1 << 20], "groups are not part of the protocol"),
        bad(in_series(&[0x63; 1 << 16]), "groups are not part of the protocol"),
        bad(vec![0x66, 0], "wire type does not exist"),
        bad(vec![series as u8 * 8, 1], WRONG_TYPE),
        bad(in_series(&[0x10, 1]), WRONG_TYPE),
        bad(in_sample(&[0x08, 1]), WRONG_TYPE),
        bad(in_sample(&[0x12, 0]), WRONG_TYPE),
    ];
    for length in [2, 1 << 31, u64::from(u32::MAX), 1 << 62, u64::MAX] {
        let huge = |tag: u8| [vec![tag], varint(length), vec![0]].concat();
        bodies.push(bad(huge(series as u8 * 8 + 2), TRUNCATED));
        bodies.push(bad(huge(0x7a), TRUNCATED));
        bodies.push(bad(in_series(&huge(0x12)), TRUNCATED));
        bodies.push(bad(in_series(&huge(0x0a)), TRUNCATED));
    }
    bodies
}

/// A few bytes that claim to be many.
pub(super) fn claim(bytes: u64) -> Vec<u8> {
    [varint(bytes), b"\x08few".to_vec()].concat()
}

fn good(version: Version) -> Vec<u8> {
    let now_ms = crate::bad_input::bystander::now_ms();
    encode(version, &[Series::new([("__name__", "up"), ("job", "lost")]).sample(now_ms, 1.0)])
}

#[test]
fn bodies_that_are_no_snappy_or_claim_too_much_are_refused_whole() {
    check(bad_snappy);
}

#[test]
fn bodies_that_would_be_too_large_decoded_are_told_so() {
    let scene = Scene::start(1);
    for version in VERSIONS {
        for (body, words) in too_large_decoded() {
            scene.check(
                version,
                &body,
                &Expect { status: 413, words, written: 0, counted: &[(MALFORMED, 1)] },
            );
        }
    }
}

#[test]
fn bodies_that_are_no_protobuf_of_remote_write_are_refused_whole() {
    check(bad_protobuf);
}

#[test]
fn fields_that_nobody_knows_are_passed_over_however_deep_they_nest() {
    let scene = Scene::start(1);
    let mut nested = Vec::new();
    for _level in 0..2000 {
        nested = field(15, &nested);
    }
    for version in VERSIONS {
        let unknown = compress(&[encode(version, &[scene.beside()]), nested.clone()].concat());
        let expect = Expect { status: 204, words: "", written: 1, counted: &[] };
        scene.check(version, &unknown, &expect);
    }
}

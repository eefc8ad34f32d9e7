//! Series with bad labels: refused one by one and reported by reason; the good ones beside them are stored.

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{PATH, Series, VERSIONS, body, headers};

use crate::bad_input::bystander::{Expect, Scene};
use crate::bad_input::metrics::refused;

const NAME: (&[u8], &[u8]) = (b"__name__", b"up");

/// A bad series of two samples between two good series of one.
fn check(reason: &str, words: &str, bad: &[(&[u8], &[u8])]) {
    let scene = Scene::start(2);
    for version in VERSIONS {
        let bad = Series::new(bad.iter().copied());
        let bad = bad.sample(scene.start_ms, 1.0).sample(scene.start_ms + 1, 2.0);
        let beside = [scene.beside(), bad, scene.beside()];
        let expect = Expect {
            status: 400,
            words: &format!("2 of 4 samples refused: {reason} 2; first: {{"),
            written: 2,
            counted: &[(&refused(reason), 2)],
        };
        let body = body(version, &beside);
        scene.check(version, &body, &expect);
        let answer = scene.node.post(PATH, &headers(version), &body);
        assert!(answer.text().trim_end().ends_with(words), "{}", answer.text());
    }
}

#[test]
fn labels_that_are_not_utf8_are_refused() {
    check("invalid_utf8", "label is not valid UTF-8", &[NAME, (b"job", b"caf\xe9")]);
    check("invalid_utf8", "label is not valid UTF-8", &[NAME, (b"j\xffb", b"a")]);
    check("invalid_utf8", "label is not valid UTF-8", &[NAME, (b"job", b"\xed\xa0\x80")]);
}

#[test]
fn a_label_name_that_stands_twice_is_refused() {
    check("duplicate_label", "label name occurs twice", &[NAME, (b"job", b"a"), (b"job", b"b")]);
    check("duplicate_label", "label name occurs twice", &[(b"job", b"a"), NAME, (b"job", b"a")]);
}

#[test]
fn an_empty_label_name_is_refused() {
    check("empty_label_name", "empty label name", &[(b"", b"a"), NAME]);
}

#[test]
fn a_series_without_a_metric_name_is_refused() {
    const WORDS: &str = "series without a metric name (__name__)";
    check("missing_name", WORDS, &[(b"job", b"a")]);
    check("missing_name", WORDS, &[(b"__name__", b""), (b"job", b"a")]);
    check("missing_name", WORDS, &[]);
}

/// Refused by the decoder and by a shard, which show a series each in its own way.
#[test]
fn names_and_values_are_told_in_printable_text() {
    const ODD: &str = "\u{1b}[2J\u{9b}\nforged\u{202e}\u{2066}";
    const SHOWN: &str = r#""\u001b[2J\u009b\nforged\u202e\u2066"="\u001b[2J\u009b\nforged\u202e\u2066""#;
    let scene = Scene::start(1);
    let long = format!("\u{1b}{}", "n".repeat(1000));
    for version in VERSIONS {
        let ask = |series: Series| scene.node.post(PATH, &headers(version), &body(version, &[series]));
        let check = |series: Series, reason: &str| {
            let answer = ask(series);
            let text = answer.text();
            assert_eq!(answer.status, 400, "{text}");
            assert!(text.contains(reason) && text.contains(SHOWN), "{text}");
            let line = text.strip_suffix('\n').unwrap();
            assert!(line.chars().all(silverback_model::printable::is_printable), "{text:?}");
        };
        check(Series::new([(ODD, ODD)]).sample(scene.start_ms, 1.0), "missing_name");
        check(Series::new([("__name__", "up"), (ODD, ODD)]).sample(0, 1.0), "too_old");
        let text = ask(Series::new([("a", "b"), (&long, "x")]).sample(0, 1.0)).text();
        assert!(text.contains(r#""\u001bnnn"#) && text.contains("n…\"=") && text.len() < 300, "{text}");
    }
}

#[test]
fn labels_of_ten_megabytes_are_refused_and_not_shown_whole() {
    let long = vec![b'x'; 10_000_000];
    let words = "label name or value is too long: a name has 1024 bytes at most, and a value 8192";
    check("label_too_long", words, &[NAME, (b"job", &long)]);
    check("label_too_long", words, &[NAME, (&long, b"a")]);
}

#[test]
fn more_labels_than_a_series_may_have_are_refused() {
    let names: Vec<String> = (0..3000).map(|i| format!("label_{i:04}")).collect();
    let labels = |count: usize| -> Vec<(&[u8], &[u8])> {
        std::iter::once(NAME).chain(names[..count].iter().map(|name| (name.as_bytes(), &b"v"[..]))).collect()
    };
    check("too_many_labels", "series has too many labels: 128 at most", &labels(128));
    check("too_many_labels", "series has too many labels: 128 at most", &labels(3000));
    let scene = Scene::start(1);
    for (i, version) in VERSIONS.into_iter().enumerate() {
        let most = Series::new(labels(127)).sample(scene.start_ms + i as i64, 1.0);
        assert_eq!(scene.node.post(PATH, &headers(version), &body(version, &[most])).status, 204);
    }
}

#[test]
fn labels_in_any_order_and_without_values_are_the_same_series() {
    const ORDERS: [&[(&str, &str)]; 3] = [
        &[("__name__", "up"), ("a", "1"), ("b", "2")],
        &[("b", "2"), ("a", "1"), ("__name__", "up")],
        &[("b", "2"), ("c", ""), ("__name__", "up"), ("a", "1")],
    ];
    for shards in [1, 3] {
        let scene = Scene::start(shards);
        let mut expect = Vec::new();
        for (version, order) in VERSIONS.into_iter().flat_map(|v| ORDERS.map(|order| (v, order))) {
            let sample = (scene.start_ms + expect.len() as i64, 1.0);
            let series = Series::new(order.iter().copied()).sample(sample.0, sample.1);
            let answer = scene.node.post(PATH, &headers(version), &body(version, &[series]));
            assert_eq!(answer.status, 204, "{}", answer.text());
            expect.push(sample);
        }
        assert_eq!(scene.samples("up{a=\"1\"}"), [expect]);
    }
}

/// Every fourth series is good, the others are bad each in a way of its own.
#[test]
fn a_request_split_over_shards_is_counted_exactly() {
    for (shards, version) in [1, 3].into_iter().flat_map(|shards| VERSIONS.map(|v| (shards, v))) {
        check_split(shards, version);
    }
}

fn check_split(shards: usize, version: Version) {
    const EACH: i64 = 50;
    let scene = Scene::start(shards);
    let series: Vec<Series> = (0..4 * EACH).map(|i| mixed_series(i, scene.start_ms)).collect();
    let expect = Expect {
        status: 400,
        words: "150 of 200 samples refused: too_old 50, too_far_in_future 50, missing_name 50; first: {",
        written: EACH as u64,
        counted: &[
            (&refused("too_old"), EACH as u64),
            (&refused("too_far_in_future"), EACH as u64),
            (&refused("missing_name"), EACH as u64),
        ],
    };
    scene.check(version, &body(version, &series), &expect);
    let stored = scene.samples("mixed");
    assert_eq!(stored.len(), EACH as usize, "a series whose only sample is refused isn't made");
    assert!(stored.iter().all(|samples| *samples == [(scene.start_ms, 1.0)]));
}

fn mixed_series(i: i64, start_ms: i64) -> Series {
    let number = i.to_string();
    let named = || Series::new([("__name__", "mixed"), ("number", &number)]);
    match i % 4 {
        0 => named().sample(start_ms, 1.0),
        1 => named().sample(0, 1.0),
        2 => named().sample(i64::MAX, 1.0),
        _ => Series::new([("number", &number)]).sample(start_ms, 1.0),
    }
}

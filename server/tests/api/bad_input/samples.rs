//! Samples that can't be stored where they belong: too old, too new, out of order, twice.

use silverback_node_test_support::request::{PATH, Series, VERSIONS, body, headers};

use crate::bad_input::bystander::{Expect, Scene, now_ms};
use crate::bad_input::metrics::refused;

const MINUTE_MS: i64 = 60_000;

fn series() -> Series {
    Series::new([("__name__", "up"), ("job", "late")])
}

/// `samples` of one series, of which one is refused; `stored` is what is left.
fn check(reason: &str, words: &str, samples: &[(i64, f64)], stored: &[(i64, f64)]) {
    for (shards, version) in [1, 3].into_iter().zip(VERSIONS).chain([3, 1].into_iter().zip(VERSIONS)) {
        let scene = Scene::start(shards);
        let late = samples.iter().fold(series(), |series, &(time, value)| series.sample(time, value));
        let expect = Expect {
            status: 400,
            words: &format!(
                "1 of {} samples refused: {reason} 1; first: {{__name__=\"up\", job=\"late\"}} {words}",
                samples.len() + 1
            ),
            written: samples.len() as u64,
            counted: &[(&refused(reason), 1)],
        };
        scene.check(version, &body(version, &[late, scene.beside()]), &expect);
        assert_eq!(scene.samples("{job=\"late\"}"), [stored]);
    }
}

#[test]
fn a_sample_older_than_the_retention_is_refused_alone() {
    let now = now_ms();
    for old in [i64::MIN, -1, 0, now - 27 * 60 * MINUTE_MS] {
        check("too_old", "sample is older than the retention", &[(old, 1.0), (now, 2.0)], &[(now, 2.0)]);
    }
}

#[test]
fn a_sample_too_far_in_the_future_is_refused_alone() {
    let now = now_ms();
    for far in [i64::MAX, now + 11 * MINUTE_MS] {
        let samples = [(now, 1.0), (far, 2.0), (now + 9 * MINUTE_MS, 3.0)];
        let stored = [samples[0], samples[2]];
        check("too_far_in_future", "sample is too far in the future", &samples, &stored);
    }
}

#[test]
fn a_sample_later_than_the_window_is_refused_alone() {
    let now = now_ms();
    let samples = [(now, 1.0), (now + 2, 2.0), (now - 60 * MINUTE_MS, 3.0), (now + 3, 4.0)];
    check("out_of_order", "out of order sample", &samples, &[samples[0], samples[1], samples[3]]);
}

#[test]
fn a_duplicate_with_another_value_is_refused_alone() {
    let now = now_ms();
    let samples = [(now, 1.0), (now, 2.0), (now + 1, 3.0)];
    let words = "duplicate sample for timestamp with another value";
    check("duplicate", words, &samples, &[samples[0], samples[2]]);
}

#[test]
fn an_exact_retry_is_accepted_and_stored_once() {
    for (shards, version) in [1, 3].into_iter().flat_map(|shards| VERSIONS.map(|v| (shards, v))) {
        let scene = Scene::start(shards);
        let samples: Vec<(i64, f64)> = (0..200).map(|i| (scene.start_ms + i * 1000, i as f64)).collect();
        let late = samples.iter().fold(series(), |series, &(time, value)| series.sample(time, value));
        let body = body(version, &[late]);
        assert_eq!(scene.node.post(PATH, &headers(version), &body).status, 204);
        let retried = ("silverback_samples_already_stored_total", 200);
        scene.check(version, &body, &Expect { status: 204, words: "", written: 200, counted: &[retried] });
        assert_eq!(scene.samples("{job=\"late\"}"), [samples]);
    }
}

#[test]
fn refused_samples_do_not_widen_the_range_that_the_node_tells() {
    let scene = Scene::start(1);
    let stored = scene.start_ms + 5;
    for version in VERSIONS {
        let series = series().sample(stored, 1.0).sample(i64::MAX, 2.0).sample(i64::MIN, 3.0);
        assert_eq!(scene.node.post(PATH, &headers(version), &body(version, &[series])).status, 400);
    }
    let status = scene.node.get("/api/v1/status/tsdb").json();
    let range = [&status["data"]["headStats"]["minTime"], &status["data"]["headStats"]["maxTime"]];
    assert_eq!(range.map(|time| time.as_i64().unwrap()), [stored; 2], "{status}");
}

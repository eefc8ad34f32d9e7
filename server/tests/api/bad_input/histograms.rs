//! Native histograms that are none, contradict themselves, or are huge: each is refused by its reason, and takes
//! nothing of its neighbours.

use silverback::api::ingest::remote_write::Version;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, Span};
use silverback_model::limits::HISTOGRAM_BUCKETS_MAX;
use silverback_node_test_support::request::{PATH, Series, VERSIONS, body, headers};
use silverback_test_support::http::Answer;

use crate::bad_input::bystander::{Expect, Scene};
use crate::bad_input::metrics::refused;

fn series() -> Series {
    Series::new([("__name__", "latency"), ("job", "shop")])
}

fn valid() -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: 0, length: 2 }], words: vec![2, 1] };
    Histogram { count: 5, positive, ..Histogram::default() }
}

fn message(timestamp_ms: i64, histogram: &Histogram) -> Vec<u8> {
    let mut message = Vec::new();
    histogram.put_message(HistogramTimes { timestamp_ms, ..HistogramTimes::default() }, &mut message);
    message
}

fn side(spans: &[(i32, u32)], deltas: &[i64]) -> Buckets {
    let spans = spans.iter().map(|&(offset, length)| Span { offset, length }).collect();
    Buckets { spans, words: deltas.iter().map(|delta| *delta as u64).collect() }
}

/// What is wrong, and why it is refused.
fn bad(now_ms: i64) -> Vec<(Vec<u8>, &'static str)> {
    let made = |change: fn(&mut Histogram)| {
        let mut histogram = valid();
        change(&mut histogram);
        message(now_ms, &histogram)
    };
    vec![
        (b"\xff".to_vec(), "malformed_histogram"),
        (b"\x08".to_vec(), "malformed_histogram"),
        (Vec::new(), "too_old"),
        (message(0, &valid()), "too_old"),
        (message(i64::MAX, &valid()), "too_far_in_future"),
        (made(|h| h.count = 4), "histogram_counts"),
        (made(|h| h.count = u64::MAX), "histogram_counts"),
        (made(|h| h.zero_count = u64::MAX), "histogram_counts"),
        (made(|h| h.positive.words[1] = (-3_i64) as u64), "histogram_counts"),
        (made(|h| h.positive = side(&[(0, 2)], &[i64::MAX, i64::MAX])), "histogram_counts"),
        (made(|h| h.positive.spans.clear()), "histogram_spans"),
        (made(|h| h.positive.words.clear()), "histogram_spans"),
        (made(|h| h.positive.spans[0].length = u32::MAX), "histogram_spans"),
        (made(|h| h.positive = side(&[(0, 1), (-1, 1)], &[2, 1])), "histogram_spans"),
        (made(|h| h.schema = 53), "histogram_schema"),
        (made(|h| h.schema = i32::MIN), "histogram_schema"),
        (made(|h| h.bounds = vec![1.0]), "histogram_bounds"),
        (made(|h| h.schema = -53), "histogram_bounds"),
        (made(|h| (h.schema, h.bounds) = (-53, vec![2.0, 1.0])), "histogram_bounds"),
        (made(|h| (h.schema, h.bounds) = (-53, vec![1.0, f64::INFINITY])), "histogram_bounds"),
        (made(|h| h.positive.words = vec![0; HISTOGRAM_BUCKETS_MAX + 1]), "histogram_too_large"),
        (made(|h| h.negative.words = vec![0; 1 << 20]), "histogram_too_large"),
        (made(|h| h.positive.spans = vec![Span::default(); 1 << 16]), "histogram_too_large"),
    ]
}

#[test]
fn each_bad_histogram_is_refused_by_its_reason_between_good_samples() {
    for version in VERSIONS {
        let scene = Scene::start(2);
        for (message, reason) in bad(scene.start_ms) {
            let words =
                format!("1 of 3 samples refused: {reason} 1; first: {{__name__=\"latency\", job=\"shop\"}} ");
            let expect = Expect { status: 400, words: &words, written: 2, counted: &[(&refused(reason), 1)] };
            let request = body(version, &[scene.beside(), series().histogram(message), scene.beside()]);
            scene.check(version, &request, &expect);
        }
    }
}

#[test]
fn histograms_and_samples_of_one_series_are_stored_in_version_1_and_refused_in_version_2() {
    let both =
        |scene: &Scene| series().sample(scene.start_ms, 1.0).histogram(message(scene.start_ms + 1, &valid()));
    let scene = Scene::start(1);
    let expect = Expect { status: 204, words: "", written: 2, counted: &[] };
    scene.check(Version::V1, &body(Version::V1, &[both(&scene), scene.beside()]), &expect);
    assert_eq!(scene.samples("latency"), [[(scene.start_ms, 1.0)]]);
    let scene = Scene::start(1);
    let words = "2 of 3 samples refused: bad_series_shape 2";
    let counted: &[(&str, u64)] = &[(&refused("bad_series_shape"), 2)];
    let expect = Expect { status: 400, words, written: 1, counted };
    scene.check(Version::V2, &body(Version::V2, &[both(&scene), scene.beside()]), &expect);
}

#[test]
fn a_series_whose_histograms_change_their_kind_and_layout_each_time_takes_all_of_them() {
    let scene = Scene::start(1);
    let mut changing = series();
    for n in 0..60_i32 {
        let mut histogram = valid();
        match n % 3 {
            0 => histogram.schema = n % 13 - 4,
            1 => (histogram.schema, histogram.bounds) = (-53, vec![f64::from(n)]),
            _ => histogram.zero_threshold = f64::from(n),
        }
        changing = changing.histogram(message(scene.start_ms + i64::from(n), &histogram));
    }
    let expect = Expect { status: 204, words: "", written: 1, counted: &[] };
    scene.check(Version::V2, &body(Version::V2, &[changing, scene.beside()]), &expect);
}

/// What remote write 2 is answered: samples and histograms that are stored.
fn told(answer: &Answer) -> [String; 2] {
    ["samples", "histograms"]
        .map(|kind| answer.header(&format!("x-prometheus-remote-write-{kind}-written")).to_owned())
}

#[test]
fn of_a_float_and_a_histogram_at_one_time_the_later_one_is_a_duplicate_and_counted_as_one() {
    for (version, shards) in VERSIONS.into_iter().zip([1, 3]) {
        let scene = Scene::start(shards);
        let (start, other) = (scene.start_ms, Histogram { sum_bits: 1, ..valid() });
        let histograms = body(version, &[series().histogram(message(start, &valid()))]);
        assert_eq!(scene.node.post(PATH, &headers(version), &histograms).status, 204);
        let words = "1 of 3 samples refused: duplicate 1; first: {__name__=\"latency\", job=\"shop\"} ";
        let counted: &[(&str, u64)] = &[(&refused("duplicate"), 1)];
        let floats = body(version, &[series().sample(start, 1.0).sample(start + 9, 2.0), scene.beside()]);
        scene.check(version, &floats, &Expect { status: 400, words, written: 2, counted });
        // The other way round; and the histogram that is stored is still that.
        let later = |at, histogram| series().histogram(message(at, histogram));
        let later = [later(start + 9, &valid()), later(start + 10, &valid()), later(start, &other)];
        let answer = scene.node.post(PATH, &headers(version), &body(version, &later));
        let words = "2 of 3 samples refused: duplicate 2; ";
        assert!(answer.status == 400 && answer.text().contains(words), "{}", answer.text());
        assert!(
            answer.text().contains("one sample at a time, a float or a native histogram"),
            "{}",
            answer.text()
        );
        let is_told = |answer: &Answer, samples: &str, histograms: &str| {
            version == Version::V1 || told(answer) == [samples, histograms]
        };
        assert!(is_told(&answer, "0", "1"), "{:?}", told(&answer));
        let again = body(version, &[series().sample(start + 9, 2.0)]);
        for (again, samples, histograms) in [(histograms, "0", "1"), (again, "1", "0")] {
            let answer = scene.node.post(PATH, &headers(version), &again);
            assert!(answer.status == 204 && is_told(&answer, samples, histograms), "{}", answer.text());
        }
        assert_eq!(scene.samples("latency"), [[(start + 9, 2.0)]]);
    }
}

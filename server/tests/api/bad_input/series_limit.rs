//! A node that is full of series: new ones are refused for good, so that known ones beside and behind
//! them stay.

use std::num::NonZeroU64;

use silverback_node_test_support::request::{PATH, Series, VERSIONS, body, headers};

use crate::bad_input::bystander::{Expect, Scene};
use crate::bad_input::metrics::refused;

#[test]
fn a_full_node_refuses_new_series_and_serves_the_known_ones() {
    for version in VERSIONS {
        let scene = Scene::start_with(1, |config| config.max_series = NonZeroU64::new(2));
        let known = body(version, &[scene.beside()]);
        assert_eq!(scene.node.post(PATH, &headers(version), &known).status, 204);
        scene.check_goes_on();
        let new = || Series::new([("__name__", "new")]).sample(scene.start_ms, 1.0);
        let words =
            "1 of 2 samples refused: series_limit 1; first: {__name__=\"new\"} no room for new series";
        let counted = [(&*refused("series_limit"), 1)];
        let expect = Expect { status: 400, words, written: 1, counted: &counted };
        scene.check(version, &body(version, &[new(), scene.beside()]), &expect);
        let answer = scene.node.post(PATH, &headers(version), &body(version, &[new()]));
        assert_eq!((answer.status, answer.header("retry-after")), (400, "30"));
        assert!(scene.samples("new").is_empty());
    }
}

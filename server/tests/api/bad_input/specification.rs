//! The document that goes through remote write's specification names the test of each sentence: they are all there.
//! Whether they test what it says is the reader's to judge.

use std::path::Path;

use silverback_test_support::named_tests::{NamedTests, named, rows};

#[test]
fn each_sentence_of_the_specification_names_tests_that_there_are() {
    let document = include_str!("../../../../docs/remote-write.md");
    let (rows, named) = (rows(document), named(document).len());
    assert!(rows > 20 && named > rows, "{rows} rows, {named} tests");
    let missing = tests().missing(document);
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_test_that_there_is_not_is_missed() {
    let tests = tests();
    assert!(!tests.is_there("api/bad_input/specification", "such_a_test"));
    assert!(!tests.is_there("no_such_file", "each_sentence_of_the_specification_names_tests_that_there_are"));
    assert!(!tests.is_there("api/bad_input/specification", "tests"), "not a test");
}

fn tests() -> NamedTests<'static> {
    NamedTests { package: Path::new(env!("CARGO_MANIFEST_DIR")), modules: "src/api/ingest/remote_write" }
}

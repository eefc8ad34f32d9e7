//! The document that goes through remote write's specification names the test of each sentence: they are all there.
//! Whether they test what it says is the reader's to judge.

use std::fs;
use std::path::Path;

/// `file::test`, as the document has them between backticks.
fn named(document: &str) -> Vec<(&str, &str)> {
    let quoted = document.split('`').skip(1).step_by(2);
    quoted.filter_map(|quoted| quoted.split_once("::")).collect()
}

fn is_there(file: &str, test: &str) -> bool {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = if file.contains('/') { "tests" } else { "src/api/ingest/remote_write" };
    let source = fs::read_to_string(package.join(folder).join(format!("{file}.rs"))).unwrap_or_default();
    let is_test = |before: &str| before.trim_end().ends_with("#[test]");
    let function = format!("fn {test}(");
    source.match_indices(&function).any(|(at, _)| is_test(&source[..at]))
}

#[test]
fn each_sentence_of_the_specification_names_tests_that_there_are() {
    let document = include_str!("../../../docs/remote-write.md");
    let named = named(document);
    let rows = document.lines().filter(|line| line.starts_with("| ") && line.contains("::")).count();
    assert!(rows > 20 && named.len() > rows, "{rows} rows, {} tests", named.len());
    let missing: Vec<_> = named.into_iter().filter(|(file, test)| !is_there(file, test)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_test_that_there_is_not_is_missed() {
    assert!(!is_there("bad_input/specification", "such_a_test"));
    assert!(!is_there("no_such_file", "each_sentence_of_the_specification_names_tests_that_there_are"));
    assert!(!is_there("bad_input/specification", "named"), "not a test");
}

//! The document on who may do what names the test of each attack: they are all there.

use std::path::Path;

use silverback_test_support::named_tests::{NamedTests, rows};

#[test]
fn each_attack_names_tests_that_there_are() {
    let document = include_str!("../../../docs/security.md");
    let (_, section) =
        document.split_once("## Attacks, and the test of each\n").expect("the section is there");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    assert!(rows(section) >= 15, "{section}");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let missing = NamedTests { package, modules: "src/access" }.missing(section);
    assert!(missing.is_empty(), "{missing:?}");
}

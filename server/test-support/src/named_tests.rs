//! Documents that name, for each of their sentences, the tests that fail where it doesn't hold: whether there are such
//! tests. Whether they test what the sentence says is the reader's to judge.

use std::fs;
use std::path::Path;

/// Where the tests are that a document names.
#[derive(Debug, Clone, Copy)]
pub struct NamedTests<'a> {
    /// The package, whose folder `tests` has those whose file is named with its folder: `doors/tls::a_test`.
    pub package: &'a Path,
    /// The folder in it that has the others: `negotiate::a_test`.
    pub modules: &'a str,
}

/// `file::test`, as a document has them between backticks.
pub fn named(document: &str) -> Vec<(&str, &str)> {
    let quoted = document.split('`').skip(1).step_by(2);
    quoted.filter_map(|quoted| quoted.split_once("::")).collect()
}

/// The rows of a document's tables that name tests.
pub fn rows(document: &str) -> usize {
    document.lines().filter(|line| line.starts_with("| ") && line.contains("::")).count()
}

impl NamedTests<'_> {
    /// Those that a document names and that aren't there.
    pub fn missing<'d>(&self, document: &'d str) -> Vec<(&'d str, &'d str)> {
        named(document).into_iter().filter(|(file, test)| !self.is_there(file, test)).collect()
    }

    /// Whether there is this test.
    pub fn is_there(&self, file: &str, test: &str) -> bool {
        let folder = if file.contains('/') { "tests" } else { self.modules };
        let path = self.package.join(folder).join(format!("{file}.rs"));
        // What isn't there has no tests.
        let source = fs::read_to_string(path).unwrap_or_default();
        let is_test = |before: &str| {
            let before = before.strip_suffix("async ").unwrap_or(before).trim_end();
            before.ends_with("#[test]") || before.ends_with("#[tokio::test]")
        };
        source.match_indices(&format!("fn {test}(")).any(|(at, _)| is_test(&source[..at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn a_test_is_found_where_it_is_said_to_be_and_what_is_no_test_is_missed() {
        let package = Scratch::new();
        fs::create_dir_all(package.join("tests/doors")).unwrap();
        fs::create_dir_all(package.join("src")).unwrap();
        let source = "#[test]\nfn one() {}\n\n#[tokio::test]\nasync fn two() {}\n\nfn none() {}\n";
        fs::write(package.join("tests/doors/tls.rs"), source).unwrap();
        fs::write(package.join("src/module.rs"), source).unwrap();
        let tests = NamedTests { package: package.path(), modules: "src" };
        let document = "| a `path` | `doors/tls::one`, `doors/tls::two` |\n| b | `module::one`, `module::none` |\n\
            | c | `doors/tls::on`, `doors/none::one` |\n| no test |\n";
        assert_eq!((named(document).len(), rows(document)), (6, 3));
        let missing = [("module", "none"), ("doors/tls", "on"), ("doors/none", "one")];
        assert_eq!(tests.missing(document), missing);
    }
}

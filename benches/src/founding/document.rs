//! The document of the comparisons: what was measured goes to its sections there, plots beside it. It knows nothing of
//! the words around them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use silverback_load::machine::Machine;

use crate::report::commit::{Code, FOUNDING_DOCUMENT};
use crate::report::document::{self, DocumentError as SectionError};

/// The plots' directory, below the documents'.
const PLOTS: &str = "plots";

/// One comparison, as it is written down.
#[derive(Debug)]
pub struct Section {
    /// The comparison's name.
    pub name: &'static str,
    /// Under what it was measured.
    pub preamble: String,
    /// The table, and which of the bounds that we set ourselves hold.
    pub table: String,
    /// The plot.
    pub svg: String,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// A file.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A section.
    #[error("{path}: {error}")]
    Section {
        /// In which file.
        path: PathBuf,
        /// That it has no place, or where comments are out of place.
        error: SectionError,
    },
}

/// Fails where the document in this directory has no place for one of these comparisons.
pub fn check<'a>(docs: &Path, names: impl IntoIterator<Item = &'a str>) -> Result<(), DocumentError> {
    let path = docs.join(FOUNDING_DOCUMENT);
    let error = |error| DocumentError::Section { path: path.clone(), error };
    let text = fs::read_to_string(&path).map_err(|error| DocumentError::Io { path: path.clone(), error })?;
    let places = document::names(&text).map_err(error)?;
    match names.into_iter().find(|name| !places.iter().any(|place| place == name)) {
        None => Ok(()),
        Some(name) => Err(error(SectionError::NoPlace(name.to_owned()))),
    }
}

/// Writes tables into the document, as figures of this code, and plots beside it.
pub fn write(docs: &Path, sections: &[Section], code: &Code) -> Result<(), DocumentError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DocumentError::Io { path, error }
    };
    check(docs, sections.iter().map(|section| section.name))?;
    let path = docs.join(FOUNDING_DOCUMENT);
    let text = fs::read_to_string(&path).map_err(failed(&path))?;
    let generated: Vec<_> = sections.iter().map(Section::generated).collect();
    let text = document::spliced(&text, &generated, code)
        .map_err(|error| DocumentError::Section { path: path.clone(), error })?;
    let plots = docs.join(PLOTS);
    fs::create_dir_all(&plots).map_err(failed(&plots))?;
    for section in sections {
        let plot = plots.join(format!("{}.svg", section.name));
        fs::write(&plot, &section.svg).map_err(failed(&plot))?;
    }
    fs::write(&path, text).map_err(failed(&path))
}

impl Section {
    /// In the document's own form.
    fn generated(&self) -> document::Section {
        let Self { name, preamble, table, .. } = self;
        let body = format!("{preamble}\n\n{table}\n![{name}]({PLOTS}/{name}.svg)");
        document::Section { name: (*name).to_owned(), body }
    }
}

/// Where and of what it was measured: a figure without it says little.
pub fn preamble(command: &str, rounds: usize) -> String {
    format!("{} Medians of {rounds} interleaved rounds, least and most in brackets.", measured_here(command))
}

/// The same of what says by itself how often it was measured.
pub fn measured_here(command: &str) -> String {
    let Machine { cpu, cpus, kernel, .. } = Machine::look();
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    format!("`{command}`: {cpus} × {cpu}, Linux {kernel}, commit {commit}.")
}

/// Of the tree that the program is run in.
fn commit() -> Option<String> {
    let git = |words: &[&str]| {
        let output =
            Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no", "--", ":!docs", ":!README.md"])?;
    Some(if changes.is_empty() { commit } else { commit + " with changes" })
}

#[cfg(test)]
mod tests {
    use silverback_test_support::Scratch;

    use super::*;

    fn section(name: &'static str) -> Section {
        Section { name, preamble: "here".into(), table: "| 1 |\n".into(), svg: "<svg/>".into() }
    }

    #[test]
    fn a_comparison_is_written_as_of_the_code_and_nothing_where_one_has_no_place() {
        let docs = Scratch::new();
        let document = docs.join(FOUNDING_DOCUMENT);
        fs::write(&document, "a\n<!-- report:begin x -->\nold\n<!-- report:end x -->\nb\n").unwrap();
        let code = Code { commit: "abc".to_owned(), hash: "1".to_owned(), changed: Vec::new() };
        let error = write(docs.path(), &[section("x"), section("y")], &code).unwrap_err().to_string();
        assert!(error.contains("report:begin y") && error.contains(FOUNDING_DOCUMENT), "{error}");
        assert!(fs::read_to_string(&document).unwrap().contains("old"));
        write(docs.path(), &[section("x")], &code).unwrap();
        assert_eq!(
            fs::read_to_string(&document).unwrap(),
            "a\n<!-- report:begin x -->\n<!-- report:measured commit=abc code=1 -->\n\nhere\n\n| 1 |\n\n\
             ![x](plots/x.svg)\n\n<!-- report:end x -->\nb\n"
        );
        assert_eq!(fs::read_to_string(docs.join("plots/x.svg")).unwrap(), "<svg/>");
    }

    #[test]
    fn the_document_has_a_place_for_every_comparison() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let all = super::super::all(super::super::Size::Small, 2);
        check(&docs, all.iter().map(|comparison| comparison.name)).unwrap();
    }
}

//! Puts what was measured where the document has a place for it: between a pair of comments for each
//! comparison. It knows nothing of the words around them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use silverback_load::machine::Machine;

/// The document, below the documents' directory.
const DOCUMENT: &str = "why-thread-per-core.md";
/// The plots' directory, below the same.
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
    /// The document has no place for it.
    #[error("the document has no lines `{}` and `{}`", begin(.0), end(.0))]
    NoPlace(&'static str),
}

fn begin(name: &str) -> String {
    format!("<!-- measured: {name} -->")
}

fn end(name: &str) -> String {
    format!("<!-- end of {name} -->")
}

/// Writes tables into the document and plots beside it.
pub fn write(docs: &Path, sections: &[Section]) -> Result<(), DocumentError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DocumentError::Io { path, error }
    };
    let document = docs.join(DOCUMENT);
    let mut text = fs::read_to_string(&document).map_err(failed(&document))?;
    for section in sections {
        text = replaced(&text, section)?;
    }
    let plots = docs.join(PLOTS);
    fs::create_dir_all(&plots).map_err(failed(&plots))?;
    for section in sections {
        let plot = plots.join(format!("{}.svg", section.name));
        fs::write(&plot, &section.svg).map_err(failed(&plot))?;
    }
    fs::write(&document, text).map_err(failed(&document))
}

/// The text with one section's place filled anew.
fn replaced(text: &str, section: &Section) -> Result<String, DocumentError> {
    let Section { name, preamble, table, .. } = section;
    let (begin, end) = (begin(name), end(name));
    let no_place = || DocumentError::NoPlace(section.name);
    let (before, rest) = text.split_once(&begin).ok_or_else(no_place)?;
    let (_, after) = rest.split_once(&end).ok_or_else(no_place)?;
    let plot = format!("![{name}]({PLOTS}/{name}.svg)");
    Ok(format!("{before}{begin}\n\n{preamble}\n\n{table}\n{plot}\n\n{end}{after}"))
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
    use super::*;

    fn section(name: &'static str) -> Section {
        Section { name, preamble: "here".into(), table: "| 1 |\n".into(), svg: String::new() }
    }

    #[test]
    fn a_section_takes_the_place_of_the_former_one() {
        let text = "a\n<!-- measured: x -->\nold\n<!-- end of x -->\nb\n";
        let once = replaced(text, &section("x")).expect("a place");
        assert_eq!(
            once,
            "a\n<!-- measured: x -->\n\nhere\n\n| 1 |\n\n![x](plots/x.svg)\n\n<!-- end of x -->\nb\n"
        );
        assert_eq!(replaced(&once, &section("x")).expect("a place"), once);
    }

    #[test]
    fn the_document_has_a_place_for_every_comparison() {
        let text = include_str!("../../../docs/why-thread-per-core.md");
        for comparison in super::super::all(super::super::Size::Small, 2) {
            let section = section(comparison.name);
            assert!(replaced(text, &section).is_ok(), "none for {}", comparison.name);
        }
    }
}

//! Which code figures are about: the commit, and a hash of the files that the figures depend on. It asks git.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

use xxhash_rust::xxh3::xxh3_64;

/// What every figure depends on: code that runs in the node and what sends to it, the client for gRPC among it. Not
/// tests, not documents.
const PATHS: [&str; 6] = ["server", "proto", "client", "benches/load", "Cargo.toml", "Cargo.lock"];
/// Of those directories, only what lies below one of these or is one of these.
const PARTS: [&str; 3] = ["/src/", "proto/proto/", "Cargo."];
/// In them, but no code of the node.
const NOT_PARTS: [&str; 7] = [
    "server/fuzz/",
    "server/simulation/",
    "server/test-support/",
    "/tests/",
    "/tests.rs",
    "_tests.rs",
    ".md",
];

/// The document of the founding comparisons.
pub const FOUNDING_DOCUMENT: &str = "why-thread-per-core.md";

/// Whose figures: what makes them is code that they depend on, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figures {
    /// Those of the node beside its peers.
    Report,
    /// Those of the founding comparisons.
    Founding,
    /// Those that another command printed, which these make, and what the report is made by.
    Section(&'static [&'static str]),
}

/// Sections that other commands print, and what makes them beside what the report is made by. The others are the report's,
/// and what reads cost, which a script asks.
const SECTIONS: [(&str, &[&str]); 5] = [
    ("durability", &["benches/src/durability"]),
    ("isolation", &["benches/src/isolation", "benches/src/durability"]),
    ("profile", &["benches/src/profile", "benches/src/founding", "benches/src/rebalance"]),
    ("promql", &["benches/src/promql"]),
    ("rebalance", &["benches/src/rebalance"]),
];

/// What makes the report.
const REPORT: [&str; 7] = [
    "benches/src/contender",
    "benches/src/durability/restart.rs",
    "benches/src/founding/meter.rs",
    "benches/src/founding/plot.rs",
    "benches/src/founding/results.rs",
    "benches/src/rebalance/verdict.rs",
    "benches/src/report",
];

/// What makes the founding comparisons.
const FOUNDING: [&str; 6] = [
    "benches/src/bench.rs",
    "benches/src/contender",
    "benches/src/fleet.rs",
    "benches/src/founding",
    "benches/src/isolation",
    "benches/src/rebalance",
];

impl Figures {
    /// Those of a section of a document.
    pub fn of(document: &Path, section: &str) -> Self {
        if document.file_name().is_some_and(|name| name == FOUNDING_DOCUMENT) {
            return Self::Founding;
        }
        let printed = SECTIONS.iter().find(|(name, _)| *name == section);
        printed.map_or(Self::Report, |(_, makers)| Self::Section(makers))
    }

    fn paths(self) -> Vec<&'static str> {
        match self {
            Self::Report => [&PATHS[..], &REPORT].concat(),
            Self::Founding => [&PATHS[..], &FOUNDING].concat(),
            Self::Section(makers) => [&PATHS[..], &REPORT, makers].concat(),
        }
    }
}

/// The code as it is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// The commit, short.
    pub commit: String,
    /// Of the files that figures depend on, hexadecimal.
    pub hash: String,
    /// Such files that differ from the commit.
    pub changed: Vec<String>,
}

/// Why it isn't known.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// There is no git.
    #[error("git: {0}")]
    Io(#[from] io::Error),
    /// A file of it differs from the commit.
    #[error("{0} isn't committed: figures belong to a commit")]
    NotCommitted(String),
    /// Somebody has worked on it in between.
    #[error("the code was {before} before it was measured and is {now} now: the figures are of neither")]
    Another {
        /// What it was.
        before: String,
        /// What it is.
        now: String,
    },
    /// It refused.
    #[error("git {what}: {said}")]
    Git {
        /// What it was asked.
        what: String,
        /// What it answered.
        said: String,
    },
}

impl Code {
    /// Of the tree that `directory` lies in, as far as these figures depend on it.
    pub fn look(directory: &Path, figures: Figures) -> Result<Self, CodeError> {
        let paths = figures.paths();
        let top = git(directory, &["rev-parse", "--show-toplevel"])?;
        let top = Path::new(top.trim());
        let commit = git(top, &["rev-parse", "--short", "HEAD"])?.trim().to_owned();
        let files = git(top, &[&["ls-tree", "-r", "HEAD", "--"][..], &paths].concat())?;
        let status = git(top, &[&["status", "--porcelain", "--"][..], &paths].concat())?;
        let changed = status.lines().filter_map(|line| line.get(3..));
        Ok(Self {
            commit,
            hash: hash(&files),
            changed: changed.filter(|path| is_code(path)).map(str::to_owned).collect(),
        })
    }

    /// The same, of code that figures may be written down for.
    pub fn committed(directory: &Path, figures: Figures) -> Result<Self, CodeError> {
        let code = Self::look(directory, figures)?;
        match code.changed.first() {
            None => Ok(code),
            Some(path) => Err(CodeError::NotCommitted(path.clone())),
        }
    }

    /// Fails where it is another code `now`. A commit of documents or tests alone makes no other.
    pub fn check_same(&self, now: &Self) -> Result<(), CodeError> {
        if self.hash == now.hash && self.changed == now.changed {
            return Ok(());
        }
        Err(CodeError::Another { before: self.to_string(), now: now.to_string() })
    }
}

/// Of lines as `git ls-tree` writes them: mode, kind, the file's own hash, and its path.
fn hash(files: &str) -> String {
    let is_of_code = |line: &&str| line.split_once('\t').is_some_and(|(_, path)| is_code(path));
    let lines: Vec<&str> = files.lines().filter(is_of_code).collect();
    format!("{:016x}", xxh3_64(lines.join("\n").as_bytes()))
}

fn is_code(path: &str) -> bool {
    PARTS.iter().any(|part| path.contains(part)) && !NOT_PARTS.iter().any(|part| path.contains(part))
}

fn git(directory: &Path, words: &[&str]) -> Result<String, CodeError> {
    let output = Command::new("git").arg("-C").arg(directory).args(words).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CodeError::Git { what: words.join(" "), said })
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.commit, if self.changed.is_empty() { "" } else { " with changes" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_runs_and_not_what_tests_it() {
        for path in [
            "server/src/node/mod.rs",
            "server/storage/src/wal/mod.rs",
            "proto/proto/a.proto",
            "client/src/writer/mod.rs",
            "benches/src/report/loads.rs",
            "Cargo.lock",
        ] {
            assert!(is_code(path), "{path}");
        }
        for path in [
            "server/tests/interop.rs",
            "server/fuzz/src/a.rs",
            "server/README.md",
            "server/storage/src/wal/format.md",
            "server/storage/src/cell/series/tests.rs",
            "server/src/api/decode_tests.rs",
            "benches/load/notes",
        ] {
            assert!(!is_code(path), "{path}");
        }
    }

    #[test]
    fn the_hash_follows_code_alone() {
        let line = |hash: &str, path: &str| format!("100644 blob {hash}\t{path}\n");
        let code = line("1", "server/src/a.rs");
        assert_eq!(hash(&code), hash(&(code.clone() + &line("1", "server/tests/a.rs"))));
        assert_ne!(hash(&code), hash(&line("2", "server/src/a.rs")));
        assert_ne!(hash(&code), hash(&line("1", "server/src/b.rs")));
    }

    #[test]
    fn another_code_is_told_and_another_commit_of_the_same_is_none() {
        let code = |commit: &str, hash: &str, changed: &[&str]| Code {
            commit: commit.to_owned(),
            hash: hash.to_owned(),
            changed: changed.iter().map(|path| (*path).to_owned()).collect(),
        };
        let before = code("abc", "1", &[]);
        before.check_same(&code("def", "1", &[])).expect("the same code");
        for (now, shown) in
            [(code("def", "2", &[]), "def"), (code("abc", "1", &["a.rs"]), "abc with changes")]
        {
            let error = before.check_same(&now).expect_err("another code").to_string();
            assert!(error.contains(&format!("was abc before it was measured and is {shown} now")), "{error}");
        }
    }

    #[test]
    fn figures_depend_on_what_makes_them_and_not_on_what_makes_others() {
        let is_in = |figures: Figures, path: &str| figures.paths().contains(&path);
        for (document, section, own, other) in [
            ("docs/why-thread-per-core.md", "cache", "benches/src/founding", "benches/src/report"),
            ("docs/performance.md", "writes", "benches/src/report", "benches/src/profile"),
            ("docs/performance.md", "profile", "benches/src/profile", "benches/src/promql"),
        ] {
            let figures = Figures::of(Path::new(document), section);
            assert!(is_in(figures, own) && is_in(figures, "server") && !is_in(figures, other), "{section}");
        }
    }

    #[test]
    fn each_section_that_others_print_is_in_the_document() {
        let names = crate::report::document::names(include_str!("../../../docs/performance.md"));
        let names = names.expect("a document");
        for (section, _) in SECTIONS {
            assert!(names.iter().any(|name| name == section), "{section}");
        }
    }

    #[test]
    fn where_no_git_is_that_is_told() {
        let error = Code::look(Path::new("/proc"), Figures::Report).expect_err("no repository").to_string();
        assert!(error.starts_with("git"), "{error}");
    }
}

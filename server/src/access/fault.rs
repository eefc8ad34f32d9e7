//! What can be wrong with the files that say who may do what: which file, where in it, and what. Never a secret of it.

use std::fmt;
use std::path::{Path, PathBuf};

/// One fault of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessFault {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and where.
    pub wrong: String,
}

impl AccessFault {
    pub(super) fn new(path: &Path, wrong: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), wrong: wrong.to_string() }
    }
}

impl fmt::Display for AccessFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.wrong)
    }
}

impl std::error::Error for AccessFault {}

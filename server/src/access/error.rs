//! What can be wrong with the files that say who may do what: which file, where in it, and what. Never a secret of it.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// One fault of one file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {wrong}", path.display())]
pub struct AccessError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and where.
    pub wrong: String,
}

impl AccessError {
    pub(super) fn new(path: &Path, wrong: impl Display) -> Self {
        Self { path: path.to_owned(), wrong: wrong.to_string() }
    }
}

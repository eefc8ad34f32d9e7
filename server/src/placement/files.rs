//! The kernel's small files, read whole.
//!
//! A file that isn't there, or that may not be read, says nothing; one that can't be understood is an
//! error that names it.
#![expect(clippy::disallowed_methods, reason = "the machine is looked at before executors start")]
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::numbers;

/// A file of the kernel that can't be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} can't be understood: {text:?}", path.display())]
pub struct FileFormatError {
    /// The file.
    pub path: PathBuf,
    /// What it says, or how that begins.
    pub text: String,
}

impl FileFormatError {
    pub(super) fn new(path: &Path, text: &str) -> Self {
        const SHOWN_CHARS: usize = 100;
        Self { path: path.to_owned(), text: text.chars().take(SHOWN_CHARS).collect() }
    }
}

pub(super) fn read_text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What `understand` makes of the file's text; `None` where there is no file.
pub(super) fn read_as<T>(
    path: &Path,
    understand: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, FileFormatError> {
    let Some(text) = read_text(path) else { return Ok(None) };
    understand(text.trim()).map(Some).ok_or_else(|| FileFormatError::new(path, &text))
}

pub(super) fn read_number(path: &Path) -> Result<Option<i64>, FileFormatError> {
    read_as(path, |text| text.parse().ok())
}

pub(super) fn read_set(path: &Path) -> Result<Option<BTreeSet<usize>>, FileFormatError> {
    read_as(path, numbers::parse)
}

/// The number of a line `…MemTotal:   123 kB` in bytes.
pub(super) fn total_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.split_once("MemTotal:"))?.1;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

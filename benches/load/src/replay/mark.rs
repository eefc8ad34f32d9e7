//! Whether a server is at something that shows in its directory: a file with a telling name. It
//! knows names, not what they mean.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often the directory is looked at. What lasts shorter may be missed.
const PERIOD: Duration = Duration::from_millis(2);

/// Directories below the watched one that are looked into.
const DEPTH_MAX: usize = 3;

/// Set while such a file is there. A thread watches for as long as this lives.
#[derive(Debug)]
pub struct Mark {
    is_set: Arc<AtomicBool>,
}

impl Mark {
    /// Watches for files whose names end in `suffix`, in `directory` and those below it.
    pub fn watch(directory: &Path, suffix: &str) -> Self {
        let is_set = Arc::new(AtomicBool::new(false));
        let (watched, directory, suffix) = (Arc::downgrade(&is_set), directory.to_owned(), suffix.to_owned());
        thread::spawn(move || {
            while let Some(is_set) = watched.upgrade() {
                // A directory that goes away meanwhile holds no such file.
                is_set.store(holds(&directory, &suffix, DEPTH_MAX).unwrap_or(false), Ordering::Relaxed);
                thread::sleep(PERIOD);
            }
        });
        Self { is_set }
    }

    /// Whether it was there when last looked for.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }
}

fn holds(directory: &Path, suffix: &str, depth: usize) -> io::Result<bool> {
    let mut below: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(suffix) {
            return Ok(true);
        }
        if depth > 0 && entry.file_type()?.is_dir() {
            below.push(entry.path());
        }
    }
    Ok(below.iter().any(|directory| holds(directory, suffix, depth - 1).unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_seen_to_come_and_to_go() {
        let directory = std::env::temp_dir().join(format!("silverback-mark-{}", std::process::id()));
        fs::create_dir_all(directory.join("a/b")).expect("a temporary directory");
        let mark = Mark::watch(&directory, ".unfinished");
        let wait_until = |wanted| {
            let soon = (0..500).any(|_| {
                thread::sleep(PERIOD);
                mark.is_set() == wanted
            });
            assert!(soon, "never became {wanted}");
        };
        assert!(!mark.is_set());
        fs::write(directory.join("a/b/1.unfinished"), "").expect("a file");
        wait_until(true);
        fs::rename(directory.join("a/b/1.unfinished"), directory.join("a/b/1")).expect("a file");
        wait_until(false);
        fs::remove_dir_all(&directory).expect("the directory that was made");
    }
}

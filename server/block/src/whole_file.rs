//! Small files that are there as a whole, or as they were before.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Puts a file of these bytes into a directory, durably, in place of one that has its name.
pub fn put_file(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = dir.join(format!("{name}.tmp"));
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, dir.join(name))?;
    // The directory too: without this a crash can bring the former one back.
    File::open(dir)?.sync_all()
}

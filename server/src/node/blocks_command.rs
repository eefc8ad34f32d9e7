//! `silverback blocks`: TSDB blocks in a directory, such as a snapshot's, looked at whether a node runs or not. Never
//! writes to them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use silverback_block::{BlockError, Meta, Ulid, verify};
use silverback_model::printable::Printable;
use silverback_model::utc::format_rfc3339;

use crate::node::table::{TextTable, size};
use crate::node::wal_command::Soundness;

/// Why blocks can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum BlocksCommandError {
    /// There is none.
    #[error("{} has no block: a block is a directory named by a ULID, with meta.json, index and chunks", .0.display())]
    NoBlock(PathBuf),
    /// The directory can't be read.
    #[error("{}: {error}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Nobody takes the output.
    #[error("writing the answer: {0}")]
    Output(#[from] io::Error),
}

/// Lists the blocks in `dir`, or `dir` itself where it is one: their times, what is in them, their size.
pub fn list(dir: &Path, out: &mut impl Write) -> Result<Soundness, BlocksCommandError> {
    let mut table =
        TextTable::new(&["block", "from", "to", "series", "chunks", "samples", "histograms", "size"]);
    let mut faults = Vec::new();
    for block in blocks_in(dir)? {
        match row(&block) {
            Ok(cells) => table.row(cells),
            Err(fault) => faults.push(fault),
        }
    }
    table.write(out, "")?;
    for fault in &faults {
        writeln!(out, "not listed: {}", Printable(&fault.to_string()))?;
    }
    Ok(if faults.is_empty() { Soundness::Whole } else { Soundness::Damaged })
}

fn row(dir: &Path) -> Result<[String; 8], BlockError> {
    let Meta { ulid, min_ms, end_ms, stats, .. } = Meta::read(dir)?;
    Ok([
        Printable(&ulid).to_string(),
        format_rfc3339(min_ms),
        format_rfc3339(end_ms.saturating_sub(1)),
        stats.num_series.to_string(),
        stats.num_chunks.to_string(),
        stats.num_samples.to_string(),
        stats.num_histogram_samples.to_string(),
        size(bytes_of(dir)),
    ])
}

/// Reads all of each of these blocks, and reports all damage.
pub fn verify_all(dir: &Path, out: &mut impl Write) -> Result<Soundness, BlocksCommandError> {
    let (blocks, mut damages) = (blocks_in(dir)?, 0);
    for block in &blocks {
        let mut told = Ok(());
        let verified = verify(block, |damage| {
            damages += 1;
            let told_before = std::mem::replace(&mut told, Ok(()));
            told = told_before.and_then(|()| writeln!(out, "damage: {}", Printable(&damage.to_string())));
        });
        told?;
        let stats = verified.stats;
        write!(
            out,
            "{}: {} samples in {} chunks of {} series",
            Printable(&block.display().to_string()),
            stats.num_samples,
            stats.num_chunks,
            stats.num_series
        )?;
        match verified.chunks_not_decoded {
            0 => writeln!(out)?,
            chunks => writeln!(out, "; {chunks} of them in an encoding whose samples aren't read here")?,
        }
    }
    match damages {
        0 => writeln!(out, "no damage")?,
        1 => writeln!(out, "1 damage")?,
        _ => writeln!(out, "{damages} damages")?,
    }
    Ok(if damages == 0 { Soundness::Whole } else { Soundness::Damaged })
}

/// The blocks in a directory by their names, which begin with their times; or itself.
fn blocks_in(dir: &Path) -> Result<Vec<PathBuf>, BlocksCommandError> {
    if dir.join("meta.json").exists() {
        return Ok(vec![dir.to_owned()]);
    }
    let failed = |error| BlocksCommandError::Directory { path: dir.to_owned(), error };
    let mut blocks = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_block = entry.file_name().to_str().is_some_and(|name| name.parse::<Ulid>().is_ok());
        if is_block && entry.path().is_dir() {
            blocks.push(entry.path());
        }
    }
    blocks.sort();
    if blocks.is_empty() { Err(BlocksCommandError::NoBlock(dir.to_owned())) } else { Ok(blocks) }
}

/// What its files take together; those that can't be looked at are left out.
fn bytes_of(dir: &Path) -> u64 {
    let files = [dir.to_owned(), dir.join("chunks")].into_iter().filter_map(|dir| fs::read_dir(dir).ok());
    let files = files.flatten().filter_map(|entry| entry.ok()?.metadata().ok());
    files.filter(fs::Metadata::is_file).map(|file| file.len()).sum()
}

#[cfg(test)]
mod tests {
    use silverback_block::{BlockWriteError, BlockWriter, Contents, SourceChunk, WriterMemory, cut_chunks};
    use silverback_model::Sample;
    use silverback_model::gorilla::{FloatEncoding, OpenXor};
    use silverback_test_support::Scratch;

    use super::*;

    fn write_block(parent: &Path) {
        let ulid = Ulid::from_parts(1_700_000_000_000, 7);
        let dir = parent.join(ulid.to_string());
        let mut writer = BlockWriter::create(dir, ulid, WriterMemory::MAX).unwrap();
        let mut words = Vec::new();
        let mut open = OpenXor::start(Sample::new(1000, 1.0), &mut words);
        open.append(Sample::new(2000, 2.0), &mut words);
        let sealed = open.seal(words.into_iter());
        let chunk = SourceChunk {
            contents: Contents::Floats(FloatEncoding::Xor),
            min_ms: 1000,
            max_ms: 2000,
            bytes: sealed.bytes(),
        };
        let added: Result<(), BlockWriteError> = writer.add_series([("__name__", "up")].into_iter(), |out| {
            cut_chunks([chunk], &(0..=9999), FloatEncoding::Xor, |chunk| out.put(chunk))
                .map_err(|error| panic!("{error}"))
        });
        added.unwrap();
        writer.finish(&|_| true).unwrap().expect("it has a sample");
    }

    fn told(
        look: fn(&Path, &mut Vec<u8>) -> Result<Soundness, BlocksCommandError>,
        dir: &Path,
    ) -> (Soundness, String) {
        let mut out = Vec::new();
        let blocks = look(dir, &mut out).unwrap();
        (blocks, String::from_utf8(out).unwrap())
    }

    #[test]
    fn blocks_are_listed_and_verified_together_or_alone() {
        let scratch = Scratch::new();
        write_block(scratch.path());
        let (blocks, list_of_all) = told(list, scratch.path());
        assert_eq!(blocks, Soundness::Whole);
        let row: Vec<_> = list_of_all.lines().nth(1).unwrap().split_whitespace().collect();
        let name = row[0].to_owned();
        assert_eq!(row[1..7], ["1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z", "1", "1", "2", "0"]);
        assert_eq!(told(list, &scratch.path().join(&name)).1, list_of_all);
        let (blocks, all) = told(verify_all, scratch.path());
        assert_eq!(blocks, Soundness::Whole);
        assert!(all.ends_with(": 2 samples in 1 chunks of 1 series\nno damage\n"), "{all}");
        let chunks = scratch.path().join(&name).join("chunks/000001");
        let mut bytes = fs::read(&chunks).unwrap();
        bytes[12] ^= 1;
        fs::write(&chunks, bytes).unwrap();
        let (blocks, all) = told(verify_all, scratch.path());
        assert_eq!(blocks, Soundness::Damaged);
        assert!(all.contains("chunks/000001, byte 8: the checksum of a chunk is wrong\n"), "{all}");
        assert!(all.ends_with("\n1 damage\n"), "{all}");
        fs::write(scratch.path().join(&name).join("meta.json"), "{").unwrap();
        let (blocks, listed) = told(list, scratch.path());
        assert_eq!(blocks, Soundness::Damaged);
        assert!(listed.contains("not listed: ") && listed.contains("meta.json, byte 0: EOF"), "{listed}");
    }

    #[test]
    fn where_no_block_is_that_is_told() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path().join("not-a-block")).unwrap();
        let none = list(scratch.path(), &mut Vec::new()).unwrap_err().to_string();
        assert!(none.contains("has no block"), "{none}");
        let gone = verify_all(&scratch.path().join("gone"), &mut Vec::new()).unwrap_err().to_string();
        assert!(gone.contains("No such file"), "{gone}");
    }
}

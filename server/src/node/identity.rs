//! What a data directory keeps for life, in two files that say the same: either repairs the other.
//!
//! Without it the logs mean nothing, so one damaged file must not be the end of them.

use std::io;

use crc32c::crc32c;
use serde::{Deserialize, Serialize};

use silverback_host::disk::{Disk, DiskError, File};
use silverback_model::ShardId;
use silverback_model::limits::CELL_COUNT;
use silverback_storage::wal::layout::Generation;
use silverback_storage::wal::replay::LogPlace;

/// The file that says whose the directory is.
const IDENTITY: &str = "node";
/// The one that says it once more.
const COPY: &str = "node.copy";

/// Of all that is in the directory.
const FORMAT: u32 = 1;

/// Longer than any such file.
const BYTES_MAX: usize = 512;

/// What a data directory keeps for life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    format: u32,
    /// Series ids and the log's checksums depend on it: nobody outside can look for labels whose ids
    /// collide, or send bytes that look like a piece of the log.
    pub seed: u64,
    cells: usize,
    /// Logs that were there, each with a word on which segment is its newest: what they lack since was taken
    /// away. `None`: nothing is known of any.
    pub logs: Option<Generation>,
}

/// As it is in a file, in JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    format: u32,
    seed: u64,
    cells: usize,
    /// Of the three numbers. Directories of former times don't have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<u32>,
    /// Older versions pass over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logs: Option<WrittenLogs>,
}

/// A generation of logs, in JSON.
#[derive(Debug, Serialize, Deserialize)]
struct WrittenLogs {
    generation: u64,
    shards: usize,
    /// Of the two numbers and the seed.
    checksum: u32,
}

/// Why a data directory's identity can't be known.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Neither file can be read.
    #[error(
        "neither {IDENTITY} nor {COPY} in the data directory can be read ({0}): restore one of them from a backup; \
         without both the logs mean nothing"
    )]
    Unreadable(String),
    /// Both files are gone, and the logs are there.
    #[error(
        "{IDENTITY} and {COPY} are missing from the data directory, which has write-ahead logs: restore one of them \
         from a backup; without both the logs mean nothing"
    )]
    Missing,
    /// Each file is whole, and of another directory.
    #[error(
        "{IDENTITY} and {COPY} in the data directory are of different nodes: restore the one that is its own, and \
         remove the other"
    )]
    Contradiction,
    /// Written by another version.
    #[error("the data directory has format {0}, this version reads {FORMAT}")]
    OtherFormat(u32),
    /// Made with another number of cells.
    #[error("the data directory has {0} cells, this version has {CELL_COUNT}")]
    OtherCells(usize),
}

/// What one of the two files has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StoredIdentity {
    Nothing,
    /// Its checksum is right.
    Sound(Identity),
    /// Of former times, without a checksum.
    Unchecked(Identity),
    /// In words.
    Unreadable(String),
}

/// Both files, and what they come to together.
struct Both {
    identity: Option<Identity>,
    files: [(&'static str, StoredIdentity); 2],
}

/// The identity of a data directory; `None` where it has none yet. Changes nothing.
pub async fn read<D: Disk>(disk: &D) -> Result<Option<Identity>, IdentityError> {
    Ok(read_both(disk).await?.identity)
}

/// The same, and what is wrong with either file, in words.
pub(crate) async fn inspect<D: Disk>(disk: &D) -> Result<(Option<Identity>, Vec<String>), IdentityError> {
    let Both { identity, files } = read_both(disk).await?;
    let damage = files.into_iter().filter_map(|(file, found)| match found {
        StoredIdentity::Unreadable(reason) => Some(reason),
        StoredIdentity::Nothing if identity.is_some() => Some(format!("{file} is missing")),
        StoredIdentity::Nothing | StoredIdentity::Sound(_) | StoredIdentity::Unchecked(_) => None,
    });
    Ok((identity, damage.collect()))
}

/// The identity of a data directory, both of whose files are sound afterwards. One is drawn for a directory
/// that has none, and no logs.
pub(crate) async fn find_or_make<D: Disk>(disk: &D, has_logs: bool) -> Result<Identity, IdentityError> {
    let Both { identity, files } = read_both(disk).await?;
    let identity = match identity {
        Some(identity) => identity,
        None if has_logs => return Err(IdentityError::Missing),
        None => Identity { format: FORMAT, seed: random_seed(), cells: CELL_COUNT, logs: None },
    };
    let is_new = files.iter().all(|(_, found)| *found == StoredIdentity::Nothing);
    for (file, found) in files {
        match found {
            StoredIdentity::Sound(sound) if sound == identity => continue,
            StoredIdentity::Unreadable(reason) => {
                tracing::warn!(
                    file,
                    reason,
                    "the data directory's identity was damaged; its other file repairs it"
                );
            }
            StoredIdentity::Sound(_) | StoredIdentity::Unchecked(_) | StoredIdentity::Nothing if is_new => {}
            StoredIdentity::Nothing | StoredIdentity::Sound(_) | StoredIdentity::Unchecked(_) => {
                tracing::info!(file, "the data directory's identity is written to both of its files");
            }
        }
        match write(disk, file, &identity).await {
            Ok(()) => {}
            Err(error) if is_new => return Err(error.into()),
            // One file is enough for now: a full disk keeps no node from starting.
            Err(error) => {
                tracing::warn!(file, %error, "the data directory's identity is in one file only")
            }
        }
    }
    Ok(identity)
}

/// Writes to both files that these logs are there, each with a word on which segment is its newest.
pub(crate) async fn note_logs<D: Disk>(
    disk: &D,
    identity: Identity,
    logs: Generation,
) -> Result<Identity, DiskError> {
    let identity = Identity { logs: Some(logs), ..identity };
    for file in [IDENTITY, COPY] {
        write(disk, file, &identity).await?;
    }
    Ok(identity)
}

async fn read_both<D: Disk>(disk: &D) -> Result<Both, IdentityError> {
    let files = [(IDENTITY, read_one(disk, IDENTITY).await?), (COPY, read_one(disk, COPY).await?)];
    let identity = judge(&files[0].1, &files[1].1)?;
    Ok(Both { identity, files })
}

/// A file with its checksum says more than one without.
fn judge(first: &StoredIdentity, second: &StoredIdentity) -> Result<Option<Identity>, IdentityError> {
    let identity = match (first, second) {
        (StoredIdentity::Sound(one), StoredIdentity::Sound(other))
        | (StoredIdentity::Unchecked(one), StoredIdentity::Unchecked(other)) => {
            // A crash may have come between the two files: the later word on the logs counts.
            let later = Identity { logs: one.logs.max(other.logs), ..*one };
            if later != (Identity { logs: later.logs, ..*other }) {
                return Err(IdentityError::Contradiction);
            }
            later
        }
        (StoredIdentity::Sound(sound), _) | (_, StoredIdentity::Sound(sound)) => *sound,
        (StoredIdentity::Unchecked(unchecked), _) | (_, StoredIdentity::Unchecked(unchecked)) => *unchecked,
        (StoredIdentity::Unreadable(reason), _) | (_, StoredIdentity::Unreadable(reason)) => {
            return Err(IdentityError::Unreadable(reason.clone()));
        }
        (StoredIdentity::Nothing, StoredIdentity::Nothing) => return Ok(None),
    };
    match identity {
        Identity { format, .. } if format != FORMAT => Err(IdentityError::OtherFormat(format)),
        Identity { cells, .. } if cells != CELL_COUNT => Err(IdentityError::OtherCells(cells)),
        identity => Ok(Some(identity)),
    }
}

async fn read_one<D: Disk>(disk: &D, name: &str) -> Result<StoredIdentity, DiskError> {
    let file = match disk.open(name).await {
        Ok(file) => file,
        Err(error) if error.kind == io::ErrorKind::NotFound => return Ok(StoredIdentity::Nothing),
        // The other file may say it.
        Err(error) => return Ok(StoredIdentity::Unreadable(format!("{name}: {error}"))),
    };
    let mut bytes = Vec::new();
    let read = file.read_at(0, BYTES_MAX, &mut bytes).await;
    file.close().await?;
    if let Err(error) = read {
        return Ok(StoredIdentity::Unreadable(format!("{name}: {error}")));
    }
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let Written { format, seed, cells, checksum, logs } = match serde_json::from_slice(text) {
        Ok(written) => written,
        Err(error) => return Ok(StoredIdentity::Unreadable(format!("{name}: {error}"))),
    };
    let wrong = || Ok(StoredIdentity::Unreadable(format!("{name}: its checksum is wrong")));
    let generation = logs.as_ref().map(|logs| Generation { number: logs.generation, shards: logs.shards });
    let identity = Identity { format, seed, cells, logs: generation };
    if logs.is_some_and(|logs| Some(logs.checksum) != identity.logs_checksum()) {
        return wrong();
    }
    match checksum {
        None => Ok(StoredIdentity::Unchecked(identity)),
        Some(checksum) if checksum == identity.checksum() => Ok(StoredIdentity::Sound(identity)),
        Some(_) => wrong(),
    }
}

/// In place of what has the name only once it is on disk.
async fn write<D: Disk>(disk: &D, name: &str, identity: &Identity) -> Result<(), DiskError> {
    let Identity { format, seed, cells, logs } = *identity;
    let logs = logs.zip(identity.logs_checksum()).map(|(logs, checksum)| WrittenLogs {
        generation: logs.number,
        shards: logs.shards,
        checksum,
    });
    let written = Written { format, seed, cells, checksum: Some(identity.checksum()), logs };
    let text = serde_json::to_string(&written).expect("numbers are JSON");
    let unfinished = format!("{name}.tmp");
    let file = disk.create(&unfinished).await?;
    file.write_at(0, &[text.as_bytes()]).await?;
    file.sync_data().await?;
    file.close().await?;
    disk.rename(&unfinished, name).await?;
    disk.sync_dir(".").await
}

impl Identity {
    /// The place of the log that a shard has in a generation.
    pub(crate) fn log_place<D: Disk + Clone>(&self, disk: &D, of: Generation, shard: usize) -> LogPlace<D> {
        LogPlace {
            disk: disk.clone(),
            dir: of.log_dir(shard).into(),
            seed: self.seed,
            shard: ShardId(shard as u16),
            is_marked: self.logs == Some(of),
        }
    }

    fn checksum(&self) -> u32 {
        crc32c(format!("{} {} {}", self.format, self.seed, self.cells).as_bytes())
    }

    /// Of what an older version doesn't know.
    fn logs_checksum(&self) -> Option<u32> {
        let Generation { number, shards } = self.logs?;
        Some(crc32c(format!("{} {number} {shards}", self.seed).as_bytes()))
    }
}

fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::executor::block_on;
    use silverback_test_support::Scratch;

    use super::*;
    use silverback_host::disk::blocking::BlockingDisk;

    const LOGS: Generation = Generation { number: 2, shards: 4 };

    #[derive(Default)]
    struct Directory(Scratch);

    impl Directory {
        fn disk(&self) -> BlockingDisk {
            BlockingDisk::new(self.0.path(), 512)
        }

        fn start(&self) -> Result<Identity, IdentityError> {
            block_on(find_or_make(&self.disk(), true))
        }

        fn bytes(&self) -> [Vec<u8>; 2] {
            [IDENTITY, COPY].map(|name| fs::read(self.0.join(name)).unwrap())
        }
    }

    #[test]
    fn either_file_mends_the_other_whatever_became_of_it() {
        let directory = Directory::default();
        let made = block_on(find_or_make(&directory.disk(), false)).unwrap();
        let made = block_on(note_logs(&directory.disk(), made, LOGS)).unwrap();
        let sound = directory.bytes();
        let text = sound[0].iter().take_while(|byte| **byte != 0).count();
        for name in [IDENTITY, COPY] {
            let path = directory.0.join(name);
            let check = |what: &str| {
                assert_eq!(block_on(read(&directory.disk())).unwrap(), Some(made), "{name} {what}");
                assert_eq!(directory.start().unwrap(), made, "{name} {what}");
                assert_eq!(directory.bytes(), sound, "{name} {what}");
            };
            fs::remove_file(&path).unwrap();
            check("gone");
            for cut in 0..text {
                fs::write(&path, &sound[0][..cut]).unwrap();
                check(&format!("cut to {cut}"));
            }
            for bit in 0..8 * text {
                let mut bytes = sound[0].clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                fs::write(&path, bytes).unwrap();
                check(&format!("bit {bit}"));
            }
        }
    }

    #[test]
    fn the_later_word_on_the_logs_counts_and_an_older_version_reads_the_rest() {
        let directory = Directory::default();
        let made = block_on(find_or_make(&directory.disk(), false)).unwrap();
        let before = directory.bytes();
        let noted = block_on(note_logs(&directory.disk(), made, LOGS)).unwrap();
        assert_eq!(noted.logs, Some(LOGS));
        for (name, former) in [IDENTITY, COPY].into_iter().zip(before) {
            fs::write(directory.0.join(name), &former).unwrap();
            assert_eq!(directory.start().unwrap(), noted, "a crash came before {name} was written");
            assert_eq!(block_on(read(&directory.disk())).unwrap(), Some(noted));
        }
        #[derive(Deserialize)]
        struct Older {
            seed: u64,
            checksum: u32,
        }
        let [first, second] = directory.bytes();
        let text = first.split(|byte| *byte == 0).next().unwrap();
        let older: Older = serde_json::from_slice(text).unwrap();
        assert_eq!((older.seed, older.checksum), (made.seed, made.checksum()));
        assert_eq!(first, second);
    }

    #[test]
    fn the_format_document_s_example_is_read() {
        let directory = Directory::default();
        let document = include_str!("../../storage/src/wal/format.md");
        let example = document.lines().find(|line| line.starts_with("{\"format\":")).unwrap();
        fs::write(directory.0.join(IDENTITY), example).unwrap();
        let logs = Some(Generation { number: 1, shards: 2 });
        let expect = Identity { format: FORMAT, seed: 1, cells: CELL_COUNT, logs };
        assert_eq!(block_on(read(&directory.disk())).unwrap(), Some(expect));
    }

    #[test]
    fn a_file_of_former_times_is_read_and_copied() {
        let directory = Directory::default();
        let text = format!("{{\"format\":1,\"seed\":7,\"cells\":{CELL_COUNT}}}");
        fs::write(directory.0.join(IDENTITY), text).unwrap();
        assert_eq!(directory.start().unwrap().seed, 7);
        let [first, second] = directory.bytes();
        assert!(first == second && String::from_utf8(first).unwrap().contains("checksum"));
        assert_eq!(directory.start().unwrap().seed, 7);
    }

    #[test]
    fn without_both_files_a_directory_with_logs_is_refused_and_says_what_to_do() {
        let directory = Directory::default();
        assert!(matches!(directory.start(), Err(IdentityError::Missing)));
        for name in [IDENTITY, COPY] {
            fs::write(directory.0.join(name), "damage").unwrap();
        }
        let told = directory.start().unwrap_err().to_string();
        assert!(told.contains("restore one of them from a backup"), "{told}");
    }

    #[test]
    fn files_of_two_directories_are_not_guessed_about() {
        let (directory, other) = (Directory::default(), Directory::default());
        block_on(find_or_make(&directory.disk(), false)).unwrap();
        block_on(find_or_make(&other.disk(), false)).unwrap();
        fs::copy(other.0.join(COPY), directory.0.join(COPY)).unwrap();
        assert!(matches!(directory.start(), Err(IdentityError::Contradiction)));
    }
}

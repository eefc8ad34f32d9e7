//! The blocks of a directory, as far as an upload has to know them: which there are, what their files are, and whether
//! their bytes are those that were written. Samples are not decoded.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use silverback_block::{ChecksumPass, Meta, Ulid};
use silverback_model::printable::Printable;

/// The first bytes of a file of chunks, with its version.
const CHUNKS_HEAD: [u8; 5] = [0x85, 0xBD, 0x40, 0xDD, 1];

/// A whole block.
#[derive(Debug)]
pub(crate) struct ShippableBlock {
    pub(crate) ulid: Ulid,
    dir: PathBuf,
    /// `meta.json` as it is on disk.
    pub(crate) meta_json: Vec<u8>,
    /// Files of chunks in their order, then the index.
    pub(crate) files: Vec<LocalFile>,
}

/// One of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalFile {
    /// From the block's directory, with `/`.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Why a block isn't uploaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalBlockError {
    /// It was deleted meanwhile.
    #[error("the block is gone")]
    Gone,
    /// It isn't what a block is.
    #[error("{0}")]
    Damaged(String),
    /// The disk failed.
    #[error("{}: {error}", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

/// The names of blocks in a directory. Nothing in one that isn't there yet.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<Ulid>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        // A name that is still being written, or already deleted, has something after it.
        let name = entry?.file_name();
        let Some(ulid) = name.to_str().and_then(|name| Ulid::from_string(name).ok()) else { continue };
        if name == *ulid.to_string() {
            names.push(ulid);
        }
    }
    Ok(names)
}

/// What a block says of itself. `Ok(None)`: it isn't one to ship: it has no sample, or was made of others.
pub(crate) fn begin_ms(dir: &Path, ulid: Ulid) -> Result<Option<i64>, LocalBlockError> {
    let dir = dir.join(ulid.to_string());
    let meta = Meta::read(&dir).map_err(|fault| error_of(&dir, fault))?;
    if meta.ulid != ulid.to_string() {
        return Err(LocalBlockError::Damaged(format!("its meta.json is of {}", Printable(&meta.ulid))));
    }
    Ok((meta.level() <= 1 && meta.stats.num_samples > 0).then_some(meta.min_ms))
}

/// Opens a block, and looks whether its files are there and begin as they should.
pub(crate) fn open(dir: &Path, ulid: Ulid) -> Result<ShippableBlock, LocalBlockError> {
    let dir = dir.join(ulid.to_string());
    let meta_json =
        read_all(&dir.join("meta.json")).map_err(|error| disk(&dir, &dir.join("meta.json"), error))?;
    let mut files = chunk_files(&dir)?;
    files.push(file_of(&dir, "index".to_owned())?);
    Ok(ShippableBlock { ulid, dir, meta_json, files })
}

fn chunk_files(dir: &Path) -> Result<Vec<LocalFile>, LocalBlockError> {
    let chunks = dir.join("chunks");
    let names = || fs::read_dir(&chunks)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
    let mut names = names().map_err(|error| disk(dir, &chunks, error))?;
    names.sort_unstable();
    let mut files = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        if name.to_str() != Some(&format!("{:06}", number + 1)) {
            return Err(LocalBlockError::Damaged(format!("chunks/{:06} is missing", number + 1)));
        }
        let file = file_of(dir, format!("chunks/{:06}", number + 1))?;
        let mut head = [0; CHUNKS_HEAD.len()];
        let path = dir.join(&file.name);
        let read = File::open(&path).and_then(|mut opened| opened.read_exact(&mut head));
        read.map_err(|error| disk(dir, &path, error))?;
        if head != CHUNKS_HEAD {
            return Err(LocalBlockError::Damaged(format!("{} is no file of chunks", file.name)));
        }
        files.push(file);
    }
    Ok(files)
}

fn file_of(dir: &Path, name: String) -> Result<LocalFile, LocalBlockError> {
    let path = dir.join(&name);
    let bytes = fs::metadata(&path).map_err(|error| disk(dir, &path, error))?.len();
    Ok(LocalFile { name, bytes })
}

fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    // `Meta::read` has bounded it.
    fs::read(path)
}

fn is_gone(dir: &Path) -> bool {
    matches!(fs::symlink_metadata(dir), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

fn error_of(dir: &Path, fault: impl std::fmt::Display) -> LocalBlockError {
    if is_gone(dir) { LocalBlockError::Gone } else { LocalBlockError::Damaged(fault.to_string()) }
}

fn disk(dir: &Path, path: &Path, error: io::Error) -> LocalBlockError {
    match error.kind() {
        _any if is_gone(dir) => LocalBlockError::Gone,
        io::ErrorKind::NotFound => LocalBlockError::Damaged(format!("{} is missing", path.display())),
        io::ErrorKind::UnexpectedEof => LocalBlockError::Damaged(format!("{} is too short", path.display())),
        _other => LocalBlockError::Disk { path: path.to_owned(), error },
    }
}

impl ShippableBlock {
    /// Begins to compare the checksums of its files.
    pub(crate) fn checksums(&self) -> Result<Checksums, LocalBlockError> {
        let pass = ChecksumPass::open(&self.dir).map_err(|fault| error_of(&self.dir, fault))?;
        Ok(Checksums { dir: self.dir.clone(), pass })
    }

    /// A file's bytes from its beginning.
    pub(crate) fn open_file(&self, file: &LocalFile) -> Result<FileReader, LocalBlockError> {
        let path = self.dir.join(&file.name);
        let opened = File::open(&path).map_err(|error| disk(&self.dir, &path, error))?;
        Ok(FileReader { dir: self.dir.clone(), path, opened, left: file.bytes })
    }
}

/// A block whose checksums are compared in pieces.
#[derive(Debug)]
pub(crate) struct Checksums {
    dir: PathBuf,
    pass: ChecksumPass,
}

impl Checksums {
    /// Reads on, about so many bytes. How many it were; `None`: all of the block is as it was written.
    pub(crate) fn step(&mut self, bytes: u64) -> Result<Option<u64>, LocalBlockError> {
        self.pass.step(bytes).map_err(|fault| error_of(&self.dir, fault))
    }
}

/// A file that is read in pieces.
#[derive(Debug)]
pub(crate) struct FileReader {
    dir: PathBuf,
    path: PathBuf,
    opened: File,
    left: u64,
}

impl FileReader {
    /// Bytes that are left.
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// The next piece, of at most so many bytes.
    pub(crate) fn read(&mut self, bytes_max: usize) -> Result<Vec<u8>, LocalBlockError> {
        let mut piece = vec![0; usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes_max)];
        self.opened.read_exact(&mut piece).map_err(|error| disk(&self.dir, &self.path, error))?;
        self.left -= piece.len() as u64;
        Ok(piece)
    }
}

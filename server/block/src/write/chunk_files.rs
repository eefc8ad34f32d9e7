//! The files under `chunks/`: `000001` and so on, each up to a size.

use std::path::{Path, PathBuf};

use super::output::{OutputFile, sync_dir};
use super::{BlockWriteError, put_uvarint};
use crate::chunks::{Contents, HEAD_BYTES, MAGIC, VERSION};

/// A file in bytes, as Prometheus cuts them.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// Writes chunks, one after the other.
#[derive(Debug)]
pub(super) struct ChunkFilesWriter {
    dir: PathBuf,
    file: OutputFile,
    buffer_bytes: usize,
    /// Files before it, and their bytes.
    files_before: u64,
    bytes_before: u64,
    head: Vec<u8>,
    file_bytes_max: u64,
}

impl ChunkFilesWriter {
    pub(super) fn create(dir: &Path, buffer_bytes: usize) -> Result<Self, BlockWriteError> {
        Self::with_file_bytes(dir, buffer_bytes, FILE_BYTES_MAX)
    }

    fn with_file_bytes(
        dir: &Path,
        buffer_bytes: usize,
        file_bytes_max: u64,
    ) -> Result<Self, BlockWriteError> {
        std::fs::create_dir(dir).map_err(BlockWriteError::io(dir))?;
        let file = begin(dir, 0, buffer_bytes)?;
        let (files_before, bytes_before, head) = (0, 0, Vec::new());
        Ok(Self { dir: dir.to_owned(), file, buffer_bytes, files_before, bytes_before, head, file_bytes_max })
    }

    pub(super) const fn written_bytes(&self) -> u64 {
        self.bytes_before + self.file.at()
    }

    /// Writes a chunk, and says by what it is referred to.
    pub(super) fn put(&mut self, contents: Contents, bytes: &[u8]) -> Result<u64, BlockWriteError> {
        self.head.clear();
        put_uvarint(&mut self.head, bytes.len() as u64);
        let len = (self.head.len() + 1 + bytes.len() + 4) as u64;
        if self.file.at() + len > self.file_bytes_max && self.file.at() > HEAD_BYTES as u64 {
            let next = begin(&self.dir, self.files_before + 1, self.buffer_bytes)?;
            self.bytes_before += std::mem::replace(&mut self.file, next).finish()?;
            self.files_before += 1;
        }
        let reference = (self.files_before << 32) | self.file.at();
        self.file.put(&self.head)?;
        self.file.begin_sum();
        self.file.put(&[contents.encoding()])?;
        self.file.put(bytes)?;
        self.file.put_sum()?;
        Ok(reference)
    }

    pub(super) fn sync(&mut self) -> Result<(), BlockWriteError> {
        self.file.sync()
    }

    /// Makes all of it durable, and says how much it is in bytes.
    pub(super) fn finish(self) -> Result<u64, BlockWriteError> {
        let bytes = self.bytes_before + self.file.finish()?;
        sync_dir(&self.dir)?;
        Ok(bytes)
    }
}

fn begin(dir: &Path, number: u64, buffer_bytes: usize) -> Result<OutputFile, BlockWriteError> {
    let mut file = OutputFile::create(&dir.join(format!("{:06}", number + 1)), buffer_bytes)?;
    file.put(&MAGIC.to_be_bytes())?;
    file.put(&[VERSION, 0, 0, 0])?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunks::ChunkFiles;
    use crate::series::ChunkPlace;
    use silverback_model::gorilla::FloatEncoding;

    #[test]
    fn a_file_that_is_full_is_followed_by_another() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("chunks");
        let mut files = ChunkFilesWriter::with_file_bytes(&dir, 16, 64).unwrap();
        let chunks: Vec<Vec<u8>> = (0..7u8).map(|number| vec![number; 20]).collect();
        let references: Vec<_> = chunks
            .iter()
            .map(|chunk| files.put(Contents::Floats(FloatEncoding::Xor), chunk).unwrap())
            .collect();
        assert!(references.is_sorted());
        assert_eq!(references.last().unwrap() >> 32, 3, "two in each: {references:?}");
        let bytes = files.finish().unwrap();
        let on_disk = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        assert_eq!(on_disk.sum::<u64>(), bytes);
        let mut read = ChunkFiles::list(&dir).unwrap();
        for (chunk, reference) in chunks.iter().zip(references) {
            assert_eq!(read.read(ChunkPlace { min_ms: 0, max_ms: 0, reference }).unwrap().bytes, chunk);
        }
    }
}

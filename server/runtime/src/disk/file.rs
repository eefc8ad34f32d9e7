//! An open file through io_uring. Large writes and reads go in pieces, so that the memory for them
//! is bounded.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use glommio::io::{BufferedFile, DmaFile, ReadResult};
use nix::sys::stat::fstat;

use super::io_error;
use silverback_host::disk::{DiskError, File, Operation, parts};

/// What is written or read at once. A multiple of every block.
const PIECE_BYTES: usize = 1 << 20;

const _: () = assert!(PIECE_BYTES.is_multiple_of(super::probe::BLOCK_BYTES_MAX));

/// An open file of a [`DirectDisk`](super::DirectDisk). One that is dropped is closed by its
/// executor's next round.
#[derive(Debug)]
pub struct DirectFile {
    handle: Handle,
    path: Box<str>,
    block_bytes: usize,
    /// Each write has returned once it is durable (`O_DSYNC`): one operation in the ring, not two.
    syncs_writes: bool,
}

#[derive(Debug)]
pub(super) enum Handle {
    Direct(DmaFile),
    Buffered(BufferedFile),
}

impl DirectFile {
    pub(super) fn new(handle: Handle, path: &str, block_bytes: usize) -> Self {
        Self { handle, path: path.into(), block_bytes, syncs_writes: false }
    }

    /// One that was opened with `O_DSYNC`.
    pub(super) fn syncing_writes(self) -> Self {
        Self { syncs_writes: true, ..self }
    }

    fn error(&self, operation: Operation) -> impl Fn(io::Error) -> DiskError {
        move |error| DiskError::new(operation, &self.path, &error)
    }

    async fn write_pieces(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let padded = parts::len(parts).next_multiple_of(self.block_bytes);
        let mut done = 0;
        while done < padded {
            let len = (padded - done).min(PIECE_BYTES);
            let written = self.handle.write_piece(parts, done, len, offset + done as u64).await?;
            // A write that came short is taken up again; what stopped it is reported by the next one.
            let whole = match &self.handle {
                Handle::Direct(_) => written - written % self.block_bytes,
                Handle::Buffered(_) => written,
            };
            if whole == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done += whole;
        }
        Ok(())
    }

    async fn read_pieces(&self, offset: u64, len: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        while buffer.len() < len {
            let at = offset + buffer.len() as u64;
            let skip = (at % self.block_bytes as u64) as usize;
            let wanted = len - buffer.len();
            let aligned = skip.saturating_add(wanted).min(PIECE_BYTES).next_multiple_of(self.block_bytes);
            let piece = self.handle.read_piece(at - skip as u64, aligned).await?;
            let piece = piece.get(skip..).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            buffer.extend_from_slice(&piece[..piece.len().min(wanted)]);
        }
        Ok(())
    }
}

impl Handle {
    /// Writes `len` bytes of `parts`, from `from` on; gives how many were written.
    async fn write_piece(&self, parts: &[&[u8]], from: usize, len: usize, offset: u64) -> io::Result<usize> {
        match self {
            Self::Direct(file) => {
                let mut buffer = file.alloc_dma_buffer(len);
                parts::copy(parts, from, buffer.as_bytes_mut());
                file.write_at(buffer, offset).await.map_err(io_error)
            }
            Self::Buffered(file) => {
                let mut buffer = vec![0; len];
                parts::copy(parts, from, &mut buffer);
                file.write_at(buffer, offset).await.map_err(io_error)
            }
        }
    }

    async fn read_piece(&self, offset: u64, len: usize) -> io::Result<ReadResult> {
        match self {
            Self::Direct(file) => file.read_at_aligned(offset, len).await.map_err(io_error),
            Self::Buffered(file) => file.read_at(offset, len).await.map_err(io_error),
        }
    }

    pub(super) async fn close(self) -> io::Result<()> {
        let closed = match self {
            Self::Direct(file) => file.close().await,
            Self::Buffered(file) => file.close().await,
        };
        closed.map_err(io_error)
    }

    fn raw_fd(&self) -> RawFd {
        match self {
            Self::Direct(file) => file.as_raw_fd(),
            Self::Buffered(file) => file.as_raw_fd(),
        }
    }
}

impl File for DirectFile {
    async fn size_bytes(&self) -> Result<u64, DiskError> {
        // glommio's own looks at the name that the file was opened by, which may be another's by now.
        let stat = fstat(self.handle.raw_fd()).map_err(io::Error::from);
        stat.map(|stat| stat.st_size as u64).map_err(self.error(Operation::Open))
    }

    async fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), DiskError> {
        self.write_pieces(offset, parts).await.map_err(self.error(Operation::Write))
    }

    async fn read_at(&self, offset: u64, len: usize, buffer: &mut Vec<u8>) -> Result<(), DiskError> {
        self.read_pieces(offset, len, buffer).await.map_err(self.error(Operation::Read))
    }

    async fn settle(&self) -> Result<(), DiskError> {
        let Handle::Direct(file) = &self.handle else { return Ok(()) };
        let bytes = self.size_bytes().await?;
        // What is allocated already stays as it is, and ext4, XFS and btrfs wait for direct writes first. Where
        // it isn't known nothing is lost but the wait.
        if bytes > 0
            && let Err(error) = file.pre_allocate(bytes, true).await
        {
            tracing::debug!(path = %self.path, %error, "former writes to a file are not waited for");
        }
        Ok(())
    }

    async fn sync_data(&self) -> Result<(), DiskError> {
        let synced = match &self.handle {
            Handle::Direct(file) => file.fdatasync().await,
            Handle::Buffered(file) => file.fdatasync().await,
        };
        synced.map_err(io_error).map_err(self.error(Operation::Sync))
    }

    async fn write_durable(&self, offset: u64, parts: &[&[u8]]) -> Result<(), DiskError> {
        self.write_at(offset, parts).await?;
        if self.syncs_writes { Ok(()) } else { self.sync_data().await }
    }

    async fn close(self) -> Result<(), DiskError> {
        let Self { handle, path, .. } = self;
        // What a close can fail with is a write that was put off.
        handle.close().await.map_err(|error| DiskError::new(Operation::Sync, &path, &error))
    }
}

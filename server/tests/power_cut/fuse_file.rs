//! A disk that the kernel sees as one file, through FUSE: each read, write and sync of it arrives
//! here. After a cut all of them fail, forever: what still holds the file is of the time before.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};

use crate::command::LazyUnmount;
use crate::volatile::{SECTOR_BYTES, VolatileDisk};

/// The one file.
pub(crate) const FILE_NAME: &str = "disk.img";

const FILE: INodeNo = INodeNo(2);
const ATTRIBUTES_HOLD: Duration = Duration::from_secs(3600);

/// The disk as long as it has power.
type Powered = Arc<Mutex<Option<VolatileDisk>>>;

/// A mounted directory with the one file in it.
pub(crate) struct FuseFile {
    disk: Powered,
    // Before the session, whose own unmount refuses while the file is in use.
    _mount: LazyUnmount,
    /// Its thread serves until nothing uses the file any more.
    _session: BackgroundSession,
}

impl FuseFile {
    /// Serves `disk` as a file in `directory`, on a thread of its own.
    pub(crate) fn serve(disk: VolatileDisk, directory: &Path) -> io::Result<Self> {
        let size_bytes = disk.size_bytes();
        let disk = Arc::new(Mutex::new(Some(disk)));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("power-cut".into()), MountOption::NoDev];
        let mount = LazyUnmount::of(directory);
        let session = fuser::spawn_mount(Service { disk: disk.clone(), size_bytes }, directory, &config)?;
        Ok(Self { disk, _mount: mount, _session: session })
    }

    /// Takes the disk out: from here on all I/O on the file fails. `None` when that was done before.
    pub(crate) fn take(&self) -> Option<VolatileDisk> {
        lock(&self.disk).take()
    }

    /// How often the file was synced.
    pub(crate) fn syncs(&self) -> u64 {
        lock(&self.disk).as_ref().map_or(0, VolatileDisk::flushes)
    }
}

fn lock(disk: &Powered) -> MutexGuard<'_, Option<VolatileDisk>> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Service {
    disk: Powered,
    size_bytes: usize,
}

impl Service {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_file = inode == FILE;
        let size = if is_file { self.size_bytes as u64 } else { 0 };
        FileAttr {
            ino: inode,
            size,
            blocks: size / SECTOR_BYTES as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: SECTOR_BYTES as u32,
            flags: 0,
        }
    }
}

impl Filesystem for Service {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == FILE_NAME {
            reply.entry(&ATTRIBUTES_HOLD, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&ATTRIBUTES_HOLD, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Past the page cache: the only cache between the file system and the disk is the disk's own.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match lock(&self.disk).as_ref() {
            Some(disk) => reply.data(&disk.read(offset as usize, size as usize)),
            None => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match lock(&self.disk).as_mut().map(|disk| disk.write(offset as usize, bytes)) {
            Some(true) => reply.written(bytes.len() as u32),
            Some(false) => reply.error(Errno::EINVAL),
            None => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        match lock(&self.disk).as_mut().map(VolatileDisk::flush) {
            Some(()) => reply.ok(),
            None => reply.error(Errno::EIO),
        }
    }

    /// What a close asks for. No sync: a disk isn't flushed by it.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}

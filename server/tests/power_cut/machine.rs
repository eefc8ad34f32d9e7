//! A machine's disk with ext4 on it, whose power can be cut: a loop device over a file with a
//! volatile cache. Needs root, `/dev/fuse`, loop devices and `mkfs.ext4`.
//!
//! Every boot has a FUSE mount and a loop device of its own: what is left of an earlier one, such as
//! a file that some process still holds, can't reach the disk any more.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::command::{self, LazyUnmount, run};
use crate::fuse_file::{FILE_NAME, FuseFile};
use crate::volatile::{Survivors, VolatileDisk};

/// ext4's own commit every five seconds would make durable what nobody synced.
const MOUNT_OPTIONS: &str = "commit=600,noatime";

/// A machine that is up.
pub(crate) struct Machine {
    place: PathBuf,
    boots: u32,
    // Dropped in this order.
    file_system: Option<FileSystem>,
    file: Option<FuseFile>,
}

impl Machine {
    /// One with a new, empty file system on a disk of so many bytes (16 MiB at least).
    ///
    /// Panics, with the reason, where this user or this machine can't have one.
    pub(crate) fn new(disk_bytes: usize) -> Self {
        static MACHINES: AtomicU32 = AtomicU32::new(0);

        let number = MACHINES.fetch_add(1, Ordering::Relaxed);
        let name = format!("silverback-power-cut-{}-{number}", std::process::id());
        let place = std::env::temp_dir().join(name);
        let mut machine = Self { place, boots: 0, file_system: None, file: None };
        machine.boot(VolatileDisk::new(disk_bytes), Disk::Blank);
        machine
    }

    /// Where the file system is mounted. Another place after each restart.
    pub(crate) fn path(&self) -> &Path {
        &self.file_system.as_ref().expect("the machine is up").path
    }

    /// How often this boot has flushed the disk's cache.
    pub(crate) fn flushes(&self) -> u64 {
        self.file.as_ref().expect("the machine is up").syncs()
    }

    /// Cuts the power, and calls `meanwhile` with the file system still mounted on a dead disk; what
    /// runs on it is to be ended there. Then the machine starts again: the file system is mounted
    /// from what the cut has left, its journal replayed.
    pub(crate) fn cut_power(&mut self, survivors: Survivors, meanwhile: impl FnOnce(&Path)) {
        let file = self.file.as_ref().expect("the machine is up");
        let mut disk = file.take().expect("the power is cut once in a boot");
        disk.cut(survivors);
        meanwhile(self.path());
        self.file_system = None;
        self.file = None;
        self.boot(disk, Disk::Formatted);
    }

    fn boot(&mut self, disk: VolatileDisk, state: Disk) {
        self.boots += 1;
        let boot = self.place.join(format!("boot-{}", self.boots));
        let (backing, mounted) = (boot.join("backing"), boot.join("mounted"));
        fs::create_dir_all(&backing).expect("a directory for FUSE");
        fs::create_dir_all(&mounted).expect("a directory to mount on");
        self.file = Some(FuseFile::serve(disk, &backing).expect("FUSE needs root and /dev/fuse"));
        self.file_system = Some(FileSystem::mount(&backing.join(FILE_NAME), mounted, state));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The disk goes first: nothing that is unmounted now has to be written.
        if let Some(file) = &self.file {
            drop(file.take());
        }
    }
}

/// What is on a disk when a machine starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Blank,
    Formatted,
}

/// ext4 on a loop device.
struct FileSystem {
    path: PathBuf,
    _mount: LazyUnmount,
}

impl FileSystem {
    fn mount(backing: &Path, path: PathBuf, state: Disk) -> Self {
        let mount = LazyUnmount::of(&path);
        let device = LoopDevice::attach(backing);
        match state {
            // All of it now: nothing is to be written in the background later.
            Disk::Blank => {
                let extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
                run("mkfs.ext4", ["-q", "-F", "-E", extended, &device.0]);
            }
            Disk::Formatted => {}
        }
        run("mount", ["-t", "ext4", "-o", MOUNT_OPTIONS, &device.0, path.to_str().expect("a plain path")]);
        Self { path, _mount: mount }
    }
}

/// Detached when it is dropped; one that is mounted then, when it is no longer.
struct LoopDevice(String);

impl LoopDevice {
    fn attach(backing: &Path) -> Self {
        let arguments = ["--find", "--show", "--direct-io=on"].map(OsStr::new);
        let device = run("losetup", arguments.into_iter().chain([backing.as_os_str()]));
        Self(device.trim().to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // A device that is left over is all that comes of a failure.
        let _ = command::output("losetup", ["--detach", &self.0]);
    }
}

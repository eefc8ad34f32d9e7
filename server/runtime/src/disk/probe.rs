//! What a directory's file system can do: whether its files can be written past the page cache, and
//! in which unit. Blocking calls, on one small file that is removed again.
#![expect(
    clippy::disallowed_methods,
    reason = "it looks at a directory as it is opened, before anything is served"
)]

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, fstatfs};

use super::Mode;

/// The largest unit of writes that is used.
pub(super) const BLOCK_BYTES_MAX: usize = 64 << 10;
/// The smallest: no disk has less.
const BLOCK_BYTES_MIN: usize = 512;
/// Where the kernel doesn't say: a multiple of what the disks have, and the page cache's own.
const BLOCK_BYTES_UNTOLD: usize = 4096;
/// How glommio aligns its buffers.
const MEMORY_ALIGN_BYTES: usize = 4096;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskProbe {
    pub mode: Mode,
    pub block_bytes: usize,
    pub syncs_writes: bool,
}

/// What the kernel says of a file.
struct Stated {
    /// `None` where it doesn't say; a kernel before 6.1 doesn't.
    alignment: Option<Alignment>,
    device_major: u32,
}

/// What direct I/O on a file must be aligned to, in bytes; zero where there is none.
#[derive(Debug, Clone, Copy)]
struct Alignment {
    memory: usize,
    offset: usize,
}

pub(super) fn probe(root: &Path) -> io::Result<DiskProbe> {
    // The cores of a node open its directory at the same time: each needs a file of its own.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = root.join(format!(".direct-probe-{}-{number}", std::process::id()));
    let file = fs::File::create(&path)?;
    let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path);
    fs::remove_file(&path)?;
    let stated = statx(&file)?;
    let found = judge(stated.alignment);
    let works = match direct {
        Ok(direct) => found.mode == Mode::Direct && takes_a_block(&direct, found.block_bytes),
        // Of all errors the only one that means this file system rather than this moment.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => false,
        Err(error) => return Err(error),
    };
    if works && glommio_can_read(Path::new("/sys/dev/block"), stated.device_major) {
        Ok(DiskProbe { syncs_writes: syncs_writes(&file)?, ..found })
    } else {
        Ok(BUFFERED)
    }
}

/// Whether a direct write to a file that is opened with `O_DSYNC` returns once it is durable. Of these file systems it
/// is known; others may leave it to a server, as FUSE does.
fn syncs_writes(file: &fs::File) -> io::Result<bool> {
    let known = [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC];
    Ok(known.contains(&fstatfs(file)?.filesystem_type()))
}

/// What every file system can do.
const BUFFERED: DiskProbe =
    DiskProbe { mode: Mode::Buffered, block_bytes: BLOCK_BYTES_UNTOLD, syncs_writes: false };

fn judge(alignment: Option<Alignment>) -> DiskProbe {
    let direct = |block_bytes| DiskProbe { mode: Mode::Direct, block_bytes, ..BUFFERED };
    let Some(Alignment { memory, offset }) = alignment else { return direct(BLOCK_BYTES_UNTOLD) };
    let usable = (1..=MEMORY_ALIGN_BYTES).contains(&memory)
        && (1..=BLOCK_BYTES_MAX).contains(&offset)
        && offset.is_power_of_two();
    if usable { direct(offset.max(BLOCK_BYTES_MIN)) } else { BUFFERED }
}

/// Some file systems open such a file and then refuse to write it.
fn takes_a_block(file: &fs::File, block_bytes: usize) -> bool {
    #[repr(align(4096))]
    struct Aligned([u8; BLOCK_BYTES_MAX]);
    static ZEROS: Aligned = Aligned([0; BLOCK_BYTES_MAX]);

    match file.write_at(&ZEROS.0[..block_bytes], 0) {
        Ok(_) => true,
        // Any other failure, such as a full disk, says nothing of the mode.
        Err(error) => !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)),
    }
}

/// Whether glommio can open a direct file there: it reads what sysfs says of the device with minor
/// number 0, and panics when that isn't a whole disk. Without such a device it asks nothing.
fn glommio_can_read(devices: &Path, major: u32) -> bool {
    let device = devices.join(format!("{major}:0"));
    let queue = device.join("queue");
    !device.exists() || (queue.join("write_cache").is_file() && device.join("slaves").is_dir())
}

fn statx(file: &fs::File) -> io::Result<Stated> {
    // SAFETY: the path is empty and ends with a zero byte, zeros are a valid `statx`, and the call
    // fills it or fails.
    let (result, stat) = unsafe {
        let mut stat: libc::statx = std::mem::zeroed();
        let mask = libc::STATX_BASIC_STATS | libc::STATX_DIOALIGN;
        (libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, mask, &mut stat), stat)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let told = stat.stx_mask & libc::STATX_DIOALIGN != 0;
    let alignment = told.then_some(Alignment {
        memory: stat.stx_dio_mem_align as usize,
        offset: stat.stx_dio_offset_align as usize,
    });
    Ok(Stated { alignment, device_major: stat.stx_dev_major })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(memory: usize, offset: usize, mode: Mode, block_bytes: usize) {
        assert_eq!(judge(Some(Alignment { memory, offset })), DiskProbe { mode, block_bytes, ..BUFFERED });
    }

    #[test]
    fn the_block_is_what_the_kernel_tells_and_never_below_512() {
        check(512, 512, Mode::Direct, 512);
        check(4, 4096, Mode::Direct, 4096);
        check(4, 16 << 10, Mode::Direct, 16 << 10);
        check(1, 1, Mode::Direct, 512);
        assert_eq!(judge(None), DiskProbe { mode: Mode::Direct, block_bytes: 4096, ..BUFFERED });
    }

    #[test]
    fn without_an_alignment_that_can_be_kept_files_go_through_the_page_cache() {
        check(0, 0, Mode::Buffered, 4096);
        check(8192, 512, Mode::Buffered, 4096);
        check(512, 1 << 20, Mode::Buffered, 4096);
    }

    #[test]
    fn a_device_that_glommio_would_panic_on_is_seen_before() {
        let devices = std::env::temp_dir().join(format!("silverback-devices-{}", std::process::id()));
        let whole = devices.join("8:0");
        fs::create_dir_all(whole.join("queue")).unwrap();
        fs::create_dir(whole.join("slaves")).unwrap();
        fs::write(whole.join("queue/write_cache"), "write back\n").unwrap();
        // A partition has no queue.
        fs::create_dir(devices.join("259:0")).unwrap();
        let readable = [8, 259, 0].map(|major| glommio_can_read(&devices, major));
        fs::remove_dir_all(&devices).unwrap();
        assert_eq!(readable, [true, false, true]);
    }
}

//! What must hold before anything starts: io_uring, lockable memory, a usable data directory.
//!
//! Each fault is found before glommio meets it (it panics or hangs on some) and says what to do.
//! The judging is pure; the asking is at the end.
use std::{
    fs::{self, OpenOptions},
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
};

use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    statfs::statfs,
};

/// The first kernel with every operation that glommio uses.
const KERNEL_MIN: (u32, u32) = (5, 8);
/// Below this glommio refuses to start.
const MEMLOCK_BYTES_MIN: u64 = 512 << 10;
const RAISE_MEMLOCK: &str =
    "raise the hard limit (`ulimit -l`, `LimitMEMLOCK=` in systemd, `--ulimit memlock=-1` with Docker)";
/// Descriptors of the process itself, and of each executor: files, rings, timers.
const DESCRIPTORS: u64 = 64;
const DESCRIPTORS_OF_EXECUTOR: u64 = 64;
/// Rings of one executor; each pins the executor's I/O memory.
const RINGS: u64 = 3;

/// A reason not to start.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// The kernel is older than io_uring needs.
    #[error("kernel {release} is too old: Linux {}.{} or newer is needed for io_uring", KERNEL_MIN.0, KERNEL_MIN.1)]
    OldKernel {
        /// Its version.
        release: String,
    },
    /// A sysctl forbids io_uring.
    #[error(
        "io_uring is switched off on this host (kernel.io_uring_disabled = {setting}): set it to 0 \
         (`sysctl -w kernel.io_uring_disabled=0`), or for 1 add the process to kernel.io_uring_group"
    )]
    IoUringDisabled {
        /// The value of `kernel.io_uring_disabled`.
        setting: u32,
    },
    /// A seccomp filter forbids io_uring.
    #[error(
        "io_uring is forbidden to this container ({0}): run it with a seccomp profile that allows io_uring_setup, \
         io_uring_enter and io_uring_register (`silverback seccomp-profile` prints one; with Docker: \
         `--security-opt seccomp=<file>`; with Helm: seccomp.profile=Localhost)"
    )]
    IoUringFiltered(io::Error),
    /// io_uring failed for a reason of its own.
    #[error("io_uring can't be used: {0}")]
    IoUring(io::Error),
    /// Too little memory may be locked.
    #[error(
        "only {} KiB of memory may be locked, {} are needed: {RAISE_MEMLOCK}",
        hard_bytes >> 10, MEMLOCK_BYTES_MIN >> 10
    )]
    Memlock {
        /// The hard limit.
        hard_bytes: u64,
    },
    /// The data directory can't be made or written to.
    #[error("the data directory {} can't be used ({error}): {}", path.display(), advice(error))]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// What was tried and failed.
        error: io::Error,
    },
}

/// What to do about a data directory that can't be used.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "it is a file, or below one; --data-dir names a directory, which is made if it isn't there"
        }
        _ => "make it writable for this user, or name another one with --data-dir",
    }
}

/// Something worth a warning, with which the node still runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreflightCaution {
    /// The data directory forgets everything with the machine's power.
    #[error("the data directory is on {file_system}: nothing there survives a restart of the host")]
    VolatileFileSystem {
        /// Its file system.
        file_system: &'static str,
    },
    /// The data directory is not on a local disk: a sync takes long and may not mean what it says.
    #[error("the data directory is on {file_system}: use a local disk for the write-ahead log")]
    RemoteFileSystem {
        /// Its file system.
        file_system: &'static str,
    },
    /// Files there can't be opened past the page cache.
    #[error("the data directory's file system has no direct I/O: use ext4 or xfs")]
    NoDirectIo,
    /// Fewer files may be open than connections.
    #[error(
        "{limit} files may be open, and --max-connections asks for {wanted}: raise the hard limit (`ulimit -n`, \
         `LimitNOFILE=` in systemd, `--ulimit nofile=` with Docker), or lower --max-connections"
    )]
    FewDescriptors {
        /// The hard limit.
        limit: u64,
        /// What would be needed.
        wanted: u64,
    },
    /// Less memory may be locked than the executors would register for disk I/O; they do with less.
    #[error(
        "{} MiB of memory may be locked and {} would be used; with less, disk I/O takes some more CPU. If that \
         matters, {RAISE_MEMLOCK}", bytes >> 20, wanted_bytes.div_ceil(1 << 20)
    )]
    LittleMemlock {
        /// What may be locked.
        bytes: u64,
        /// What would be.
        wanted_bytes: u64,
    },
}

impl PreflightCaution {
    /// Whether an operator has to do something. What a usual machine has by default is logged, and no more.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::LittleMemlock { .. })
    }
}

/// What was found on a machine that will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// The data directory's file system.
    pub file_system: &'static str,
    /// What is worth a warning.
    pub cautions: Vec<PreflightCaution>,
}

/// Asks for all that must hold, and gives every fault at once. Makes the data directory, and raises
/// the soft limits of lockable memory and of open files as far as they go.
pub fn preflight(
    data_directory: &Path,
    executors: usize,
    io_memory_bytes: usize,
    connections: usize,
) -> Result<Report, Vec<PreflightError>> {
    let kernel = kernel_release();
    let mut faults = Vec::new();
    let mut cautions = Vec::new();
    if let Err(error) = probe_io_uring() {
        faults.push(judge_io_uring(error, &kernel, io_uring_setting()));
    }
    // A connection is a descriptor, and the usual soft limit of 1024 is there for programs that use select.
    let descriptors = DESCRIPTORS + executors as u64 * DESCRIPTORS_OF_EXECUTOR + connections as u64;
    cautions.extend(judge_descriptors(raise_limit(Resource::RLIMIT_NOFILE), descriptors));
    let memlock = raise_limit(Resource::RLIMIT_MEMLOCK);
    match judge_memlock(memlock, executors as u64 * RINGS * io_memory_bytes as u64) {
        Ok(caution) => cautions.extend(caution),
        Err(fault) => faults.push(fault),
    }
    let mut file_system = "unknown";
    match probe_directory(data_directory) {
        Ok(directory) => {
            file_system = file_system_name(directory.file_system);
            cautions.extend(judge_directory(&directory));
        }
        Err(error) => faults.push(PreflightError::DataDirectory { path: data_directory.to_owned(), error }),
    }
    if faults.is_empty() { Ok(Report { kernel, file_system, cautions }) } else { Err(faults) }
}

fn judge_io_uring(error: io::Error, kernel: &str, setting: Option<u32>) -> PreflightError {
    let is_old = parse_release(kernel).is_some_and(|version| version < KERNEL_MIN);
    match (error.raw_os_error(), setting) {
        (_, _) if is_old => PreflightError::OldKernel { release: kernel.to_owned() },
        (Some(libc::EPERM), Some(setting @ 1..)) => PreflightError::IoUringDisabled { setting },
        // A filter answers with either; a kernel of this age answers neither by itself.
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) => PreflightError::IoUringFiltered(error),
        _ => PreflightError::IoUring(error),
    }
}

fn judge_memlock(limit: Limit, wanted_bytes: u64) -> Result<Option<PreflightCaution>, PreflightError> {
    if limit.soft < MEMLOCK_BYTES_MIN {
        return Err(PreflightError::Memlock { hard_bytes: limit.hard });
    }
    let is_little = limit.soft < wanted_bytes;
    Ok(is_little.then_some(PreflightCaution::LittleMemlock { bytes: limit.soft, wanted_bytes }))
}

fn judge_descriptors(limit: Limit, wanted: u64) -> Option<PreflightCaution> {
    (limit.soft < wanted).then_some(PreflightCaution::FewDescriptors { limit: limit.soft, wanted })
}

fn judge_directory(directory: &Directory) -> Vec<PreflightCaution> {
    let file_system = file_system_name(directory.file_system);
    let mut cautions = Vec::new();
    match file_system {
        "tmpfs" | "ramfs" => cautions.push(PreflightCaution::VolatileFileSystem { file_system }),
        "nfs" | "cifs" | "smb2" | "ceph" | "fuse" => {
            cautions.push(PreflightCaution::RemoteFileSystem { file_system })
        }
        _ => {}
    }
    if directory.direct_io == DirectIo::Refused {
        cautions.push(PreflightCaution::NoDirectIo);
    }
    cautions
}

fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The name of a file system by the magic number that `statfs` returns.
fn file_system_name(magic: u64) -> &'static str {
    match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0xf2f5_2010 => "f2fs",
        0x2fc1_2fc1 => "zfs",
        0x794c_7630 => "overlayfs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x6969 => "nfs",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb2",
        0x00c3_6400 => "ceph",
        0x6573_5546 => "fuse",
        _ => "unknown",
    }
}

fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".into(), |text| text.trim().into())
}

/// `kernel.io_uring_disabled`, on kernels that have it.
fn io_uring_setting() -> Option<u32> {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}

/// Makes a small ring and closes it.
fn probe_io_uring() -> io::Result<()> {
    /// `struct io_uring_params` has had this size since it exists.
    const PARAMS_BYTES: usize = 120;
    const ENTRIES: u32 = 4;

    let mut params = [0_u64; PARAMS_BYTES / 8];
    // SAFETY: the kernel reads and writes no more than the struct's size, and zeros are valid for it.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, params.as_mut_ptr()) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

struct Limit {
    soft: u64,
    hard: u64,
}

/// Raises a soft limit to the hard one and gives what holds then.
fn raise_limit(resource: Resource) -> Limit {
    let (soft, hard) = getrlimit(resource).unwrap_or_default();
    let is_raised = soft < hard && setrlimit(resource, hard, hard).is_ok();
    Limit { soft: if is_raised { hard } else { soft }, hard }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectIo {
    Allowed,
    Refused,
}

struct Directory {
    file_system: u64,
    direct_io: DirectIo,
}

/// Makes `path` if need be, and a file there that it removes again. An empty one: a node starts on a
/// full disk, too, answers reads and waits for room.
fn probe_directory(path: &Path) -> io::Result<Directory> {
    fs::create_dir_all(path)?;
    let probe = path.join(format!(".preflight-{}", std::process::id()));
    fs::File::create(&probe)?;
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&probe);
    fs::remove_file(&probe)?;
    let direct_io = if direct.is_ok() { DirectIo::Allowed } else { DirectIo::Refused };
    // 32 bits, sign-extended on some machines.
    let file_system = statfs(path)?.filesystem_type().0 as u64 & 0xffff_ffff;
    Ok(Directory { file_system, direct_io })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the fault for this errno.
    fn check(errno: i32, kernel: &str, setting: Option<u32>) -> String {
        judge_io_uring(io::Error::from_raw_os_error(errno), kernel, setting).to_string()
    }

    #[test]
    fn each_way_to_forbid_io_uring_has_its_own_advice() {
        assert!(check(libc::ENOSYS, "4.18.0-372.el8", None).contains("too old"));
        assert!(check(libc::EPERM, "6.8.0", Some(2)).contains("kernel.io_uring_disabled = 2"));
        assert!(check(libc::EPERM, "6.8.0", Some(0)).contains("seccomp"));
        assert!(check(libc::ENOSYS, "6.8.0", None).contains("seccomp"));
        assert!(check(libc::ENOMEM, "6.8.0", None).contains("can't be used"));
    }

    #[test]
    fn lockable_memory_is_a_fault_below_what_glommio_needs_and_a_caution_below_what_it_would_use() {
        let judge = |bytes| judge_memlock(Limit { soft: bytes, hard: bytes }, 8 << 20);
        assert!(matches!(judge(64 << 10), Err(PreflightError::Memlock { hard_bytes: 65_536 })));
        assert!(matches!(judge(1 << 20), Ok(Some(PreflightCaution::LittleMemlock { .. }))));
        assert!(matches!(judge(8 << 20), Ok(None)));
        let caution = judge(1 << 20).unwrap().unwrap();
        assert!(caution.to_string().contains("`ulimit -l`") && !caution.is_warning(), "{caution}");
    }

    #[test]
    fn fewer_files_than_connections_are_worth_a_warning() {
        let judge = |soft| judge_descriptors(Limit { soft, hard: soft }, 10_128);
        assert_eq!(judge(1024), Some(PreflightCaution::FewDescriptors { limit: 1024, wanted: 10_128 }));
        assert!(judge(1024).unwrap().is_warning());
        assert_eq!(judge(10_128), None);
    }

    #[test]
    fn a_directory_in_memory_or_across_a_network_is_worth_a_warning() {
        let judge = |file_system| judge_directory(&Directory { file_system, direct_io: DirectIo::Allowed });
        assert_eq!(judge(0xef53), []);
        assert_eq!(judge(0x0102_1994), [PreflightCaution::VolatileFileSystem { file_system: "tmpfs" }]);
        assert_eq!(judge(0x6969), [PreflightCaution::RemoteFileSystem { file_system: "nfs" }]);
    }

    #[test]
    fn this_machine_will_do_and_its_directory_is_left_empty() {
        let path = std::env::temp_dir().join(format!("silverback-preflight-{}", std::process::id()));
        let report = preflight(&path, 1, 64 << 10, 1).unwrap();
        assert!(parse_release(&report.kernel).unwrap() >= KERNEL_MIN);
        // Fails if anything was left behind.
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn a_data_directory_that_is_a_file_is_a_fault() {
        let path = std::env::temp_dir().join(format!("silverback-preflight-file-{}", std::process::id()));
        fs::write(&path, b"").unwrap();
        for path in [&path, &path.join("below")] {
            let faults = preflight(path, 1, 64 << 10, 1).unwrap_err();
            assert!(matches!(&faults[..], [PreflightError::DataDirectory { .. }]), "{faults:?}");
            assert!(faults[0].to_string().contains("it is a file, or below one"), "{}", faults[0]);
        }
        fs::remove_file(&path).unwrap();
    }
}

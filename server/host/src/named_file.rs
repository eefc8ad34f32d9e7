//! Files that an operator names: configurations, certificates, credentials. They are small and regular, whatever symlinks
//! lead to them; anything else under such a name (a named pipe that nobody writes to, a device without an end) is an error
//! at once, not a start that hangs.
#![expect(
    clippy::disallowed_methods,
    reason = "files are read before executors start, or on a thread of its own"
)]

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// What a process was started with: a shell's `<(…)` and `-` are given as such names, and are pipes that have a writer.
const OWN_DESCRIPTORS: [&str; 4] = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/", "/proc/thread-self/fd/"];

/// All of a text file, which is no longer than that many bytes: a longer one is
/// [`FileTooLarge`](io::ErrorKind::FileTooLarge).
pub fn read_named_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read_named(path, bytes_max)?)
        .map_err(|_unshown| io::Error::new(io::ErrorKind::InvalidData, "it isn't UTF-8"))
}

/// All of a file, which is no longer than that many bytes.
pub fn read_named(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Of a descriptor no length is known beforehand.
    open_named(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let told = format!("the file is larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, told));
    }
    Ok(bytes)
}

/// Opens a file, and refuses what isn't a regular one.
pub fn open_named(path: &Path) -> io::Result<File> {
    if OWN_DESCRIPTORS.iter().any(|own| path.as_os_str().as_encoded_bytes().starts_with(own.as_bytes())) {
        return File::open(path);
    }
    // To open a pipe that nobody writes to waits for somebody who does.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let told = format!("it is {}, not a regular file", name_of(kind));
    Err(io::Error::new(io::ErrorKind::InvalidInput, told))
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _other => "something else",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use nix::sys::stat::Mode;

    use super::*;

    /// A directory of its own, which goes with it.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("silverback-named-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = Dir::new("refused");
        let (pipe, link) = (dir.0.join("pipe"), dir.0.join("link"));
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        symlink(&pipe, &link).unwrap();
        let check = |path: &Path, words: &str| {
            let error = read_named(path, 100).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        };
        check(&pipe, "it is a named pipe, not a regular file");
        check(&link, "it is a named pipe, not a regular file");
        check(&dir.0, "it is a directory, not a regular file");
        check(Path::new("/dev/zero"), "it is a device, not a regular file");
        check(&dir.0.join("none"), "No such file");
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_through_symlinks_too() {
        let dir = Dir::new("read");
        // As Kubernetes lays out what a Secret holds.
        std::fs::create_dir(dir.0.join("..data_1")).unwrap();
        std::fs::write(dir.0.join("..data_1/key"), "12345").unwrap();
        symlink("..data_1", dir.0.join("..data")).unwrap();
        symlink("..data/key", dir.0.join("key")).unwrap();
        let key = dir.0.join("key");
        assert_eq!(read_named_text(&key, 5).unwrap(), "12345");
        let error = read_named(&key, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "the file is larger than 4 bytes");
        std::fs::write(&key, [0xff]).unwrap();
        assert_eq!(read_named_text(&key, 5).unwrap_err().to_string(), "it isn't UTF-8");
    }

    #[test]
    fn what_a_shell_hands_over_is_read() {
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"given").unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(read_named_text(Path::new(&path), 5).unwrap(), "given");
    }
}

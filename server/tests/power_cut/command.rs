//! The system's own commands, in bounded time, and mounts that are always taken away again.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How long a command may take, in seconds, as `timeout` reads it.
const TIMEOUT_S: &str = "30";

/// What a command prints that must go well.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> String {
    output(program, arguments).unwrap_or_else(|reason| panic!("{program}: {reason}"))
}

/// What a command prints, or how it failed.
pub(crate) fn output<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String, String> {
    let output = Command::new("timeout").arg(TIMEOUT_S).arg(program).args(arguments).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{}: {}", output.status, text(&output.stderr)))
    }
}

/// Whatever is mounted at a place, until this is dropped or the process ends, however it ends: from
/// then on it has no name, and goes with the last file of it that is still open. The place goes too,
/// with the directories above it that are empty then.
pub(crate) struct LazyUnmount {
    /// Sleeps until its input ends, which it does with this process.
    watcher: Child,
}

impl LazyUnmount {
    /// To be made before the mount.
    pub(crate) fn of(place: &Path) -> Self {
        const SCRIPT: &str = "trap '' INT TERM HUP; read -r _; \
            umount -l \"$1\"; rmdir -p --ignore-fail-on-non-empty \"$1\"";

        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "sh"]).arg(place).stdin(Stdio::piped()).stderr(Stdio::null());
        Self { watcher: shell.spawn().expect("there is a shell") }
    }
}

impl Drop for LazyUnmount {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        // There is nobody to tell of a failure, and the rest is still to be cleared away.
        let _ = self.watcher.wait();
    }
}

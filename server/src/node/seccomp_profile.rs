//! `silverback seccomp-profile`: what a container runtime has to be given so that the node may use
//! io_uring, and take memory from its NUMA node. It knows the profile and where to put it; who applies it is the runtime's business.
#![expect(clippy::disallowed_methods, reason = "a command without executors")]
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use futures::executor::block_on;

use silverback_runtime::{Shutdown, signals};

/// What containerd allows a process without capabilities, io_uring's three calls, and
/// `set_mempolicy`.
pub const PROFILE: &str = include_str!("../../../deploy/chart/files/seccomp.json");

/// Puts the profile into `file`. A kubelet that reads it meanwhile sees the old one or the new one.
pub fn install(file: &Path) -> io::Result<()> {
    let name = file.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    let unfinished = file.with_file_name(unfinished);
    let mut written = File::create(&unfinished)?;
    written.write_all(PROFILE.as_bytes())?;
    written.sync_all()?;
    fs::rename(&unfinished, file)
}

/// Returns once the process gets a signal to end: what runs on every machine of a cluster has to stay.
pub fn stay() -> io::Result<()> {
    let shutdown = Shutdown::new();
    signals::request_on_signal(shutdown.clone(), signals::Hangups::default())?;
    block_on(shutdown.requested());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn allowed() -> Vec<String> {
        let profile: Value = serde_json::from_str(PROFILE).unwrap();
        let rules = profile["syscalls"].as_array().unwrap().iter();
        let rules = rules.filter(|rule| rule["action"] == "SCMP_ACT_ALLOW");
        let names = rules.flat_map(|rule| rule["names"].as_array().unwrap());
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_profile_allows_io_uring_and_refuses_what_it_doesn_t_name() {
        let allowed = allowed();
        for name in
            ["io_uring_setup", "io_uring_enter", "io_uring_register", "set_mempolicy", "read", "futex"]
        {
            assert!(allowed.iter().any(|known| known == name), "{name}");
        }
        for name in ["mount", "bpf", "setns", "unshare", "keyctl", "perf_event_open"] {
            assert!(allowed.iter().all(|known| known != name), "{name}");
        }
        let profile: Value = serde_json::from_str(PROFILE).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    }

    #[test]
    fn an_installed_profile_replaces_the_former_and_leaves_nothing_beside_it() {
        let root = std::env::temp_dir().join(format!("silverback-seccomp-{}", std::process::id()));
        let file = root.join("profiles/silverback.json");
        install(&file).unwrap();
        fs::write(&file, "old").unwrap();
        install(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), PROFILE);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_path_without_a_file_name_is_refused() {
        assert!(install(Path::new("/")).is_err());
    }
}

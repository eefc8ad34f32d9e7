//! The data directory's lock, between processes: this test starts itself a second time.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use silverback_host::disk::lock::{DirectoryLock, LockError};
use silverback_test_support::Directory;

use crate::directory;

/// Tells the second process which directory to lock.
const DIRECTORY_VARIABLE: &str = "SILVERBACK_TEST_LOCKED_DIRECTORY";

#[test]
fn a_directory_is_locked_once_and_again_after_its_release() {
    let directory = directory("locked");
    let lock = DirectoryLock::take(directory.path()).unwrap();
    let refused = DirectoryLock::take(directory.path()).unwrap_err();
    let (pid, path) = (std::process::id(), directory.path().display());
    assert_eq!(refused.to_string(), format!("another silverback (pid {pid}) uses {path}"));
    drop(lock);
    DirectoryLock::take(directory.path()).unwrap();
}

#[test]
fn a_killed_process_holds_no_lock() {
    let directory = directory("killed");
    let mut other = second_process(&directory);
    let refused = DirectoryLock::take(directory.path());
    other.kill().unwrap();
    other.wait().unwrap();
    match refused.unwrap_err() {
        LockError::Held { pid, .. } => assert_eq!(pid, Some(other.id())),
        LockError::Io { error, .. } => panic!("{error}"),
    }
    DirectoryLock::take(directory.path()).unwrap();
    let text = std::fs::read_to_string(directory.path().join("lock")).unwrap();
    assert_eq!(text, format!("{}\n", std::process::id()));
}

#[test]
fn a_directory_that_is_not_there_is_an_error_with_its_name() {
    let directory = directory("no-lock");
    let missing = directory.path().join("missing");
    let error = DirectoryLock::take(&missing).unwrap_err();
    assert!(matches!(error, LockError::Io { .. }));
    assert!(error.to_string().contains(missing.to_str().unwrap()), "{error}");
}

fn second_process(directory: &Directory) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lock::the_second_process_holds_the_lock", "--nocapture"])
        .env(DIRECTORY_VARIABLE, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("holds the lock")));
    child
}

/// What the second process runs; in the first it has nothing to do.
#[test]
fn the_second_process_holds_the_lock() {
    let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) else { return };
    let _lock = DirectoryLock::take(directory.as_ref()).unwrap();
    println!("holds the lock");
    // It is killed long before.
    std::thread::sleep(std::time::Duration::from_secs(30));
}

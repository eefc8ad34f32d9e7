//! Power cuts: what the disk's files and the node promise, held against a real file system on a disk
//! that loses what wasn't synced.
//!
//! `cargo test --test power_cut -- --ignored` runs them as root; without root they can't be run.

mod command;
mod frozen;
mod fuse_file;
mod machine;
mod node;
mod volatile;

use std::fs;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};

use machine::Machine;
use silverback_host::disk::{Disk, DiskError, File};
use silverback_node_test_support::executors;
use silverback_runtime::Executor;
use silverback_runtime::disk::{DirectDisk, Mode};
use silverback_test_support::home::Home;
use volatile::{SECTOR_BYTES, Survivors};

const DISK_BYTES: usize = 64 << 20;

/// An empty place for nodes of the command, on the disk that builds are on.
fn home(name: &str) -> Home {
    Home::new(env!("CARGO_BIN_EXE_silverback"), env!("CARGO_TARGET_TMPDIR"), name)
}

/// What `run` comes to on an executor, with the disk in `path`.
fn on_disk<R: Send + 'static, F: Future<Output = R> + 'static>(
    path: &Path,
    run: impl Fn(DirectDisk) -> F + Send + Sync + 'static,
) -> R {
    let disk = DirectDisk::open(path).unwrap();
    assert_eq!(disk.mode(), Mode::Direct);
    let options = executors::options(1);
    let outputs = executors::on_executors(&options, move |_: Executor<()>| run(disk.clone()));
    outputs.into_iter().next().unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synced {
    Yes,
    No,
}

/// A file of ones that are durable, then overwritten with twos on the device.
fn write_twice(path: &Path, bytes: usize, synced: Synced) {
    on_disk(path, move |disk| async move {
        let file = disk.create("file").await.unwrap();
        file.write_at(0, &[&vec![1; bytes]]).await.unwrap();
        file.sync_data().await.unwrap();
        disk.sync_dir("").await.unwrap();
        file.write_at(0, &[&vec![2; bytes]]).await.unwrap();
        if synced == Synced::Yes {
            file.sync_data().await.unwrap();
        }
        file.close().await.unwrap();
    });
}

fn nothing_meanwhile(_: &Path) {}

/// The file's bytes after a cut.
fn check(synced: Synced, survivors: Survivors) -> Vec<u8> {
    let bytes = 128 * SECTOR_BYTES;
    let mut machine = Machine::new(DISK_BYTES);
    write_twice(machine.path(), bytes, synced);
    machine.cut_power(survivors, nothing_meanwhile);
    let read = fs::read(machine.path().join("file")).unwrap();
    assert_eq!(read.len(), bytes);
    read
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn a_write_that_was_synced_survives_and_one_that_was_not_does_not() {
    assert!(check(Synced::Yes, Survivors::None).iter().all(|&byte| byte == 2));
    assert!(check(Synced::No, Survivors::None).iter().all(|&byte| byte == 1));
    assert!(check(Synced::No, Survivors::All).iter().all(|&byte| byte == 2));
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn a_write_that_was_not_synced_can_be_torn() {
    let read = check(Synced::No, Survivors::Half { seed: 7 });
    let new = read.chunks(SECTOR_BYTES).filter(|sector| sector.iter().all(|&byte| byte == 2)).count();
    let old = read.chunks(SECTOR_BYTES).filter(|sector| sector.iter().all(|&byte| byte == 1)).count();
    assert_eq!(new + old, read.len() / SECTOR_BYTES);
    assert!(new > 0 && old > 0, "{new} new, {old} old");
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn a_name_survives_once_its_directory_was_synced() {
    let mut machine = Machine::new(DISK_BYTES);
    let exists = |machine: &Machine, name: &str| machine.path().join(name).exists();
    on_disk(machine.path(), |disk| async move {
        for (name, synced) in [("synced.tmp", Synced::Yes), ("lost.tmp", Synced::No)] {
            let file = disk.create(name).await.unwrap();
            file.write_at(0, &[b"whole"]).await.unwrap();
            file.sync_data().await.unwrap();
            file.close().await.unwrap();
            disk.rename(name, name.trim_end_matches(".tmp")).await.unwrap();
            if synced == Synced::Yes {
                disk.sync_dir("").await.unwrap();
            }
        }
    });
    machine.cut_power(Survivors::None, nothing_meanwhile);
    assert!(exists(&machine, "synced") && !exists(&machine, "synced.tmp"));
    assert_eq!(fs::read(machine.path().join("synced")).unwrap()[..5], *b"whole");
    assert!(!exists(&machine, "lost"));
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn what_is_only_in_the_page_cache_is_lost() {
    let mut machine = Machine::new(DISK_BYTES);
    fs::write(machine.path().join("unsynced"), b"gone").unwrap();
    let mut synced = fs::File::create(machine.path().join("synced")).unwrap();
    synced.write_all(b"kept").unwrap();
    synced.sync_all().unwrap();
    fs::write(machine.path().join("later"), b"gone").unwrap();
    machine.cut_power(Survivors::None, nothing_meanwhile);
    assert_eq!(fs::read(machine.path().join("synced")).unwrap(), b"kept");
    assert!(!machine.path().join("later").exists());
}

/// Tries to write and sync with the power gone.
fn failures(path: PathBuf) -> Vec<DiskError> {
    let disk = DirectDisk::open_as(&path, Mode::Direct, SECTOR_BYTES);
    let options = executors::options(1);
    let outputs = executors::on_executors(&options, move |_: Executor<()>| {
        let disk = disk.clone();
        async move {
            let file = disk.open("file").await.unwrap();
            let written = file.write_at(0, &[b"too late"]).await;
            let mut buffer = Vec::new();
            let read = file.read_at(0, SECTOR_BYTES, &mut buffer).await;
            [written.err(), read.err(), disk.sync_dir("").await.err()].into_iter().flatten().collect()
        }
    });
    outputs.into_iter().next().unwrap()
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn with_the_power_gone_everything_fails_until_the_restart() {
    let mut machine = Machine::new(DISK_BYTES);
    write_twice(machine.path(), SECTOR_BYTES, Synced::Yes);
    // Held over the restart: it must not reach the disk again.
    let mut held = fs::OpenOptions::new().write(true).open(machine.path().join("file")).unwrap();
    machine.cut_power(Survivors::None, |path| {
        let failures = failures(path.to_owned());
        let words: Vec<_> = failures.iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), 3, "{words:?}");
        assert_eq!(words[0], "writing file: Input/output error (os error 5)");
        assert_eq!(words[1], "reading file: Input/output error (os error 5)");
    });
    let written = held.write_all(&[3; SECTOR_BYTES]).and_then(|()| held.sync_all());
    assert!(written.is_err());
    assert_eq!(fs::read(machine.path().join("file")).unwrap(), [2; SECTOR_BYTES]);
    write_twice(machine.path(), SECTOR_BYTES, Synced::Yes);
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn a_machine_survives_cut_after_cut_and_leaves_nothing_mounted() {
    let mut machine = Machine::new(DISK_BYTES);
    for seed in 0..4 {
        write_twice(machine.path(), 16 * SECTOR_BYTES, Synced::No);
        assert!(machine.flushes() > 0);
        machine.cut_power(Survivors::Half { seed }, nothing_meanwhile);
    }
    let place = machine.path().to_str().unwrap().to_owned();
    drop(machine);
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(&place));
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn a_full_file_system_is_told_and_goes_on_once_there_is_room() {
    const PIECE_BYTES: usize = 3 << 20;

    let machine = Machine::new(DISK_BYTES);
    on_disk(machine.path(), |disk| async move {
        let file = disk.create("large").await.unwrap();
        let piece = vec![1; PIECE_BYTES];
        let mut failed = None;
        for number in 0..DISK_BYTES.div_ceil(PIECE_BYTES) {
            failed = failed.or(file.write_at((number * PIECE_BYTES) as u64, &[&piece]).await.err());
        }
        let error = failed.expect("the file is as large as the disk");
        assert!(error.is_full());
        assert_eq!(error.to_string(), "writing large: No space left on device (os error 28)");
        file.close().await.unwrap();
        disk.remove("large").await.unwrap();
        let file = disk.create("small").await.unwrap();
        file.write_at(0, &[&piece]).await.unwrap();
        file.sync_data().await.unwrap();
        file.close().await.unwrap();
    });
}

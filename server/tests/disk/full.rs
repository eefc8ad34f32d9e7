//! A disk without room, and one that fails: the system's error arrives whole, and a write that came
//! short is not taken for one that went well.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;

use futures::executor::block_on;
use silverback_host::disk::blocking::BlockingDisk;
use silverback_host::disk::{Disk, DiskError, File, Operation};
use silverback_runtime::disk::{DirectDisk, Mode};
use silverback_test_support::Mount;

use crate::{directory, on_an_executor};

fn check(error: &DiskError, path: &str) {
    assert_eq!((error.operation, &*error.path, error.kind), (Operation::Write, path, ErrorKind::StorageFull));
    assert!(error.is_full());
    assert_eq!(error.to_string(), format!("writing {path}: No space left on device (os error 28)"));
}

async fn write_failure(disk: &impl Disk, path: &str, bytes: usize) -> DiskError {
    let file = disk.open(path).await.unwrap();
    file.write_at(0, &[&vec![7; bytes]]).await.unwrap_err()
}

/// `/dev/full` is there in every container and needs no rights.
#[test]
fn a_write_without_room_says_so() {
    let directory = directory("full");
    symlink("/dev/full", directory.path().join("segment")).unwrap();
    check(&block_on(write_failure(&BlockingDisk::new(directory.path(), 512), "segment", 100)), "segment");
    let disk = DirectDisk::open_as(directory.path(), Mode::Buffered, 512);
    let error = on_an_executor(move || {
        let disk = disk.clone();
        async move { write_failure(&disk, "segment", 100).await }
    });
    check(&error, "segment");
}

/// A small file system in memory: it takes a part of a large write before it is full. Mounting one
/// needs rights; without them only the test above stands for it, and this one says so.
#[test]
fn a_write_that_room_runs_out_for_halfway_fails() {
    const FILE_SYSTEM_BYTES: usize = 1 << 20;

    let directory = directory("small");
    let Some(mount) = Mount::tmpfs(directory.path(), FILE_SYSTEM_BYTES) else {
        println!("tmpfs can't be mounted here: `a_write_without_room_says_so` stands for this alone");
        return a_write_without_room_says_so();
    };
    let disk = DirectDisk::open(mount.path()).unwrap();
    println!("tmpfs: {:?}, blocks of {} bytes", disk.mode(), disk.block_bytes());
    let error = on_an_executor(move || {
        let disk = disk.clone();
        async move {
            disk.create("large").await.unwrap().close().await.unwrap();
            let error = write_failure(&disk, "large", FILE_SYSTEM_BYTES + (300 << 10)).await;
            // There is room again once something is removed.
            disk.remove("large").await.unwrap();
            let file = disk.create("small").await.unwrap();
            file.write_at(0, &[b"fits"]).await.unwrap();
            file.close().await.unwrap();
            error
        }
    });
    check(&error, "large");
}

//! The disks: one conformance suite over each, and what each has for itself.

mod conformance;
mod full;
mod lock;

use std::future::Future;

use futures::executor::block_on;
use silverback_host::disk::blocking::BlockingDisk;
use silverback_host::disk::{Disk, File};
use silverback_node_test_support::executors;
use silverback_runtime::disk::{DirectDisk, Mode};
use silverback_runtime::{Executor, timers};
use silverback_test_support::Directory;

/// An empty directory on the disk that builds are on.
fn directory(name: &str) -> Directory {
    Directory::new(env!("CARGO_TARGET_TMPDIR"), name)
}

/// What `run` comes to on an executor.
fn on_an_executor<R: Send + 'static, F: Future<Output = R> + 'static>(
    run: impl Fn() -> F + Send + Sync + 'static,
) -> R {
    let options = executors::options(1);
    let outputs = executors::on_executors(&options, move |_: Executor<()>| run());
    outputs.into_iter().next().unwrap()
}

fn check_direct(name: &str, open: impl Fn(&Directory) -> DirectDisk) {
    let directory = directory(name);
    let disk = open(&directory);
    on_an_executor(move || {
        let disk = disk.clone();
        async move { conformance::check(&disk).await }
    });
}

#[test]
fn the_blocking_disk_conforms_with_every_block() {
    for block_bytes in [512, 4096] {
        let directory = directory("blocking");
        block_on(conformance::check(&BlockingDisk::new(directory.path(), block_bytes)));
    }
}

#[test]
fn the_direct_disk_conforms_as_it_finds_its_file_system() {
    check_direct("found", |directory| {
        let disk = DirectDisk::open(directory.path()).unwrap();
        println!("{:?}, blocks of {} bytes", disk.mode(), disk.block_bytes());
        disk
    });
}

#[test]
fn the_direct_disk_conforms_with_larger_blocks() {
    check_direct("larger", |directory| {
        let found = DirectDisk::open(directory.path()).unwrap();
        DirectDisk::open_as(directory.path(), found.mode(), 8 * found.block_bytes())
    });
}

#[test]
fn the_direct_disk_conforms_through_the_page_cache() {
    check_direct("buffered", |directory| DirectDisk::open_as(directory.path(), Mode::Buffered, 512));
}

#[test]
fn what_one_disk_writes_another_reads() {
    let directory = directory("both");
    let disk = DirectDisk::open(directory.path()).unwrap();
    on_an_executor(move || {
        let disk = disk.clone();
        async move {
            let file = disk.create("file").await.unwrap();
            file.write_at(0, &[b"past the page cache"]).await.unwrap();
            file.close().await.unwrap();
        }
    });
    let disk = BlockingDisk::new(directory.path(), 512);
    let mut buffer = Vec::new();
    block_on(async {
        disk.open("file").await.unwrap().read_at(0, 19, &mut buffer).await.unwrap();
    });
    assert_eq!(buffer, b"past the page cache");
}

/// The flags of this process' descriptor of a file, as the kernel tells them.
fn flags(path: &std::path::Path) -> i32 {
    let leads_there = |entry: &std::fs::DirEntry| std::fs::read_link(entry.path()).is_ok_and(|to| to == path);
    let mut descriptors = std::fs::read_dir("/proc/self/fd").unwrap().map(Result::unwrap);
    let descriptor = descriptors.find(leads_there).expect("the file is open").file_name();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.display())).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    i32::from_str_radix(flags.trim(), 8).unwrap()
}

#[test]
fn a_file_for_durable_writes_syncs_them_itself_where_the_file_system_is_known_to() {
    let directory = directory("durable");
    let place = directory.path().canonicalize().unwrap();
    let kind = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(&place).output().unwrap();
    let kind = String::from_utf8(kind.stdout).unwrap();
    let is_known = ["ext2/ext3", "xfs", "btrfs"].contains(&kind.trim());
    let disk = DirectDisk::open(&place).unwrap();
    let expected = is_known && disk.mode() == Mode::Direct;
    let synced = on_an_executor(move || {
        let (disk, path) = (disk.clone(), place.join("file"));
        async move {
            disk.create("file").await.unwrap().close().await.unwrap();
            let file = disk.open_durable("file").await.unwrap();
            let flags = flags(&path);
            file.close().await.unwrap();
            flags & libc::O_DSYNC != 0
        }
    });
    assert_eq!(synced, expected, "on {kind}");
}

#[test]
fn opening_a_disk_leaves_nothing_behind_and_needs_its_directory() {
    let directory = directory("opened");
    DirectDisk::open(directory.path()).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let error = DirectDisk::open(&directory.path().join("missing")).unwrap_err();
    assert_eq!(error.kind, std::io::ErrorKind::NotFound);
}

#[test]
fn a_directory_can_be_opened_by_many_threads_at_the_same_time() {
    let directory = directory("many");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|_| drop(DirectDisk::open(directory.path()).unwrap())));
        }
    });
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_dropped_is_closed() {
    /// Many more than are open by chance.
    const FILES: usize = 300;

    for mode in [Mode::Direct, Mode::Buffered] {
        let directory = directory("dropped");
        let found = DirectDisk::open(directory.path()).unwrap();
        if mode == Mode::Direct && found.mode() == Mode::Buffered {
            println!("no direct I/O in {}: only buffered files are tested", directory.path().display());
            continue;
        }
        let disk = DirectDisk::open_as(directory.path(), mode, found.block_bytes());
        let place = directory.path().canonicalize().unwrap();
        let open = on_an_executor(move || {
            let (disk, place) = (disk.clone(), place.clone());
            async move {
                for _ in 0..FILES {
                    let file = disk.create("dropped").await.unwrap();
                    file.write_at(0, &[b"x"]).await.unwrap();
                    drop(file);
                }
                timers::reactor_polled().await;
                timers::sleep(std::time::Duration::from_millis(10)).await;
                descriptors_below(&place)
            }
        });
        assert_eq!(open, 0, "{mode:?}");
    }
}

fn descriptors_below(place: &std::path::Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.starts_with(place)).count()
}

//! The disks: one conformance suite over each, and what each has for itself.

#[path = "../runtime_fixture/mod.rs"]
mod runtime_fixture;

mod conformance;
mod directory;
mod full;
mod lock;
mod mount;

use std::future::Future;

use directory::Directory;
use futures::executor::block_on;
use silverback_host::disk::blocking::BlockingDisk;
use silverback_host::disk::{Disk, File};
use silverback_runtime::disk::{DirectDisk, Mode};
use silverback_runtime::{Executor, timers};

/// What `run` comes to on an executor.
fn on_an_executor<R: Send + 'static, F: Future<Output = R> + 'static>(
    run: impl Fn() -> F + Send + Sync + 'static,
) -> R {
    let options = runtime_fixture::options(1);
    let outputs = runtime_fixture::on_executors(&options, move |_: Executor<()>| run());
    outputs.into_iter().next().unwrap()
}

fn check_direct(name: &str, open: impl Fn(&Directory) -> DirectDisk) {
    let directory = Directory::new(name);
    let disk = open(&directory);
    on_an_executor(move || {
        let disk = disk.clone();
        async move { conformance::check(&disk).await }
    });
}

#[test]
fn the_blocking_disk_conforms_with_every_block() {
    for block_bytes in [512, 4096] {
        let directory = Directory::new("blocking");
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
    let directory = Directory::new("both");
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

#[test]
fn opening_a_disk_leaves_nothing_behind_and_needs_its_directory() {
    let directory = Directory::new("opened");
    DirectDisk::open(directory.path()).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let error = DirectDisk::open(&directory.path().join("missing")).unwrap_err();
    assert_eq!(error.kind, std::io::ErrorKind::NotFound);
}

#[test]
fn a_directory_can_be_opened_by_many_threads_at_the_same_time() {
    let directory = Directory::new("many");
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
        let directory = Directory::new("dropped");
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

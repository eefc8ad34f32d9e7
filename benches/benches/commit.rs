//! What a commit of the log costs on this disk: one write and its sync, into a file that was written
//! over its whole length before. Beside criterion's mean it tells the spread, and the CPU time.
//!
//! The file lies in the build's own directory: what is measured is that directory's disk.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use silverback_benches::bench::sizes;
use silverback_host::disk::{Disk, File};
use silverback_runtime as runtime;
use silverback_runtime::cpus::affinity_mask;
use silverback_runtime::disk::{DirectDisk, DirectFile, Mode};
use silverback_runtime::{Executor, Options, Shutdown};

/// Written over and over, as recycled segments are.
const FILE_BYTES: u64 = 16 << 20;
const FILE_NAME: &str = "prewritten";
/// Longer ones count as this.
const LATENCY_NS_MAX: u64 = 10_000_000_000;

/// A directory with one file that has all its extents written.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("commit-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the build's directory can be written");
        let mut file = std::fs::File::create(path.join(FILE_NAME)).expect("a file can be made");
        file.write_all(&vec![0xa5; FILE_BYTES as usize]).expect("there is room for the file");
        file.sync_all().expect("the file can be synced");
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left there is in the build's directory, and small.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What commits took.
struct Spent {
    latency_ns: Histogram<u64>,
    cpu: Duration,
    took: Duration,
}

impl Spent {
    fn nothing() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are in order");
        Self { latency_ns, cpu: Duration::ZERO, took: Duration::ZERO }
    }

    fn add(&mut self, more: &Self) {
        self.latency_ns.add(&more.latency_ns).expect("their bounds are the same");
        self.cpu += more.cpu;
        self.took += more.took;
    }

    /// Nothing of a bench that wasn't asked for.
    fn tell(&self, name: &str) {
        if self.latency_ns.is_empty() {
            return;
        }
        let us = |quantile| self.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
        let cpu_us = self.cpu.as_secs_f64() * 1e6 / self.latency_ns.len() as f64;
        println!("{name}: p50 {:.0} µs, p99 {:.0} µs, CPU {cpu_us:.0} µs a commit", us(0.5), us(0.99));
    }
}

/// The CPU time of the whole process: the kernel's workers for the ring count as its threads.
fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process can ask for its own usage");
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(us as u64)
}

/// `count` commits one after the other in the file, `step` bytes from one to the next.
async fn commit(file: &DirectFile, bytes: &[u8], step: u64, count: u64) -> Spent {
    let mut spent = Spent::nothing();
    let (began, cpu_began) = (Instant::now(), cpu_time());
    let mut offset = 0;
    for _ in 0..count {
        let commit_began = Instant::now();
        file.write_at(offset, &[bytes]).await.expect("a write goes well");
        file.sync_data().await.expect("a sync goes well");
        spent.latency_ns.saturating_record(commit_began.elapsed().as_nanos() as u64);
        offset = (offset + step) % FILE_BYTES;
    }
    Spent { cpu: cpu_time() - cpu_began, took: began.elapsed(), ..spent }
}

/// `count` commits on an executor of their own.
fn commits(disk: &DirectDisk, bytes: usize, count: u64) -> Spent {
    let allowed = affinity_mask().expect("the process can ask for its own CPUs");
    let options = Options::on_cpus(vec![*allowed.first().expect("there is a CPU")]);
    let disk = disk.clone();
    let outputs = runtime::run(&options, &Shutdown::new(), move |_: Executor<()>| {
        let disk = disk.clone();
        async move {
            let file = disk.open(FILE_NAME).await.expect("the file is there");
            let step = bytes.next_multiple_of(disk.block_bytes()) as u64;
            let spent = commit(&file, &vec![0x5a; bytes], step, count).await;
            file.close().await.expect("a close goes well");
            spent
        }
    });
    outputs.expect("an executor runs").swap_remove(0)
}

fn wal_commit(c: &mut Criterion) {
    let place = Place::new();
    let found = DirectDisk::open(&place.0).expect("the directory can be opened");
    let mut group = c.benchmark_group("wal_commit");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    // Less than a page in blocks of 512 and of 4096 bytes; then pages.
    for bytes in sizes([512, 2048, 4 << 10, 16 << 10, 64 << 10]) {
        group.throughput(Throughput::Bytes(bytes as u64));
        for (mode, block_bytes) in [(found.mode(), 512), (found.mode(), 4096), (Mode::Buffered, 4096)] {
            let disk = DirectDisk::open_as(&place.0, mode, block_bytes);
            let mut all = Spent::nothing();
            let name = format!("bytes={bytes}/mode={mode:?}/block={block_bytes}/prewritten");
            group.bench_function(&name, |b| {
                b.iter_custom(|count| {
                    let spent = commits(&disk, bytes, count);
                    all.add(&spent);
                    spent.took
                });
            });
            all.tell(&name);
        }
    }
    group.finish();
}

criterion_group!(benches, wal_commit);
criterion_main!(benches);

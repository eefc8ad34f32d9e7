//! Who runs where and first: the node has the last CPU for itself, the thread that measures comes first on the others,
//! and the node's other clients run where nobody else wants to. What is measured then is how the node shares its
//! core, and not how the kernel shares it with clients.
//!
//! The node isn't in the real-time class: under it Linux 6.12 and later give a starved machine 50 ms of each second at a
//! time, and what completes the log's writes starves, too.

use std::fs;
use std::process::Command;
use std::thread;

/// Starts a node on the last CPU; the calling thread, and those that it starts later, run on the others before all else.
pub fn start_apart<T>(start: impl FnOnce() -> T) -> T {
    let last = thread::available_parallelism().expect("CPUs are counted").get() - 1;
    assert!(last > 0, "the node and its clients need a CPU each");
    stay_on(&last.to_string());
    let node = start();
    stay_on(&format!("0-{}", last - 1));
    run("chrt", &["--fifo", "--pid", "10", &own_thread()]);
    node
}

/// The calling thread after all others.
pub fn come_last() {
    run("chrt", &["--idle", "--pid", "0", &own_thread()]);
}

fn stay_on(cpus: &str) {
    run("taskset", &["--cpu-list", "--pid", cpus, &own_thread()]);
}

fn own_thread() -> String {
    let own = fs::read_link("/proc/thread-self").expect("a thread has its directory");
    own.file_name().expect("which is named").to_str().expect("by a number").to_owned()
}

fn run(program: &str, options: &[&str]) {
    let output = Command::new(program).args(options).output().expect("it starts");
    assert!(output.status.success(), "{program} {options:?}: {output:?}");
}

//! Who runs where and first: the node has the last CPU for itself, the thread that measures comes first on the others,
//! and the node's other clients run where nobody else wants to. What is measured then is how the node shares its
//! core, and not how the kernel shares it with clients.
//!
//! The node isn't in the real-time class: under it Linux 6.12 and later give a starved machine 50 ms of each second at a
//! time, and what completes the log's writes starves, too.

use std::fs;
use std::process::Command;

/// Starts a node on the last CPU; the calling thread, and those that it starts later, run on the others before all else.
pub(crate) fn start_apart<T>(start: impl FnOnce() -> T) -> T {
    let cpus = allowed_cpus();
    let (last, others) = cpus.split_last().expect("a thread has a CPU");
    assert!(!others.is_empty(), "the node and its clients need a CPU each");
    stay_on(last);
    let node = start();
    stay_on(&others.join(","));
    run("chrt", &["--fifo", "--pid", "10", &own_thread()]);
    node
}

/// The calling thread after all others.
pub(crate) fn come_last() {
    run("chrt", &["--idle", "--pid", "0", &own_thread()]);
}

/// The CPUs that the calling thread may run on, each by its number.
fn allowed_cpus() -> Vec<String> {
    let status = fs::read_to_string("/proc/thread-self/status").expect("a thread has a status");
    let list =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("with its CPUs");
    let numbers = list.trim().split(',').flat_map(|range| {
        let number = |text: &str| text.parse::<usize>().expect("a CPU's number");
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        number(first)..=number(last)
    });
    numbers.map(|number| number.to_string()).collect()
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

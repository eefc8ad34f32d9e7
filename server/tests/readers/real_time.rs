//! The kernel's real-time class for the node and for the thread that measures it, before the clients: what
//! is measured then is how the node shares its cores, and not how the kernel shares them with its clients.

use std::fs;
use std::process::Command;

/// In µs of each second that real-time threads may run; -1 is all of it.
const LIMIT_FILE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The node before its clients, and the calling thread before the node.
pub fn prefer(node: u32) {
    let limit = fs::read_to_string(LIMIT_FILE).expect("the kernel tells its limit");
    assert_eq!(
        limit.trim(),
        "-1",
        "the kernel stops real-time threads: sysctl kernel.sched_rt_runtime_us=-1"
    );
    let own = fs::read_link("/proc/thread-self").expect("a thread has its directory");
    let own = own.file_name().expect("which is named").to_str().expect("by a number");
    change_class(&["--all-tasks", "--fifo", "--pid", "10", &node.to_string()]);
    change_class(&["--fifo", "--pid", "20", own]);
}

fn change_class(options: &[&str]) {
    let status = Command::new("chrt").args(options).status().expect("chrt starts");
    assert!(status.success(), "chrt {options:?}: {status}");
}

//! Who runs first: the thread that measures before the node, and the node before its other clients, which run where
//! nobody else wants to. What is measured then is how the node shares its cores, and not how the kernel shares
//! them with its clients. The real-time class doesn't do: under it Linux 6.12 and later give a starved machine 50 ms of
//! each second at a time, and what completes the log's writes starves, too.

use std::fs;
use std::process::Command;

/// The node before its clients, and the calling thread before the node.
pub fn prefer(node: u32) {
    let threads = fs::read_dir(format!("/proc/{node}/task")).expect("the node runs");
    for thread in threads {
        let thread = thread.expect("threads are listed").file_name();
        run("renice", &["-n", "-10", "-p", thread.to_str().expect("a number")]);
    }
    run("renice", &["-n", "-20", "-p", &own_thread()]);
}

/// The calling thread after all others.
pub fn come_last() {
    run("chrt", &["--idle", "--pid", "0", &own_thread()]);
}

fn own_thread() -> String {
    let own = fs::read_link("/proc/thread-self").expect("a thread has its directory");
    own.file_name().expect("which is named").to_str().expect("by a number").to_owned()
}

fn run(program: &str, options: &[&str]) {
    let output = Command::new(program).args(options).output().expect("it starts");
    assert!(output.status.success(), "{program} {options:?}: {output:?}");
}

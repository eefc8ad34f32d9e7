//! `silverctl` as a user runs it, against a whole node in this process.

mod import;
mod loading;
mod prometheus;
mod queries;
mod reading;
mod usage;
mod writing;

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use silverback_node_test_support::Node;
use silverback_test_support::now_ms;

/// How a run of `silverctl` ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn command(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silverctl"));
    command.args(["--address", address]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn address(node: &Node) -> String {
    format!("http://{}", node.address)
}

fn start(node: &Node, arguments: &[&str]) -> Child {
    command(&address(node), arguments).spawn().unwrap()
}

fn run(node: &Node, arguments: &[&str], input: &str) -> Ended {
    let mut child = start(node, arguments);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[track_caller]
fn check(ended: &Ended, code: i32, out: &str, err: &str) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(ended.out.contains(out) && ended.err.contains(err), "{out:?} and {err:?} in {ended:?}");
}

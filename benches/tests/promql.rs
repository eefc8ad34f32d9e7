//! The comparison of PromQL as a program: short, on the node alone.

use std::path::Path;
use std::process::Command;

use silverback_benches::promql::expressions::ALL;
use silverback_test_support::Scratch;

const BENCH: &str = env!("CARGO_BIN_EXE_silverback-bench");

#[test]
fn all_expressions_have_answers() {
    let node = Path::new(BENCH).with_file_name("silverback");
    if !node.is_file() {
        return eprintln!("no node was built with this: nothing to ask");
    }
    let scratch = Scratch::new();
    let mut command = Command::new(BENCH);
    command.args(["promql", "--small", "--sides=silverback", "--disk"]).arg(scratch.path());
    let output = command.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{errors}");
    let rows = text.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, ALL.len(), "{text}");
    assert!(text.contains("ten panels at once"), "{text}");
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

//! The profile as a program: it says what it lacks, and measures where it lacks nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use silverback_test_support::Scratch;

const BENCH: &str = env!("CARGO_BIN_EXE_silverback-bench");

/// A profile in a directory of its own, with so much of the path.
fn profile(path: Option<&Path>, words: &[&str]) -> Output {
    let scratch = Scratch::new();
    let mut command = Command::new(BENCH);
    command.arg("profile").args(words).arg("--disk").arg(scratch.path());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let output = command.output().expect("the program");
    assert_eq!(fs::read_dir(scratch.path()).expect("a directory").count(), 0, "nothing is left");
    output
}

fn check_refused(path: Option<&Path>, words: &[&str], why: &str) {
    let output = profile(path, words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && errors.contains(why), "{}: {errors}", output.status);
    assert!(output.stdout.is_empty());
}

/// The node, where this package wasn't built alone.
fn node() -> Option<PathBuf> {
    Some(Path::new(BENCH).with_file_name("silverback")).filter(|path| path.is_file())
}

#[test]
fn without_perf_it_says_so_and_measures_nothing() {
    let empty = Scratch::new();
    check_refused(Some(empty.path()), &["--silverback=/bin/true"], "perf isn't installed");
}

#[test]
fn a_perf_that_may_not_sample_is_told_with_its_words() {
    let scratch = Scratch::new();
    let perf = scratch.path().join("perf");
    fs::write(&perf, "#!/bin/sh\ntest \"$1\" = --version || { echo 'paranoid as ever' >&2; exit 255; }\n")
        .expect("a file");
    fs::set_permissions(&perf, fs::Permissions::from_mode(0o755)).expect("a program");
    check_refused(Some(scratch.path()), &["--silverback=/bin/true"], "paranoid as ever");
}

#[test]
fn a_case_that_nobody_knows_is_refused_with_those_that_are_known() {
    check_refused(None, &["--only=steady-7"], "one of steady-1, ");
}

#[test]
fn a_case_is_a_table_of_both_sides() {
    let Some(node) = node() else { return };
    let words = ["--small", "--only=steady-1", "--symbols", "--silverback", node.to_str().expect("a path")];
    let output = profile(None, &words);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(2) && errors.contains("perf") {
        // It isn't here, or may not sample.
        return;
    }
    assert!(output.status.success(), "{errors}");
    assert!(text.contains("\n| | silverback | contender |\n"), "{text}");
    assert!(text.contains("\n| **all** | "), "{text}");
    assert!(text.contains("\n| silverback | | |\n"), "{text}");
}

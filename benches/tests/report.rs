//! The report as a program: it measures real servers, prints what it measured, and refuses what would be written down
//! wrongly.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use silverback_benches::report::loads::{Load, Size, all};
use silverback_test_support::Scratch;

const BENCH: &str = env!("CARGO_BIN_EXE_silverback-bench");

fn report(words: &[&str]) -> Output {
    report_in(env!("CARGO_MANIFEST_DIR").as_ref(), words)
}

fn report_in(directory: &Path, words: &[&str]) -> Output {
    Command::new(BENCH).arg("report").args(words).current_dir(directory).output().unwrap()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn check_refused(words: &[&str], why: &str) {
    let output = report(words);
    let (_, errors) = said(&output);
    assert!(!output.status.success() && errors.contains(why), "{words:?}: {errors}");
}

/// A file that figures depend on.
const CODE: &str = "Cargo.toml";

/// A repository with that file alone: whoever works on this one may do so while it is tested.
fn repository() -> Scratch {
    let scratch = Scratch::new();
    std::fs::write(scratch.join(CODE), "# before").unwrap();
    for words in [&["init", "--quiet"][..], &["add", CODE], &["commit", "--quiet", "-m", "before"]] {
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let git = Command::new("git").arg("-C").arg(scratch.path()).args(who).args(words).status().unwrap();
        assert!(git.success(), "{words:?}");
    }
    scratch
}

/// The node, where this package wasn't built alone.
fn node() -> Option<PathBuf> {
    Some(Path::new(BENCH).with_file_name("silverback")).filter(|path| path.is_file())
}

#[test]
fn another_build_gets_every_load_of_the_summary_that_has_no_late_samples() {
    let loads = all(Size::Full);
    let has_former =
        |load: &&Load| loads.iter().any(|other| other.name.strip_prefix("former-") == Some(load.name));
    let is_of_summary = |load: &&Load| load.section == "writes" && load.sides.len() > 1;
    let without = loads.iter().filter(|load| is_of_summary(load) && !has_former(load));
    assert_eq!(without.map(|load| load.name).collect::<Vec<_>>(), ["backlog", "again"]);
}

#[test]
fn a_load_is_measured_on_the_node_and_beside_it() {
    let scratch = Scratch::new();
    let disk = scratch.path().to_str().unwrap();
    let node = node();
    let sides = if node.is_some() { "silverback,contender" } else { "contender" };
    let path = node.unwrap_or_else(|| "/bin/true".into());
    let output = report(&[
        "--small",
        "--only=steady-1",
        "--rounds=2",
        "--disk",
        disk,
        "--sides",
        sides,
        "--silverback",
        path.to_str().unwrap(),
    ]);
    let (text, errors) = said(&output);
    assert!(output.status.success(), "{errors}");
    assert!(text.contains("## writes") && text.contains("| contender | "), "{text}");
    if sides.contains("silverback") {
        assert!(
            text.contains("| silverback | ") && text.contains("steady-1, samples a CPU second"),
            "{text}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_ratio_that_falls_fails_after_a_second_look() {
    let (Some(node), scratch) = (node(), Scratch::new()) else {
        return eprintln!("no node was built with this: nothing to compare");
    };
    let ratios = scratch.join("ratios.json");
    let kept = r#"{"steady-1": {"ratios": [
        {"machine": "a", "least": 1000.0, "runs": [1000.0], "rounds": 5, "commit": "x"},
        {"machine": "b", "least": 2000.0, "runs": [2000.0], "rounds": 5, "commit": "x"}]}}"#;
    std::fs::write(&ratios, kept).unwrap();
    let words = ["--short", "--only=steady-1", "--rounds=1", "--silverback", node.to_str().unwrap()];
    let places = ["--disk", scratch.path().to_str().unwrap(), "--ratios", ratios.to_str().unwrap()];
    let output = report(&[&words[..], &places].concat());
    let (text, errors) = said(&output);
    assert!(!output.status.success(), "{errors}");
    assert!(text.contains("once more:") && text.matches("FALLEN from 1000.000").count() == 2, "{text}");
}

/// Ratios that were kept of one load.
const KEPT: &str = r#"{"batch-100": {"ratios": [
    {"machine": "EPYC", "least": 2.0, "runs": [2.0, 2.1, 2.2], "rounds": 5, "commit": "abc"}]}}"#;

#[test]
fn a_load_that_fails_is_named_and_not_kept_which_is_a_failure() {
    let scratch = repository();
    let ratios = scratch.join("ratios.json");
    std::fs::write(&ratios, KEPT).unwrap();
    let words = ["--short", "--keep", "--only=steady-1", "--rounds=1", "--silverback=/bin/false"];
    let places = ["--disk", scratch.path().to_str().unwrap(), "--ratios", ratios.to_str().unwrap()];
    let output = report_in(scratch.path(), &[&words[..], &places].concat());
    let (_, errors) = said(&output);
    assert!(!output.status.success(), "{errors}");
    assert!(errors.contains("steady-1: could not be measured, so nothing new is kept"), "{errors}");
    let kept = std::fs::read_to_string(&ratios).unwrap();
    assert!(kept.contains("batch-100") && !kept.contains("steady-1"), "{kept}");
}

#[test]
fn ratios_of_code_that_changed_as_it_was_measured_are_not_kept() {
    let scratch = repository();
    let [code, node, ratios] = [CODE, "node", "ratios.json"].map(|name| scratch.join(name));
    std::fs::write(&ratios, KEPT).unwrap();
    // Whoever works on the code does so while the node runs.
    std::fs::write(&node, format!("#!/bin/sh\necho >> {}\nexit 1\n", code.display())).unwrap();
    std::fs::set_permissions(&node, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["--short", "--keep", "--only=steady-1", "--rounds=1", "--disk=.", "--ratios=ratios.json"];
    let node = ["--silverback", node.to_str().unwrap()];
    let output = report_in(scratch.path(), &[&words[..], &node].concat());
    let (_, errors) = said(&output);
    assert!(!output.status.success(), "{errors}");
    assert!(errors.contains(" with changes now: the figures are of neither"), "{errors}");
    assert_eq!(std::fs::read_to_string(&ratios).unwrap(), KEPT);
}

#[test]
fn what_would_be_written_down_wrongly_is_refused_before_anything_is_measured() {
    let document = "../docs/performance.md";
    check_refused(&["--out", document, "--rounds=2"], "too few to be written down");
    check_refused(&["--out", document, "--sides=silverback"], "every side that is here");
    check_refused(&["--only=steady-3"], "one of floor, steady-1");
    check_refused(&["--sides=mimir"], "mimir: not one of silverback");
    check_refused(&["--rounds=0"], "0 is not in 1..");
    check_refused(&["--silverback=/nowhere/silverback"], "/nowhere/silverback: no such program");
    check_refused(
        &["--prometheus=/nowhere/prometheus", "--silverback=/bin/true"],
        "check the path that was given",
    );
    check_refused(&["--keep"], "--short");
    check_refused(&["--check", "--mark"], "cannot be used with");
}

#[test]
fn a_document_without_places_is_told() {
    let scratch = Scratch::new();
    let document = scratch.join("a.md");
    std::fs::write(&document, "<!-- report:begin writes -->\n").unwrap();
    check_refused(
        &["--check", "--out", document.to_str().unwrap()],
        "line 1: `<!-- report:begin writes -->`",
    );
}

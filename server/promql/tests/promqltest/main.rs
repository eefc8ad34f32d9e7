//! Runs Prometheus' own test scripts, which aren't part of this project: with `PROMQLTEST_DATA` set to its folder
//! `promql/promqltest/testdata`, each script of it, and the number of its `eval`s that pass is printed; otherwise the
//! scripts beside this file. `PROMQLTEST_SHOW=1` shows each failure.

mod compare;
mod run;
mod script;
mod series;
mod store;

use std::fs;
use std::path::{Path, PathBuf};

/// Evals that are known to fail in a script of Prometheus' newest release, and why.
const KNOWN_FAILURES: [(&str, usize, &str); 3] = [
    (
        "aggregators.test",
        1,
        "a text that isn't UTF-8 is refused when it is read, not when it is used as a label",
    ),
    ("info.test", 52, "info() isn't evaluated"),
    ("start_timestamps.test", 23, "samples don't know when their series began"),
];

#[test]
fn each_eval_of_the_scripts_gives_what_it_says() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promqltest");
    let is_foreign = std::env::var_os("PROMQLTEST_DATA");
    let folder = is_foreign.as_ref().map_or(own, PathBuf::from);
    let shows = std::env::var_os("PROMQLTEST_SHOW").is_some();
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("a folder of scripts")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "test"));
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", folder.display());
    let (mut passed, mut all, mut unexpected) = (0, 0, 0);
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let failures = run::run(&fs::read_to_string(&path).expect("a script"));
        println!("{name}: {} of {} evals pass", failures.evals - failures.failed.len(), failures.evals);
        for failure in failures.failed.iter().filter(|_| shows) {
            println!("  {failure}");
        }
        passed += failures.evals - failures.failed.len();
        all += failures.evals;
        let known =
            KNOWN_FAILURES.iter().find(|(known, ..)| *known == name).map_or(0, |(_, count, _)| *count);
        unexpected += failures.failed.len().saturating_sub(known);
    }
    println!("all: {passed} of {all} evals pass");
    assert_eq!(unexpected, 0, "evals that give something else; PROMQLTEST_SHOW=1 shows them");
}

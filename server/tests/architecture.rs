//! The tree itself, checked where the compiler can't: what crates may stand on, which module may use which, how long
//! a file may be, what lies at the top.
//!
//! Every check is a function of plain text, and each has a test with text that must fail it: a
//! check that finds nothing could as well look at nothing.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The crates, each with those of the workspace that it may stand on. The compiler keeps what a manifest says;
/// this keeps the manifests.
const CRATES: [(&str, &[&str]); 14] = [
    ("proto", &[]),
    ("server/test-support", &[]),
    ("server/model", &[]),
    ("server/block", &["silverback-model"]),
    ("server/host", &["silverback-model"]),
    ("server/runtime", &["silverback-host", "silverback-model"]),
    ("server/storage", &["silverback-host", "silverback-model"]),
    ("server/promql", &["silverback-model"]),
    ("server/shipper", &["silverback-block", "silverback-host", "silverback-model"]),
    ("benches/load", &[]),
    // The load generator for silverctl alone: the library is built without it.
    ("client", &["silverback-block", "silverback-load", "silverback-model", "silverback-proto"]),
    (
        "server",
        &[
            "silverback-block",
            "silverback-host",
            "silverback-model",
            "silverback-promql",
            "silverback-proto",
            "silverback-runtime",
            "silverback-shipper",
            "silverback-storage",
        ],
    ),
    // Tests alone, which no other crate sees.
    ("server/simulation", &[]),
    // Runs the node, so it stands on it; of the others, no manifest but those of tests names it.
    (
        "server/node-test-support",
        &[
            "silverback",
            "silverback-block",
            "silverback-model",
            "silverback-proto",
            "silverback-runtime",
            "silverback-test-support",
        ],
    ),
];

/// The one crate that may stand on glommio.
const RUNTIME: &str = "server/runtime";

/// A crate's modules in reading order: each may use itself and those before it.
const MODULES: [(&str, &[&str]); 2] = [
    ("server/storage", &["wal", "message", "cell", "shard"]),
    (
        "server",
        &[
            "config",
            "logging",
            "access",
            "placement",
            "routing",
            "migration",
            "rebalance",
            "blocks",
            "api",
            "node",
        ],
    ),
];

/// What may lie at the top, besides what begins with a dot.
const TOP_LEVEL: [&str; 15] = [
    "Cargo.toml",
    "Cargo.lock",
    "clippy.toml",
    "deny.toml",
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "server",
    "proto",
    "client",
    "deploy",
    "benches",
];

/// What a build or a run leaves there; git ignores it.
const LEFT_BY_RUNS: [&str; 2] = ["target", "silverback-data"];

/// Where a file may name another by its path: loom builds the node's own files with its own atomics, and the fuzz
/// targets are a workspace of their own. What tests share is in crates.
const BY_PATH: [&str; 2] = ["server/tests/loom/", "server/fuzz/"];

const FILE_LINES_MAX: usize = 600;

const TEXT_EXTENSIONS: [&str; 12] =
    ["rs", "toml", "md", "yaml", "yml", "html", "json", "proto", "sh", "py", "js", "lock"];

/// Words that say how the code came to be, or that it isn't done. In two pieces each, so that
/// this file isn't found by its own check.
const UNFINISHED_WORDS: [&str; 8] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("unimple", "mented!("),
    concat!("to", "do!("),
    concat!("issue", " #"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

// --- the checks ---

/// Modules that `module` uses though they stand below it in `order`.
fn uses_below(order: &[&str], module: &str, source: &str) -> Vec<String> {
    let place = |name: &str| order.iter().position(|known| *known == name);
    let Some(own) = place(module) else { return vec![format!("{module} has no place in the order")] };
    let used = used_modules(&code_of(source));
    used.into_iter().filter(|name| place(name).is_some_and(|used| used > own)).collect()
}

/// What a manifest's table of dependencies names; those of tests may be any.
fn dependencies(manifest: &str) -> Vec<&str> {
    let table = manifest.split("\n[").find(|table| table.starts_with("dependencies]"));
    let lines = table.into_iter().flat_map(|table| table.lines().skip(1));
    lines.filter_map(|line| line.split([' ', '.', '=']).next()).filter(|name| !name.is_empty()).collect()
}

/// The names after `crate::`, in `crate::{a, b::{c}}` too.
fn used_modules(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, path) in code.match_indices("crate::") {
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_members(group)),
            None => names.push(first_word(rest)),
        }
    }
    names
}

/// The first words of a brace group's members, up to the brace that closes it.
fn group_members(group: &str) -> Vec<String> {
    let (mut depth, mut members, mut begins) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && !c.is_whitespace() => {
                members.push(first_word(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    members
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn has_module_doc(source: &str) -> bool {
    source.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.starts_with("//!"))
}

/// Whether a file makes another one its own module from elsewhere, so that it is compiled more than once.
fn takes_by_path(source: &str) -> bool {
    code_of(source).contains("#[path")
}

fn unfinished_words(text: &str) -> Vec<&'static str> {
    UNFINISHED_WORDS.into_iter().filter(|word| text.contains(word)).collect()
}

fn strangers_at_top<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let allowed =
        |name: &str| name.starts_with('.') || TOP_LEVEL.contains(&name) || LEFT_BY_RUNS.contains(&name);
    names.into_iter().filter(|name| !allowed(name)).collect()
}

/// Sources of packages in a lock file that aren't crates.io.
fn foreign_sources(lock: &str) -> Vec<&str> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    sources.map(|source| source.trim_matches('"')).filter(|source| *source != CRATES_IO).collect()
}

/// Codes of failures that a file names itself, of HTTP and of gRPC.
fn codes_named(source: &str) -> Vec<String> {
    let product = code_of(source);
    let product = product.split("#[cfg(test)]").next().unwrap_or_default();
    let failures = Regex::new(r"\bStatusCode::[A-Z_]+\b|\bCode::[A-Z]\w+|[^\w]Status::[a-z_]+\(").unwrap();
    let named = failures.find_iter(product).map(|found| found.as_str().trim().to_owned());
    // The last is given a code, and names none.
    let allowed = [
        "StatusCode::OK",
        "StatusCode::NO_CONTENT",
        "StatusCode::NOT_MODIFIED",
        "Status::with_error_details(",
    ];
    named.filter(|code| !allowed.contains(&code.as_str())).collect()
}

/// The source without its comments and without what stands in its strings.
fn code_of(source: &str) -> String {
    let pattern = concat!(
        r#"//[^\n]*|(?s:/\*.*?\*/)"#,       // comments
        r###"|r#"(?s:.*?)"#|r"[^"]*""###,   // raw strings
        r#"|b?"(?:[^"\\]|\\(?s:.))*""#,     // strings
        r#"|'(?:[^'\\\n]|\\[^\n]{1,8}?)'"#, // characters, but no lifetimes
    );
    Regex::new(pattern).unwrap().replace_all(source, "\"\"").into_owned()
}

// --- the tree ---

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All text files below `folder`, by their path from the root, with their text.
fn text_files(folder: &str) -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        // A part of the tree that isn't there yet has no faults.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir()
                && !["target", ".git"].contains(&name.as_str())
                && !LEFT_BY_RUNS.contains(&name.as_str())
            {
                folders.push(path);
            } else if is_text(&path) {
                let shown = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push((shown, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

fn is_text(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|e| TEXT_EXTENSIONS.contains(&e.to_str().unwrap()))
}

fn rust_files(folder: &str) -> Vec<(String, String)> {
    let files: Vec<_> = text_files(folder).into_iter().filter(|(path, _)| path.ends_with(".rs")).collect();
    assert!(!files.is_empty(), "no Rust file below {folder:?}");
    files
}

/// The module of the crate in `folder` that a file belongs to; `None` for `lib.rs` and the command, which use all.
fn module_of<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let inner = path.strip_prefix(folder)?.strip_prefix("/src/")?;
    let module = inner.split('/').next()?.trim_end_matches(".rs");
    let of_command = folder == "server" && module == "allocator";
    (!of_command && !["lib", "main"].contains(&module)).then_some(module)
}

fn assert_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

#[test]
fn a_crate_stands_only_on_those_below_it() {
    for (folder, allowed) in CRATES {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let named = dependencies(&manifest);
        let own = named.iter().filter(|name| name.starts_with("silverback"));
        let strangers: Vec<_> = own.filter(|name| !allowed.contains(name)).collect();
        assert!(strangers.is_empty(), "{folder} stands on {strangers:?}");
        assert_eq!(named.contains(&"glommio"), folder == RUNTIME, "{folder} and glommio");
    }
}

#[test]
fn a_module_uses_only_what_stands_above_it() {
    for (folder, order) in MODULES {
        let files = rust_files(&format!("{folder}/src"));
        let faults = files.iter().filter_map(|(path, source)| {
            let below = uses_below(order, module_of(folder, path)?, source);
            (!below.is_empty()).then(|| format!("{path} uses {}", below.join(", ")))
        });
        assert_none(faults.collect());
    }
}

#[test]
fn a_library_lists_its_modules_in_their_order() {
    for (folder, order) in MODULES {
        let library = fs::read_to_string(root().join(folder).join("src/lib.rs")).unwrap();
        let listed: Vec<_> = library.lines().filter_map(|line| line.strip_prefix("pub mod ")).collect();
        let listed: Vec<_> = listed.iter().map(|name| name.trim_end_matches(';')).collect();
        assert_eq!(listed, order, "{folder}");
    }
}

#[test]
fn one_file_says_how_a_failure_is_coded() {
    let api = "server/src/api";
    let faults = rust_files(api).into_iter().filter(|(path, _)| !path.ends_with("/response/cause.rs"));
    let faults = faults.filter_map(|(path, source)| {
        let codes = codes_named(&source);
        (!codes.is_empty()).then(|| format!("{path}: {}", codes.join(", ")))
    });
    assert_none(faults.collect());
}

#[test]
fn every_file_says_what_it_knows() {
    let files = rust_files("").into_iter();
    assert_none(files.filter(|(_, source)| !has_module_doc(source)).map(|(path, _)| path).collect());
}

#[test]
fn no_file_is_longer_than_a_reader_s_patience() {
    let files = rust_files("").into_iter().filter(|(path, _)| !path.contains("/fuzz/"));
    let long = files.filter(|(_, source)| source.lines().count() > FILE_LINES_MAX);
    assert_none(long.map(|(path, source)| format!("{path}: {} lines", source.lines().count())).collect());
}

#[test]
fn no_file_is_compiled_into_a_second_crate() {
    let files = rust_files("").into_iter();
    let files = files.filter(|(path, _)| !BY_PATH.iter().any(|folder| path.starts_with(folder)));
    assert_none(files.filter(|(_, source)| takes_by_path(source)).map(|(path, _)| path).collect());
}

#[test]
fn nothing_says_that_it_is_not_done() {
    let faults = text_files("").into_iter().filter_map(|(path, text)| {
        let words = unfinished_words(&text);
        (!words.is_empty()).then(|| format!("{path}: {}", words.join(", ")))
    });
    assert_none(faults.collect());
}

#[test]
fn the_top_holds_only_what_belongs_there() {
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = entries.map(|name| name.to_str().unwrap().to_owned()).collect();
    assert_eq!(strangers_at_top(names.iter().map(String::as_str)), [""; 0]);
}

#[test]
fn every_dependency_comes_from_crates_io() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    assert!(lock.contains(CRATES_IO));
    assert_eq!(foreign_sources(&lock), [""; 0]);
}

// --- the checks find what they look for ---

fn check_uses_below(module: &str, source: &str, expect: &[&str]) {
    let order = ["wal", "cell", "shard", "api", "node"];
    assert_eq!(uses_below(&order, module, source), expect, "{source:?}");
}

#[test]
fn a_use_of_what_stands_below_is_found_in_every_form() {
    check_uses_below("cell", "use crate::shard::Shard;", &["shard"]);
    check_uses_below("cell", "use crate::{wal::{Journal, node}, api::grpc};", &["api"]);
    check_uses_below("wal", "fn f() { crate::node::run() }", &["node"]);
    check_uses_below("stranger", "", &["stranger has no place in the order"]);
    check_uses_below("shard", "use crate::wal::Lsn; use crate::shard::Shard;", &[]);
    check_uses_below("cell", "//! See [`crate::shard`].\nlet s = \"crate::node\";", &[]);
}

#[test]
fn a_manifest_s_dependencies_are_those_of_its_own_table() {
    let manifest = "[package]\nname = \"a\"\n\n[dependencies]\nb.workspace = true\nc = { version = \"1\" }\n\n\
        [dev-dependencies]\nd.workspace = true\n";
    assert_eq!(dependencies(manifest), ["b", "c"]);
    assert_eq!(dependencies("[package]\nname = \"a\"\n"), [""; 0]);
}

#[test]
fn a_code_of_a_failure_is_found_in_every_form() {
    let source =
        "text(StatusCode::OK); Status::internal(why); // Code::Aborted\nx(Code::NotFound, StatusCode::GONE)";
    assert_eq!(codes_named(source), ["Status::internal(", "Code::NotFound", "StatusCode::GONE"]);
    assert!(codes_named("WriteStatus::new(cores); Cause::Invalid.status(why)").is_empty());
}

#[test]
fn a_file_without_a_doc_is_found() {
    assert!(has_module_doc("\n//! What it knows.\nuse a;"));
    assert!(!has_module_doc("// Not a doc.\n//! Too late."));
    assert!(!has_module_doc(""));
}

#[test]
fn a_module_from_elsewhere_is_found() {
    assert!(takes_by_path("#[path = \"../harness/mod.rs\"]\nmod harness;"));
    assert!(!takes_by_path("// #[path = \"../harness/mod.rs\"]\nmod harness;\nlet s = \"#[path\";"));
}

#[test]
fn each_unfinished_word_is_found() {
    for word in UNFINISHED_WORDS {
        assert_eq!(unfinished_words(&format!("// {word} later")), [word]);
    }
    assert!(unfinished_words("all done").is_empty());
}

#[test]
fn a_stranger_at_the_top_is_found() {
    assert_eq!(strangers_at_top(["Cargo.toml", ".ci", "notes.txt", "target"]), ["notes.txt"]);
}

#[test]
fn a_dependency_from_elsewhere_is_found() {
    let lock = format!("source = \"{CRATES_IO}\"\nsource = \"git+https://example.com/x\"\n");
    assert_eq!(foreign_sources(&lock), ["git+https://example.com/x"]);
}

#[test]
fn a_file_belongs_to_the_module_that_its_path_names() {
    assert_eq!(module_of("server", "server/src/api/ingest/remote_write/v2.rs"), Some("api"));
    assert_eq!(module_of("server/storage", "server/storage/src/wal.rs"), Some("wal"));
    assert_eq!(module_of("server", "server/src/main.rs"), None);
    assert_eq!(module_of("server", "benches/src/lib.rs"), None);
}

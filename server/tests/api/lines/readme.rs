//! The documents' commands for curl, run as they stand there against a node of their own.

use std::process::Command;

use regex::Regex;
use silverback_node_test_support::Node;

const README: &str = include_str!("../../../../README.md");
const API: &str = include_str!("../../../../docs/api.md");

/// The address that the documents' node listens on.
const TOLD: &str = "127.0.0.1:9009";

/// A document's text from a line on to another.
fn between<'a>(document: &'a str, begin: &str, end: &str) -> &'a str {
    let from = document.find(begin).unwrap_or_else(|| panic!("{begin} is not in the document"));
    let rest = &document[from..];
    &rest[..rest[begin.len()..].find(end).map_or(rest.len(), |at| at + begin.len())]
}

/// The blocks of a language in a text.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let parts = text.split("```").skip(1).step_by(2);
    parts.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// What the commands print.
fn run(node: &Node, commands: &str) -> String {
    let commands = commands.replace(TOLD, &node.address.to_string());
    let ran = Command::new("sh").args(["-e", "-c", &commands]).output().expect("a shell");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{commands}: {errors}");
    String::from_utf8(ran.stdout).expect("what is printed is text")
}

/// Without the times, which are those of each run.
fn timeless(text: &str) -> String {
    Regex::new(r#""timestamps":\[\d+\]"#).unwrap().replace_all(text.trim(), "\"timestamps\":[…]").into_owned()
}

#[test]
fn the_first_sample_is_written_and_read_by_curl_alone() {
    let text = between(README, "then write a first sample", "**What it keeps");
    let (commands, printed) = (blocks(text, "sh"), blocks(text, "json"));
    assert_eq!((commands.len(), printed.len()), (1, 1));
    assert!(commands[0].lines().all(|line| line.starts_with("curl ")), "{}", commands[0]);
    let node = Node::start(2);
    assert_eq!(timeless(&run(&node, commands[0])), timeless(printed[0]));
}

#[test]
fn scripts_and_devices_find_commands_that_work() {
    let text = between(API, "### From scripts and devices", "\n## ");
    let (commands, printed) = (blocks(text, "sh"), blocks(text, "json"));
    assert!(!commands.is_empty() && commands.len() == printed.len());
    let node = Node::start(2);
    for (commands, printed) in commands.iter().zip(printed) {
        let (mut out, mut expect) = (Vec::new(), Vec::new());
        out.extend(run(&node, commands).lines().map(timeless));
        expect.extend(printed.lines().map(timeless));
        assert_eq!(out, expect, "{commands}");
    }
}

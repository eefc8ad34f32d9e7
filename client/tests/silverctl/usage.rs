//! What is the same for every command: how it is called, and how it fails.

use super::*;

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

fn run_at(address: &str, arguments: &[&str]) -> Ended {
    command(address, arguments).output().unwrap().into()
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [&["query"][..], &["query", "{"], &["query", "up", "--start", "soon"], &["nothing"], &[]]
    {
        let ended = run_at(NOWHERE, arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
    }
    check(&run_at(NOWHERE, &["query", "{"]), 2, "", "expected a label name, found the end at position 2");
    check(&run_at(NOWHERE, &["labels", "--timeout", "5"]), 2, "", "a duration like 30s");
}

#[test]
fn a_node_that_is_not_there_is_told_once() {
    for arguments in [&["labels"][..], &["query", "up"], &["write"]] {
        let ended = run_at(NOWHERE, arguments);
        check(&ended, 1, "", "error: can't connect to http://127.0.0.1:1: ");
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}

#[test]
fn an_address_that_is_none_is_wrong_usage() {
    for arguments in [
        &["labels"][..],
        &["query", "up"],
        &["write"],
        &["top", "--once"],
        &["load"],
        &["refusals"],
        &["queries"],
    ] {
        let ended = run_at("nonsense", arguments);
        check(&ended, 2, "", "error: \"nonsense\" isn't an address; --address is http://HOST:PORT");
        check(&ended, 2, "", "perhaps http://nonsense");
    }
    check(&run_at("http://node:port", &["labels"]), 2, "", "isn't an address");
    check(&run_at(NOWHERE, &["load", "--url", "nonsense"]), 2, "", "--url is http://HOST:PORT");
    check(&run_at(NOWHERE, &["labels", "--header", "a b=c"]), 2, "", "the header \"a b\"");
}

#[test]
fn every_shell_has_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = run_at(NOWHERE, &["completions", shell]);
        check(&ended, 0, "silverctl", "");
        assert!(ended.out.contains("query") && ended.out.contains("compression"), "{shell}");
    }
}

#[test]
fn every_command_has_its_page_in_the_manual() {
    let dir = tempfile::tempdir().unwrap();
    let ended = run_at(NOWHERE, &["man", dir.path().to_str().unwrap()]);
    check(&ended, 0, "", "");
    let page = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(page("silverctl.1").contains("silverctl\\-import(1)"));
    assert!(page("silverctl-queries-cancel.1").contains(".TH silverctl-queries-cancel 1"));
    assert!(page("silverctl-shard-drain.1").contains(".TH silverctl-shard-drain 1"));
    let ended = run_at(NOWHERE, &["man", "/nowhere"]);
    check(&ended, 1, "", "error: can't write the manual into /nowhere");
}

//! The page to ask on: what is served, and with which headers. What it does in a browser is tested in `server/tests/page`.

use silverback_node_test_support::Node;

const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");

#[test]
fn the_page_is_served_with_a_policy_that_lets_it_load_its_own_files_alone() {
    let node = Node::start(1);
    let page = node.ask("GET", "/query?g0.expr=up", &[HTML], b"");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!((page.header("cache-control"), page.header("vary")), ("no-cache", "Accept"));
    let text = page.text();
    let loaded: Vec<_> = text.split('"').filter(|part| part.starts_with("query/")).collect();
    assert!(loaded.len() >= 3, "{text}");
    for path in loaded {
        let file = node.get(&format!("/{path}"));
        let expect = if path.ends_with(".css") { "text/css" } else { "text/javascript" };
        assert_eq!((file.status, file.header("x-content-type-options")), (200, "nosniff"), "{path}");
        assert_eq!(file.header("content-type"), format!("{expect}; charset=utf-8"), "{path}");
    }
}

#[test]
fn a_file_that_the_browser_has_is_not_sent_again() {
    let node = Node::start(1);
    let first = node.get("/query/main.js");
    assert!(!first.text().is_empty());
    let tag = first.header("etag").to_owned();
    let again = node.ask("GET", "/query/main.js", &[("if-none-match", &tag)], b"");
    assert_eq!((again.status, again.text().as_str(), again.header("etag")), (304, "", tag.as_str()));
    assert_eq!(node.ask("GET", "/query/main.js", &[("if-none-match", "\"0\"")], b"").status, 200);
}

#[test]
fn other_files_and_other_methods_are_refused() {
    let node = Node::start(1);
    for path in ["/query/", "/query/page.html", "/query/../main.js", "/query/mod.rs", "/query/x/main.js"] {
        assert_eq!(node.ask("GET", path, &[HTML], b"").status, 404, "{path}");
    }
    assert_eq!(node.post("/query/main.js", &[], b"").status, 405);
    assert_eq!(node.ask("DELETE", "/query", &[HTML], b"").status, 405);
}

#[test]
fn a_sender_that_asks_for_its_database_gets_no_page() {
    let node = Node::start(1);
    let asked = node.ask("GET", "/query?q=CREATE+DATABASE+a", &[HTML], b"");
    assert_eq!((asked.status, asked.header("content-type")), (200, "application/json"));
    assert_eq!(node.get("/query").header("content-type"), "application/json");
}

//! A node with users, tokens and certificates in a directory of its own, and what asks it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use silverback::config::{AdminAccess, Config};
use silverback_node_test_support::Node;
use silverback_test_support::Scratch;
use silverback_test_support::http::{Answer, read_answer, request};

/// One token for each scope, named and written like it.
pub(crate) const SCOPES: [&str; 4] = ["write", "read", "admin", "metrics"];

/// The token that has a scope.
pub(crate) fn token_of(scope: &str) -> String {
    format!("the-token-that-may-{scope}")
}

/// A `Bearer` header with it.
pub(crate) fn bearer(scope: &str) -> String {
    format!("Bearer {}", token_of(scope))
}

/// A `Basic` header.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}")))
}

/// A node, and the directory that its files are in.
pub(crate) struct Scene {
    pub(crate) node: Node,
    pub(crate) dir: Scratch,
}

impl Scene {
    /// A node whose web configuration file has this text, and whose access file has a token for each scope.
    pub(crate) fn start(web: &str) -> Self {
        Self::start_with(web, |_, _| {})
    }

    /// The same; files may be added, and its configuration changed.
    pub(crate) fn start_with(web: &str, change: impl FnOnce(&Scratch, &mut Config)) -> Self {
        let dir = Scratch::new();
        let entry = |scope: &&str| {
            write(&dir, &format!("{scope}.token"), &token_of(scope));
            format!("  - {{name: for-{scope}, token_file: {scope}.token, scopes: [{scope}]}}\n")
        };
        let access = format!("tokens:\n{}", SCOPES.iter().map(entry).collect::<String>());
        write(&dir, "access.yml", &access);
        write(&dir, "web.yml", web);
        let node = Node::start_with(1, |config| {
            config.web_config_file = Some(dir.join("web.yml"));
            config.access_file = Some(dir.join("access.yml"));
            config.probe_listen = vec!["127.0.0.1:0".parse().unwrap()];
            config.admin_api = AdminAccess::Full;
            change(&dir, config);
        });
        Self { node, dir }
    }

    /// The answer to a request with these credentials.
    pub(crate) fn ask(&self, method: &str, path: &str, authorization: Option<&str>) -> Answer {
        let headers: Vec<_> = authorization.map(|value| ("authorization", value)).into_iter().collect();
        self.node.ask(method, path, &headers, b"")
    }

    /// A metric's value, all its series together.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let text = self.ask("GET", "/metrics", Some(&bearer("metrics"))).text();
        sum(&text, series)
    }
}

/// The sum of a metric's series.
pub(crate) fn sum(metrics: &str, series: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(series));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Writes a file of the directory.
pub(crate) fn write(dir: &Scratch, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).unwrap();
}

/// The answer to a GET on a stream of any kind, which lives on.
pub(crate) fn get_on(
    stream: &mut BufReader<impl std::io::Read + Write>,
    path: &str,
    authorization: &str,
) -> Answer {
    stream.get_mut().write_all(&request("GET", path, &[("authorization", authorization)], b"")).unwrap();
    read_answer(stream)
}

/// What a connection is answered that sends this; empty where it is closed silently.
pub(crate) fn answer_to(node: &Node, bytes: &[u8]) -> Vec<u8> {
    let mut stream: TcpStream = node.connect();
    stream.write_all(bytes).unwrap();
    let mut reader = BufReader::new(stream);
    let mut answer = Vec::new();
    while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
        answer.extend_from_slice(chunk);
        let count = chunk.len();
        reader.consume(count);
    }
    answer
}

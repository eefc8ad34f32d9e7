//! `silverctl import` of what a real Prometheus has written, while it runs and after it has ended.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use silverback_test_support::{Process, free_port};

use super::*;

/// A Prometheus that scrapes nothing and takes remote write.
struct Prometheus {
    process: Process,
    port: u16,
}

impl Prometheus {
    fn start(dir: &Path) -> Self {
        let config = dir.join("prometheus.yml");
        std::fs::write(&config, "global: {scrape_interval: 1h}\n").unwrap();
        let port = free_port();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--web.enable-remote-write-receiver", "--log.level=warn"]);
        let mut process = Process::start(command, dir.join("prometheus.log"));
        // It listens before it has replayed its log, and refuses what is written until then.
        process.wait_until("readiness", |_| is_ready(port).then_some(()));
        Self { process, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/api/v1/write", self.port)
    }

    /// Ends it as a service manager does.
    fn end(mut self) {
        self.process.signal(15);
        assert!(self.process.wait().success());
    }
}

/// The same samples to a Prometheus and to a node.
fn load_both(prometheus: &Prometheus, node: &Node, start_ms: i64) {
    let start = format!("--start={start_ms}");
    let fleet = [
        "load",
        "--closed",
        "--rounds=40",
        "--targets=6",
        "--series-per-target=200",
        "--connections=2",
        &start,
    ];
    let url = prometheus.url();
    for more in [&["--protocol=rw1", "--url", &url][..], &["--protocol=rw2"]] {
        check(&run(node, &[&fleet, more].concat(), ""), 0, "samples   acknowledged          48,000", "");
    }
}

fn all(node: &Node) -> String {
    let range = ["--start", "-1d", "--output", "json"];
    run(node, &[&["query", "{job=\"node\"}"], &range[..]].concat(), "").out
}

#[test]
#[ignore = "needs prometheus (Debian: prometheus)"]
fn the_head_of_a_prometheus_is_imported_whole_while_it_runs_and_after() {
    let (imported, direct, dir) = (Node::start(2), Node::start(1), tempfile::tempdir().unwrap());
    let data = dir.path().join("data");
    let import = |samples: &str| {
        let ended = run(&imported, &["import", data.to_str().unwrap()], "");
        check(&ended, 0, "the head and 1,200 series of it read\n", "");
        check(&ended, 0, &format!("\n{samples} samples written, on disk and synced"), "");
        assert_eq!(all(&imported), all(&direct));
    };
    let begins_ms = now_ms() - 50 * 60_000;
    let prometheus = Prometheus::start(dir.path());
    load_both(&prometheus, &direct, begins_ms);
    import("48,000");
    // A restart begins another segment of its log.
    prometheus.end();
    import("48,000");
    let prometheus = Prometheus::start(dir.path());
    load_both(&prometheus, &direct, begins_ms + 15 * 60_000);
    import("96,000");
}

/// Whether a Prometheus says that it takes requests.
fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.0 200"))
}

//! How many system calls a small request costs the node from the socket to the disk and back, counted by strace. What
//! the runtime does by itself meanwhile counts, too.
//!
//! `cargo test --test system_calls -- --ignored --nocapture` runs it where strace is installed, and prints them by name.

use std::fs;
use std::process::Command;
use std::thread;

use silverback::api::ingest::remote_write::Version;
use silverback_model::clock::Clock;
use silverback_node_test_support::request::{Series, body, headers};
use silverback_test_support::{Binary, Process, Scratch};

const REQUESTS: usize = 4_000;

/// The system calls of all of a process' threads while `work` runs: how many, and their names.
fn system_calls(node: &Binary, work: impl FnOnce()) -> Vec<(usize, String)> {
    let scratch = Scratch::new();
    let counts = scratch.join("counts");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-U", "calls,name", "-p", &node.id().to_string(), "-o"]).arg(&counts);
    let mut strace = Process::start(command, scratch.join("log"));
    strace.wait_until("strace that is attached", |strace| strace.told().contains("attached").then_some(()));
    work();
    strace.signal(2);
    strace.wait();
    let row = |line: &str| {
        let (calls, name) = line.trim().split_once(' ')?;
        Some((calls.parse().ok()?, name.trim().to_owned()))
    };
    fs::read_to_string(&counts).unwrap().lines().filter_map(row).filter(|(_, name)| name != "total").collect()
}

/// System calls of one request, on average.
struct OfARequest {
    all: f64,
    receive: f64,
    send: f64,
}

/// Sends requests of one sample each over so many connections, one after the other on each.
fn calls_of_a_request(connections: usize) -> OfARequest {
    let node = Binary::start(env!("CARGO_BIN_EXE_silverback"), &["--shards", "1"]);
    let now_ms = Clock::System.now_ms();
    let send = |connection: usize| {
        let mut kept = node.keep();
        for i in 0..REQUESTS / connections {
            let series = Series::new([("__name__", "asked"), ("connection", &connection.to_string())]);
            let body = body(Version::V1, &[series.sample(now_ms + i as i64, 1.0)]);
            let answer = kept.ask("POST", "/api/v1/write", &headers(Version::V1), &body);
            assert_eq!(answer.status, 204, "{}", answer.text());
        }
    };
    let calls = system_calls(&node, || {
        thread::scope(|scope| {
            (0..connections).for_each(|connection| {
                scope.spawn(move || send(connection));
            });
        });
    });
    let of_a_request = |is_meant: &dyn Fn(&str) -> bool| {
        let meant = calls.iter().filter(|(_, name)| is_meant(name));
        meant.map(|(calls, _)| calls).sum::<usize>() as f64 / REQUESTS as f64
    };
    for (_, name) in &calls {
        println!("{connections} connections: {:.2} {name} a request", of_a_request(&|called| called == name));
    }
    OfARequest {
        all: of_a_request(&|_| true),
        receive: of_a_request(&|name| name == "recvfrom"),
        send: of_a_request(&|name| name == "sendto"),
    }
}

#[test]
#[ignore = "takes strace"]
fn a_request_costs_few_system_calls_and_fewer_where_many_wait() {
    let (alone, beside) = (calls_of_a_request(1), calls_of_a_request(32));
    println!("system calls of a request: {:.1} over one connection, {:.1} over 32", alone.all, beside.all);
    // The answer is one call; the request another, and one that finds nothing more. The rest is the ring's, which is entered
    // and left for each commit: some ten times alone, more where the machine does other things meanwhile.
    for OfARequest { receive, send, .. } in [&alone, &beside] {
        assert!((0.9..1.2).contains(send) && (0.9..2.4).contains(receive), "{send} and {receive}");
    }
    assert!(alone.all < 50.0, "{}", alone.all);
    // Commits are shared by those who wait.
    assert!(beside.all < 5.0, "{}", beside.all);
}

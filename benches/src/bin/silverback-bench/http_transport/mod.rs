//! `silverback-bench http-transport`: what a POST costs the server in CPU time, for the node's transport and for tokio with hyper.
//!
//! `silverback-bench http-transport --connections 16 --body-bytes 65536`
//!
//! Each server runs in a process of its own on one CPU, reads the body and answers 204; the clients
//! run on another CPU, if there is one, and send the next request when they have the answer. The
//! servers take turns, several times, so that what else runs on the machine hits both.
mod client;
mod serve;

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use clap::{Args, Subcommand, ValueEnum};
use silverback_runtime::cpus::affinity_mask;

/// Measure what a POST costs the server in CPU time, on the node's transport and on tokio's
#[derive(Debug, Args)]
pub(crate) struct TransportArgs {
    /// Keep-alive connections, each with one request in flight.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// The size of each request's body.
    #[arg(long, default_value_t = 65_536)]
    body_bytes: usize,
    /// How long each measurement takes.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Measurements of each server.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serves until it is killed; started by the benchmark itself.
    Serve { transport: Transport, cpu: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Transport {
    Silverback,
    Tokio,
}

/// Compares the two, or is one of them.
pub(crate) fn run(arguments: &TransportArgs) -> ExitCode {
    match arguments.role {
        Some(Role::Serve { transport: Transport::Silverback, cpu }) => serve::on_silverback(cpu),
        Some(Role::Serve { transport: Transport::Tokio, cpu }) => serve::on_tokio(cpu),
        None => compare(arguments),
    }
    ExitCode::SUCCESS
}

fn compare(arguments: &TransportArgs) {
    let cpus = affinity_mask().expect("the CPUs are known");
    let (server_cpu, client_cpu) = (*cpus.first().expect("a CPU"), *cpus.last().expect("a CPU"));
    serve::pin(client_cpu);
    let mut results = [(Transport::Silverback, Vec::new()), (Transport::Tokio, Vec::new())];
    for _ in 0..arguments.rounds {
        for (transport, measured) in &mut results {
            measured.push(measure(*transport, server_cpu, arguments));
        }
    }
    println!("http_transport/connections={}/body_bytes={}", arguments.connections, arguments.body_bytes);
    for (transport, mut measured) in results {
        measured.sort_by(|a, b| a.cpu_us_per_request.total_cmp(&b.cpu_us_per_request));
        let (least, median, most) =
            (&measured[0], &measured[measured.len() / 2], &measured[measured.len() - 1]);
        println!(
            "{transport:?}: server CPU {:.2} us a request (from {:.2} to {:.2}), {:.0} requests/s, p50 {} us, p99 {} us",
            median.cpu_us_per_request,
            least.cpu_us_per_request,
            most.cpu_us_per_request,
            median.requests_per_second,
            median.p50_us,
            median.p99_us,
        );
    }
}

struct Measured {
    cpu_us_per_request: f64,
    requests_per_second: f64,
    p50_us: u64,
    p99_us: u64,
}

fn measure(transport: Transport, cpu: usize, arguments: &TransportArgs) -> Measured {
    let (mut server, address) = start(transport, cpu);
    let limit = Duration::from_secs(arguments.seconds);
    // Warm: connections, buffers, branch predictors.
    client::load(address, arguments.connections, arguments.body_bytes, limit / 10);
    let before = cpu_time(server.id());
    let latencies = client::load(address, arguments.connections, arguments.body_bytes, limit);
    let used = cpu_time(server.id()) - before;
    server.kill().and_then(|()| server.wait()).expect("the server can be ended");
    Measured {
        cpu_us_per_request: used.as_secs_f64() * 1e6 / latencies.len() as f64,
        requests_per_second: latencies.len() as f64 / limit.as_secs_f64(),
        p50_us: latencies.value_at_quantile(0.5),
        p99_us: latencies.value_at_quantile(0.99),
    }
}

fn start(transport: Transport, cpu: usize) -> (Child, SocketAddr) {
    let name = transport.to_possible_value().expect("every transport has a name");
    let mut server = Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["http-transport", "serve", name.get_name(), &cpu.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line).expect("it tells its address");
    (server, line.trim().parse().expect("an address"))
}

/// The CPU time of all of a process' threads, user and system.
fn cpu_time(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("the server runs");
    let nanoseconds = threads
        .map(|thread| {
            let path = thread.expect("a thread").path().join("schedstat");
            let text = std::fs::read_to_string(path).expect("the kernel keeps schedstat");
            text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).expect("nanoseconds")
        })
        .sum();
    Duration::from_nanos(nanoseconds)
}

//! How long a server takes from its start until it takes writes, and how much memory. It knows the
//! process and its readiness, not what it reads back.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use silverback_load::connection::{Connection, Endpoint, Method};
use silverback_load::usage::{Process, Usage};

/// Whom to wait for.
#[derive(Debug, Clone, clap::Args)]
pub struct RestartOptions {
    /// The server that was just started
    #[arg(long)]
    pub pid: i32,
    /// What it answers with 200 once it takes writes
    #[arg(long)]
    pub url: String,
    /// Certificates of the authorities that an https:// server is believed by, PEM
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Seconds to wait at most
    #[arg(long, default_value_t = 600.0)]
    pub timeout: f64,
    /// Seconds to let it alone afterwards
    #[arg(long, default_value_t = 5.0)]
    pub settle: f64,
    /// Who restarts, for the report
    #[arg(long)]
    pub contestant: String,
}

/// What a restart took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RestartReport {
    /// Who.
    pub contestant: String,
    /// From the process' start to its readiness.
    pub ready_s: f64,
    /// CPU time until then.
    pub cpu_s: f64,
    /// Resident memory then.
    pub ready_resident_bytes: u64,
    /// The most resident memory until then.
    pub ready_peak_bytes: u64,
    /// Resident memory once it was let alone.
    pub settled_resident_bytes: u64,
    /// The most resident memory until then.
    pub settled_peak_bytes: u64,
}

/// How often it is asked.
const PERIOD: Duration = Duration::from_millis(20);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// `USER_HZ`, the same on every Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Waits until a server that was just started is ready.
pub fn wait_until_ready(options: &RestartOptions) -> io::Result<RestartReport> {
    let process = Process::open(options.pid)?;
    let endpoint = Endpoint::resolve(&options.url, options.ca_file.as_deref())?;
    let give_up = Instant::now() + Duration::from_secs_f64(options.timeout);
    while !is_ready(&endpoint) {
        // The process may have ended: then this is an error.
        started_s(options.pid)?;
        if Instant::now() > give_up {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{} isn't ready", options.url)));
        }
        thread::sleep(PERIOD);
    }
    let ready_s = since_boot_s()? - started_s(options.pid)?;
    let ready: Usage = process.usage()?;
    thread::sleep(Duration::from_secs_f64(options.settle));
    let settled = process.usage()?;
    Ok(RestartReport {
        contestant: options.contestant.clone(),
        ready_s,
        cpu_s: ready.cpu_s,
        ready_resident_bytes: ready.resident_bytes,
        ready_peak_bytes: ready.resident_peak_bytes,
        settled_resident_bytes: settled.resident_bytes,
        settled_peak_bytes: settled.resident_peak_bytes,
    })
}

/// Whether it is answered with 200. A server that doesn't answer isn't ready.
fn is_ready(endpoint: &Endpoint) -> bool {
    let answer = Connection::open_plain(Method::Get, endpoint, ANSWER_TIMEOUT)
        .and_then(|mut connection| connection.send(&[]));
    answer.is_ok_and(|answer| answer.status == 200)
}

/// When a process was started, in seconds since the machine's start.
fn started_s(pid: i32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The 20th word after the command, which may hold anything. The first says whether it lives.
    let mut words = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let gone = || io::Error::new(io::ErrorKind::NotFound, format!("process {pid} has ended"));
    if words.next().is_none_or(|state| state == "Z") {
        return Err(gone());
    }
    let ticks: f64 = words.nth(18).and_then(|ticks| ticks.parse().ok()).ok_or_else(gone)?;
    Ok(ticks / TICKS_PER_SECOND)
}

fn since_boot_s() -> io::Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn this_process_was_started_a_while_ago() {
        let age_s = since_boot_s().expect("a clock")
            - started_s(std::process::id().cast_signed()).expect("this process");
        assert!((0.0..3600.0).contains(&age_s), "{age_s} s");
    }

    #[test]
    fn a_server_is_ready_with_its_first_200() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/-/ready", listener.local_addr().expect("a bound socket"));
        thread::spawn(move || {
            for (stream, status) in listener.incoming().zip(["503 Replaying", "503 Replaying", "200 OK"]) {
                let mut stream = stream.expect("a connection");
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).expect("a request") > 0);
                // In one write: the client hangs up as soon as it has read the status.
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).expect("a client");
            }
        });
        let endpoint = Endpoint::resolve(&url, None).expect("a URL");
        assert_eq!([(); 3].map(|()| is_ready(&endpoint)), [false, false, true]);
    }

    #[test]
    fn nobody_there_is_not_ready() {
        assert!(!is_ready(&Endpoint::resolve("http://127.0.0.1:1/-/ready", None).expect("a URL")));
    }
}

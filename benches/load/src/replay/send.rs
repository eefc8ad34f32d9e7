//! Sends a data set over its connections and counts what comes back: in a closed loop by one thread for each CPU, and
//! at a pace by one for each connection, which writes from memory and sleeps in the kernel until its request is due.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::closed_loop::ClosedLoop;
use super::dataset::{Dataset, Prepared};
use super::mark::Mark;
use super::pin::pin_to;
use super::report::{PhaseReport, RunReport, SettledReport};
use super::tally::Tally;
use crate::connection::{Connection, Endpoint};
use crate::figures::ServerReport;
use crate::pace::Pace;
use crate::usage::{Process, Usage, own_cpu_s};
use crate::wire::Handshake;

/// How to send.
#[derive(Debug, Clone, clap::Args)]
pub struct ReplayOptions {
    /// Where the requests go
    #[arg(long, default_value = "http://127.0.0.1:9090/api/v1/write")]
    pub url: String,
    /// A further header, `Name: value`; may be given again
    #[arg(long = "header")]
    pub headers: Vec<String>,
    /// Certificates of the authorities that an https:// server is believed by, PEM
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Open loop: samples a second over all connections, latency from the intended start.
    /// Without it each connection sends as fast as it is answered
    #[arg(long)]
    pub rate: Option<f64>,
    /// A connection of its own for each request, as of a sender that comes back
    #[arg(long, requires = "rate", conflicts_with = "warmup")]
    pub reconnect: Option<Handshake>,
    /// Rounds that are sent and reported apart, as fast as they are answered
    #[arg(long, default_value_t = 0)]
    pub warmup: u32,
    /// Stop after this many rounds, warm-up included
    #[arg(long)]
    pub limit: Option<u32>,
    /// Seconds between warm-up and the rest: what a server puts off isn't the rest's
    #[arg(long, default_value_t = 2.0)]
    pub pause: f64,
    /// Seconds to let the server alone afterwards, counting what it still does
    #[arg(long, default_value_t = 0.0)]
    pub settle: f64,
    /// Process whose CPU time and memory are reported: the server
    #[arg(long)]
    pub pid: Option<i32>,
    /// Seconds to wait for an answer
    #[arg(long, default_value_t = 30.0)]
    pub timeout: f64,
    /// How often a request is sent again after 429, 5xx or a broken connection
    #[arg(long, default_value_t = 5)]
    pub retries: u32,
    /// Tell apart the latencies of requests while a file whose name ends in --mark-suffix lies below
    /// this directory: what the server does then
    #[arg(long)]
    pub mark: Option<PathBuf>,
    /// See --mark
    #[arg(long, default_value = ".checkpoint.tmp")]
    pub mark_suffix: String,
    /// CPUs that the threads are pinned to, one after the other and from the first again, in a closed loop one
    /// each; without it they run wherever the process may
    #[arg(long, value_delimiter = ',')]
    pub pin: Vec<usize>,
    /// Who receives, for the report
    #[arg(long, default_value = "server")]
    pub contestant: String,
    /// The load's name, for the report
    #[arg(long, default_value = "load")]
    pub load: String,
}

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);
const THREAD_STACK_BYTES: usize = 128 << 10;
const RETRY_DELAY_MS: u64 = 20;
/// The longest delay is this many times doubled.
const RETRY_DOUBLINGS_MAX: u32 = 7;

/// Replays a data set. Progress goes to standard error.
pub fn replay(dataset: &Dataset, options: &ReplayOptions) -> io::Result<RunReport> {
    let server = options.pid.map(Process::open).transpose()?;
    let endpoint = Endpoint::resolve(&options.url, options.ca_file.as_deref())?;
    let timeout = Duration::from_secs_f64(options.timeout);
    let open = |_| {
        let own = options.reconnect.map(|handshake| endpoint.of_one_client(handshake));
        let endpoint = own.as_ref().unwrap_or(&endpoint);
        Connection::open(endpoint, dataset.options.remote_write, &options.headers, timeout)
    };
    let mut connections: Vec<Connection> =
        (0..dataset.connections.len()).map(open).collect::<io::Result<_>>()?;

    let limit = options.limit.unwrap_or(u32::MAX);
    let mut warmup = None;
    if options.warmup > 0 {
        let rounds = 0..options.warmup.min(limit);
        let (retries, pin) = (options.retries, &options.pin);
        let phase =
            Phase { dataset, rounds, rate: None, reconnect: None, retries, timeout, pin, server, mark: None };
        warmup = Some(phase.run("warm-up", &mut connections)?.0);
        thread::sleep(Duration::from_secs_f64(options.pause));
    }
    let mark = options.mark.as_ref().map(|directory| Mark::watch(directory, &options.mark_suffix));
    let phase = Phase {
        dataset,
        rounds: options.warmup..limit,
        rate: options.rate,
        reconnect: options.reconnect,
        retries: options.retries,
        timeout,
        pin: &options.pin,
        server,
        mark: mark.as_ref(),
    };
    let (main, at_end) = phase.run("main", &mut connections)?;
    let settled = match (server, at_end) {
        (Some(server), Some(at_end)) if options.settle > 0.0 => {
            Some(settle(options.settle, &server, &at_end, &main)?)
        }
        _ => None,
    };
    Ok(RunReport {
        contestant: options.contestant.clone(),
        load: options.load.clone(),
        url: options.url.clone(),
        rate: options.rate,
        dataset: dataset.options.clone(),
        warmup,
        main,
        settled,
    })
}

fn settle(settle_s: f64, server: &Process, at_end: &Usage, main: &PhaseReport) -> io::Result<SettledReport> {
    thread::sleep(Duration::from_secs_f64(settle_s));
    let usage = server.usage()?;
    let cpu_s = usage.cpu_s - at_end.cpu_s;
    let main_cpu_s = main.server.map_or(0.0, |server| server.cpu_s);
    Ok(SettledReport {
        settle_s,
        cpu_s,
        samples_per_cpu_s: main.samples_acked as f64 / (main_cpu_s + cpu_s).max(f64::MIN_POSITIVE),
        resident_bytes: usage.resident_bytes,
        resident_peak_bytes: usage.resident_peak_bytes,
    })
}

/// What one thread does.
type Work<'w> = Box<dyn FnOnce() -> io::Result<Tally> + Send + 'w>;

/// One stretch of rounds.
struct Phase<'a> {
    dataset: &'a Dataset,
    rounds: std::ops::Range<u32>,
    rate: Option<f64>,
    reconnect: Option<Handshake>,
    retries: u32,
    timeout: Duration,
    pin: &'a [usize],
    server: Option<Process>,
    mark: Option<&'a Mark>,
}

impl Phase<'_> {
    fn run(&self, name: &str, connections: &mut [Connection]) -> io::Result<(PhaseReport, Option<Usage>)> {
        let acked = AtomicU64::new(0);
        let total: u64 =
            self.dataset.connections.iter().map(|requests| samples(self.requests(requests))).sum();
        let before = self.server.map(|server| server.usage()).transpose()?;
        let (own_before, start) = (own_cpu_s(), Instant::now());
        let workers: Vec<Work<'_>> = match self.rate {
            Some(rate) => self.paced(connections, rate, start, &acked),
            None => self.closed_loop(connections, &acked),
        };
        let tallies = thread::scope(|scope| {
            let (done, finished) = mpsc::channel();
            for (place, worker) in workers.into_iter().enumerate() {
                let done = done.clone();
                let cpu = self.pin.get(place % self.pin.len().max(1)).copied();
                thread::Builder::new().stack_size(THREAD_STACK_BYTES).spawn_scoped(scope, move || {
                    let pinned = cpu.map_or(Ok(()), pin_to);
                    // The receiver waits for every worker: it is there.
                    done.send(pinned.and_then(|()| worker())).expect("a receiver that waits");
                })?;
            }
            drop(done);
            gather(name, &finished, &acked, total, start)
        })?;
        let wall_s = start.elapsed().as_secs_f64();
        let after = self.server.map(|server| server.usage()).transpose()?;
        let mut report = tallies.into_report(wall_s);
        report.loader_cpu_s = own_cpu_s() - own_before;
        report.marked = report.marked.filter(|_| self.mark.is_some());
        let both = before.zip(after);
        report.server =
            both.map(|(before, after)| ServerReport::between(&before, &after, wall_s, report.samples_acked));
        Ok((report, after))
    }

    /// One worker for each connection.
    fn paced<'w>(
        &'w self,
        connections: &'w mut [Connection],
        rate: f64,
        start: Instant,
        acked: &'w AtomicU64,
    ) -> Vec<Work<'w>> {
        let all: Vec<&[Prepared]> =
            self.dataset.connections.iter().map(|requests| self.requests(requests)).collect();
        let total = all.iter().map(|requests| samples(requests)).sum();
        let (count, awake) =
            (all.len(), awake_before_due(rate, total, all.iter().map(|own| own.len()).sum()));
        let worker = |(place, (connection, requests)): (usize, (&'w mut Connection, &'w [Prepared]))| {
            let pace = pace(start, rate, total, place, count, requests);
            let Self { dataset, reconnect, retries, mark, .. } = *self;
            let worker = Worker { dataset, connection, acked, reconnect, retries, pace, awake, mark };
            Box::new(move || Ok(worker.send_all(requests))) as Work<'w>
        };
        connections.iter_mut().zip(all).enumerate().map(worker).collect()
    }

    /// One worker for each CPU, the connections dealt out.
    fn closed_loop<'w>(&'w self, connections: &'w mut [Connection], acked: &'w AtomicU64) -> Vec<Work<'w>> {
        let Self { dataset, retries, timeout, mark, .. } = *self;
        let cpus = match self.pin {
            [] => thread::available_parallelism().map_or(1, usize::from),
            pinned => pinned.len(),
        };
        let mut dealt: Vec<Vec<(&mut Connection, &[Prepared])>> = (0..cpus).map(|_| Vec::new()).collect();
        for (place, connection) in connections.iter_mut().enumerate() {
            dealt[place % cpus].push((connection, self.requests(&dataset.connections[place])));
        }
        let worker = |own: Vec<(&'w mut Connection, &'w [Prepared])>| {
            let closed_loop = ClosedLoop { dataset, acked, retries, timeout, mark };
            Box::new(move || closed_loop.run(own.into_iter())) as Work<'w>
        };
        dealt.into_iter().map(worker).collect()
    }

    /// This phase's part of one connection's requests.
    fn requests<'d>(&self, requests: &'d [Prepared]) -> &'d [Prepared] {
        let start = requests.partition_point(|request| request.round < self.rounds.start);
        let end = requests.partition_point(|request| request.round < self.rounds.end);
        &requests[start..end.max(start)]
    }
}

fn samples(requests: &[Prepared]) -> u64 {
    requests.iter().map(|request| u64::from(request.samples)).sum()
}

/// Waits for every worker; reports how far they are.
fn gather(
    name: &str,
    finished: &mpsc::Receiver<io::Result<Tally>>,
    acked: &AtomicU64,
    total: u64,
    start: Instant,
) -> io::Result<Tally> {
    let mut all = Tally::new();
    let mut next_progress = start + PROGRESS_PERIOD;
    loop {
        match finished.recv_timeout(next_progress.saturating_duration_since(Instant::now())) {
            Ok(tally) => all.add(tally?),
            Err(RecvTimeoutError::Disconnected) => return Ok(all),
            Err(RecvTimeoutError::Timeout) => {
                let (acked, elapsed_s) = (acked.load(Ordering::Relaxed), start.elapsed().as_secs_f64());
                let (millions, rate) = (acked as f64 / 1e6, acked as f64 / elapsed_s / 1e3);
                let percent = 100.0 * acked as f64 / total.max(1) as f64;
                eprintln!(
                    "{name}: {elapsed_s:.0} s, {millions:.1} M samples ({percent:.0} %), {rate:.0} k/s"
                );
                next_progress += PROGRESS_PERIOD;
            }
        }
    }
}

/// A connection's pace in an open loop. The connections begin one after another, spread over the time
/// that one request stands for.
fn pace(start: Instant, rate: f64, total: u64, place: usize, count: usize, requests: &[Prepared]) -> Pace {
    let own = samples(requests).max(1) as f64;
    let samples_per_s = rate * own / total.max(1) as f64;
    let request_s = own / requests.len().max(1) as f64 / samples_per_s;
    let stagger_s = request_s * place as f64 / count as f64;
    Pace::new(start + Duration::from_secs_f64(stagger_s), samples_per_s)
}

/// How long a connection's thread is awake before a request is due: a sleep ends late by a CPU's waking
/// up, and now and then by milliseconds, which isn't a server's latency. All of them together are awake for
/// a tenth of the time.
fn awake_before_due(rate: f64, samples: u64, requests: usize) -> Duration {
    const LONGEST: Duration = Duration::from_millis(2);
    let between_s = samples as f64 / requests.max(1) as f64 / rate;
    Duration::from_secs_f64(between_s / 10.0).min(LONGEST)
}

/// How long to wait before this attempt, of which the second is number 1.
pub(super) fn retry_delay(attempt: u32) -> Duration {
    Duration::from_millis(RETRY_DELAY_MS << (attempt - 1).min(RETRY_DOUBLINGS_MAX))
}

/// One connection's thread.
struct Worker<'a> {
    dataset: &'a Dataset,
    connection: &'a mut Connection,
    acked: &'a AtomicU64,
    reconnect: Option<Handshake>,
    retries: u32,
    pace: Pace,
    /// Before a request is due.
    awake: Duration,
    mark: Option<&'a Mark>,
}

impl Worker<'_> {
    fn send_all(mut self, requests: &[Prepared]) -> Tally {
        let mut tally = Tally::new();
        let mut samples_before = 0;
        for request in requests {
            let intended = wait_until(self.pace.due(samples_before), self.awake, &mut tally);
            samples_before += u64::from(request.samples);
            tally.requests += 1;
            tally.samples_sent += u64::from(request.samples);
            let was_set = self.mark.is_some_and(Mark::is_set);
            self.send(request, &mut tally);
            let latency = intended.elapsed();
            if self.reconnect.is_some() {
                tally.resumed += u64::from(self.connection.is_resumed());
                self.connection.close();
            }
            tally.took(latency);
            if let Some(mark) = self.mark {
                tally.marked.push(latency, was_set || mark.is_set());
            }
        }
        tally
    }

    fn send(&mut self, request: &Prepared, tally: &mut Tally) {
        for attempt in 0..=self.retries {
            if attempt > 0 {
                tally.retries += 1;
                thread::sleep(retry_delay(attempt));
            }
            let answer = self.connection.send(self.dataset.body(request));
            let again = tally.answered(request.samples, answer, self.acked);
            if !again {
                return;
            }
        }
    }
}

fn wait_until(due: Instant, awake: Duration, tally: &mut Tally) -> Instant {
    thread::sleep(due.saturating_duration_since(Instant::now()).saturating_sub(awake));
    while Instant::now() < due {
        std::hint::spin_loop();
    }
    tally.late_start_max = tally.late_start_max.max(due.elapsed());
    due
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use clap::Parser;

    use super::*;
    use crate::encode::RemoteWrite;
    use crate::replay::dataset::tests::in_memory;
    use crate::replay::generate::tests::small;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ReplayOptions,
    }

    fn options(url: &str, more: &[&str]) -> ReplayOptions {
        Line::parse_from(["replay", "--url", url].iter().chain(more)).options
    }

    /// A receiver that answers each connection's n-th request with the n-th status, then with 204.
    fn receiver(statuses: &'static [u16]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/write", listener.local_addr().expect("a bound socket"));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || answer_all(BufReader::new(stream), statuses));
            }
        });
        url
    }

    fn answer_all(mut stream: BufReader<std::net::TcpStream>, statuses: &[u16]) {
        for status in statuses.iter().copied().chain(std::iter::repeat(204)) {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if let Some(digits) = line.strip_prefix("Content-Length: ") {
                    length = digits.trim().parse().expect("a length");
                }
                if line == "\r\n" {
                    break;
                }
            }
            stream.read_exact(&mut vec![0; length]).expect("a whole body");
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).expect("a client that waits");
        }
    }

    #[test]
    fn every_sample_is_sent_and_acknowledged() {
        let dataset = in_memory(&small(RemoteWrite::V1));
        let report = replay(&dataset, &options(&receiver(&[]), &[])).expect("a receiver");
        assert_eq!((report.main.samples_sent, report.main.samples_acked), (900, 900));
        assert_eq!(report.main.answers.get("204"), Some(&report.main.requests));
        let latency = report.main.latency_ms;
        assert!(0.0 < latency.p50 && latency.p50 <= latency.p99 && latency.p99 <= latency.max, "{latency:?}");
    }

    #[test]
    fn warm_up_and_limit_split_the_rounds() {
        let dataset = in_memory(&small(RemoteWrite::V2));
        let report =
            replay(&dataset, &options(&receiver(&[]), &["--warmup", "1", "--pause", "0", "--limit", "2"]))
                .expect("a receiver");
        let warmup = report.warmup.expect("a warm-up").samples_acked;
        let whole: u64 =
            dataset.requests().filter(|request| request.round < 2).map(|r| u64::from(r.samples)).sum();
        assert_eq!(warmup + report.main.samples_acked, whole);
        assert!(warmup > 0 && report.main.samples_acked > 0);
    }

    #[test]
    fn an_overloaded_receiver_gets_its_request_again() {
        let dataset = in_memory(&small(RemoteWrite::V1));
        let report = replay(&dataset, &options(&receiver(&[503, 429]), &[])).expect("a receiver");
        assert_eq!((report.main.samples_acked, report.main.retries), (900, 6));
    }

    #[test]
    fn refused_samples_do_not_count_as_acknowledged() {
        let dataset = in_memory(&small(RemoteWrite::V1));
        let report = replay(&dataset, &options(&receiver(&[400]), &[])).expect("a receiver");
        assert_eq!((report.main.samples_acked, report.main.retries), (900 - 3 * 40, 0));
        assert_eq!(report.main.refusals.len(), 3);
    }

    #[test]
    fn a_sender_that_reconnects_has_a_connection_for_each_request() {
        let dataset = in_memory(&small(RemoteWrite::V1));
        // One that kept a connection would be refused on it the second time.
        let words = ["--rate", "45000", "--reconnect", "full"];
        let report = replay(&dataset, &options(&receiver(&[204, 400]), &words)).expect("a receiver");
        assert_eq!((report.main.samples_acked, report.main.resumed), (900, 0));
    }

    #[test]
    fn an_open_loop_takes_the_time_that_its_rate_means() {
        let dataset = in_memory(&small(RemoteWrite::V1));
        let report = replay(&dataset, &options(&receiver(&[]), &["--rate", "4500"])).expect("a receiver");
        assert!((0.15..2.0).contains(&report.main.wall_s), "{} s", report.main.wall_s);
    }
}

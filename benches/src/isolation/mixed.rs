//! Small requests beside long jobs on one executor of the node's runtime. It knows nothing of samples:
//! a request is a byte that is answered after a bit of work.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use silverback_load::figures::Quantiles;
use silverback_load::random::SplitMix;
use silverback_load::replay::pin::pin_to_any;
use silverback_runtime::cpus::affinity_mask;
use silverback_runtime::{
    BoundAddress, Executor, Listener, Options, RunError, Shutdown, Slicer, Stream, run, spawn,
    spawn_background, thread_cpu_time,
};

use super::work::{self, work_for};
use crate::report::process::run_ahead_of_daemons;

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct MixedOptions {
    /// Connections that send small requests
    #[arg(long, default_value_t = 128)]
    pub connections: usize,
    /// Requests a second over all connections, at random times
    #[arg(long, default_value_t = 2500.0)]
    pub rate: f64,
    /// Work of a request
    #[arg(long, default_value_t = 150)]
    pub request_us: u64,
    /// Jobs in the background that are always in flight
    #[arg(long, default_value_t = 4)]
    pub jobs: usize,
    /// Work of a job; then the next begins
    #[arg(long, default_value_t = 50)]
    pub job_ms: u64,
    /// How long it runs
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// The executor's CPU; the connections' other ends run on the others, where there are any
    #[arg(long, default_value_t = 0)]
    pub cpu: usize,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MixedReport {
    /// What was run.
    pub options: MixedOptions,
    /// Requests that were answered. One that is due and waits for the one before it at the end isn't.
    pub requests: u64,
    /// From the intended start of a request to its answer.
    pub latency_ms: Quantiles,
    /// The part of the time that was worked on jobs.
    pub jobs_share: f64,
    /// The part of the time that the CPU was kept busy.
    pub busy_share: f64,
    /// Jobs that were ended.
    pub jobs_done: u64,
    /// From a job's start, when the one before it had ended, to its end.
    pub job_ms: Quantiles,
}

impl MixedReport {
    /// Of the latencies of requests and jobs.
    pub(super) fn new(
        options: MixedOptions,
        latency_us: &Histogram<u64>,
        jobs: &Jobs,
        jobs_share: f64,
        busy_share: f64,
    ) -> Self {
        Self {
            options,
            requests: latency_us.len(),
            latency_ms: Quantiles::of_micros(latency_us),
            jobs_share,
            busy_share,
            jobs_done: jobs.took_us.len(),
            job_ms: Quantiles::of_micros(&jobs.took_us),
        }
    }
}

/// Jobs that were ended.
#[derive(Debug)]
pub(super) struct Jobs {
    took_us: Histogram<u64>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { took_us: Histogram::new(3).expect("three digits are allowed") }
    }
}

impl Jobs {
    /// One more.
    pub(super) fn end(&mut self, took: Duration) {
        self.took_us.record(took.as_micros() as u64).expect("a histogram that grows by itself");
    }
}

/// Why it could not run.
#[derive(Debug, thiserror::Error)]
pub enum MixedError {
    /// A socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The executor did not run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What a job works before it looks at its slice.
pub(super) const PIECE: Duration = Duration::from_micros(20);
const CLIENT_STACK_BYTES: usize = 128 << 10;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Until threads that are ready are asleep.
const START: Duration = Duration::from_millis(100);
/// Of the times between requests.
const SEED: u64 = 1;

/// Runs the executor and the other ends of its connections.
pub fn mixed(options: &MixedOptions) -> Result<MixedReport, MixedError> {
    work::measure();
    let bound = Arc::new(BoundAddress::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?);
    let address = bound.address();
    let shutdown = Shutdown::new();
    let executor = thread::spawn({
        let (options, shutdown) = (*options, shutdown.clone());
        let serve = move |executor: Executor<()>| serve(executor, options, Arc::clone(&bound));
        move || run(&Options::on_cpus(vec![options.cpu]), &shutdown, serve)
    });
    let asked = ask_all(options, address);
    shutdown.request();
    let shares = executor.join().expect("the executor's thread doesn't panic")?;
    let latency_us = asked?;
    let Served { jobs, jobs_share, busy_share } = &shares[0];
    Ok(MixedReport::new(*options, &latency_us, jobs, *jobs_share, *busy_share))
}

/// What the executor did.
#[derive(Debug)]
struct Served {
    jobs: Jobs,
    jobs_share: f64,
    busy_share: f64,
}

/// The executor's side, until the notice to end.
async fn serve(executor: Executor<()>, options: MixedOptions, bound: Arc<BoundAddress>) -> Served {
    let (began, busy_before) = (Instant::now(), thread_cpu_time());
    let Executor { slicer, shutdown, .. } = executor;
    let listener = bound.listen(options.connections).expect("the port is ours");
    spawn(accept_all(listener, Duration::from_micros(options.request_us)));
    let jobs = Rc::new(RefCell::new(Jobs::default()));
    for _ in 0..options.jobs {
        let job = Duration::from_millis(options.job_ms);
        spawn_background(job_after_job(slicer.clone(), job, Rc::clone(&jobs)));
    }
    shutdown.requested().await;
    let share = |spent: Duration| spent.as_secs_f64() / began.elapsed().as_secs_f64();
    Served {
        jobs: jobs.take(),
        jobs_share: share(slicer.total()),
        busy_share: share(thread_cpu_time() - busy_before),
    }
}

async fn accept_all(listener: Listener, work: Duration) {
    loop {
        let (stream, permit) = listener.accept().await.expect("the listener lives");
        spawn(async move {
            if let Err(error) = answer(&stream, work).await {
                eprintln!("a connection broke: {error}");
            }
            drop(permit);
        });
    }
}

async fn answer(stream: &Stream, work: Duration) -> io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte).await? > 0 {
        work_for(work);
        stream.write_all(&byte).await?;
    }
    Ok(())
}

/// In slices.
async fn job_after_job(slicer: Slicer, job: Duration, jobs: Rc<RefCell<Jobs>>) {
    loop {
        let began = Instant::now();
        let mut slice = slicer.begin().await;
        let mut worked = Duration::ZERO;
        while worked < job {
            work_for(PIECE);
            worked += PIECE;
            slice.yield_if_needed().await;
        }
        jobs.borrow_mut().end(began.elapsed());
    }
}

/// All connections, a thread each, and their latencies in one. The server isn't ahead of the machine's daemons; these
/// are, so that a latency has none of theirs.
pub(super) fn ask_all(options: &MixedOptions, address: SocketAddr) -> io::Result<Histogram<u64>> {
    run_ahead_of_daemons(|| ask_all_at_once(options, address))
}

fn ask_all_at_once(options: &MixedOptions, address: SocketAddr) -> io::Result<Histogram<u64>> {
    let connect = |_| connect(address);
    let streams: Vec<TcpStream> = (0..options.connections).map(connect).collect::<io::Result<_>>()?;
    let mean_gap_s = options.connections as f64 / options.rate;
    // Once all threads are there with their memory: else the first latencies would have these in them, for hundreds of
    // milliseconds where the kernel gives each thread huge pages.
    let began = &OnceLock::<Instant>::new();
    let (starting, all_ready) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let spawn = |(stream, number)| {
            let gaps = Gaps { random: SplitMix::new(SEED, number), mean_s: mean_gap_s };
            let starting = starting.clone();
            let ask = move || {
                keep_off(options.cpu)?;
                let mut latency_us = latencies(options);
                drop(starting);
                let began = *began.wait();
                let end = began + Duration::from_secs_f64(options.seconds);
                ask(stream, gaps, began, end, &mut latency_us)?;
                Ok(latency_us)
            };
            thread::Builder::new().stack_size(CLIENT_STACK_BYTES).spawn_scoped(scope, ask)
        };
        let threads: io::Result<Vec<_>> = streams.into_iter().zip(0..).map(spawn).collect();
        drop(starting);
        // Nobody sends: it ends when the last thread has dropped its end.
        let _nothing = all_ready.recv();
        began.get_or_init(|| Instant::now() + START);
        let mut all = latencies(options);
        for thread in threads? {
            let latency_us: io::Result<_> = thread.join().expect("a connection's thread doesn't panic");
            all.add(latency_us?).expect("the same bounds");
        }
        Ok(all)
    })
}

/// Room for any latency, written to as it is made: nothing is taken from the kernel while requests are asked. One that was
/// due at once may be asked when the time is over, and then be answered late.
fn latencies(options: &MixedOptions) -> Histogram<u64> {
    let most = Duration::from_secs_f64(options.seconds) + 2 * ANSWER_TIMEOUT;
    Histogram::new_with_bounds(1, most.as_micros() as u64, 3).expect("bounds that are in order")
}

/// Keeps this thread off the CPU that serves, where there is another.
fn keep_off(cpu: usize) -> io::Result<()> {
    let others: Vec<usize> = affinity_mask()?.into_iter().filter(|other| *other != cpu).collect();
    if others.is_empty() { Ok(()) } else { pin_to_any(&others) }
}

/// The executor may not listen yet.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Random times between requests: those of many senders that don't know of each other.
struct Gaps {
    random: SplitMix,
    mean_s: f64,
}

impl Gaps {
    fn next(&mut self) -> Duration {
        Duration::from_secs_f64(-self.mean_s * (1.0 - self.random.unit()).ln())
    }
}

/// One connection's requests, each when it is due, or as soon as the one before was answered.
fn ask(
    mut stream: TcpStream,
    mut gaps: Gaps,
    began: Instant,
    end: Instant,
    latency_us: &mut Histogram<u64>,
) -> io::Result<()> {
    let mut due = began + gaps.next();
    while due.max(Instant::now()) < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0])?;
        latency_us.record(due.elapsed().as_micros() as u64).expect("no answer takes longer than its timeout");
        due += gaps.next();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_while_jobs_keep_the_executor_busy() {
        let cpu = *silverback_runtime::cpus::affinity_mask().unwrap().first().unwrap();
        let options = MixedOptions {
            connections: 4,
            rate: 200.0,
            request_us: 50,
            jobs: 2,
            job_ms: 5,
            seconds: 0.5,
            cpu,
        };
        let report = mixed(&options).expect("an executor");
        assert!((50..200).contains(&report.requests), "{report:?}");
        assert!(report.jobs_share > 0.2 && report.latency_ms.p50 >= 0.05, "{report:?}");
    }

    #[test]
    fn the_gaps_mean_what_they_should() {
        let mut gaps = Gaps { random: SplitMix::new(1, 1), mean_s: 0.01 };
        let sum: Duration = (0..10_000).map(|_| gaps.next()).sum();
        assert!((95.0..105.0).contains(&sum.as_secs_f64()), "{sum:?}");
    }
}

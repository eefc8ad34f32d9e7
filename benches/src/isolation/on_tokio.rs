//! The same small requests beside the same long jobs, on one core of tokio's runtime: what the node's
//! slices are measured against.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use silverback_load::replay::pin::pin_to;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::mixed::{Jobs as JobsDone, MixedError, MixedOptions, MixedReport, PIECE, ask_all};
use super::work::{self, work_for};

/// Where long jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    /// Among the requests, on the runtime's one worker: first come, first served.
    AsTasks,
    /// On so many of the runtime's threads for blocking work, which the kernel shares the same core out to.
    OnBlockingThreads(usize),
}

/// How long what is being worked on may take at the end.
const END_MAX: Duration = Duration::from_secs(2);

/// Runs a runtime and the other ends of its connections.
pub fn mixed_on_tokio(options: &MixedOptions, jobs: Jobs) -> Result<MixedReport, MixedError> {
    work::measure();
    let runtime = on_one_cpu(options.cpu, jobs)?;
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let done = Arc::new(Done::default());
    let began = Instant::now();
    runtime.spawn(accept_all(listener, Duration::from_micros(options.request_us)));
    for _ in 0..options.jobs {
        runtime.spawn(job_after_job(jobs, Duration::from_millis(options.job_ms), Arc::clone(&done)));
    }
    let asked = ask_all(options, address);
    let elapsed_s = began.elapsed().as_secs_f64();
    let (done, jobs_share) = (done.take(), done.worked_s() / elapsed_s);
    runtime.shutdown_timeout(END_MAX);
    let latency_us = asked?;
    let requests_share = latency_us.len() as f64 * options.request_us as f64 / 1e6 / elapsed_s;
    Ok(MixedReport::new(*options, &latency_us, &done, jobs_share, jobs_share + requests_share))
}

/// Everything that it runs stays on one CPU.
fn on_one_cpu(cpu: usize, jobs: Jobs) -> io::Result<Runtime> {
    let blocking_threads = match jobs {
        Jobs::AsTasks => 1,
        Jobs::OnBlockingThreads(threads) => threads,
    };
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(blocking_threads)
        .enable_all()
        .on_thread_start(move || pin_to(cpu).expect("the CPU is one of the process' own"))
        .build()
}

async fn accept_all(listener: TcpListener, work: Duration) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a runtime with a driver");
    loop {
        let (stream, _) = listener.accept().await.expect("the listener lives");
        tokio::spawn(async move {
            if let Err(error) = answer(stream, work).await {
                eprintln!("a connection broke: {error}");
            }
        });
    }
}

async fn answer(mut stream: TcpStream, work: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut byte = [0];
    while stream.read(&mut byte).await? > 0 {
        work_for(work);
        stream.write_all(&byte).await?;
    }
    Ok(())
}

async fn job_after_job(jobs: Jobs, job: Duration, done: Arc<Done>) {
    loop {
        let began = Instant::now();
        match jobs {
            Jobs::AsTasks => {
                tokio::task::yield_now().await;
                done.work_on(job);
            }
            Jobs::OnBlockingThreads(_threads) => {
                let done = Arc::clone(&done);
                let worked = tokio::task::spawn_blocking(move || done.work_on(job)).await;
                worked.expect("a job doesn't panic");
            }
        }
        done.end(began.elapsed());
    }
}

/// What jobs have come to.
#[derive(Debug, Default)]
struct Done {
    worked_us: AtomicU64,
    ended: Mutex<JobsDone>,
}

impl Done {
    /// Without a look at anything else: that is what is compared.
    fn work_on(&self, job: Duration) {
        let mut worked = Duration::ZERO;
        while worked < job {
            work_for(PIECE);
            worked += PIECE;
            self.worked_us.fetch_add(PIECE.as_micros() as u64, Ordering::Relaxed);
        }
    }

    fn end(&self, took: Duration) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).end(took);
    }

    fn take(&self) -> JobsDone {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn worked_s(&self) -> f64 {
        self.worked_us.load(Ordering::Relaxed) as f64 / 1e6
    }
}

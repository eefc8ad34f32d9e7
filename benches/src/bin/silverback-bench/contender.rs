//! `silverback-bench contender`: the contender as a command, started as the node is.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use silverback::config::Config;
use silverback_benches::contender::{Contender, STRIPES_MAX, Stripes, serve};
use silverback_runtime::cpus::affinity_mask;
use silverback_storage::wal::AckMode;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Ended;

/// Serve remote write as the node does, on tokio, with shards behind locks: what the node is measured against
#[derive(Debug, Args)]
pub(crate) struct ContenderArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value_t = Config::default().listen[0])]
    listen: SocketAddr,
    /// Worker threads; as many as the process may use CPUs where it isn't given
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Locks that the series are behind, rounded up to a power of two
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = stripe_count)]
    stripes: usize,
    /// When a write is acknowledged: once it is on disk and synced (durable), or once it is in memory (memory)
    #[arg(long, value_name = "MODE", default_value = "durable", value_parser = ack_mode)]
    ack: AckMode,
    /// Where its log is
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = Config::default().data_dir)]
    data_dir: PathBuf,
    /// Open connections
    #[arg(long, value_name = "COUNT", default_value_t = Config::default().max_connections)]
    max_connections: usize,
    /// A request body as it arrives, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Config::default().max_body_bytes)]
    max_body_bytes: usize,
    /// A request body after decompression, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Config::default().max_decoded_bytes)]
    max_decoded_bytes: usize,
}

fn stripe_count(text: &str) -> Result<usize, String> {
    let within = |count: &usize| (1..=STRIPES_MAX).contains(count);
    text.parse().ok().filter(within).ok_or_else(|| format!("not a number from 1 to {STRIPES_MAX}"))
}

fn ack_mode(text: &str) -> Result<AckMode, String> {
    match text {
        "durable" => Ok(AckMode::Durable),
        "memory" => Ok(AckMode::Memory),
        _other => Err("neither durable nor memory".to_owned()),
    }
}

/// Serves until it gets a signal to end.
pub(crate) fn run(arguments: ContenderArgs) -> Ended {
    runtime(&arguments)?.block_on(listen(arguments))?;
    Ok(ExitCode::SUCCESS)
}

fn runtime(arguments: &ContenderArgs) -> io::Result<Runtime> {
    let threads = match arguments.threads {
        Some(threads) => threads.get(),
        None => affinity_mask()?.len(),
    };
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

async fn listen(arguments: ContenderArgs) -> io::Result<()> {
    let [terminate, interrupt] = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let (terminate, interrupt) = (terminate?, interrupt?);
    let listener = TcpListener::bind(arguments.listen).await?;
    println!("listening on {}", listener.local_addr()?);
    let config = Config {
        ack: arguments.ack,
        data_dir: arguments.data_dir,
        max_connections: arguments.max_connections,
        max_body_bytes: arguments.max_body_bytes,
        max_decoded_bytes: arguments.max_decoded_bytes,
        ..Config::default()
    };
    let contender = Contender::open(config, Stripes::new(arguments.stripes), &Handle::current())?;
    // As a task, so that connections are accepted by the workers and not by one thread more.
    let serving = tokio::spawn(serve(contender, listener, told_to_end(terminate, interrupt)));
    serving.await.map_err(io::Error::other)
}

async fn told_to_end(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

//! The servers, each a process of its own. It says where it listens on standard output, and ends with its
//! standard input.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use serde::{Deserialize, Serialize};
use silverback::config::Config;
use silverback_load::replay::pin::pin_to_any;
use silverback_load::usage::Process;
use silverback_storage::wal::AckMode;
use tokio::runtime::{Builder, Handle};

use super::super::Job;
use super::super::meter::Figures;
use super::Side;
use crate::contender::{Contender, Grpc, Stripes};
use crate::rebalance::node::Node;

/// Locks that the contenders' series are behind, as `silverback-bench contender` has them.
const STRIPES: usize = 64;
const THREAD_STACK_BYTES: usize = 512 << 10;

/// What a server's process is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Serving {
    pub(super) side: Side,
    pub(super) cpus: Vec<usize>,
}

/// A server's process; dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Open for as long as the process may write to it.
    _stdout: BufReader<ChildStdout>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts one.
    pub(super) fn start(serving: &Serving) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["founding", "--side", &serde_json::to_string(&Job::Serving(serving.clone()))?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it was piped"));
        stdout.read_line(&mut line)?;
        let address = line.trim().parse().map_err(|_| "the server ended before it listened")?;
        Ok(Self { child, _stdout: stdout, address })
    }

    /// The process, to be measured.
    pub(super) fn process(&self) -> io::Result<Process> {
        Process::open(self.pid())
    }

    /// The process's id.
    pub(super) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("a server ended badly: {error}");
        }
    }
}

impl Serving {
    /// Serves until standard input ends.
    pub fn run(&self) -> Result<Figures, Box<dyn Error>> {
        pin_to_any(&self.cpus)?;
        let data_dir = std::env::temp_dir().join(format!("silverback-founding-{}", std::process::id()));
        std::fs::create_dir_all(&data_dir)?;
        let config = Config { data_dir: data_dir.clone(), ack: AckMode::Memory, ..Config::default() };
        let served = match self.side {
            Side::Threads => threads(config),
            Side::Tonic => tonic(config, self.cpus.len()),
            Side::Node => node(config),
        };
        std::fs::remove_dir_all(&data_dir)?;
        served.map(|()| Figures::new())
    }
}

/// Says where it listens, and waits for the end.
fn serve_at(address: SocketAddr) -> io::Result<()> {
    println!("{address}");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn contender(config: Config, runtime: &Handle) -> io::Result<Grpc> {
    Ok(Grpc(Contender::open(config, Stripes::new(STRIPES), runtime)?))
}

fn listen() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

/// The threads end with the process. Their log has a runtime of its own.
fn threads(config: Config) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (listener, grpc) = (listen()?, contender(config, runtime.handle())?);
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (grpc, builder) = (grpc.clone(), thread::Builder::new().stack_size(THREAD_STACK_BYTES));
            let serving = builder.spawn(move || {
                if let Err(error) = serve_one(stream, grpc) {
                    eprintln!("a connection ended with an error: {error}");
                }
            });
            if let Err(error) = serving {
                eprintln!("no thread for a connection: {error}");
            }
        }
    });
    Ok(serve_at(address)?)
}

/// A thread waits for one connection alone, on a runtime that has nothing else to do.
fn serve_one(stream: std::net::TcpStream, grpc: Grpc) -> Result<(), Box<dyn Error>> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { Ok(grpc.serve_one(tokio::net::TcpStream::from_std(stream)?).await?) })
}

fn tonic(config: Config, workers: usize) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    runtime.spawn(contender(config, runtime.handle())?.serve(listener, std::future::pending()));
    serve_at(address)?;
    runtime.shutdown_background();
    Ok(())
}

fn node(config: Config) -> Result<(), Box<dyn Error>> {
    let node = Node::start_with(config)?;
    Ok(serve_at(node.address)?)
}

//! A node in this process, and the way to steer it.

use std::error::Error;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use silverback::config::{AdminAccess, Config, ShardCount};
use silverback::node::identity;
use silverback::node::{self, NodeError};
use silverback_client::{Admin, Client};
use silverback_host::disk::blocking::BlockingDisk;
use silverback_runtime::Shutdown;
use tokio::time::sleep;

/// How long it may take to be ready.
const START_MAX: Duration = Duration::from_secs(30);

/// A running node; dropping it ends it.
#[derive(Debug)]
pub struct Node {
    /// Where it listens.
    pub address: SocketAddr,
    /// What its series ids depend on.
    pub seed: u64,
    shutdown: Shutdown,
    thread: Option<JoinHandle<Result<(), NodeError>>>,
}

impl Node {
    /// Starts one of two shards on a data directory.
    pub fn start(data_dir: &Path) -> Result<Self, Box<dyn Error>> {
        let shards = ShardCount::Fixed(NonZeroUsize::MIN.saturating_add(1));
        Self::start_with(Config { data_dir: data_dir.to_owned(), shards, ..Config::default() })
    }

    /// Starts one as it is configured, but for where it listens and what it lets an admin do.
    pub fn start_with(config: Config) -> Result<Self, Box<dyn Error>> {
        let config = Config {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            self_scrape_interval: None,
            admin_api: AdminAccess::Full,
            ..config
        };
        let data_dir = config.data_dir.clone();
        let (bound, is_bound) = mpsc::channel();
        let shutdown = Shutdown::new();
        let of_thread = shutdown.clone();
        let thread = spawn(move || {
            let tell = |addresses: &[SocketAddr]| bound.send(addresses[0]).expect("who starts it waits");
            node::run_until(config, &of_thread, tell)
        });
        let address = is_bound.recv_timeout(START_MAX)?;
        let identity = block_on(identity::read(&BlockingDisk::new(&data_dir, 512)))?.ok_or("no identity")?;
        Ok(Self { address, seed: identity.seed, shutdown, thread: Some(thread) })
    }

    /// The way to steer it, once it is ready; its rebalance is paused.
    pub async fn admin(&self) -> Result<Admin, Box<dyn Error>> {
        let began = Instant::now();
        loop {
            match self.paused().await {
                Ok(admin) => return Ok(admin),
                Err(_) if began.elapsed() < START_MAX => sleep(Duration::from_millis(50)).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn paused(&self) -> Result<Admin, Box<dyn Error>> {
        let admin = Client::connect(format!("http://{}", self.address)).await?.admin();
        admin.pause_rebalance().await?;
        Ok(admin)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown.request();
        if let Some(Err(error)) = self.thread.take().and_then(|thread| thread.join().ok()) {
            eprintln!("the node ended badly: {error}");
        }
    }
}

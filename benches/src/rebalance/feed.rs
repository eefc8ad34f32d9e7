//! Connections that stream over gRPC, each the samples of series of its own, so that these stay in order.
//! How cells are drawn can be changed while they send.
//!
//! A stream's samples cost the core that takes them in little beside what they cost the shard that owns
//! them: so it matters which shard that is.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use silverback_client::{
    Client, RequestError, RetryPolicy, SeriesHandle, SeriesRejected, Writer, WriterHook, WriterOptions,
};
use silverback_load::catalogue::Label;
use silverback_load::random::SplitMix;
use silverback_runtime::cpus::affinity_mask;
use tokio::runtime;
use tokio::time::sleep;

use super::population::Weights;
use super::seconds::Seconds;
use silverback_load::replay::pin::pin_to;

/// How long a node may be silent.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Batches that a connection has in flight: while one is on its way the next ones are made.
const IN_FLIGHT: usize = 4;
/// Samples lie so far back at the begin: hot series run ahead of the clock.
const BACK_MS: u64 = 20 * 60 * 60 * 1000;

/// How a feed sends.
#[derive(Debug, Clone)]
pub struct FeedOptions {
    /// Samples of a batch.
    pub batch: usize,
    /// Samples of a series that follow each other.
    pub of_series: usize,
    /// How long a connection rests once a batch is acknowledged; without it there are always some under
    /// way.
    pub pause: Option<Duration>,
    /// How cells are drawn, one of these at a time.
    pub weights: Vec<Weights>,
}

/// What all connections look at.
#[derive(Debug, Default)]
struct Signals {
    weights: AtomicUsize,
    has_ended: AtomicBool,
}

/// A running feed.
#[derive(Debug)]
pub struct Feed {
    signals: Arc<Signals>,
    began: Instant,
    connections: Vec<JoinHandle<Result<Seconds, String>>>,
}

impl Feed {
    /// Begins to send by the first weights, over a connection for each of `series`: by cell.
    pub fn start(
        address: SocketAddr,
        series: Vec<Vec<Vec<Vec<Label>>>>,
        options: &FeedOptions,
    ) -> Result<Self, Box<dyn Error>> {
        let (signals, began) = (Arc::<Signals>::default(), Instant::now());
        let cpus: Vec<usize> = affinity_mask()?.into_iter().collect();
        let mut connections = Vec::new();
        for (number, series) in series.into_iter().enumerate() {
            let (signals, options) = (Arc::clone(&signals), options.clone());
            // The system would let senders make room for a busy shard.
            let cpu = cpus[number % cpus.len()];
            connections.push(spawn(move || {
                pin_to(cpu).map_err(|error| error.to_string())?;
                let runtime = runtime::Builder::new_current_thread().enable_all().build();
                let sending = send(address, series, options, number as u64, &signals, began);
                runtime.map_err(|error| error.to_string())?.block_on(sending).map_err(|e| e.to_string())
            }));
        }
        Ok(Self { signals, began, connections })
    }

    /// The second that it is.
    pub fn second(&self) -> usize {
        self.began.elapsed().as_secs() as usize
    }

    /// Draws by other weights from now on.
    pub fn turn_to(&self, weights: usize) {
        self.signals.weights.store(weights, Ordering::Relaxed);
    }

    /// Ends it; what its seconds came to.
    pub fn end(self) -> Result<Seconds, Box<dyn Error>> {
        self.signals.has_ended.store(true, Ordering::Relaxed);
        let mut all = Seconds::since(self.began);
        for connection in self.connections {
            all.merge(&connection.join().map_err(|_| "a connection's thread panicked")??);
        }
        Ok(all)
    }
}

/// One connection, until the feed ends.
async fn send(
    address: SocketAddr,
    series: Vec<Vec<Vec<Label>>>,
    options: FeedOptions,
    number: u64,
    signals: &Signals,
    began: Instant,
) -> Result<Seconds, Box<dyn Error>> {
    let answered = Arc::new(Answered(Mutex::new(Seconds::since(began))));
    let hook: Arc<dyn WriterHook> = Arc::clone(&answered) as _;
    let writer = Client::connect(format!("http://{address}")).await?.writer_with(WriterOptions {
        batch_samples_max: options.batch,
        pending_samples_max: options.batch * IN_FLIGHT,
        retry: RetryPolicy { give_up_after: Some(TIMEOUT), ..RetryPolicy::default() },
        hook: Some(hook),
        ..WriterOptions::default()
    });
    let mut sender = Sender::new(writer, &series, options, number)?;
    while !signals.has_ended.load(Ordering::Relaxed) {
        sender.send_batch(signals.weights.load(Ordering::Relaxed)).await?;
    }
    sender.writer.close().await?;
    Ok(std::mem::replace(&mut answered.seconds(), Seconds::since(began)))
}

struct Sender {
    writer: Writer,
    options: FeedOptions,
    /// The series of each cell.
    cells: Vec<Vec<Series>>,
    random: SplitMix,
}

struct Series {
    handle: SeriesHandle,
    newest_ms: i64,
}

impl Sender {
    fn new(
        writer: Writer,
        series: &[Vec<Vec<Label>>],
        options: FeedOptions,
        number: u64,
    ) -> Result<Self, Box<dyn Error>> {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let newest_ms = now_ms.saturating_sub(BACK_MS) as i64;
        let define =
            |labels: &Vec<Label>| Ok(Series { handle: writer.series_of(labels.clone())?, newest_ms });
        let of_cell = |cell: &Vec<Vec<Label>>| cell.iter().map(define).collect();
        let cells = series.iter().map(of_cell).collect::<Result<_, Box<dyn Error>>>()?;
        Ok(Self { writer, options, cells, random: SplitMix::new(1, number) })
    }

    async fn send_batch(&mut self, weights: usize) -> Result<(), Box<dyn Error>> {
        let mut samples = 0;
        while samples < self.options.batch {
            let cell = &mut self.cells[self.options.weights[weights].draw(&mut self.random)];
            if cell.is_empty() {
                continue;
            }
            let at = (self.random.next_u64() % cell.len() as u64) as usize;
            let series = &mut cell[at];
            for _ in 0..self.options.of_series {
                series.newest_ms += 1;
                self.writer.write(&series.handle, series.newest_ms, self.random.unit()).await?;
            }
            samples += self.options.of_series;
        }
        if let Some(pause) = self.options.pause {
            self.writer.flush().await?;
            sleep(pause).await;
        }
        Ok(())
    }
}

/// What became of a connection's batches.
struct Answered(Mutex<Seconds>);

impl Answered {
    fn seconds(&self) -> MutexGuard<'_, Seconds> {
        // A second that was half counted is no worse than one that wasn't.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriterHook for Answered {
    fn batch_acknowledged(&self, samples: usize, latency: Duration) {
        self.seconds().answered(latency, samples as u64);
    }

    fn refused(&self, refusal: &SeriesRejected) {
        eprintln!("refused: {refusal:?}");
        self.seconds().failed();
    }

    fn disconnected(&self, error: &RequestError, _backoff: Duration) {
        eprintln!("{error}");
        self.seconds().failed();
    }
}

//! Connections that send one request after the other, each the samples of series of its own, so that
//! these stay in order. How cells are drawn can be changed while they send.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use silverback_client::load::body::BodyEncoder;
use silverback_client::load::catalogue::Label;
use silverback_client::load::connection::{Connection, Endpoint};
use silverback_client::load::encode::{MetricType, RemoteWrite, Sample};
use silverback_client::load::random::SplitMix;
use silverback_client::load::scrapes::DefineSeries;

use super::population::Weights;
use super::seconds::Seconds;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Samples lie so far back at the begin: hot series run ahead of the clock.
const BACK_MS: u64 = 20 * 60 * 60 * 1000;

/// How a feed sends.
#[derive(Debug, Clone)]
pub struct FeedOptions {
    /// Samples of a request.
    pub batch: usize,
    /// How long a connection rests after an answer.
    pub pause: Duration,
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
        let endpoint = Endpoint::resolve(&format!("http://{address}/api/v1/write"))?;
        let mut connections = Vec::new();
        for (number, series) in (0..).zip(series) {
            let connection = Connection::open(&endpoint, RemoteWrite::V2, &[], TIMEOUT)?;
            let sender = Sender::new(connection, &series, options.clone(), number);
            let signals = Arc::clone(&signals);
            connections.push(spawn(move || sender.run(&signals, began)));
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

/// One connection.
struct Sender {
    connection: Connection,
    encoder: BodyEncoder,
    options: FeedOptions,
    /// The series of each cell.
    slots: Vec<Vec<usize>>,
    newest_ms: Vec<i64>,
    random: SplitMix,
}

impl Sender {
    fn new(connection: Connection, series: &[Vec<Vec<Label>>], options: FeedOptions, number: u64) -> Self {
        let mut encoder = BodyEncoder::new(RemoteWrite::V2);
        let mut count = 0;
        let mut define = |labels: &Vec<Label>| {
            encoder.define(count, labels, MetricType::Gauge, "");
            count += 1;
            count - 1
        };
        let slots = series.iter().map(|cell| cell.iter().map(&mut define).collect()).collect();
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let newest_ms = vec![now_ms.saturating_sub(BACK_MS) as i64; count];
        Self { connection, encoder, options, slots, newest_ms, random: SplitMix::new(1, number) }
    }

    fn run(mut self, signals: &Signals, began: Instant) -> Result<Seconds, String> {
        let (mut seconds, mut samples) = (Seconds::since(began), Vec::new());
        while !signals.has_ended.load(Ordering::Relaxed) {
            self.draw(signals.weights.load(Ordering::Relaxed), &mut samples);
            let body = self.encoder.encode(&samples).map_err(|error| error.to_string())?;
            let sent = Instant::now();
            match self.connection.post(body.compressed) {
                Ok(answer) if answer.is_success() => seconds.answered(sent.elapsed(), samples.len() as u64),
                Ok(answer) => {
                    eprintln!("{}: {}", answer.status, answer.excerpt);
                    seconds.failed();
                }
                Err(error) => {
                    eprintln!("{error}");
                    seconds.failed();
                }
            }
            sleep(self.options.pause);
        }
        Ok(seconds)
    }

    fn draw(&mut self, weights: usize, samples: &mut Vec<Sample>) {
        samples.clear();
        while samples.len() < self.options.batch {
            let own = &self.slots[self.options.weights[weights].draw(&mut self.random)];
            if own.is_empty() {
                continue;
            }
            let series = own[(self.random.next_u64() % own.len() as u64) as usize];
            self.newest_ms[series] += 1;
            samples.push(Sample { series, timestamp_ms: self.newest_ms[series], value: self.random.unit() });
        }
    }
}

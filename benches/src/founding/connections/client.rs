//! The clients: as many connections as asked for, each sends its next request when it has the last one's
//! answer. It knows no server but by its address and its process.

use std::error::Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::try_join_all;
use hdrhistogram::Histogram;
use silverback_client::{Client, Series};
use silverback_load::figures::Quantiles;
use silverback_load::replay::pin::pin_to;
use tokio::runtime::Builder;

use super::serve::Server;
use super::{Figures, PER_CPU_S};

/// Series of a request, with one sample each.
const SERIES: usize = 10;
/// How long a server may take until it answers for the first time.
const READY_MAX: Duration = Duration::from_secs(30);
const READY_PERIOD: Duration = Duration::from_millis(20);
/// Milliseconds of the samples' time between two requests, from far enough back that it never comes up to the clock.
const STEP_MS: i64 = 1;
const BEGIN_AGO_MS: i64 = 60 * 60 * 1000;

/// Sends for `limit` and gives what the server spent.
pub(super) fn run(
    server: &Server,
    cpu: usize,
    connections: usize,
    limit: Duration,
) -> Result<Figures, Box<dyn Error>> {
    pin_to(cpu)?;
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut askers = try_join_all((0..connections).map(|number| Asker::connect(server, number))).await?;
        let process = server.process()?;
        let (before, began) = (process.usage()?, Instant::now());
        let latencies = try_join_all(askers.iter_mut().map(|asker| asker.ask_until(began + limit))).await?;
        let (wall_s, after) = (began.elapsed().as_secs_f64(), process.usage()?);
        let mut all = Histogram::<u64>::new(3)?;
        latencies.iter().try_for_each(|latency_us| all.add(latency_us))?;
        let (cpu_s, count, quantiles) =
            (after.cpu_s - before.cpu_s, all.len() as f64, Quantiles::of_micros(&all));
        let figures = [
            (PER_CPU_S, count / cpu_s),
            ("per_s", count / wall_s),
            ("cores", cpu_s / wall_s),
            ("p50", quantiles.p50),
            ("p99", quantiles.p99),
        ];
        Ok(figures.map(|(name, value)| (name.to_owned(), value)).into())
    })
}

/// One connection with series of its own.
struct Asker {
    client: Client,
    number: usize,
    timestamp_ms: i64,
}

impl Asker {
    /// Connects and makes its series. A node that was just started doesn't listen yet, or replays its log first.
    async fn connect(server: &Server, number: usize) -> Result<Self, Box<dyn Error>> {
        let give_up = Instant::now() + READY_MAX;
        loop {
            match Self::try_connect(server, number).await {
                Err(_) if Instant::now() < give_up => tokio::time::sleep(READY_PERIOD).await,
                connected => return connected,
            }
        }
    }

    async fn try_connect(server: &Server, number: usize) -> Result<Self, Box<dyn Error>> {
        let client = Client::connect(format!("http://{}", server.address)).await?;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        let mut asker = Self { client, number, timestamp_ms: now_ms - BEGIN_AGO_MS };
        asker.ask().await?;
        Ok(asker)
    }

    async fn ask_until(&mut self, end: Instant) -> Result<Histogram<u64>, Box<dyn Error>> {
        let mut latency_us = Histogram::new(3)?;
        loop {
            let began = Instant::now();
            if began >= end {
                return Ok(latency_us);
            }
            self.ask().await?;
            latency_us.record(began.elapsed().as_micros() as u64)?;
        }
    }

    /// One request; all of it has to be stored.
    async fn ask(&mut self) -> Result<(), Box<dyn Error>> {
        self.timestamp_ms += STEP_MS;
        let one = |n: usize| {
            let labels = [("asker", self.number.to_string()), ("n", n.to_string())];
            Series::new("founding_connections", labels).sample(self.timestamp_ms, n as f64)
        };
        let series: Vec<Series> = (0..SERIES).map(one).collect();
        let written = self.client.write(&series).await?;
        match written.samples_written {
            stored if stored == SERIES as u64 => Ok(()),
            stored => Err(format!("{stored} of {SERIES} samples were stored").into()),
        }
    }
}

//! What each connection has to send: its scrapes, or remote write bodies that a thread of its own
//! encodes ahead, as far as its share of a bounded room goes. It knows no connection, and no clock but
//! for how far timestamps may go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use silverback_load::body::BodyEncoder;
use silverback_load::encode::{RemoteWrite, Sample};
use silverback_load::fleet::Fleet;
use silverback_load::scrapes::{DefineSeries, Scrapes};
use tokio::sync::mpsc;

use super::options::LoadPlan;
use crate::error::{CommandError, Done};
use crate::time_text::now_ms;

/// Samples that are encoded ahead, of all connections: about 30 bytes each.
const SAMPLES_AHEAD_MAX: usize = 4 << 20;
const REQUESTS_AHEAD_MAX: usize = 64;
/// How far timestamps may run ahead of the clock: receivers take ten minutes and no more.
pub(super) const AHEAD_OF_CLOCK_MS_MAX: i64 = 5 * 60 * 1000;
const THREAD_STACK_BYTES: usize = 256 << 10;

/// A remote write request, ready to be sent.
#[derive(Debug)]
pub(super) struct Ready {
    /// Its samples.
    pub samples: u64,
    /// Its body.
    pub body: Bytes,
}

/// The requests of one connection, in order. It ends with the rounds.
pub(super) type Feed = mpsc::Receiver<Result<Ready, snap::Error>>;

/// One connection's scrapes, until the rounds are over or the timestamps come as far as the clock.
#[derive(Debug)]
pub(super) struct FeedShare {
    scrapes: Scrapes,
    batch: usize,
    clock_reached: Arc<AtomicBool>,
}

impl FeedShare {
    /// Puts the next request's samples into `samples`, if there are any more.
    pub(super) fn next(&mut self, samples: &mut Vec<Sample>, series: &mut impl DefineSeries) -> bool {
        if self.scrapes.round_ms() > now_ms() + AHEAD_OF_CLOCK_MS_MAX {
            self.clock_reached.store(true, Ordering::Relaxed);
            return false;
        }
        self.scrapes.next_batch(self.batch, samples, series).is_some()
    }

    /// The scrapes, to look at.
    pub(super) fn scrapes(&self) -> &Scrapes {
        &self.scrapes
    }
}

/// What the feeds of all connections have in common.
#[derive(Debug, Clone)]
pub(super) struct FeedSource {
    fleet: Arc<Fleet>,
    batch: usize,
    connections: usize,
    requests_ahead: usize,
    clock_reached: Arc<AtomicBool>,
}

impl FeedSource {
    /// The plan's.
    pub(super) fn new(plan: &LoadPlan) -> Done<Self> {
        let requests_ahead = SAMPLES_AHEAD_MAX / plan.connections / plan.batch;
        let source = Self {
            fleet: Arc::new(plan.fleet()?),
            batch: plan.batch,
            connections: plan.connections,
            requests_ahead: requests_ahead.clamp(1, REQUESTS_AHEAD_MAX),
            clock_reached: Arc::default(),
        };
        source.fleet.share(0, plan.connections).map_err(|error| CommandError::Usage(error.to_string()))?;
        Ok(source)
    }

    /// Each connection's part of all samples.
    pub(super) fn parts(&self) -> Done<Vec<f64>> {
        let samples = |connection| Ok(self.scrapes(connection)?.samples_per_round());
        let samples: Vec<f64> = (0..self.connections).map(samples).collect::<Done<_>>()?;
        let all: f64 = samples.iter().sum();
        Ok(samples.into_iter().map(|samples| samples / all).collect())
    }

    /// Whether a feed ended because its timestamps had come as far as the clock.
    pub(super) fn clock_reached(&self) -> bool {
        self.clock_reached.load(Ordering::Relaxed)
    }

    /// What one connection has to send.
    pub(super) fn share(&self, connection: usize) -> Done<FeedShare> {
        let clock_reached = Arc::clone(&self.clock_reached);
        Ok(FeedShare { scrapes: self.scrapes(connection)?, batch: self.batch, clock_reached })
    }

    /// The same as remote write bodies.
    pub(super) fn bodies(&self, connection: usize, version: RemoteWrite) -> Done<Feed> {
        let (share, (sender, feed)) = (self.share(connection)?, mpsc::channel(self.requests_ahead));
        let thread = thread::Builder::new().name("encode".to_owned()).stack_size(THREAD_STACK_BYTES);
        // It ends with the rounds, or once nobody takes what it makes.
        thread.spawn(move || encode(share, version, &sender))?;
        Ok(feed)
    }

    fn scrapes(&self, connection: usize) -> Done<Scrapes> {
        Ok(Scrapes::new(Arc::clone(&self.fleet), connection, self.connections)?)
    }
}

fn encode(mut share: FeedShare, version: RemoteWrite, sender: &mpsc::Sender<Result<Ready, snap::Error>>) {
    let (mut encoder, mut samples) = (BodyEncoder::new(version), Vec::with_capacity(share.batch));
    while share.next(&mut samples, &mut encoder) {
        let ready = encoder.encode(&samples).map(|body| Ready {
            samples: samples.len() as u64,
            body: Bytes::copy_from_slice(body.compressed),
        });
        if sender.blocking_send(ready).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::plan;
    use super::*;

    const SMALL: [&str; 6] = ["--targets", "6", "--series-per-target", "50", "--batch", "40"];

    fn source(more: &[&str]) -> FeedSource {
        FeedSource::new(&plan(&[&SMALL, more].concat()).expect("a plan")).expect("a source")
    }

    fn samples(source: &FeedSource, connection: usize) -> u64 {
        let mut feed = source.bodies(connection, RemoteWrite::V2).expect("a feed");
        let next = || feed.blocking_recv().map(|ready| ready.expect("a small body").samples);
        std::iter::from_fn(next).sum()
    }

    #[test]
    fn the_feeds_of_all_connections_hold_every_sample() {
        let source = source(&["--rounds", "3", "--connections", "4"]);
        let samples: u64 = (0..4).map(|connection| samples(&source, connection)).sum();
        assert_eq!((samples, source.clock_reached()), (6 * 50 * 3, false));
        let parts = source.parts().expect("parts");
        assert!(parts.len() == 4 && (parts.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{parts:?}");
    }

    #[test]
    fn timestamps_stop_at_the_clock() {
        let source = source(&["--closed", "--start", "now", "--connections", "1"]);
        // Five minutes are 20 rounds of 15 s, and the one that is in flight.
        let samples = samples(&source, 0);
        assert!((20 * 300..=22 * 300).contains(&samples), "{samples}");
        assert!(source.clock_reached());
    }
}

//! One connection that streams over gRPC by the client library's writer, which defines series once,
//! keeps batches in flight up to the window, and sends what breaks again. It counts nothing itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use silverback_client::{
    Client, RequestError, RetryPolicy, SeriesError, SeriesHandle, SeriesRejected, TryWriteError, Writer,
    WriterError, WriterHook, WriterOptions,
};
use silverback_load::catalogue::Label;
use silverback_load::encode::{MetricType, Sample};
use silverback_load::scrapes::DefineSeries;
use tokio::runtime::Handle;

use super::event::{Counter, Event};
use super::feed::FeedShare;
use super::histograms::{Counting, HistogramPart};
use super::turns::SendTurns;
use crate::error::Done;

/// Requests that one connection has in flight at most.
const REQUESTS_IN_FLIGHT_MAX: usize = 16;
/// A request that is smaller than a batch does not wait for the next one.
const BATCH_DELAY_MAX: Duration = Duration::from_millis(1);
/// A writer is made again once it knows this many series more than twice those that are alive, so that
/// nobody keeps series that are gone forever.
const SERIES_GONE_MIN: usize = 4096;

/// What one connection sends.
#[derive(Debug)]
pub(super) struct ConnectionContent {
    /// Its samples.
    pub share: FeedShare,
    /// Those series that are native histograms, whatever their samples' values are.
    pub histograms: HistogramPart,
}

/// A connection, and what it sends.
pub(super) struct Streaming {
    client: Client,
    content: ConnectionContent,
    turns: SendTurns,
    counter: Counter,
    /// How long what is in flight may take in the end.
    timeout: Duration,
    options: WriterOptions,
    under_way: Arc<UnderWay>,
    runtime: Handle,
}

impl Streaming {
    /// Over this client's connection, by the runtime that this is called in.
    pub(super) fn new(
        client: Client,
        content: ConnectionContent,
        turns: SendTurns,
        counter: Counter,
        batch: usize,
        timeout: Duration,
    ) -> Self {
        let under_way = Arc::new(UnderWay::new(counter.clone()));
        let hook: Arc<dyn WriterHook> = Arc::clone(&under_way) as _;
        let options = WriterOptions {
            batch_samples_max: batch,
            batch_delay_max: BATCH_DELAY_MAX,
            pending_samples_max: batch * REQUESTS_IN_FLIGHT_MAX,
            retry: RetryPolicy { give_up_after: Some(timeout), ..RetryPolicy::default() },
            hook: Some(hook),
            ..WriterOptions::default()
        };
        let runtime = Handle::current();
        Self { client, content, turns, counter, timeout, options, under_way, runtime }
    }

    /// Sends until the rounds or the run end. Returns how many samples were due by then and not sent.
    /// Blocks.
    pub(super) fn run(mut self) -> Done<u64> {
        let entered = self.runtime.clone();
        let _entered = entered.enter();
        let writer = self.client.writer_with(self.options.clone());
        let mut series = Series::new(writer, self.content.histograms);
        let sent = self.send_all(&mut series);
        // Also after an error: what it could still deliver is reported.
        let closed = self.close(series.writer);
        self.under_way.give_up();
        let overdue = sent?;
        closed?;
        Ok(overdue)
    }

    fn send_all(&mut self, series: &mut Series) -> Done<u64> {
        let mut samples = Vec::new();
        while self.content.share.next(&mut samples, series) {
            if let Some(error) = series.refused.take() {
                return Err(error.into());
            }
            let Ok(intended) = self.turns.wait(samples.len() as u64) else {
                return Ok(self.turns.samples_overdue());
            };
            self.under_way.begin(intended, samples.len() as u64);
            if let Err(error) = self.send(&samples, series) {
                self.counter.tell(Event::Said(error.to_string()));
                return Err(error.into());
            }
            self.renew_if_most_are_gone(series)?;
        }
        Ok(0)
    }

    fn send(&self, samples: &[Sample], series: &mut Series) -> Result<(), WriterError> {
        let Series { writer, slots, .. } = series;
        for sample in samples {
            let (Slot { handle, counting }, at_ms) = (&mut slots[sample.series], sample.timestamp_ms);
            let taken = match counting {
                None => writer.try_write(handle, at_ms, sample.value),
                Some(counting) => writer.try_write_histogram(handle, at_ms, counting.advance()),
            };
            match (taken, counting) {
                (Ok(()), _) => {}
                (Err(TryWriteError::Full), None) => {
                    self.runtime.block_on(writer.write(handle, at_ms, sample.value))?;
                }
                (Err(TryWriteError::Full), Some(counting)) => {
                    self.runtime.block_on(writer.write_histogram(handle, at_ms, counting.histogram()))?;
                }
                (Err(TryWriteError::Failed(error)), _) => return Err(error),
            }
        }
        Ok(())
    }

    fn renew_if_most_are_gone(&self, series: &mut Series) -> Done {
        if series.defined >= 2 * series.slots.len() + SERIES_GONE_MIN {
            let writer = self.client.writer_with(self.options.clone());
            let anew = Series::new(writer, self.content.histograms);
            self.close(std::mem::replace(series, anew).writer)?;
            self.content.share.scrapes().define_again(series);
        }
        Ok(())
    }

    fn close(&self, writer: Writer) -> Done {
        let closing = async { tokio::time::timeout(self.timeout, writer.close()).await };
        match self.runtime.block_on(closing) {
            Ok(Ok(_flushed)) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Err(_elapsed) => Err(format!("no acknowledgement within {:?}", self.timeout).into()),
        }
    }
}

/// The series of one writer.
struct Series {
    writer: Writer,
    slots: Vec<Slot>,
    histograms: HistogramPart,
    /// Since the writer was made.
    defined: usize,
    /// The first that the writer did not take.
    refused: Option<SeriesError>,
}

impl Series {
    fn new(writer: Writer, histograms: HistogramPart) -> Self {
        Self { writer, slots: Vec::new(), histograms, defined: 0, refused: None }
    }
}

/// A series of a writer.
struct Slot {
    handle: SeriesHandle,
    /// Where it is a native histogram.
    counting: Option<Counting>,
}

impl DefineSeries for Series {
    fn define(&mut self, slot: usize, labels: &[Label], _: MetricType, _: &str) {
        self.defined += 1;
        let counting = self.histograms.of_slot(slot);
        match (self.writer.series_of(labels.to_vec()), self.slots.get_mut(slot)) {
            (Ok(handle), Some(old)) => *old = Slot { handle, counting },
            (Ok(handle), None) => self.slots.push(Slot { handle, counting }),
            (Err(error), _) => self.refused = self.refused.take().or(Some(error)),
        }
    }
}

/// The requests that are in flight, oldest first: a stream is acknowledged in its order.
struct UnderWay {
    requests: Mutex<VecDeque<Request>>,
    /// What broke last.
    broken: Mutex<String>,
    counter: Counter,
}

struct Request {
    intended: Instant,
    /// Samples that aren't acknowledged.
    samples: u64,
}

impl UnderWay {
    fn new(counter: Counter) -> Self {
        Self { requests: Mutex::default(), broken: Mutex::new("unacknowledged".to_owned()), counter }
    }

    fn begin(&self, intended: Instant, samples: u64) {
        self.counter.tell(Event::Sent { samples });
        lock(&self.requests).push_back(Request { intended, samples });
    }

    /// Nothing more is acknowledged.
    fn give_up(&self) {
        let requests = std::mem::take(&mut *lock(&self.requests));
        let samples = requests.iter().map(|request| request.samples).sum();
        if samples > 0 {
            let (requests, status) = (requests.len() as u64, lock(&self.broken).clone());
            self.counter.tell(Event::Failed { status, requests, samples });
        }
    }
}

impl WriterHook for UnderWay {
    fn batch_retried(&self, _samples: usize) {
        self.counter.tell(Event::SentAgain { status: lock(&self.broken).clone() });
    }

    fn batch_acknowledged(&self, samples: usize, _since_sent: Duration) {
        let (mut left, mut latencies) = (samples as u64, Vec::new());
        let mut requests = lock(&self.requests);
        while let Some(request) = requests.front_mut() {
            let acknowledged = request.samples.min(left);
            request.samples -= acknowledged;
            left -= acknowledged;
            if request.samples > 0 {
                break;
            }
            latencies.push(request.intended.elapsed());
            requests.pop_front();
        }
        drop(requests);
        self.counter.tell(Event::Answered { latencies, samples: samples as u64 });
    }

    fn refused(&self, refusal: &SeriesRejected) {
        // A series that is refused before it has a sample is reported again with each of them.
        if refusal.samples > 0 {
            let reason = refusal.reason.to_string();
            self.counter.tell(Event::Refused { reason, samples: refusal.samples });
        }
    }

    fn disconnected(&self, error: &RequestError, _backoff: Duration) {
        *lock(&self.broken) = cause(error).to_owned();
        self.counter.tell(Event::Said(error.to_string()));
    }
}

/// A word for an error, to count by.
fn cause(error: &RequestError) -> &'static str {
    match error {
        RequestError::Invalid(_) => "invalid",
        RequestError::Denied(_) => "denied",
        RequestError::Busy { .. } => "busy",
        RequestError::Unavailable(_) => "unavailable",
        RequestError::TimedOut(_) => "timeout",
        RequestError::Connection(_) => "broken",
        RequestError::Unsupported(_) => "unsupported",
        RequestError::BrokenAnswer(_) => "broken answer",
        RequestError::Failed { .. } => "failed",
    }
}

/// Each use leaves what it guards whole, whoever panicked.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::tally::Tally;
    use super::*;

    #[test]
    fn acknowledged_batches_end_the_requests_that_they_are_of() {
        let counter = Counter::new(Tally::new(Instant::now(), None).expect("no process"));
        let under_way = UnderWay::new(counter.clone());
        let now = Instant::now();
        under_way.begin(now - Duration::from_secs(3), 100);
        under_way.begin(now - Duration::from_secs(2), 100);
        // A batch that is cut in two, and one of two requests.
        under_way.batch_acknowledged(30, Duration::ZERO);
        under_way.batch_acknowledged(120, Duration::ZERO);
        under_way.give_up();
        let counted = counter.tally().finish(Instant::now(), 0);
        assert_eq!((counted.totals.samples_written, counted.latency_us.len()), (150, 1));
        assert!((3_000_000..3_100_000).contains(&counted.latency_us.max()), "{}", counted.latency_us.max());
        assert_eq!(counted.totals.samples_failed, [("unacknowledged".to_owned(), 50)].into());
        assert_eq!(counted.totals.samples_unanswered, 0);
    }
}

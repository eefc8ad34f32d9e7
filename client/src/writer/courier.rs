//! The task behind a writer: takes batches from the queue, sends them, keeps them until they are
//! acknowledged, and sends them again on the next stream where they aren't.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::backoff::{RetryVerdict, WriterBackoff};
use super::columns::WriterColumns;
use super::error::WriterError;
use super::options::WriterHook;
use super::queue::{Next, Outcome, Queue};
use super::registry::Registry;
use super::session::{Acknowledged, SendOutcome, Session};
use crate::client::Client;
use crate::error::RequestError;
use crate::refusal::SeriesRejected;

/// How long a stream may take to end once everything on it is acknowledged.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends what a writer accepts.
pub(crate) struct Courier {
    pub client: Client,
    pub queue: Arc<Queue>,
    pub registry: Arc<Registry>,
    pub backoff: WriterBackoff,
    pub hook: Option<Arc<dyn WriterHook>>,
    /// Every batch that isn't acknowledged, in order: first those in flight on this stream, then
    /// those that are to be sent.
    pub kept: VecDeque<UnacknowledgedBatch>,
}

/// A batch until it is acknowledged.
pub(crate) struct UnacknowledgedBatch {
    columns: WriterColumns,
    /// On an earlier stream.
    was_sent: bool,
}

/// Why a stream is left.
enum Left {
    /// The node ended it, or it can define no more: the next one goes on.
    Renewed,
    /// The writer was closed, and everything is acknowledged.
    Done,
}

/// Tells those who wait, however the task ends.
struct EndsQueue(Arc<Queue>);

impl Drop for EndsQueue {
    fn drop(&mut self) {
        self.0.end(WriterError::Stopped);
    }
}

impl Courier {
    /// Sends until the writer is closed or can't go on.
    pub(super) async fn run(mut self) {
        let ends_queue = EndsQueue(Arc::clone(&self.queue));
        let error = match self.run_streams().await {
            Ok(()) => WriterError::Closed,
            Err(error) => error,
        };
        ends_queue.0.end(error);
    }

    async fn run_streams(&mut self) -> Result<(), WriterError> {
        let mut has_failed = false;
        while self.wait_for_work().await.is_continue() {
            match self.run_stream(&mut has_failed).await {
                Ok(Left::Renewed) => {}
                Ok(Left::Done) => return Ok(()),
                Err(CourierError::Final(error)) => return Err(error),
                Err(CourierError::Request(error)) if error.is_retryable() => {
                    has_failed = true;
                    self.wait_after(error).await?;
                }
                Err(CourierError::Request(error)) => return Err(WriterError::Refused(error)),
            }
        }
        Ok(())
    }

    /// A stream is opened when there is something for it. Breaks when nothing will come any more.
    async fn wait_for_work(&self) -> ControlFlow<()> {
        while self.kept.is_empty() && self.queue.is_idle() {
            if self.queue.is_closing() {
                return ControlFlow::Break(());
            }
            self.queue.work().await;
        }
        ControlFlow::Continue(())
    }

    async fn wait_after(&mut self, error: RequestError) -> Result<(), WriterError> {
        match self.backoff.failed(error.retry_after()) {
            RetryVerdict::GiveUp(after) => Err(WriterError::GaveUp { after, last: error }),
            RetryVerdict::Wait(backoff) => {
                if let Some(hook) = &self.hook {
                    hook.disconnected(&error, backoff);
                }
                tokio::time::sleep(backoff).await;
                Ok(())
            }
        }
    }

    async fn run_stream(&mut self, has_failed: &mut bool) -> Result<Left, CourierError> {
        let mut session = Session::open(&self.client).await?;
        if let (true, Some(hook)) = (std::mem::take(has_failed), &self.hook) {
            hook.reconnected();
        }
        let result = self.serve(&mut session).await;
        // What was in flight on it counts as sent before.
        self.kept.iter_mut().take(session.in_flight()).for_each(|kept| kept.was_sent = true);
        if let Ok(Left::Renewed | Left::Done) = result {
            // Everything on it is acknowledged: how it ends is of no interest any more.
            drop(timeout(FINISH_TIMEOUT, session.finish()).await);
        }
        result
    }

    /// Sends and takes acknowledgements in until the stream ends.
    async fn serve(&mut self, session: &mut Session) -> Result<Left, CourierError> {
        loop {
            let wait = self.send_all(session)?;
            if session.in_flight() == 0 {
                match wait {
                    Wait::NewStream => return Ok(Left::Renewed),
                    Wait::Done => return Ok(Left::Done),
                    Wait::Acknowledgement | Wait::Work(_) => {}
                }
            }
            let (may_work, due) = match wait {
                Wait::Work(due) => (true, due),
                Wait::Acknowledgement | Wait::NewStream | Wait::Done => (false, None),
            };
            tokio::select! {
                response = session.response() => match response {
                    Ok(Some(response)) => self.settle(session.acknowledge(response)?),
                    // A stream with nothing to send may end at any time.
                    Ok(None) | Err(_) if self.kept.is_empty() && self.queue.is_idle() => return Ok(Left::Renewed),
                    Ok(None) => return Err(RequestError::Unavailable(ENDED_EARLY.to_owned()).into()),
                    Err(error) => return Err(error.into()),
                },
                () = self.queue.work(), if may_work => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Sends all that may be sent, and returns what to wait for.
    fn send_all(&mut self, session: &mut Session) -> Result<Wait, CourierError> {
        while session.has_window() {
            let at = session.in_flight();
            if at == self.kept.len() {
                match self.queue.next(Instant::now()) {
                    Next::Batch(columns) => {
                        self.kept.push_back(UnacknowledgedBatch { columns, was_sent: false })
                    }
                    Next::Wait(due) => return Ok(Wait::Work(due)),
                    Next::Done => return Ok(Wait::Done),
                }
            }
            match session.send(&self.kept[at].columns, &self.registry) {
                SendOutcome::Samples(samples) => self.was_sent(at, samples),
                SendOutcome::NoRoom if session.is_fresh() => {
                    return Err(CourierError::Final(WriterError::SeriesTooLong));
                }
                SendOutcome::NoRoom => return Ok(Wait::NewStream),
                SendOutcome::NoHistograms => return Err(CourierError::Final(WriterError::NoHistograms)),
            }
        }
        Ok(Wait::Acknowledgement)
    }

    /// The first samples of a kept batch are in flight: the others are a batch of their own.
    fn was_sent(&mut self, at: usize, samples: usize) {
        let kept = &mut self.kept[at];
        let was_sent = kept.was_sent;
        if samples < kept.columns.len() {
            let columns = kept.columns.split_off(samples);
            self.kept.insert(at + 1, UnacknowledgedBatch { columns, was_sent });
        }
        match &self.hook {
            Some(hook) if was_sent => hook.batch_retried(samples),
            Some(hook) => hook.batch_sent(samples),
            None => {}
        }
    }

    fn settle(&mut self, Acknowledged { sent_at, outcome }: Acknowledged) {
        if !sent_at.is_empty() {
            self.backoff.reset();
        }
        let settled: Vec<WriterColumns> = self.kept.drain(..sent_at.len()).map(|kept| kept.columns).collect();
        if let Some(hook) = &self.hook {
            for (columns, sent_at) in settled.iter().zip(&sent_at) {
                hook.batch_acknowledged(columns.len(), sent_at.elapsed());
            }
            refusals(&outcome, &self.registry).iter().for_each(|refusal| hook.refused(refusal));
        }
        self.queue.settle(settled, outcome);
    }
}

const ENDED_EARLY: &str = "it ended the stream before everything was acknowledged";

/// What to wait for once all that may be sent is sent.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// The window is full.
    Acknowledgement,
    /// More samples, or the time at which those that there are have to go.
    Work(Option<Instant>),
    /// This stream's last acknowledgement.
    NewStream,
    /// The writer's last acknowledgement.
    Done,
}

/// Why a stream is of no more use.
enum CourierError {
    Request(RequestError),
    Final(WriterError),
}

impl From<RequestError> for CourierError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// The refusals with their labels, ordered.
pub(crate) fn refusals(outcome: &Outcome, registry: &Registry) -> Vec<SeriesRejected> {
    let refusal = |(&(series, reason), &samples)| SeriesRejected {
        labels: registry.labels(series).to_vec(),
        reason,
        samples,
    };
    let mut refusals: Vec<_> = outcome.refused.iter().map(refusal).collect();
    refusals.sort_unstable_by(|a: &SeriesRejected, b| (&a.labels, a.reason).cmp(&(&b.labels, b.reason)));
    refusals
}

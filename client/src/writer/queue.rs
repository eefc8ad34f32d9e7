//! Between those who write and the task that sends: the batch that fills, those that wait, and what
//! became of what was sent.
//!
//! One lock, held for one push: it is contended only where tasks share a writer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::columns::{SeriesIndex, WriterColumns, histogram_weight};
use super::error::{TryWriteError, WriterError};
use super::options::WriterOptions;
use crate::refusal::{Durability, RefusalReason};

/// Empty columns that are kept for later batches.
const SPARE_COLUMNS_MAX: usize = 16;

/// Samples on their way from a writer to its task.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// The task has something to do.
    work: Notify,
    /// Something was settled, or the writer has ended.
    progress: Notify,
    batch_samples_max: usize,
    batch_delay_max: Duration,
    pending_samples_max: u64,
}

#[derive(Debug)]
struct QueueState {
    phase: Phase,
    /// The batch that fills, as how many floats it counts, and since when.
    open: WriterColumns,
    open_weight: usize,
    open_since: Instant,
    /// Those that wait for the task, oldest first.
    cut: VecDeque<WriterColumns>,
    spare: Vec<WriterColumns>,
    /// Samples that were ever accepted, and those of them that are acknowledged. They are
    /// acknowledged in their order. A native histogram counts as the floats that would take its memory.
    accepted: u64,
    settled: u64,
    outcome: Outcome,
}

#[derive(Debug)]
enum Phase {
    Taking,
    /// Nothing more is taken; the task sends what there is.
    Closing,
    Ended(WriterError),
}

/// What became of samples.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub samples_written: u64,
    /// Each series and reason once, which bounds it.
    pub refused: HashMap<(SeriesIndex, RefusalReason), u64>,
    pub durability: Durability,
}

/// What a push did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The batch goes on filling.
    Kept,
    /// The batch was cut: the task has work.
    Cut,
}

/// What the task does next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Sends this.
    Batch(WriterColumns),
    /// Waits for more work, or until then.
    Wait(Option<Instant>),
    /// Ends: there is nothing left, and nothing will come.
    Done,
}

impl Queue {
    pub(super) fn new(options: &WriterOptions) -> Self {
        let pending_samples_max = options.pending_samples_max.max(1);
        // A batch that fits never waits for room that only it can give.
        let batch_samples_max = options.batch_samples_max.clamp(1, pending_samples_max);
        let state = QueueState {
            phase: Phase::Taking,
            open: WriterColumns::default(),
            open_weight: 0,
            open_since: Instant::now(),
            cut: VecDeque::new(),
            spare: Vec::new(),
            accepted: 0,
            settled: 0,
            outcome: Outcome::default(),
        };
        Self {
            state: Mutex::new(state),
            work: Notify::new(),
            progress: Notify::new(),
            batch_samples_max,
            batch_delay_max: options.batch_delay_max,
            pending_samples_max: pending_samples_max as u64,
        }
    }

    /// Takes a sample in, if there is room.
    #[inline]
    pub(super) fn push(
        &self,
        series: SeriesIndex,
        timestamp_ms: i64,
        value: f64,
    ) -> Result<Pushed, TryWriteError> {
        self.take(1, |open| open.push(series, timestamp_ms, value))
    }

    /// Takes a native histogram in, as its message, if there is room.
    pub(super) fn push_histogram(
        &self,
        series: SeriesIndex,
        message: Bytes,
    ) -> Result<Pushed, TryWriteError> {
        self.take(histogram_weight(&message), |open| open.push_histogram(series, message))
    }

    #[inline]
    fn take(&self, weight: usize, put: impl FnOnce(&mut WriterColumns)) -> Result<Pushed, TryWriteError> {
        let mut state = self.lock();
        match &state.phase {
            Phase::Taking => {}
            Phase::Closing => return Err(WriterError::Closed.into()),
            Phase::Ended(error) => return Err(error.clone().into()),
        }
        // The last one may be larger than the room is: it has to go in some time.
        if state.accepted - state.settled >= self.pending_samples_max {
            return Err(TryWriteError::Full);
        }
        put(&mut state.open);
        state.accepted += weight as u64;
        state.open_weight += weight;
        if state.open_weight < self.batch_samples_max && state.open_weight > weight {
            return Ok(Pushed::Kept);
        }
        Ok(self.at_edge(state))
    }

    /// A batch has got its first sample, or its last.
    fn at_edge(&self, mut state: MutexGuard<'_, QueueState>) -> Pushed {
        state.open_since = Instant::now();
        let is_full = state.open_weight >= self.batch_samples_max;
        if is_full {
            state.cut_open(self.batch_samples_max);
        }
        drop(state);
        self.work.notify_one();
        if is_full { Pushed::Cut } else { Pushed::Kept }
    }

    /// Waits until a push may succeed, or fails for another reason.
    pub(super) async fn room(&self) {
        self.wait_until(|state| match state.phase {
            Phase::Taking => (state.accepted - state.settled < self.pending_samples_max).then_some(()),
            Phase::Closing | Phase::Ended(_) => Some(()),
        })
        .await;
    }

    /// Waits until all that was pushed before is settled, and takes the outcome.
    pub(super) async fn flushed(&self) -> Result<Outcome, WriterError> {
        let target = {
            let mut state = self.lock();
            state.cut_open(self.batch_samples_max);
            state.accepted
        };
        self.work.notify_one();
        self.wait_until(|state| match &state.phase {
            _ if state.settled >= target => Some(Ok(state.take_outcome())),
            Phase::Ended(error) => Some(Err(error.clone())),
            Phase::Taking | Phase::Closing => None,
        })
        .await
    }

    /// Accepts nothing any more, waits until the task has ended, and takes the outcome.
    pub(super) async fn closed(&self) -> Result<Outcome, WriterError> {
        let target = {
            let mut state = self.lock();
            state.cut_open(self.batch_samples_max);
            if let Phase::Taking = state.phase {
                state.phase = Phase::Closing;
            }
            state.accepted
        };
        self.work.notify_one();
        self.wait_until(|state| match &state.phase {
            Phase::Ended(_) if state.settled >= target => Some(Ok(state.take_outcome())),
            Phase::Ended(error) => Some(Err(error.clone())),
            Phase::Taking | Phase::Closing => None,
        })
        .await
    }

    /// For the task: waits until there is something to do.
    pub(super) async fn work(&self) {
        self.work.notified().await;
    }

    /// For the task: what to do at this time.
    pub(super) fn next(&self, now: Instant) -> Next {
        let mut state = self.lock();
        if let Some(batch) = state.cut.pop_front() {
            return Next::Batch(batch);
        }
        let due = state.open_since + self.batch_delay_max;
        match state.phase {
            Phase::Closing | Phase::Ended(_) => Next::Done,
            Phase::Taking if state.open.is_empty() => Next::Wait(None),
            Phase::Taking if due > now => Next::Wait(Some(due)),
            Phase::Taking => {
                state.cut_open(self.batch_samples_max);
                state.cut.pop_front().map_or(Next::Wait(None), Next::Batch)
            }
        }
    }

    /// For the task: whether there is nothing to send, now or soon.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.cut.is_empty() && state.open.is_empty()
    }

    /// For the task: whether nothing will come any more.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.lock().phase, Phase::Closing | Phase::Ended(_))
    }

    /// For the task: these samples are acknowledged, and this is what became of them.
    pub(super) fn settle(&self, batches: impl IntoIterator<Item = WriterColumns>, became: Outcome) {
        let mut state = self.lock();
        for mut batch in batches {
            state.settled += batch.weight() as u64;
            if state.spare.len() < SPARE_COLUMNS_MAX {
                batch.clear();
                state.spare.push(batch);
            }
        }
        state.outcome.samples_written += became.samples_written;
        state.outcome.durability = became.durability;
        for (refused, samples) in became.refused {
            *state.outcome.refused.entry(refused).or_default() += samples;
        }
        drop(state);
        self.progress.notify_waiters();
    }

    /// For the task: it has ended, for this reason; the first one counts.
    pub(super) fn end(&self, error: WriterError) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Ended(_)) {
            state.phase = Phase::Ended(error);
        }
        drop(state);
        self.progress.notify_waiters();
    }

    async fn wait_until<T>(&self, mut reached: impl FnMut(&mut QueueState) -> Option<T>) -> T {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            // Before the look: what happens between the look and the wait must not be missed.
            progress.as_mut().enable();
            if let Some(result) = reached(&mut self.lock()) {
                return result;
            }
            progress.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A panic while it was held can only have been for want of memory.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn cut_open(&mut self, capacity: usize) {
        if self.open.is_empty() {
            return;
        }
        let fresh = self.spare.pop().unwrap_or_else(|| WriterColumns::with_capacity(capacity));
        self.cut.push_back(std::mem::replace(&mut self.open, fresh));
        self.open_weight = 0;
    }

    fn take_outcome(&mut self) -> Outcome {
        let durability = self.outcome.durability;
        std::mem::replace(&mut self.outcome, Outcome { durability, ..Outcome::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(200);

    fn queue(batch_samples_max: usize, pending_samples_max: usize) -> Queue {
        let options = WriterOptions {
            batch_samples_max,
            pending_samples_max,
            batch_delay_max: DELAY,
            ..Default::default()
        };
        Queue::new(&options)
    }

    fn push(queue: &Queue, value: f64) -> Result<Pushed, TryWriteError> {
        queue.push(SeriesIndex(0), 1, value)
    }

    fn values(next: Next) -> Vec<f64> {
        match next {
            Next::Batch(batch) => batch.values,
            Next::Wait(_) | Next::Done => panic!("no batch: {next:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_cut_by_size() {
        let queue = queue(2, 100);
        assert_eq!(push(&queue, 1.0).unwrap(), Pushed::Kept);
        assert_eq!(push(&queue, 2.0).unwrap(), Pushed::Cut);
        push(&queue, 3.0).unwrap();
        assert_eq!(values(queue.next(Instant::now())), [1.0, 2.0]);
        assert_eq!(queue.next(Instant::now()), Next::Wait(Some(Instant::now() + DELAY)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_cut_by_time() {
        let queue = queue(100, 100);
        let began = Instant::now();
        assert_eq!(queue.next(began), Next::Wait(None));
        push(&queue, 1.0).unwrap();
        tokio::time::advance(DELAY / 2).await;
        push(&queue, 2.0).unwrap();
        assert_eq!(queue.next(Instant::now()), Next::Wait(Some(began + DELAY)));
        assert_eq!(values(queue.next(began + DELAY)), [1.0, 2.0]);
    }

    #[tokio::test]
    async fn room_is_what_is_not_settled() {
        let queue = queue(2, 3);
        for _ in 0..3 {
            push(&queue, 1.0).unwrap();
        }
        assert!(matches!(push(&queue, 1.0), Err(TryWriteError::Full)));
        let batch = queue.next(Instant::now());
        assert!(matches!(push(&queue, 1.0), Err(TryWriteError::Full)), "what is on its way takes room");
        let Next::Batch(batch) = batch else { panic!("{batch:?}") };
        queue.settle([batch], Outcome::default());
        queue.room().await;
        push(&queue, 1.0).unwrap();
    }

    #[tokio::test]
    async fn a_batch_is_never_larger_than_what_may_be_pending() {
        let queue = queue(100, 3);
        for _ in 0..3 {
            push(&queue, 1.0).unwrap();
        }
        assert_eq!(values(queue.next(Instant::now())).len(), 3);
    }

    #[tokio::test]
    async fn a_histogram_takes_the_room_of_the_floats_that_would_take_its_memory() {
        let queue = queue(100, 300);
        let histogram = || queue.push_histogram(SeriesIndex(0), vec![0; 60 * 20].into());
        assert_eq!(histogram().unwrap(), Pushed::Kept);
        assert_eq!(histogram().unwrap(), Pushed::Cut, "two of them are a batch");
        assert_eq!((0..2).map(|_| histogram().unwrap()).collect::<Vec<_>>(), [Pushed::Kept, Pushed::Cut]);
        histogram().unwrap();
        assert!(matches!(push(&queue, 1.0), Err(TryWriteError::Full)));
        let Next::Batch(batch) = queue.next(Instant::now()) else { panic!("a batch") };
        assert_eq!((batch.len(), batch.histograms.len()), (2, 2));
        queue.settle([batch], Outcome::default());
        push(&queue, 1.0).unwrap();
    }

    #[tokio::test]
    async fn an_ended_queue_tells_why_to_everyone() {
        let queue = queue(2, 3);
        push(&queue, 1.0).unwrap();
        let (flushed, ()) = tokio::join!(queue.flushed(), async { queue.end(WriterError::Stopped) });
        assert!(matches!(flushed, Err(WriterError::Stopped)));
        assert!(matches!(push(&queue, 1.0), Err(TryWriteError::Failed(WriterError::Stopped))));
        queue.end(WriterError::Closed);
        assert!(matches!(queue.closed().await, Err(WriterError::Stopped)), "the first reason counts");
    }
}

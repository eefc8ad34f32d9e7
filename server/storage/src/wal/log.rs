//! The log on disk as its shard sees it: a journal to write to, a commit to wait for.
//!
//! One group is filled while the former one is on its way to the disk; the [`committer`] takes it
//! from here. What stands in files, and where, is not known here.
//!
//! [`committer`]: crate::wal::committer

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::wal::AckMode;
use crate::wal::health::LogHealth;
use crate::wal::record::Group;
use crate::wal::{Durable, Log, LogError, LogReport, Lsn};
use silverback_host::counters;
use silverback_host::metrics::Durations;
use silverback_host::waiters::{KeptWaker, Waiters};
use silverback_model::limits::{DISK_ANSWER_MAX, LOG_BACKLOG_BYTES_MAX};

/// A shard's log. A clone is the same log.
#[derive(Debug, Clone)]
pub struct DiskLog {
    state: Rc<State>,
}

#[derive(Debug)]
struct State {
    ack: AckMode,
    health: Arc<LogHealth>,
    journal: RefCell<Group>,
    standing: RefCell<LogState>,
    /// The group that the journal fills.
    filling: Cell<Lsn>,
    /// The last group that is on disk.
    durable: Cell<Lsn>,
    /// With more than this behind the last checkpoint it takes nothing in. `None`: no checkpoint was
    /// tried since that one.
    bytes_max: Cell<Option<u64>>,
    /// Why it takes nothing in, as its health knows it.
    told: RefCell<Option<LogError>>,
    closing: Cell<bool>,
    has_ended: Cell<bool>,
    /// Somebody waits for what the journal holds.
    is_wanted: Cell<bool>,
    /// Since when the group that is on its way to the disk is, in µs on the host's clock.
    in_flight_since_us: Cell<Option<u64>>,
    committer: KeptWaker,
    /// Who looks whether the disk answers.
    watch: KeptWaker,
    waiting: Waiters,
    counts: Cell<LogCounts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LogState {
    Open,
    Shut(LogError),
}

counters! {
    /// What a log did since the start, and its size now.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct LogCounts {
        /// Groups of the write-ahead log made durable.
        commits: u64 => Counter "silverback_wal_commits_total",
        /// Time from a group's leaving memory to durable.
        commit_durations: Durations => Histogram "silverback_wal_commit_seconds",
        /// Samples in the write-ahead log's groups.
        samples: u64 => Counter "silverback_wal_samples_total",
        /// Bytes of the log, padding included.
        written_bytes: u64 => Counter "silverback_wal_written_bytes_total",
        /// Bytes of the log that a restart would replay behind the checkpoint.
        since_checkpoint_bytes: u64 => Gauge "silverback_wal_since_checkpoint_bytes",
        /// Disk space of segments and spares.
        segment_bytes: u64 => Gauge "silverback_wal_segment_bytes",
        /// Attempts to write that found the disk full.
        full_disk: u64 => Counter "silverback_wal_disk_full_total",
        /// Checkpoints written.
        checkpoints: u64 => Counter "silverback_checkpoints_total",
        /// Checkpoints that failed.
        checkpoints_failed: u64 => Counter "silverback_checkpoints_failed_total",
        /// Disk space of the newest checkpoint.
        checkpoint_bytes: u64 => Gauge "silverback_checkpoint_bytes",
    }
}

impl DiskLog {
    /// A log that takes nothing in until [`committer::start`](super::committer::start) opens it.
    pub fn new(ack: AckMode, health: Arc<LogHealth>) -> Self {
        health.changed(None, Some(&LogError::Replaying));
        Self {
            state: Rc::new(State {
                ack,
                health,
                journal: RefCell::default(),
                standing: RefCell::new(LogState::Shut(LogError::Replaying)),
                filling: Cell::new(Lsn(1)),
                durable: Cell::default(),
                bytes_max: Cell::default(),
                told: RefCell::new(Some(LogError::Replaying)),
                closing: Cell::new(false),
                has_ended: Cell::new(false),
                is_wanted: Cell::new(false),
                in_flight_since_us: Cell::default(),
                committer: KeptWaker::default(),
                watch: KeptWaker::default(),
                waiting: Waiters::default(),
                counts: Cell::default(),
            }),
        }
    }

    /// The groups up to `last` are on disk from former times.
    pub(super) fn begin_after(&self, last: Lsn) {
        self.state.filling.set(Lsn(last.0 + 1));
        self.state.durable.set(last);
    }

    /// Bounds what may stand behind the last checkpoint until there is a newer one. A bound that it
    /// has already stays: attempts that fail must not raise it.
    pub fn bound(&self, bytes_max: u64) {
        let former = self.state.bytes_max.get();
        self.state.bytes_max.set(former.or(Some(bytes_max)));
        self.tell_health();
    }

    /// There is a checkpoint, with so many bytes behind it.
    pub fn begin_behind_checkpoint(&self, bytes: u64) {
        self.state.bytes_max.set(None);
        self.count(|counts| counts.since_checkpoint_bytes = bytes);
    }

    /// Lets the committer end once all is on disk, and waits for it. Nothing may be written to the
    /// journal any more. An error: what waits doesn't get there.
    pub async fn close(&self) -> Result<(), LogError> {
        self.state.closing.set(true);
        self.wake_committer();
        match &*self.state.standing.borrow() {
            // A disk that hangs may come back: how long to wait for it is the caller's to say.
            LogState::Open | LogState::Shut(LogError::Hung(_)) => {}
            LogState::Shut(error) => return Err(error.clone()),
        }
        self.state.waiting.until(|| self.state.has_ended.get().then_some(())).await;
        Ok(())
    }

    /// The committer has ended.
    pub(super) fn end(&self) {
        self.state.has_ended.set(true);
        self.state.watch.wake();
        self.wake_waiting();
    }

    /// The group that the journal fills now.
    pub(crate) fn filling(&self) -> Lsn {
        self.state.filling.get()
    }

    /// The last group that is on disk.
    pub fn durable(&self) -> Lsn {
        self.state.durable.get()
    }

    /// What it did and how large it is.
    pub fn counts(&self) -> LogCounts {
        self.state.counts.get()
    }

    /// Changes what it tells of itself.
    pub fn count(&self, change: impl FnOnce(&mut LogCounts)) {
        let mut counts = self.state.counts.get();
        change(&mut counts);
        self.state.counts.set(counts);
        self.tell_health();
    }

    /// Takes nothing more until the node is restarted, whatever comes: the disk, or who looks after it, has
    /// given this reason. What waits in the journal is dropped; nobody was told that it is durable.
    pub fn fail(&self, reason: &str) {
        if !self.has_failed() {
            self.stand(Err(LogError::Failed(reason.into())));
            self.state.journal.borrow_mut().close();
            self.wake_committer();
        }
    }

    /// Whether it takes nothing more for good.
    pub(super) fn has_failed(&self) -> bool {
        matches!(&*self.state.standing.borrow(), LogState::Shut(LogError::Failed(_)))
    }

    /// Says whether it takes anything in, and tells those who wait. Not for a log that has failed.
    pub(super) fn stand(&self, standing: Result<(), LogError>) {
        let standing = match standing {
            Ok(()) => LogState::Open,
            Err(error) => LogState::Shut(error),
        };
        self.state.standing.replace(standing);
        self.tell_health();
        self.wake_waiting();
    }

    fn tell_health(&self) {
        let (now, mut told) = (self.check().err(), self.state.told.borrow_mut());
        if *told != now {
            self.state.health.changed(told.as_ref(), now.as_ref());
            *told = now;
        }
    }

    fn is_checkpoint_overdue(&self) -> bool {
        let bytes = self.counts().since_checkpoint_bytes;
        self.state.bytes_max.get().is_some_and(|bytes_max| bytes > bytes_max)
    }

    /// Waits for something to commit: all of it is wanted, or it has grown large, or the log is
    /// closing. Tells whether there is any.
    pub(super) async fn wait_for_work(&self) -> Work {
        poll_fn(|context| {
            let work = self.work();
            if work.is_none() {
                self.state.committer.keep(context);
            }
            work.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn work(&self) -> Option<Work> {
        if self.has_failed() {
            return Some(Work::Nothing);
        }
        let has_any = !self.state.journal.borrow().is_empty();
        match (has_any, self.state.is_wanted.get() || self.state.closing.get()) {
            (true, true) => Some(Work::Group),
            (false, true) if self.state.closing.get() => Some(Work::Nothing),
            (true | false, _) => None,
        }
    }

    /// A group sets out for the disk, `now_us` on the host's clock.
    pub(super) fn sets_out(&self, now_us: u64) {
        self.state.in_flight_since_us.set(Some(now_us));
        self.state.watch.wake();
    }

    /// The disk has answered for the group that was on its way, whatever its answer is.
    pub(super) fn has_arrived(&self) {
        self.state.in_flight_since_us.set(None);
    }

    /// For how long a group has been on its way to the disk, in µs; 0 where none is.
    fn in_flight_us(&self, now_us: u64) -> u64 {
        self.state.in_flight_since_us.get().map_or(0, |since_us| now_us.saturating_sub(since_us))
    }

    /// Takes nothing in while a group has been on its way for too long, and tells those who wait for it.
    /// The disk's answer opens it again.
    pub(super) fn look_for_hang(&self, now_us: u64) {
        let in_flight = Duration::from_micros(self.in_flight_us(now_us));
        // A log that has failed stays so, whatever the disk still answers.
        if in_flight < DISK_ANSWER_MAX || self.has_failed() {
            return;
        }
        let was_hung = matches!(*self.state.standing.borrow(), LogState::Shut(LogError::Hung(_)));
        if !was_hung {
            tracing::error!(?in_flight, "the disk doesn't answer; writes are refused until it does");
        }
        self.stand(Err(LogError::Hung(in_flight.as_secs())));
    }

    /// Waits until a group is on its way to the disk. `false`: the committer has ended, and none will be.
    pub(super) async fn sets_out_or_ends(&self) -> bool {
        poll_fn(|context| {
            if self.state.has_ended.get() {
                return Poll::Ready(false);
            }
            if self.state.in_flight_since_us.get().is_some() {
                return Poll::Ready(true);
            }
            self.state.watch.keep(context);
            Poll::Pending
        })
        .await
    }

    /// Whether the log is to end.
    pub(super) fn is_closing(&self) -> bool {
        self.state.closing.get()
    }

    /// Takes the journal's group in exchange for an empty one, and tells its number.
    pub(super) fn take_group(&self, empty: &mut Group) -> Lsn {
        std::mem::swap(&mut *self.state.journal.borrow_mut(), empty);
        self.state.is_wanted.set(false);
        let lsn = self.state.filling.get();
        self.state.filling.set(Lsn(lsn.0 + 1));
        lsn
    }

    /// A group is on disk: whatever kept it from there is over.
    pub(super) fn committed(&self, lsn: Lsn) {
        self.state.durable.set(lsn);
        if let LogState::Shut(LogError::Hung(seconds)) = *self.state.standing.borrow() {
            tracing::info!(seconds, "the disk answers again; writes are taken in");
        }
        self.stand(Ok(()));
    }

    /// Asks for a commit of what the journal holds.
    pub(super) fn want(&self) {
        self.state.is_wanted.set(true);
        self.wake_committer();
    }

    fn wake_committer(&self) {
        self.state.committer.wake();
    }

    fn wake_waiting(&self) {
        self.state.waiting.wake_all();
    }
}

/// What the committer is woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// The journal holds a group.
    Group,
    /// The log is closed and all of it is on disk, or it has failed.
    Nothing,
}

impl State {
    /// The last group that has anything in it.
    fn last_taken(&self) -> Lsn {
        let (filling, journal) = (self.filling.get(), self.journal.borrow());
        // What a closed journal was given will never be durable.
        if journal.is_empty() && !journal.is_closed() { Lsn(filling.0 - 1) } else { filling }
    }

    /// What came of the groups up to `upto`; `None`: they are still on their way.
    fn outcome(&self, upto: Lsn) -> Option<Result<Durable, LogError>> {
        if self.durable.get() >= upto {
            return Some(Ok(Durable { upto }));
        }
        match &*self.standing.borrow() {
            LogState::Shut(error) => Some(Err(error.clone())),
            LogState::Open => None,
        }
    }
}

impl Log for DiskLog {
    type Journal = Group;

    fn check(&self) -> Result<(), LogError> {
        match &*self.state.standing.borrow() {
            LogState::Open if self.is_checkpoint_overdue() => {
                Err(LogError::CheckpointOverdue(self.counts().since_checkpoint_bytes >> 20))
            }
            LogState::Open => Ok(()),
            LogState::Shut(error) => Err(error.clone()),
        }
    }

    fn journal(&self) -> RefMut<'_, Group> {
        self.state.journal.borrow_mut()
    }

    fn report(&self, now_us: u64) -> LogReport {
        LogReport {
            counts: self.counts(),
            fault: self.check().err(),
            commit_in_flight_us: self.in_flight_us(now_us),
        }
    }

    async fn commit(&self) -> Result<Durable, LogError> {
        match self.state.ack {
            AckMode::Durable => self.flush().await,
            AckMode::Memory if self.state.journal.borrow().bytes() < LOG_BACKLOG_BYTES_MAX => {
                self.check()?;
                Ok(Durable { upto: self.state.last_taken() })
            }
            // The disk doesn't keep up: what waits for it is bounded.
            AckMode::Memory => self.flush().await,
        }
    }

    async fn flush(&self) -> Result<Durable, LogError> {
        let upto = self.state.last_taken();
        self.want();
        self.state.waiting.until(|| self.state.outcome(upto)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Journal;
    use silverback_host::waiters::counted::check_one_waker_is_kept;
    use silverback_model::{Sample, SeriesRef};

    #[test]
    fn who_waits_for_a_disk_that_hangs_is_kept_once_however_often_it_is_woken() {
        let log = DiskLog::new(AckMode::Durable, Arc::default());
        log.stand(Ok(()));
        log.journal().stored(SeriesRef(0), Sample::new(1, 1.0));
        check_one_waker_is_kept(log.flush());
        check_one_waker_is_kept(log.close());
    }
}

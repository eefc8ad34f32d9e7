//! The log on disk as its shard sees it: a journal to write to, a commit to wait for.
//!
//! One group is filled while the former one is on its way to the disk; the [`committer`] takes it
//! from here. What is in files, and where, is not known here.
//!
//! [`committer`]: crate::wal::committer

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use crate::wal::AckMode;
use crate::wal::health::{HealthEntry, LogHealth};
use crate::wal::record::Group;
use crate::wal::states::{Hang, LogStates, Work};
use crate::wal::{Durable, Log, LogError, LogReport, Lsn};
use silverback_host::counters;
use silverback_host::metrics::Durations;
use silverback_host::waiters::{KeptWaker, Waiters};
use silverback_model::limits::LOG_BACKLOG_BYTES_MAX;

/// A shard's log. A clone is the same log.
#[derive(Debug, Clone)]
pub struct DiskLog {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ack: AckMode,
    health: HealthEntry,
    journal: RefCell<Group>,
    states: RefCell<LogStates>,
    counts: Cell<LogCounts>,
    committer: KeptWaker,
    /// Who looks whether the disk answers.
    watch: KeptWaker,
    waiting: Waiters,
    /// Who writes checkpoints.
    checkpoints: Waiters,
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
        /// Bytes of the log that a restart would replay after the checkpoint.
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
    /// A log that accepts nothing until [`committer::start`](super::committer::start) opens it.
    pub fn new(ack: AckMode, health: Arc<LogHealth>) -> Self {
        let log = Self {
            shared: Rc::new(Shared {
                ack,
                health: HealthEntry::new(health),
                journal: RefCell::default(),
                states: RefCell::default(),
                counts: Cell::default(),
                committer: KeptWaker::default(),
                watch: KeptWaker::default(),
                waiting: Waiters::default(),
                checkpoints: Waiters::default(),
            }),
        };
        log.tell_health();
        log
    }

    /// The groups up to `last` are on disk from former times.
    pub(super) fn begin_after(&self, last: Lsn) {
        self.change(|states| states.begin_after(last));
    }

    /// Bounds what may be after the last checkpoint until there is a newer one. A bound that it
    /// has already stays: attempts that fail must not raise it.
    pub fn bound(&self, bytes_max: u64) {
        self.change(|states| states.bound(bytes_max));
        self.tell_health();
    }

    /// There is a checkpoint, with so many bytes after it.
    pub fn begin_behind_checkpoint(&self, bytes: u64) {
        self.change(LogStates::lift_bound);
        self.count(|counts| counts.since_checkpoint_bytes = bytes);
    }

    /// Somebody begins to write a checkpoint: it counts as one until [`Self::end_checkpoint`].
    pub(crate) fn begin_checkpoint(&self) {
        self.change(LogStates::begin_checkpoint);
    }

    /// The checkpoint that was begun is counted, or has failed.
    pub(crate) fn end_checkpoint(&self) {
        self.change(LogStates::end_checkpoint);
    }

    /// Whether a checkpoint was asked for that is not written yet.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let written = self.counts().checkpoints;
        self.look(|states| states.wants_checkpoint(written))
    }

    /// Waits until a checkpoint is asked for, if none is yet.
    pub async fn checkpoint_wanted(&self) {
        self.shared.checkpoints.until(|| self.wants_checkpoint().then_some(())).await;
    }

    /// Lets the committer end once all is on disk, and waits for it. Nothing may be written to the
    /// journal any more. An error: what waits doesn't get there.
    pub async fn close(&self) -> Result<(), LogError> {
        let closed = self.change(LogStates::close);
        self.shared.committer.wake();
        closed?;
        self.shared.waiting.until(|| self.look(LogStates::has_ended).then_some(())).await;
        Ok(())
    }

    /// The committer has ended.
    pub(super) fn end(&self) {
        self.change(LogStates::end);
        self.shared.watch.wake();
        self.shared.waiting.wake_all();
    }

    /// The last group that is on disk.
    pub fn durable(&self) -> Lsn {
        self.look(LogStates::durable)
    }

    /// What it did and how large it is.
    pub fn counts(&self) -> LogCounts {
        self.shared.counts.get()
    }

    /// Changes what it reports of itself.
    pub fn count(&self, change: impl FnOnce(&mut LogCounts)) {
        let mut counts = self.counts();
        change(&mut counts);
        self.shared.counts.set(counts);
        self.tell_health();
    }

    /// Takes nothing more until the node is restarted, whatever comes: the disk, or what watches it, has
    /// given this reason. What waits in the journal is dropped; none of it was acknowledged as durable.
    pub fn fail(&self, reason: &str) {
        if self.change(|states| states.fail(reason.into())) {
            self.tell();
            self.shared.journal.borrow_mut().close();
            self.shared.committer.wake();
        }
    }

    /// Whether it takes nothing more for good.
    pub(super) fn has_failed(&self) -> bool {
        self.look(LogStates::has_failed)
    }

    /// There is a segment to write to.
    pub(super) fn open(&self) {
        self.change(LogStates::open);
        self.tell();
    }

    /// Accepts nothing until the disk, whose words these are, has room.
    pub(super) fn run_full(&self, error: &str) {
        self.change(|states| states.run_full(error.into()));
        self.tell();
    }

    /// Waits for something to commit: all of it is wanted, or it has grown large, or the log is
    /// closing. Returns whether there is any.
    pub(super) async fn wait_for_work(&self) -> Work {
        poll_fn(|context| {
            let has_any = !self.shared.journal.borrow().is_empty();
            let work = self.look(|states| states.work(has_any));
            if work.is_none() {
                self.shared.committer.keep(context);
            }
            work.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// A group sets out for the disk, `now_us` on the host's clock.
    pub(super) fn set_out(&self, now_us: u64) {
        self.change(|states| states.set_out(now_us));
        self.shared.watch.wake();
    }

    /// The disk has answered for the group that was on its way, whatever its answer is.
    pub(super) fn arrive(&self) {
        self.change(LogStates::arrive);
    }

    /// Accepts nothing while a group has been on its way for too long, and tells those who wait for it.
    /// The disk's answer opens it again.
    pub(super) fn look_for_hang(&self, now_us: u64) {
        match self.change(|states| states.look_for_hang(now_us)) {
            Hang::None => return,
            Hang::Begun(in_flight) => {
                tracing::error!(?in_flight, "the disk doesn't answer; writes are refused until it does");
            }
            Hang::GoesOn => {}
        }
        self.tell();
    }

    /// Waits until a group is on its way to the disk. `false`: the committer has ended, and none will be.
    pub(super) async fn sets_out_or_ends(&self) -> bool {
        poll_fn(|context| {
            if self.look(LogStates::has_ended) {
                return Poll::Ready(false);
            }
            if self.look(LogStates::is_in_flight) {
                return Poll::Ready(true);
            }
            self.shared.watch.keep(context);
            Poll::Pending
        })
        .await
    }

    /// Whether the log is to end.
    pub(super) fn is_closing(&self) -> bool {
        self.look(LogStates::is_closing)
    }

    /// Takes the journal's group in exchange for an empty one, and returns its number.
    pub(super) fn take_group(&self, empty: &mut Group) -> Lsn {
        std::mem::swap(&mut *self.shared.journal.borrow_mut(), empty);
        self.change(LogStates::take_group)
    }

    /// The group that was taken is on disk: whatever kept it from there is over.
    pub(super) fn committed(&self) {
        if let Some(seconds) = self.change(LogStates::commit) {
            tracing::info!(seconds, "the disk answers again; writes are accepted");
        }
        self.tell();
    }

    /// Asks for a commit of what the journal holds.
    pub(super) fn want(&self) {
        self.change(LogStates::want);
        self.shared.committer.wake();
    }

    fn look<T>(&self, look: impl FnOnce(&LogStates) -> T) -> T {
        look(&self.shared.states.borrow())
    }

    fn change<T>(&self, change: impl FnOnce(&mut LogStates) -> T) -> T {
        change(&mut self.shared.states.borrow_mut())
    }

    /// Wakes who waits, and who watches: something may have changed.
    fn tell(&self) {
        self.tell_health();
        self.shared.waiting.wake_all();
    }

    fn tell_health(&self) {
        self.shared.health.tell(self.check().err());
    }

    /// The last group that has anything in it.
    fn last_taken(&self) -> Lsn {
        let (filling, journal) = (self.filling(), self.shared.journal.borrow());
        // What a closed journal was given will never be durable.
        if journal.is_empty() && !journal.is_closed() { Lsn(filling.0 - 1) } else { filling }
    }
}

impl Log for DiskLog {
    type Journal = Group;

    fn check(&self) -> Result<(), LogError> {
        self.look(|states| states.check(self.counts().since_checkpoint_bytes))
    }

    fn journal(&self) -> RefMut<'_, Group> {
        self.shared.journal.borrow_mut()
    }

    fn filling(&self) -> Lsn {
        self.look(LogStates::filling)
    }

    fn report(&self, now_us: u64) -> LogReport {
        LogReport {
            counts: self.counts(),
            fault: self.check().err(),
            commit_in_flight_us: self.look(|states| states.in_flight_us(now_us)),
        }
    }

    fn ask_checkpoint(&self) -> u64 {
        let written = self.counts().checkpoints;
        let wanted = self.change(|states| states.ask_checkpoint(written));
        self.shared.checkpoints.wake_all();
        wanted
    }

    async fn commit(&self) -> Result<Durable, LogError> {
        let committed = self.commit_as_acknowledged().await;
        if self.has_failed() {
            // A part that was being appended when it failed has been written to it since.
            self.shared.journal.borrow_mut().close();
        }
        committed
    }

    async fn flush(&self) -> Result<Durable, LogError> {
        let upto = self.last_taken();
        self.want();
        self.shared.waiting.until(|| self.look(|states| states.outcome(upto))).await
    }
}

impl DiskLog {
    async fn commit_as_acknowledged(&self) -> Result<Durable, LogError> {
        match self.shared.ack {
            AckMode::Durable => self.flush().await,
            AckMode::Memory if self.shared.journal.borrow().bytes() < LOG_BACKLOG_BYTES_MAX => {
                self.check()?;
                Ok(Durable { upto: self.last_taken() })
            }
            // The disk doesn't keep up: what waits for it is bounded.
            AckMode::Memory => self.flush().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::wal::Journal;
    use silverback_model::{Sample, SeriesRef};
    use silverback_test_support::waking::{check_is_woken, check_one_waker_is_kept};

    #[test]
    fn who_waits_for_a_disk_that_hangs_is_kept_once_however_often_it_is_woken() {
        let log = DiskLog::new(AckMode::Durable, Arc::default());
        log.open();
        log.journal().stored(SeriesRef(0), Sample::new(1, 1.0));
        check_one_waker_is_kept(log.flush());
        check_one_waker_is_kept(log.close());
    }

    #[test]
    fn a_failed_log_keeps_nothing_of_the_part_that_was_being_appended() {
        for ack in [AckMode::Durable, AckMode::Memory] {
            let log = DiskLog::new(ack, Arc::default());
            log.open();
            let append = || (0..1000).for_each(|t| log.journal().stored(SeriesRef(0), Sample::new(t, 0.1)));
            append();
            log.fail("the disk is gone");
            assert!(log.journal().is_empty());
            append();
            assert!(!log.journal().is_empty());
            let failed = Err(LogError::Failed("the disk is gone".into()));
            assert_eq!(log.commit().now_or_never(), Some(failed));
            assert!(log.journal().is_empty());
        }
    }

    #[test]
    fn who_writes_checkpoints_is_woken_when_one_is_asked_for() {
        let log = DiskLog::new(AckMode::Durable, Arc::default());
        check_one_waker_is_kept(log.checkpoint_wanted());
        check_is_woken(log.checkpoint_wanted(), || assert_eq!(log.ask_checkpoint(), 1));
        assert!(log.wants_checkpoint());
        log.count(|counts| counts.checkpoints += 1);
        check_one_waker_is_kept(log.checkpoint_wanted());
    }
}

//! The shard's worker: takes the writes that wait, appends, commits once for all of them, acknowledges.
//! While a commit is in flight it appends the next group's. A part that takes long is set aside after its turn, and others
//! have theirs. Questions are answered between two turns: none waits for the disk, nor for a large part's end.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use futures::future::{Either, join, select};

use crate::message::{
    ControlRequest, CoreStats, Deleted, Deletion, DeletionReply, MigrationRequest, MovedSeries, Read,
    ShardReadError, ShardReply, ShardStats, WriteAck, WriteReply,
};
use crate::shard::append::{PartOutcome, TimeBounds};
use crate::shard::in_progress::PartInProgress;
use crate::shard::inbox::PART_TURN_US;
use crate::shard::window::GroupWindow;
use crate::shard::{Host, Inbox, Reads, ReplyTo, Shard, delete, migration};
use crate::wal::{Durable, Log, LogError, Lsn};
use silverback_model::clock::Clock;
use silverback_model::limits::FUTURE_MS_MAX;

/// Samples after which a group is committed, though more waits. A commit costs what a thousand
/// samples cost, so a group is large where there is much to do.
const GROUP_SAMPLES: usize = 64 * 1024;

/// Once it has appended for so long the worker lets the reactor poll before the next piece of a part.
const TURN_US: u64 = 200;

/// What serves a shard's inbox.
pub struct Worker<L, H, R> {
    /// The shard.
    pub shard: Rc<RefCell<Shard>>,
    /// Its reads.
    pub reads: Rc<Reads>,
    /// Its requests.
    pub inbox: Rc<Inbox>,
    /// Its log.
    pub log: L,
    /// The thread.
    pub host: H,
    /// Sends a reply on its way; replies always have room.
    pub reply: R,
    /// The wall clock that bounds timestamps.
    pub clock: Clock,
    /// How far back samples are accepted, in ms.
    pub retention_ms: i64,
    /// How much older than the newest of its series a sample may be, in ms.
    pub late_window_ms: i64,
    /// Adds the counters of the core's acceptor and executor to the shard's.
    pub core_stats: Box<dyn Fn(ShardStats) -> CoreStats>,
}

/// An appended part that waits for the commit.
struct Appended {
    to: ReplyTo,
    outcome: PartOutcome,
    moved: Option<Box<MovedSeries>>,
    /// What its last turn cost, in samples.
    samples: usize,
    /// All of it is on disk with this group of the log.
    lsn: Lsn,
}

/// A worker's time with the core, in µs: since it began to append, or since the reactor was polled last.
struct WorkerTurn {
    began_us: u64,
    now_us: u64,
    /// What it took before that, since it began to append.
    worked_us: u64,
}

impl WorkerTurn {
    fn begin(host: &impl Host) -> Self {
        let now_us = host.monotonic_us();
        Self { began_us: now_us, now_us, worked_us: 0 }
    }

    /// Looks at the clock, and returns the µs since the last look.
    fn look(&mut self, host: &impl Host) -> u64 {
        let was_us = std::mem::replace(&mut self.now_us, host.monotonic_us());
        self.now_us - was_us
    }

    fn is_spent(&self) -> bool {
        self.now_us - self.began_us >= TURN_US
    }

    /// The time with the core since it began to append, as of the last look.
    fn worked_us(&self) -> u64 {
        self.worked_us + self.now_us - self.began_us
    }

    /// Lets the reactor poll; the next turn begins then.
    async fn end(&mut self, host: &impl Host) {
        let worked_us = self.worked_us();
        host.yield_now().await;
        *self = Self { worked_us, ..Self::begin(host) };
    }

    async fn end_if_spent(&mut self, host: &impl Host) {
        if self.is_spent() {
            self.end(host).await;
        }
    }
}

/// The parts that one commit acknowledges.
#[derive(Default)]
struct AppendedGroup {
    parts: Vec<Appended>,
    /// At most so many samples are in it, those of parts that aren't whole among them.
    samples: usize,
    window: GroupWindow,
}

impl AppendedGroup {
    /// Takes out the first parts, those that the commit of the former group has made durable, too: they were appended
    /// before the log took it.
    fn take_covered(&mut self, durable: Durable) -> impl Iterator<Item = Appended> {
        let count = self.parts.partition_point(|part| durable.covers(part.lsn));
        self.samples -= self.parts[..count].iter().map(|part| part.samples).sum::<usize>();
        self.parts.drain(..count)
    }
}

impl<L: Log, H: Host, R: Fn(ReplyTo, ShardReply) + Clone + 'static> Worker<L, H, R> {
    /// Serves until the inbox is closed and empty.
    pub async fn run(self) {
        let mut group = AppendedGroup::default();
        while self.is_due(&group) || self.inbox.wait().await {
            self.append_waiting(&mut group).await;
            self.wait_for_more(&mut group).await;
            if self.is_due(&group) {
                group = self.commit(group).await;
            }
            if !self.inbox.is_empty() {
                self.host.yield_now().await;
            }
        }
    }

    /// Whether a group is to be committed: somebody waits for it, or it is large, or a part of which it has some was refused
    /// before its end.
    fn is_due(&self, group: &AppendedGroup) -> bool {
        let has_some = group.samples > 0;
        !group.parts.is_empty() || group.samples >= GROUP_SAMPLES || has_some && !self.inbox.has_begun()
    }

    /// Appends what comes while the group's window is open. Where a part is begun none is: that one goes on beside the
    /// commit.
    async fn wait_for_more(&self, group: &mut AppendedGroup) {
        while !group.parts.is_empty()
            && !self.inbox.has_begun()
            && let Some(time) =
                group.window.time_left(group.parts.len(), group.samples, self.host.monotonic_us())
        {
            match select(pin!(self.inbox.wait()), pin!(self.host.sleep(time))).await {
                Either::Left((true, _)) => {}
                Either::Left((false, _)) | Either::Right(_) => return,
            }
            self.append_waiting(group).await;
        }
    }

    /// Answers the questions that wait, and appends the writes, up to a group's size. Where somebody waits for the group, one
    /// that is begun goes on only if its turn is due.
    async fn append_waiting(&self, group: &mut AppendedGroup) {
        let is_waited_for = |group: &AppendedGroup| !group.parts.is_empty();
        let has_more = || self.inbox.writes() > 0 || self.inbox.is_begun_due();
        self.append_while(group, |group| !is_waited_for(group) || has_more()).await;
    }

    /// Answers the questions that wait, and appends the writes, up to a group's size and while it goes on.
    async fn append_while(&self, group: &mut AppendedGroup, goes_on: impl Fn(&AppendedGroup) -> bool) {
        self.answer_questions();
        let mut turn = WorkerTurn::begin(&self.host);
        while group.samples < GROUP_SAMPLES
            && goes_on(group)
            && let Some(part) = self.inbox.take_part()
        {
            let before_us = turn.worked_us();
            let was_begun = self.take_turn(part, group, &mut turn).await;
            self.inbox.note_turn(was_begun, turn.worked_us() - before_us);
            if turn.is_spent() && !self.inbox.is_empty() {
                turn.end(&self.host).await;
                self.answer_questions();
            }
        }
    }

    /// Appends a part, as much of it as it has a turn for, or refuses it. Returns whether it was begun before.
    async fn take_turn(
        &self,
        mut part: PartInProgress,
        group: &mut AppendedGroup,
        turn: &mut WorkerTurn,
    ) -> bool {
        let was_begun = part.is_begun();
        if let Some(refusal) = self.refusal() {
            self.inbox.let_follow(part.take_followers());
            (self.reply)(part.to, ShardReply::Write(refusal));
            turn.look(&self.host);
            return was_begun;
        }
        part.give_up_moved(&self.shard.borrow().ownership);
        self.append(&mut part, turn).await;
        let samples = part.take_cost();
        group.samples += samples;
        if part.is_whole() {
            self.shard.borrow_mut().counters.parts += 1;
            self.inbox.let_follow(part.take_followers());
            let (to, outcome, moved) = part.into_outcome();
            group.parts.push(Appended { to, outcome, moved, samples, lsn: self.log.filling() });
        } else if !self.inbox.is_abandoned() {
            self.shard.borrow_mut().counters.parts_set_aside += 1;
            self.inbox.put_back(part, was_begun);
        }
        was_begun
    }

    fn answer_questions(&self) {
        while let Some((from, question)) = self.inbox.take_question() {
            self.answer(from, question);
        }
    }

    /// Answers a question, or sends it on its way.
    fn answer(&self, from: ReplyTo, question: ControlRequest) {
        match question {
            ControlRequest::Read(read) => self.spawn_read(from, *read),
            ControlRequest::Delete(deletion) => self.spawn_deletion(from, *deletion),
            ControlRequest::Migration(request) => self.take_step(from, *request),
            ControlRequest::Checkpoint => {
                (self.reply)(from, ShardReply::CheckpointAsked(self.log.ask_checkpoint()));
            }
            ControlRequest::Stats => (self.reply)(from, ShardReply::Stats(Box::new(self.stats()))),
        }
    }

    /// Appends a part for as long as its turn lasts: piece by piece, with a look at the clock after each.
    async fn append(&self, part: &mut PartInProgress, turn: &mut WorkerTurn) {
        let bounds = self.bounds();
        // What was done before isn't appending.
        turn.look(&self.host);
        let until_us = turn.worked_us() + PART_TURN_US;
        while !part.is_whole()
            && (turn.worked_us() < until_us || !part.can_wait())
            && !self.inbox.is_abandoned()
        {
            turn.end_if_spent(&self.host).await;
            let now_ms = || self.clock.now_ms();
            self.timed(turn, |shard, journal| part.append_piece(shard, bounds, now_ms, journal));
        }
    }

    /// Does a piece of a part, looks at the clock, and counts how long that took.
    fn timed<T>(&self, turn: &mut WorkerTurn, work: impl FnOnce(&mut Shard, &mut L::Journal) -> T) -> T {
        let mut shard = self.shard.borrow_mut();
        let result = work(&mut shard, &mut self.log.journal());
        shard.counters.busy_us += turn.look(&self.host);
        result
    }

    /// Commits a group, answers each of its parts, and gives the next one, of what came meanwhile.
    async fn commit(&self, mut group: AppendedGroup) -> AppendedGroup {
        let began_us = self.host.monotonic_us();
        let (parts, has_ended) = (group.parts.len(), Cell::new(false));
        let commit = async {
            let committed = self.log.commit().await;
            let (waiting, ended_us) = (self.inbox.writes(), self.host.monotonic_us());
            self.shard.borrow_mut().counters.commits += 1;
            self.acknowledge(group.parts.drain(..), &committed);
            has_ended.set(true);
            (committed, waiting, ended_us)
        };
        let ((committed, waiting, ended_us), mut next) = join(commit, self.append_beside(&has_ended)).await;
        next.window.note_commit(parts, next.parts.len() + waiting, began_us, ended_us);
        if let Ok(durable) = &committed {
            self.acknowledge(next.take_covered(*durable), &committed);
        }
        next
    }

    fn acknowledge(&self, parts: impl Iterator<Item = Appended>, committed: &Result<Durable, LogError>) {
        for Appended { to, outcome, moved, .. } in parts {
            let reply = match committed {
                Ok(durable) => {
                    let PartOutcome { written, histograms, exemplars, refusals, ref_updates } = outcome;
                    let counts = (written, histograms, exemplars);
                    WriteReply::Written(WriteAck::new(durable, counts, refusals, (ref_updates, moved)))
                }
                Err(error) => WriteReply::NotDurable(error.clone()),
            };
            (self.reply)(to, ShardReply::Write(reply));
        }
    }

    /// Answers questions while a commit is in flight, and appends the writes that come, as many as a group has room
    /// for: right after they were decoded they are in the core's caches, and all that comes during a commit is more
    /// than these hold.
    async fn append_beside(&self, commit_has_ended: &Cell<bool>) -> AppendedGroup {
        let mut next = AppendedGroup::default();
        let mut takes_writes = true;
        // Without a waker: the task that ends the commit polls this next.
        let ended = || poll_fn(|_| if commit_has_ended.get() { Poll::Ready(()) } else { Poll::Pending });
        loop {
            if takes_writes && next.samples < GROUP_SAMPLES {
                match select(ended(), pin!(self.inbox.wait())).await {
                    Either::Left(_) => return next,
                    Either::Right((true, _)) => {
                        self.append_while(&mut next, |_| !commit_has_ended.get()).await;
                    }
                    Either::Right((false, _)) => takes_writes = false,
                }
            } else {
                match select(ended(), pin!(self.inbox.next_question())).await {
                    Either::Left(_) => return next,
                    Either::Right(((from, question), _)) => self.answer(from, question),
                }
            }
        }
    }

    /// Why no part is accepted now: what can't be made durable isn't, nor what there is no memory for. Of one that is
    /// refused after a turn there is something in memory: it is committed, and not acknowledged.
    fn refusal(&self) -> Option<WriteReply> {
        match self.log.check() {
            Ok(()) => self.shard.borrow_mut().refuses_part().then_some(WriteReply::MemoryFull),
            Err(error) => Some(WriteReply::NotDurable(error)),
        }
    }

    fn take_step(&self, from: ReplyTo, request: MigrationRequest) {
        let reply = self.reply.clone();
        let answer = move |taken| reply(from, ShardReply::Migration(Box::new(taken)));
        migration::take_step(&self.shard, &self.reads, &self.log, &self.host, request, answer);
    }

    fn spawn_read(&self, from: ReplyTo, read: Read) {
        let (shard, reads, reply) = (Rc::clone(&self.shard), Rc::clone(&self.reads), self.reply.clone());
        self.host.spawn_background(move |host| async move {
            let panicked = || ShardReply::Read(Err(ShardReadError::Panicked));
            let reply = JobReplier { reply, from, panicked };
            let answer = reads.answer(shard, host, read).await;
            (reply.reply)(from, ShardReply::Read(answer));
        });
    }

    fn spawn_deletion(&self, from: ReplyTo, deletion: Deletion) {
        let (shard, reads, reply) = (Rc::clone(&self.shard), Rc::clone(&self.reads), self.reply.clone());
        let log = self.log.clone();
        self.host.spawn_background(move |host| async move {
            let reply = JobReplier { reply, from, panicked: deletion_panicked };
            let answer = delete::delete(shard, reads, log, host, deletion).await;
            (reply.reply)(from, ShardReply::Deleted(Box::new(answer)));
        });
    }

    fn stats(&self) -> CoreStats {
        let mut stats = (self.core_stats)(self.shard.borrow().stats());
        stats.shard.reads = self.reads.begun();
        stats.shard.open_selects = self.reads.cursors();
        stats.shard.select_bytes = self.reads.bytes();
        stats.shard.queued = self.inbox.len();
        stats.shard.log = self.log.report(self.host.monotonic_us());
        stats
    }

    fn bounds(&self) -> TimeBounds {
        let now_ms = self.clock.now_ms();
        TimeBounds {
            oldest_ms: now_ms.saturating_sub(self.retention_ms),
            newest_ms: now_ms.saturating_add(FUTURE_MS_MAX),
            late_window_ms: self.late_window_ms,
        }
    }
}

fn deletion_panicked() -> ShardReply {
    let ended = Err(ShardReadError::Panicked.into());
    ShardReply::Deleted(Box::new(DeletionReply { deleted: Deleted::default(), ended }))
}

/// Answers a job that panics: it ends alone, and its asker would have a place taken for it forever.
struct JobReplier<R: Fn(ReplyTo, ShardReply)> {
    reply: R,
    from: ReplyTo,
    panicked: fn() -> ShardReply,
}

impl<R: Fn(ReplyTo, ShardReply)> Drop for JobReplier<R> {
    fn drop(&mut self) {
        // One that is dropped otherwise is answered, or ends with its core.
        if std::thread::panicking() {
            (self.reply)(self.from, (self.panicked)());
        }
    }
}

//! A worker's commits: what goes on beside them, who waits for whom, and which one answers whom.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use crate::message::{ControlRequest, ShardReply, ShardRequest, StreamId, WriteReply};
use crate::shard::scripted::Scripted;
use crate::shard::tests::{NOBODY, labels, scrape, shard, worker, write};
use crate::shard::{Inbox, Shard};
use crate::wal::{Durable, Log, LogError, LogReport, Lsn, MemoryLog, NoJournal};
use silverback_model::Sample;

/// When a commit takes its group out of the journal.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    AtOnce,
    AsItEnds,
}

/// A log whose commits last until what comes of them is said.
#[derive(Clone)]
struct HeldLog {
    log: MemoryLog,
    takes: Takes,
    filling: Rc<Cell<u64>>,
    commits: Rc<Cell<u64>>,
    ends: Rc<RefCell<VecDeque<Result<(), LogError>>>>,
}

impl Log for HeldLog {
    type Journal = NoJournal;

    fn check(&self) -> Result<(), LogError> {
        self.log.check()
    }

    fn journal(&self) -> RefMut<'_, NoJournal> {
        self.log.journal()
    }

    fn filling(&self) -> Lsn {
        Lsn(self.filling.get())
    }

    fn report(&self, now_us: u64) -> LogReport {
        self.log.report(now_us)
    }

    fn ask_checkpoint(&self) -> u64 {
        self.log.ask_checkpoint()
    }

    async fn commit(&self) -> Result<Durable, LogError> {
        let upto = self.filling();
        let take_group = || self.filling.set(upto.0 + 1);
        self.commits.set(self.commits.get() + 1);
        if self.takes == Takes::AtOnce {
            take_group();
        }
        let end = || self.ends.borrow_mut().pop_front().map_or(Poll::Pending, Poll::Ready);
        let ended = poll_fn(|_| end()).await;
        if self.takes == Takes::AsItEnds {
            take_group();
        }
        ended.map(|()| Durable::in_test(upto))
    }

    async fn flush(&self) -> Result<Durable, LogError> {
        self.commit().await
    }
}

/// A worker on such a log.
struct Held {
    shard: Rc<RefCell<Shard>>,
    log: HeldLog,
    inbox: Rc<Inbox>,
    host: Scripted,
    replies: Rc<RefCell<Vec<ShardReply>>>,
    /// Whoever is answered next sends again at once.
    sends_again: Rc<Cell<bool>>,
    run: LocalBoxFuture<'static, ()>,
}

impl Held {
    fn new(takes: Takes) -> Self {
        let log = HeldLog {
            log: MemoryLog::default(),
            takes,
            filling: Rc::default(),
            commits: Rc::default(),
            ends: Rc::default(),
        };
        let (shard, inbox, host) = (shard(), Rc::<Inbox>::default(), Scripted::new(|_| {}));
        let replies = Rc::<RefCell<Vec<ShardReply>>>::default();
        let sends_again = Rc::<Cell<bool>>::default();
        let (sent, to, again) = (Rc::clone(&replies), Rc::clone(&inbox), Rc::clone(&sends_again));
        let reply = move |_, reply| {
            sent.borrow_mut().push(reply);
            if again.take() {
                to.push(NOBODY, ShardRequest::Write(write(&scrape(3, 3000))));
            }
        };
        let worker = worker(&shard, Rc::clone(&inbox), log.clone(), host.clone(), reply);
        Self { shard, log, inbox, host, replies, sends_again, run: Box::pin(worker.run()) }
    }

    /// One that takes long for each piece of a part.
    fn slow(takes: Takes) -> Self {
        let held = Self::new(takes);
        held.host.take_between_looks(SLOW_PIECE_US);
        held
    }

    fn write(&self, series: usize, at_ms: i64) {
        self.inbox.push(NOBODY, ShardRequest::Write(write(&scrape(series, at_ms))));
    }

    /// A part of a stream.
    fn stream(&self, stream: StreamId, series: usize, at_ms: i64) {
        let mut write = write(&scrape(series, at_ms));
        write.part.stream = Some(stream);
        self.inbox.push(NOBODY, ShardRequest::Write(write));
    }

    fn ask(&self) {
        self.inbox.push(NOBODY, ShardRequest::Ask(ControlRequest::Checkpoint));
    }

    /// Lets it run as far as it can. Returns whether it has ended.
    fn go_on(&mut self) -> bool {
        self.run.as_mut().now_or_never().is_some()
    }

    /// A commit ends, and it goes on.
    fn end_commit(&mut self, end: Result<(), LogError>) -> bool {
        self.log.ends.borrow_mut().push_back(end);
        self.go_on()
    }

    /// How many commits have begun, and how many parts are appended.
    fn done(&self) -> (u64, u64) {
        (self.log.commits.get(), self.shard.borrow().stats().parts)
    }

    /// How many samples each write had that was answered since this was asked last: all of them were accepted.
    fn written(&self) -> Vec<u64> {
        let written = |reply| match reply {
            ShardReply::Write(WriteReply::Written(ack)) if ack.refusals.is_none() => ack.written,
            other => panic!("it answers {other:?}"),
        };
        self.replies.take().into_iter().map(written).collect()
    }

    /// What was answered since it was last asked: of each write whether it is durable, and of a question nothing.
    fn answers(&self) -> Vec<Option<bool>> {
        let told = |reply| match reply {
            ShardReply::Write(WriteReply::Written(_)) => Some(true),
            ShardReply::Write(WriteReply::NotDurable(LogError::Failed(_))) => Some(false),
            ShardReply::CheckpointAsked(_) => None,
            other => panic!("it answers {other:?}"),
        };
        self.replies.take().into_iter().map(told).collect()
    }
}

fn failed() -> Result<(), LogError> {
    Err(LogError::Failed("it was made to".into()))
}

const DURABLE: Option<bool> = Some(true);

#[test]
fn what_comes_during_a_commit_is_appended_then_and_durable_by_the_next_one() {
    const HALF_A_GROUP: usize = 32 * 1024;
    let mut held = Held::new(Takes::AtOnce);
    held.write(HALF_A_GROUP, 1000);
    assert!(!held.go_on());
    (2..5).for_each(|scrape| held.write(HALF_A_GROUP, 1000 * scrape));
    assert!(!held.go_on());
    assert_eq!((held.done(), held.answers()), ((1, 3), vec![]), "a group's samples, and no more");
    held.ask();
    assert!(!held.go_on());
    assert_eq!(held.answers(), [None], "a question doesn't wait for the disk");
    assert!(!held.end_commit(Ok(())));
    assert_eq!((held.done(), held.answers()), ((2, 4), vec![DURABLE]), "there is room in the next group");
    assert!(!held.end_commit(Ok(())));
    assert_eq!((held.done(), held.answers()), ((3, 4), vec![DURABLE; 2]));
    held.inbox.close();
    held.ask();
    assert!(!held.go_on());
    assert_eq!(held.answers(), [None], "the last commit is in flight");
    assert!(held.end_commit(Ok(())));
    assert_eq!(held.answers(), [DURABLE]);
}

#[test]
fn what_is_appended_before_the_log_takes_a_group_is_durable_with_it() {
    let mut held = Held::new(Takes::AsItEnds);
    for at_ms in [1000, 2000, 3000] {
        held.write(3, at_ms);
        assert!(!held.go_on());
    }
    assert!(!held.end_commit(Ok(())));
    assert_eq!((held.done(), held.answers()), ((1, 3), vec![DURABLE; 3]));
    held.write(3, 4000);
    held.inbox.close();
    assert!(!held.go_on());
    assert!(held.end_commit(Ok(())));
    assert_eq!((held.done(), held.answers()), ((2, 4), vec![DURABLE]));
}

#[test]
fn each_write_is_answered_by_what_came_of_its_own_commit_and_all_before_the_inbox_closes() {
    for (first, second) in [(Ok(()), failed()), (failed(), Ok(())), (failed(), failed())] {
        let mut held = Held::new(Takes::AtOnce);
        for at_ms in [1000, 2000, 3000] {
            held.write(3, at_ms);
            assert!(!held.go_on());
        }
        held.inbox.close();
        let of = |end: &Result<(), LogError>| Some(end.is_ok());
        let expected = [of(&first), of(&second), of(&second)];
        assert!(!held.end_commit(first));
        assert!(held.end_commit(second));
        assert_eq!(held.answers(), expected);
    }
}

#[test]
fn a_commit_that_ends_within_a_part_answers_at_once_and_the_next_begins_with_that_part() {
    const MORE_THAN_A_SLICE: usize = 10_000;
    let mut held = Held::new(Takes::AtOnce);
    held.write(3, 1000);
    assert!(!held.go_on());
    held.host.yield_next();
    held.write(MORE_THAN_A_SLICE, 2000);
    held.write(3, 3000);
    assert!(!held.go_on());
    assert_eq!(held.done(), (1, 1), "it is in the middle of the second");
    assert!(!held.end_commit(Ok(())));
    assert_eq!((held.answers(), held.done()), (vec![DURABLE], (2, 3)));
    assert!(!held.end_commit(Ok(())));
    assert_eq!(held.answers(), [DURABLE; 2]);
    held.inbox.close();
    assert!(held.go_on());
}

#[test]
fn the_reactor_has_its_turn_between_two_parts_once_time_has_passed() {
    for time_passes in [false, true] {
        let mut held = Held::new(Takes::AtOnce);
        (1..5).for_each(|at| held.write(3, 1000 * at));
        if time_passes {
            held.host.yield_next();
        }
        assert!(!held.go_on());
        assert_eq!(held.done(), if time_passes { (0, 1) } else { (1, 4) });
        assert!(!held.go_on());
        assert_eq!(held.done(), (1, 4));
    }
}

#[test]
fn writes_that_come_right_after_a_commit_share_the_next_one() {
    const COMMIT_US: u64 = 200;
    let mut held = Held::new(Takes::AtOnce);
    let commit = |held: &mut Held| {
        held.host.pass(COMMIT_US);
        assert!(!held.end_commit(Ok(())));
        held.answers().len()
    };
    let send = |held: &mut Held| {
        held.write(3, 1000);
        assert!(!held.go_on());
        held.log.commits.get()
    };
    send(&mut held);
    assert_eq!(send(&mut held), 1, "nobody waited before: nobody is waited for");
    assert_eq!(
        (commit(&mut held), held.log.commits.get()),
        (1, 1),
        "the second waits for those just answered"
    );
    assert_eq!(send(&mut held), 2, "both are there");
    assert_eq!(commit(&mut held), 2, "one commit answers both");
    assert_eq!(send(&mut held), 2);
    held.host.pass(COMMIT_US);
    assert!(!held.go_on());
    assert_eq!(held.log.commits.get(), 3, "nobody else came");
    commit(&mut held);
    held.host.pass(COMMIT_US);
    assert_eq!(send(&mut held), 4, "after a pause nobody is waited for");
}

#[test]
fn who_sends_again_while_a_part_is_appended_is_not_waited_for_twice() {
    let mut held = Held::new(Takes::AtOnce);
    held.write(3, 1000);
    assert!(!held.go_on());
    held.host.yield_next();
    held.write(5000, 2000);
    assert!(!held.go_on(), "the second is half appended");
    held.host.pass(200);
    held.sends_again.set(true);
    assert!(!held.end_commit(Ok(())));
    assert_eq!((held.answers(), held.done()), (vec![DURABLE], (2, 3)), "both are there");
}

/// Each piece of a part takes a turn of the reactor's, and a few of them a part's.
const SLOW_PIECE_US: u64 = 400;
const LARGE: usize = 20_000;

#[test]
fn small_parts_have_their_turn_amid_large_ones_and_are_committed_before_these_end() {
    let mut held = Held::slow(Takes::AtOnce);
    held.write(LARGE, 1000);
    held.write(LARGE + 1, 1000);
    held.write(3, 1000);
    held.write(4, 1000);
    assert!(!held.go_on());
    assert_eq!(held.log.commits.get(), 1);
    held.inbox.close();
    assert!(!held.end_commit(Ok(())));
    assert_eq!(held.written(), [3, 4], "a commit for those that are whole");
    while !held.end_commit(Ok(())) {}
    assert_eq!(held.written(), [LARGE as u64, LARGE as u64 + 1]);
    assert!(held.shard.borrow().stats().parts_set_aside > 10);
}

#[test]
fn small_parts_that_never_end_leave_large_ones_their_turns() {
    let mut held = Held::slow(Takes::AtOnce);
    held.write(LARGE, 1000);
    for round in 0..10_000 {
        held.write(3, 2000 + round);
        assert!(!held.end_commit(Ok(())));
        if held.written().contains(&(LARGE as u64)) {
            return;
        }
    }
    panic!("it has no turn");
}

#[test]
fn of_many_large_parts_the_first_end_long_before_the_last() {
    const MANY: usize = 20;
    const SAMPLES: usize = 50_000;
    let mut held = Held::slow(Takes::AtOnce);
    held.log.ends.borrow_mut().extend(std::iter::repeat_n(Ok(()), 10 * MANY));
    for i in 0..MANY {
        let own = (0..SAMPLES + i).map(|at| Sample::new(at as i64, 1.0)).collect();
        let part = write(&[(labels(&[("__name__", &format!("part_{i}"))]), own)]);
        held.inbox.push(NOBODY, ShardRequest::Write(part));
    }
    let mut set_aside_at = [0; MANY + 1];
    while held.done().1 < MANY as u64 {
        held.host.yield_next();
        assert!(!held.go_on());
        set_aside_at[held.done().1 as usize] = held.shard.borrow().stats().parts_set_aside;
    }
    held.inbox.close();
    while !held.go_on() {}
    let ended = held.written();
    assert_eq!(ended.len(), MANY);
    let mut numbered = (SAMPLES as u64..).zip(&ended);
    assert!(numbered.all(|(came, ended)| came.abs_diff(*ended) < 4), "nearly as they came: {ended:?}");
    assert!(0 < set_aside_at[4] && set_aside_at[4] * 3 < set_aside_at[MANY], "{set_aside_at:?}");
}

#[test]
fn large_parts_are_committed_amid_their_turns_and_answered_once_at_their_end() {
    const SAMPLES: i64 = 150_000;
    for takes in [Takes::AtOnce, Takes::AsItEnds] {
        let mut held = Held::slow(takes);
        let up = labels(&[("__name__", "up")]);
        let own = (0..SAMPLES).map(|i| Sample::new(i, 1.0)).collect();
        held.inbox.push(NOBODY, ShardRequest::Write(write(&[(up, own)])));
        held.inbox.close();
        let mut commits = 0;
        while !held.end_commit(Ok(())) {
            commits += 1;
            assert!(commits < 10, "it comes to an end");
        }
        assert_eq!(held.written(), [SAMPLES as u64]);
        assert!(held.log.commits.get() >= 2, "{} commits", held.log.commits.get());
    }
}

#[test]
fn a_question_is_answered_amid_a_large_part() {
    let mut held = Held::slow(Takes::AtOnce);
    held.host.yield_next();
    held.write(LARGE, 1000);
    assert!(!held.go_on());
    held.ask();
    for _ in 0..20 {
        held.host.yield_next();
        assert!(!held.go_on());
    }
    assert_eq!((held.answers(), held.done()), (vec![None], (0, 0)));
}

#[test]
fn a_stream_s_parts_are_taken_in_in_their_order_however_large_they_are() {
    let mut held = Held::slow(Takes::AtOnce);
    let (stream, other) = (StreamId::issue(), StreamId::issue());
    held.stream(stream, LARGE, 1000);
    held.stream(stream, 3, 2000);
    held.stream(stream, LARGE + 1, 3000);
    held.stream(stream, 4, 4000);
    held.stream(other, 5, 1000);
    held.inbox.close();
    let mut written = Vec::new();
    // Those of another order would be refused: their series have newer samples then.
    while !held.end_commit(Ok(())) {
        written.extend(held.written());
    }
    written.extend(held.written());
    assert_eq!(written, [5, LARGE as u64, 3, LARGE as u64 + 1, 4]);
}

#[test]
fn of_a_part_that_is_refused_amid_its_turns_what_was_taken_in_is_committed_and_its_stream_goes_on() {
    let mut held = Held::slow(Takes::AtOnce);
    let stream = StreamId::issue();
    held.host.yield_next();
    held.stream(stream, LARGE, 1000);
    held.stream(stream, 3, 2000);
    assert!(!held.go_on());
    held.shard.borrow_mut().set_memory_budget(0);
    held.inbox.close();
    while !held.end_commit(Ok(())) {}
    let replies = held.replies.take();
    assert_eq!(replies.len(), 2);
    let is_full = |reply: &ShardReply| matches!(reply, ShardReply::Write(WriteReply::MemoryFull));
    assert!(replies.iter().all(is_full), "{replies:?}");
    assert!(held.shard.borrow().stats().samples > 0);
    assert_eq!(held.done(), (1, 0), "they aren't left to another part's commit");
}

#[test]
fn once_nobody_waits_a_large_part_is_let_go_of_and_what_was_taken_in_is_committed() {
    let mut held = Held::slow(Takes::AtOnce);
    held.host.yield_next();
    held.write(LARGE, 1000);
    held.write(3, 1000);
    assert!(!held.go_on());
    held.inbox.abandon();
    assert!(!held.go_on());
    assert_eq!((held.log.commits.get(), held.log.ends.borrow().len()), (1, 0));
    assert!(held.end_commit(Ok(())));
    assert!(held.replies.borrow().is_empty());
    assert!((1..LARGE as u64).contains(&held.shard.borrow().stats().samples));
}

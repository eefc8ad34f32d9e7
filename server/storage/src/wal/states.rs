//! What a log is doing, and what may become of it: whether it takes anything in, how far its life is, where the
//! group is that it makes durable, what bounds its growth, and what is asked of its checkpoints.
//!
//! Plain states, each change of one a function. Who waits for a change, and who hears of it, is not known here.

use std::time::Duration;

use crate::wal::{Durable, LogError, Lsn};
use silverback_model::limits::DISK_ANSWER_MAX;

/// All of a log that changes, but for what is in its groups.
#[derive(Debug, Default)]
pub(super) struct LogStates {
    state: LogState,
    life: Life,
    commits: Commits,
    bound: Bound,
    checkpoints: Checkpoints,
}

/// Whether a log takes anything in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum LogState {
    /// Not yet: its files are being read.
    #[default]
    Replaying,
    /// It does.
    Open,
    /// Not until the disk, whose words these are, has room.
    Full(Box<str>),
    /// Not until the disk answers. It hasn't for so many seconds.
    Hung(u64),
    /// Never again, for this reason.
    Failed(Box<str>),
}

/// How far a log's life is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Life {
    /// It commits what comes.
    #[default]
    Running,
    /// Nothing more comes; what has come is committed.
    Closing,
    /// Nothing is committed any more.
    Ended,
}

/// Which groups are on disk, and how the next one gets there.
#[derive(Debug, Clone, Copy, Default)]
struct Commits {
    /// The last group that is on disk.
    durable: Lsn,
    taken: TakenGroup,
    /// Somebody waits for what the journal holds.
    is_wanted: bool,
}

/// The group that the committer has taken out of the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum TakenGroup {
    /// There is none.
    #[default]
    None,
    /// The disk hasn't got it yet, or had no room for it.
    Held,
    /// It has been on its way to the disk since then, in µs on the host's clock.
    InFlight { since_us: u64 },
}

/// How far a log may grow after its last checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Bound {
    /// As far as it does: no checkpoint was tried since that one.
    #[default]
    None,
    /// To so many bytes.
    Bytes(u64),
}

/// What somebody asked of a log's checkpoints, whether one is due or not.
#[derive(Debug, Clone, Copy, Default)]
struct Checkpoints {
    /// There are to be so many since the start.
    wanted: u64,
    writing: Writing,
}

/// Whether a checkpoint is being written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Writing {
    /// None is.
    #[default]
    None,
    /// One is, and began before whatever is asked for now.
    One,
}

/// What the committer is woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// The journal holds a group.
    Group,
    /// The log is closed and all of it is on disk, or it has failed.
    Nothing,
}

/// What a look at a disk that may hang found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hang {
    /// It answers in time, or nothing is asked of it.
    None,
    /// It hasn't answered for so long, and that is news.
    Begun(Duration),
    /// It still doesn't answer.
    GoesOn,
}

impl LogStates {
    /// Why nothing is accepted, by a log with so many bytes after its checkpoint.
    pub(super) fn check(&self, since_checkpoint_bytes: u64) -> Result<(), LogError> {
        self.state.check()?;
        match self.bound {
            Bound::Bytes(bytes_max) if since_checkpoint_bytes > bytes_max => {
                Err(LogError::CheckpointOverdue(since_checkpoint_bytes >> 20))
            }
            Bound::Bytes(_) | Bound::None => Ok(()),
        }
    }

    /// There is a segment to write to.
    pub(super) fn open(&mut self) {
        self.state.become_unless_failed(LogState::Open);
    }

    /// The disk has no room for what is to be written, in its own words.
    pub(super) fn run_full(&mut self, error: Box<str>) {
        self.state.become_unless_failed(LogState::Full(error));
    }

    /// Nothing is accepted any more. Returns whether that is news.
    pub(super) fn fail(&mut self, reason: Box<str>) -> bool {
        let is_news = !self.has_failed();
        self.state.become_unless_failed(LogState::Failed(reason));
        is_news
    }

    /// Whether it takes nothing more for good.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, LogState::Failed(_))
    }

    /// Looks whether a group has been on its way to the disk for too long. The disk's answer opens the log again.
    pub(super) fn look_for_hang(&mut self, now_us: u64) -> Hang {
        let in_flight = Duration::from_micros(self.in_flight_us(now_us));
        // A log that has failed stays so, whatever the disk still answers.
        if in_flight < DISK_ANSWER_MAX || self.has_failed() {
            return Hang::None;
        }
        let was_hung = matches!(self.state, LogState::Hung(_));
        self.state.become_unless_failed(LogState::Hung(in_flight.as_secs()));
        if was_hung { Hang::GoesOn } else { Hang::Begun(in_flight) }
    }

    /// Nothing more is to come. An error: what has come doesn't get to the disk, as things stand.
    pub(super) fn close(&mut self) -> Result<(), LogError> {
        self.life = match self.life {
            Life::Running | Life::Closing => Life::Closing,
            Life::Ended => Life::Ended,
        };
        match self.state {
            // A disk that hangs may come back: how long to wait for it is the caller's to say.
            LogState::Open | LogState::Hung(_) => Ok(()),
            LogState::Replaying | LogState::Full(_) | LogState::Failed(_) => self.state.check(),
        }
    }

    /// The committer has ended.
    pub(super) fn end(&mut self) {
        self.life = Life::Ended;
    }

    /// Whether nothing more is to come.
    pub(super) fn is_closing(&self) -> bool {
        match self.life {
            Life::Running => false,
            Life::Closing | Life::Ended => true,
        }
    }

    /// Whether the committer has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.life == Life::Ended
    }

    /// What the committer is to do, where the journal holds something or not.
    pub(super) fn work(&self, has_any: bool) -> Option<Work> {
        if self.has_failed() {
            return Some(Work::Nothing);
        }
        match (has_any, self.is_closing()) {
            (true, is_closing) => (is_closing || self.commits.is_wanted).then_some(Work::Group),
            (false, true) => Some(Work::Nothing),
            (false, false) => None,
        }
    }

    /// The groups up to `last` are on disk from former times.
    pub(super) fn begin_after(&mut self, last: Lsn) {
        debug_assert_eq!(self.commits.taken, TakenGroup::None, "nothing was committed before");
        self.commits.durable = last;
    }

    /// The last group that is on disk.
    pub(super) fn durable(&self) -> Lsn {
        self.commits.durable
    }

    /// The group that the journal fills.
    pub(super) fn filling(&self) -> Lsn {
        match self.commits.taken {
            TakenGroup::None => self.commits.next(),
            TakenGroup::Held | TakenGroup::InFlight { .. } => Lsn(self.commits.next().0 + 1),
        }
    }

    /// What the journal holds is to be committed.
    pub(super) fn want(&mut self) {
        self.commits.is_wanted = true;
    }

    /// The committer takes the journal's group. Returns its number.
    pub(super) fn take_group(&mut self) -> Lsn {
        debug_assert_eq!(self.commits.taken, TakenGroup::None, "one group at a time");
        self.commits.taken = TakenGroup::Held;
        self.commits.is_wanted = false;
        self.commits.next()
    }

    /// The group that was taken is given to the disk.
    pub(super) fn set_out(&mut self, now_us: u64) {
        debug_assert_eq!(self.commits.taken, TakenGroup::Held, "a group sets out once it is taken");
        self.commits.taken = TakenGroup::InFlight { since_us: now_us };
    }

    /// The disk has answered for the group, whatever its answer is.
    pub(super) fn arrive(&mut self) {
        debug_assert!(self.is_in_flight(), "the disk answers what it was given");
        self.commits.taken = TakenGroup::Held;
    }

    /// The group is on disk: whatever kept it from there is over. Returns for how many seconds the disk had hung,
    /// if it had.
    pub(super) fn commit(&mut self) -> Option<u64> {
        debug_assert_eq!(self.commits.taken, TakenGroup::Held, "the disk has answered for it");
        let hung_s = match self.state {
            LogState::Hung(seconds) => Some(seconds),
            LogState::Replaying | LogState::Open | LogState::Full(_) | LogState::Failed(_) => None,
        };
        self.commits.durable = self.commits.next();
        self.commits.taken = TakenGroup::None;
        self.open();
        hung_s
    }

    /// Whether a group is on its way to the disk.
    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.commits.taken, TakenGroup::InFlight { .. })
    }

    /// For how long a group has been on its way to the disk, in µs; 0 where none is.
    pub(super) fn in_flight_us(&self, now_us: u64) -> u64 {
        match self.commits.taken {
            TakenGroup::InFlight { since_us } => now_us.saturating_sub(since_us),
            TakenGroup::None | TakenGroup::Held => 0,
        }
    }

    /// What came of the groups up to `upto`; `None`: they are still on their way.
    pub(super) fn outcome(&self, upto: Lsn) -> Option<Result<Durable, LogError>> {
        if self.durable() >= upto {
            return Some(Ok(Durable { upto }));
        }
        self.state.check().err().map(Err)
    }

    /// A checkpoint is tried: the log may grow to so many bytes until there is one. A bound that it has already
    /// stays: attempts that fail must not raise it.
    pub(super) fn bound(&mut self, bytes_max: u64) {
        self.bound = match self.bound {
            Bound::None => Bound::Bytes(bytes_max),
            Bound::Bytes(former) => Bound::Bytes(former),
        };
    }

    /// There is a checkpoint.
    pub(super) fn lift_bound(&mut self) {
        self.bound = Bound::None;
    }

    /// A checkpoint is asked for that begins from now on; `written` are there since the start. Returns how many there
    /// are once it is written.
    pub(super) fn ask_checkpoint(&mut self, written: u64) -> u64 {
        let first = match self.checkpoints.writing {
            Writing::None => written + 1,
            Writing::One => written + 2,
        };
        self.checkpoints.wanted = self.checkpoints.wanted.max(first);
        self.checkpoints.wanted
    }

    /// Whether one was asked for that is not there, where so many are.
    pub(super) fn wants_checkpoint(&self, written: u64) -> bool {
        written < self.checkpoints.wanted
    }

    /// A checkpoint begins.
    pub(super) fn begin_checkpoint(&mut self) {
        debug_assert_eq!(self.checkpoints.writing, Writing::None, "one checkpoint at a time");
        self.checkpoints.writing = Writing::One;
    }

    /// The checkpoint is there, or has failed.
    pub(super) fn end_checkpoint(&mut self) {
        debug_assert_eq!(self.checkpoints.writing, Writing::One, "what ends has begun");
        self.checkpoints.writing = Writing::None;
    }
}

impl LogState {
    fn check(&self) -> Result<(), LogError> {
        match self {
            Self::Open => Ok(()),
            Self::Replaying => Err(LogError::Replaying),
            Self::Full(error) => Err(LogError::Full(error.clone())),
            Self::Hung(seconds) => Err(LogError::Hung(*seconds)),
            Self::Failed(reason) => Err(LogError::Failed(reason.clone())),
        }
    }

    fn become_unless_failed(&mut self, next: Self) {
        match self {
            Self::Failed(_) => {}
            Self::Replaying | Self::Open | Self::Full(_) | Self::Hung(_) => *self = next,
        }
    }
}

impl Commits {
    /// The first group that is not on disk.
    fn next(&self) -> Lsn {
        Lsn(self.durable.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANG_US: u64 = DISK_ANSWER_MAX.as_micros() as u64;

    fn open() -> LogStates {
        let mut states = LogStates::default();
        states.open();
        states
    }

    fn failed() -> LogError {
        LogError::Failed("an I/O error".into())
    }

    #[test]
    fn a_log_takes_nothing_in_before_it_is_open_nor_while_its_disk_is_full() {
        let mut states = LogStates::default();
        assert_eq!(states.check(0), Err(LogError::Replaying));
        states.run_full("no space left".into());
        assert_eq!(states.check(0), Err(LogError::Full("no space left".into())));
        states.open();
        assert_eq!(states.check(0), Ok(()));
    }

    #[test]
    fn a_log_that_has_failed_stays_so_whatever_comes() {
        let mut states = open();
        states.take_group();
        states.set_out(0);
        assert!(states.fail("an I/O error".into()));
        assert!(!states.fail("another one".into()), "the first reason is reported");
        assert_eq!(states.look_for_hang(HANG_US), Hang::None);
        states.arrive();
        states.run_full("no space left".into());
        states.open();
        assert_eq!(states.commit(), None);
        assert_eq!((states.check(0), states.close()), (Err(failed()), Err(failed())));
        assert_eq!((states.work(true), states.work(false)), (Some(Work::Nothing), Some(Work::Nothing)));
    }

    #[test]
    fn a_group_is_filled_while_the_one_before_it_is_on_its_way() {
        let mut states = open();
        states.begin_after(Lsn(7));
        assert_eq!((states.filling(), states.durable()), (Lsn(8), Lsn(7)));
        assert_eq!(states.take_group(), Lsn(8));
        assert_eq!((states.filling(), states.durable()), (Lsn(9), Lsn(7)));
        states.set_out(5);
        assert!(states.is_in_flight());
        assert_eq!((states.in_flight_us(12), states.filling()), (7, Lsn(9)));
        assert_eq!(
            (states.outcome(Lsn(7)), states.outcome(Lsn(8))),
            (Some(Ok(Durable { upto: Lsn(7) })), None)
        );
        states.arrive();
        assert_eq!((states.in_flight_us(12), states.outcome(Lsn(8))), (0, None));
        assert_eq!(states.commit(), None);
        assert_eq!((states.filling(), states.durable()), (Lsn(9), Lsn(8)));
        assert_eq!(states.outcome(Lsn(8)), Some(Ok(Durable { upto: Lsn(8) })));
    }

    #[test]
    fn a_group_that_found_no_room_is_offered_to_the_disk_again() {
        let mut states = open();
        states.take_group();
        for _ in 0..2 {
            states.set_out(0);
            states.arrive();
            states.run_full("no space left".into());
            assert_eq!(states.outcome(Lsn(1)), Some(Err(LogError::Full("no space left".into()))));
        }
        states.commit();
        assert_eq!((states.check(0), states.durable()), (Ok(()), Lsn(1)));
    }

    #[test]
    fn a_disk_that_hangs_shuts_the_log_until_it_answers_and_that_is_news_once() {
        let mut states = open();
        assert_eq!(states.look_for_hang(HANG_US), Hang::None, "nothing is on its way");
        states.take_group();
        states.set_out(1);
        assert_eq!(states.look_for_hang(HANG_US), Hang::None);
        assert_eq!(states.look_for_hang(HANG_US + 1), Hang::Begun(DISK_ANSWER_MAX));
        assert_eq!(states.look_for_hang(HANG_US + 1_000_001), Hang::GoesOn);
        let seconds = DISK_ANSWER_MAX.as_secs() + 1;
        assert_eq!((states.check(0), states.close()), (Err(LogError::Hung(seconds)), Ok(())));
        states.arrive();
        assert_eq!(states.check(0), Err(LogError::Hung(seconds)));
        assert_eq!((states.commit(), states.check(0)), (Some(seconds), Ok(())));
    }

    #[test]
    fn what_the_journal_holds_is_work_once_it_is_wanted_or_the_log_closes() {
        let mut states = open();
        assert_eq!((states.work(true), states.work(false)), (None, None));
        states.want();
        assert_eq!((states.work(true), states.work(false)), (Some(Work::Group), None));
        states.take_group();
        assert_eq!(states.work(true), None, "that was asked for the group which is gone");
        assert_eq!((states.is_closing(), states.close(), states.is_closing()), (false, Ok(()), true));
        assert_eq!((states.work(true), states.work(false)), (Some(Work::Group), Some(Work::Nothing)));
    }

    #[test]
    fn a_log_that_has_ended_stays_closed() {
        let mut states = open();
        states.close().unwrap();
        assert!(!states.has_ended());
        states.end();
        states.close().unwrap();
        assert!(states.has_ended() && states.is_closing());
    }

    #[test]
    fn a_bound_stays_as_it_is_until_there_is_a_checkpoint() {
        let mut states = open();
        assert_eq!(states.check(u64::MAX), Ok(()));
        states.bound(5 << 20);
        states.bound(9 << 20);
        assert_eq!(states.check(5 << 20), Ok(()));
        assert_eq!(states.check(6 << 20), Err(LogError::CheckpointOverdue(6)));
        states.lift_bound();
        assert_eq!(states.check(6 << 20), Ok(()));
    }

    #[test]
    fn what_is_asked_for_while_a_checkpoint_is_in_flight_is_one_more() {
        let mut states = open();
        assert!(!states.wants_checkpoint(0));
        assert_eq!(states.ask_checkpoint(4), 5);
        states.begin_checkpoint();
        assert_eq!(states.ask_checkpoint(4), 6);
        // It failed, and is tried again: what was reported holds.
        states.end_checkpoint();
        assert_eq!(states.ask_checkpoint(4), 6);
        assert_eq!((states.wants_checkpoint(5), states.wants_checkpoint(6)), (true, false));
        assert_eq!(states.ask_checkpoint(6), 7);
    }

    #[test]
    #[should_panic(expected = "one group at a time")]
    #[cfg(debug_assertions)]
    fn no_second_group_is_taken_before_the_first_is_on_disk() {
        let mut states = open();
        states.take_group();
        states.take_group();
    }
}

//! How long a group of small writes waits for more before it is committed. A commit costs what a thousand samples
//! cost, whatever is in it: senders that were just answered send again at once, and one commit does for all of them.
//! What writes are and how they are committed is not known here.

use std::time::Duration;

/// Samples with which a group doesn't wait: the commit is a small part of what it costs then.
const SAMPLES_ENOUGH: usize = 8 * 1024;

/// A group never waits for longer, in µs, however slow the disk was.
const WINDOW_US_MAX: u64 = 500;

/// What the last commit says of the next one. A group waits only right after a commit, for at most as long as
/// that took, and not once as many parts have come as recently waited: a sender that is alone, and one that comes after
/// a pause, wait for nothing.
#[derive(Debug, Default)]
pub(super) struct GroupWindow {
    /// Parts that waited when the last group was durable: its own, and those that had come meanwhile.
    expected: usize,
    /// The window's end, in µs on the host's clock.
    ends_us: u64,
}

impl GroupWindow {
    /// A group of so many parts was committed; so many more wait already.
    pub(super) fn note_commit(&mut self, parts: usize, waiting: usize, began_us: u64, ended_us: u64) {
        let window_us = (ended_us - began_us).min(WINDOW_US_MAX);
        *self = Self { expected: parts + waiting, ends_us: ended_us + window_us };
    }

    /// For how long a group with so many parts and samples waits for more; `None`: not at all.
    pub(super) fn time_left(&self, parts: usize, samples: usize, now_us: u64) -> Option<Duration> {
        let is_open = parts < self.expected && samples < SAMPLES_ENOUGH && now_us < self.ends_us;
        is_open.then(|| Duration::from_micros(self.ends_us - now_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a commit of 400 µs that ended at 1,000 µs.
    fn after_commit(parts: usize, waiting: usize) -> GroupWindow {
        let mut window = GroupWindow::default();
        window.note_commit(parts, waiting, 600, 1000);
        window
    }

    #[test]
    fn a_group_waits_for_those_that_waited_lately_and_for_a_commit_s_time_at_the_most() {
        let window = after_commit(4, 4);
        assert_eq!(window.time_left(1, 100, 1000), Some(Duration::from_micros(400)));
        assert_eq!(window.time_left(7, 700, 1350), Some(Duration::from_micros(50)));
        assert_eq!(window.time_left(8, 800, 1350), None, "all of them are there");
        assert_eq!(window.time_left(7, 700, 1400), None, "the window is over");
        assert_eq!(window.time_left(1, SAMPLES_ENOUGH, 1000), None, "it is large");
    }

    #[test]
    fn one_that_is_alone_waits_for_nobody() {
        assert_eq!(after_commit(1, 0).time_left(1, 1, 1000), None);
        assert_eq!(GroupWindow::default().time_left(1, 1, 0), None);
    }

    #[test]
    fn a_disk_that_hung_makes_nobody_wait_long() {
        let mut window = GroupWindow::default();
        window.note_commit(8, 0, 0, 60_000_000);
        assert_eq!(window.time_left(1, 1, 60_000_000), Some(Duration::from_micros(WINDOW_US_MAX)));
    }
}

//! One connection that posts remote write bodies: one request at a time, each to its last answer. It
//! counts nothing itself.

use std::io;
use std::time::{Duration, Instant};

use silverback_load::connection::{Connection, Response};

use super::backoff::RequestBackoff;
use super::event::{Counter, Event};
use super::feed::{Feed, Ready};
use super::turns::SendTurns;
use crate::error::Done;

/// A connection, and what it sends.
#[derive(Debug)]
pub(super) struct Posting {
    /// To the receiver.
    pub connection: Connection,
    /// What to send.
    pub feed: Feed,
    /// When.
    pub turns: SendTurns,
    /// Who counts.
    pub counter: Counter,
}

/// What became of one attempt.
enum Attempt {
    TakenIn(Response),
    /// With its status, and when the receiver would like to see it again.
    Refused(String, Option<Duration>),
    /// Sending it again would change nothing.
    RefusedForGood(String),
}

impl Posting {
    /// Sends until the feed or the run ends. Returns how many samples were due by then and not sent.
    pub(super) fn run(mut self) -> Done<u64> {
        while let Some(ready) = self.feed.blocking_recv().transpose()? {
            let Ok(intended) = self.turns.wait(ready.samples) else {
                return Ok(self.turns.samples_overdue());
            };
            self.deliver(&ready, intended);
        }
        Ok(0)
    }

    fn deliver(&mut self, ready: &Ready, intended: Instant) {
        let samples = ready.samples;
        self.counter.tell(Event::Sent { samples });
        let mut backoff = RequestBackoff::default();
        loop {
            let (status, pause) = match self.attempt(ready) {
                Attempt::TakenIn(response) => return self.taken_in(&response, samples, intended),
                Attempt::RefusedForGood(status) => (status, None),
                Attempt::Refused(status, _) if !self.turns.may_send_again() => (status, None),
                Attempt::Refused(status, asked) => (status, backoff.next(asked)),
            };
            let again = pause.map(|pause| self.turns.stop().sleep_until(Instant::now() + pause));
            match again {
                Some(Ok(())) => self.counter.tell(Event::SentAgain { status }),
                Some(Err(_)) | None => {
                    return self.counter.tell(Event::Failed { status, requests: 1, samples });
                }
            }
        }
    }

    fn attempt(&mut self, ready: &Ready) -> Attempt {
        let response = match self.connection.send(&ready.body) {
            Ok(response) if response.is_success() => return Attempt::TakenIn(response),
            Ok(response) => response,
            Err(error) => {
                self.counter.tell(Event::Said(error.to_string()));
                return Attempt::Refused(broken(&error).to_owned(), None);
            }
        };
        self.counter.tell(Event::Said(format!("{}: {}", response.status, response.excerpt)));
        let status = response.status.to_string();
        if response.asks_for_retry() {
            Attempt::Refused(status, response.retry_after_s.map(Duration::from_secs))
        } else if response.samples_written.is_some() {
            Attempt::TakenIn(response)
        } else {
            Attempt::RefusedForGood(status)
        }
    }

    /// A receiver that says nothing of what it stored has stored all of what it acknowledges.
    fn taken_in(&self, response: &Response, samples: u64, intended: Instant) {
        self.counter.tell(Event::Answered { latencies: vec![intended.elapsed()], samples });
        let written = response.samples_written.unwrap_or(samples).min(samples);
        for (reason, samples) in reasons(&response.excerpt, samples - written, response.status) {
            self.counter.tell(Event::Refused { reason, samples });
        }
    }
}

fn broken(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "timeout",
        _other => "broken",
    }
}

/// `12 of 2000 samples refused: out_of_order 10, duplicate 2; first: …` as the node says it; the
/// status for what has no reason.
fn reasons(text: &str, refused: u64, status: u16) -> Vec<(String, u64)> {
    let told = text.split_once("refused: ").map_or("", |(_, rest)| rest.split(';').next().unwrap_or(rest));
    let mut reasons: Vec<(String, u64)> = told.split(", ").filter_map(parse_reason).collect();
    let sum: u64 = reasons.iter().map(|(_, samples)| samples).sum();
    if sum > refused {
        reasons.clear();
    }
    if sum != refused {
        let untold = if sum > refused { refused } else { refused - sum };
        reasons.push((format!("status {status}"), untold));
    }
    reasons.retain(|(_, samples)| *samples > 0);
    reasons
}

fn parse_reason(text: &str) -> Option<(String, u64)> {
    let (name, samples) = text.trim().split_once(' ')?;
    Some((name.to_owned(), samples.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_and_never_more_than_was_refused() {
        let check = |text: &str, refused, expected: &[(&str, u64)]| {
            let expected: Vec<_> =
                expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            assert_eq!(reasons(text, refused, 400), expected, "{text}");
        };
        let text =
            "12 of 2000 samples refused: out_of_order 10, duplicate 2; first: {a=\"b\"} is out of order";
        check(text, 12, &[("out_of_order", 10), ("duplicate", 2)]);
        check(text, 13, &[("out_of_order", 10), ("duplicate", 2), ("status 400", 1)]);
        check(text, 11, &[("status 400", 11)]);
        check("no good", 5, &[("status 400", 5)]);
        check("", 0, &[]);
    }
}

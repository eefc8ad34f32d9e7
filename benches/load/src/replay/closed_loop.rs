//! A closed loop over many connections: each has one request in flight, and whoever is answered first sends first
//! again. One thread for each CPU, not for each connection: of a thousand threads on a CPU some would wait seconds for
//! their turn on it, and that would look like the server's latency. A pace is not known here.

use std::io;
use std::slice;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::dataset::{Dataset, Prepared};
use super::mark::Mark;
use super::send::retry_delay;
use super::tally::Tally;
use crate::connection::{Connection, Response};

/// Answers that are processed before the next look at which others have come.
const EVENTS_MAX: usize = 1024;
/// The time between two looks for what is to be sent again, or has waited too long.
const LOOK: Duration = Duration::from_millis(20);

/// What all threads of a loop have in common.
#[derive(Clone, Copy)]
pub(super) struct ClosedLoop<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) acked: &'a AtomicU64,
    pub(super) retries: u32,
    pub(super) timeout: Duration,
    pub(super) mark: Option<&'a Mark>,
}

/// One thread's part of it.
struct Running<'a> {
    part: &'a ClosedLoop<'a>,
    epoll: Epoll,
    tally: Tally,
    /// Connections that have more to send or to be answered.
    left: usize,
}

/// One connection, and what it has to send.
struct Sender<'a> {
    /// Its number in the loop: its socket's events have it.
    place: u64,
    connection: &'a mut Connection,
    requests: slice::Iter<'a, Prepared>,
    turn: Turn<'a>,
    /// Whether its socket is watched; one that was opened again isn't yet.
    is_watched: bool,
}

/// What a connection is at.
enum Turn<'a> {
    /// It may send its next request.
    Ready,
    /// Its request is in flight.
    Sent(Attempt<'a>),
    /// Its request is to be sent again then.
    Again { at: Instant, attempt: Attempt<'a> },
    /// All are answered.
    Done,
}

struct Attempt<'a> {
    request: &'a Prepared,
    began: Instant,
    /// Whether the mark was set when it began.
    was_set: bool,
    number: u32,
}

impl ClosedLoop<'_> {
    /// Sends all requests of these connections, and waits for the answers.
    pub(super) fn run<'a>(
        &'a self,
        connections: impl Iterator<Item = (&'a mut Connection, &'a [Prepared])>,
    ) -> io::Result<Tally> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let sender =
            |(place, (connection, requests)): (usize, (&'a mut Connection, &'a [Prepared]))| Sender {
                place: place as u64,
                connection,
                requests: requests.iter(),
                turn: Turn::Ready,
                is_watched: false,
            };
        let mut senders: Vec<Sender<'_>> = connections.enumerate().map(sender).collect();
        let mut running = Running { part: self, epoll, tally: Tally::new(), left: senders.len() };
        for sender in &mut senders {
            running.send_next(sender)?;
        }
        let mut events = vec![EpollEvent::empty(); EVENTS_MAX];
        while running.left > 0 {
            let looked = Instant::now();
            while running.left > 0 && looked.elapsed() < LOOK {
                let count = running.epoll.wait(&mut events, LOOK.as_millis() as isize)?;
                for event in &events[..count] {
                    running.take_answer(&mut senders[event.data() as usize])?;
                }
            }
            for sender in &mut senders {
                running.look(sender)?;
            }
        }
        Ok(running.tally)
    }
}

impl Running<'_> {
    /// Sends until a request is in flight or is to be sent again later, or none is left.
    fn send_next(&mut self, sender: &mut Sender<'_>) -> io::Result<()> {
        while matches!(sender.turn, Turn::Ready) {
            let Some(request) = sender.requests.next() else {
                sender.turn = Turn::Done;
                self.left -= 1;
                break;
            };
            self.tally.requests += 1;
            self.tally.samples_sent += u64::from(request.samples);
            let was_set = self.part.mark.is_some_and(Mark::is_set);
            let attempt = Attempt { request, began: Instant::now(), was_set, number: 0 };
            self.send(sender, attempt)?;
        }
        Ok(())
    }

    fn send<'a>(&mut self, sender: &mut Sender<'a>, attempt: Attempt<'a>) -> io::Result<()> {
        let begun = sender.connection.begin(self.part.dataset.body(attempt.request));
        match (begun, sender.connection.stream()) {
            (Ok(()), Some(stream)) => {
                if !sender.is_watched {
                    self.epoll.add(stream, EpollEvent::new(EpollFlags::EPOLLIN, sender.place))?;
                    sender.is_watched = true;
                }
                sender.turn = Turn::Sent(attempt);
            }
            (begun, _) => {
                let broken = begun.err().unwrap_or_else(|| io::ErrorKind::NotConnected.into());
                self.end(sender, attempt, Err(broken));
            }
        }
        Ok(())
    }

    fn take_answer(&mut self, sender: &mut Sender<'_>) -> io::Result<()> {
        match std::mem::replace(&mut sender.turn, Turn::Ready) {
            Turn::Sent(attempt) => {
                let answer = sender.connection.finish();
                self.end(sender, attempt, answer);
                self.send_next(sender)
            }
            // The server hung up between two requests: the next one finds out.
            between => {
                sender.turn = between;
                sender.close();
                Ok(())
            }
        }
    }

    /// An answer is there, or none will come any more.
    fn end<'a>(&mut self, sender: &mut Sender<'a>, attempt: Attempt<'a>, answer: io::Result<Response>) {
        sender.is_watched &= sender.connection.stream().is_some();
        let is_wanted_again = self.tally.answered(attempt.request.samples, answer, self.part.acked);
        if is_wanted_again && attempt.number < self.part.retries {
            let number = attempt.number + 1;
            let at = Instant::now() + retry_delay(number);
            sender.turn = Turn::Again { at, attempt: Attempt { number, ..attempt } };
            return;
        }
        let latency = attempt.began.elapsed();
        self.tally.took(latency);
        if let Some(mark) = self.part.mark {
            self.tally.marked.push(latency, attempt.was_set || mark.is_set());
        }
        sender.turn = Turn::Ready;
    }

    /// Sends again what is due, and gives up what has waited too long.
    fn look(&mut self, sender: &mut Sender<'_>) -> io::Result<()> {
        let now = Instant::now();
        match std::mem::replace(&mut sender.turn, Turn::Ready) {
            Turn::Again { at, attempt } if at <= now => {
                self.tally.retries += 1;
                self.send(sender, attempt)?;
                self.send_next(sender)
            }
            Turn::Sent(attempt) if attempt.began + self.part.timeout * (attempt.number + 1) <= now => {
                sender.close();
                self.end(sender, attempt, Err(io::ErrorKind::TimedOut.into()));
                self.send_next(sender)
            }
            other => {
                sender.turn = other;
                Ok(())
            }
        }
    }
}

impl Sender<'_> {
    fn close(&mut self) {
        self.connection.close();
        self.is_watched = false;
    }
}

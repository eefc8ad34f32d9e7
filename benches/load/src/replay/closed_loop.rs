//! A closed loop over many connections: each has one request in flight, and who is answered first sends first again. One
//! thread for each CPU, not for each connection: of a thousand threads on a CPU some would wait seconds for their turn
//! on it, and that would look like the server's latency. A pace is not known here.

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

/// Answers that are taken in before it is looked which others have come.
const EVENTS_MAX: usize = 1024;
/// How often it is looked for what is to be sent again, or has waited too long.
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

/// One connection, and what it has to send.
struct Sender<'a> {
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
        let (mut tally, epoll) = (Tally::new(), Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let mut senders: Vec<Sender<'_>> = connections
            .map(|(connection, requests)| Sender {
                connection,
                requests: requests.iter(),
                turn: Turn::Ready,
                is_watched: false,
            })
            .collect();
        for (place, sender) in senders.iter_mut().enumerate() {
            self.send_next(&epoll, place, sender, &mut tally)?;
        }
        let mut events = vec![EpollEvent::empty(); EVENTS_MAX];
        let mut looked = Instant::now();
        while senders.iter().any(|sender| !matches!(sender.turn, Turn::Done)) {
            // Several rounds for one look at all of them.
            while looked.elapsed() < LOOK {
                let count = epoll.wait(&mut events, LOOK.as_millis() as isize)?;
                for event in &events[..count] {
                    let place = event.data() as usize;
                    self.take_answer(&epoll, place, &mut senders[place], &mut tally)?;
                }
            }
            looked = Instant::now();
            for (place, sender) in senders.iter_mut().enumerate() {
                self.look(&epoll, place, sender, &mut tally)?;
            }
        }
        Ok(tally)
    }

    /// Sends until a request is in flight or is to be sent again later, or none is left.
    fn send_next(
        &self,
        epoll: &Epoll,
        place: usize,
        sender: &mut Sender<'_>,
        tally: &mut Tally,
    ) -> io::Result<()> {
        while matches!(sender.turn, Turn::Ready) {
            let Some(request) = sender.requests.next() else {
                sender.turn = Turn::Done;
                break;
            };
            tally.requests += 1;
            tally.samples_sent += u64::from(request.samples);
            let was_set = self.mark.is_some_and(Mark::is_set);
            let attempt = Attempt { request, began: Instant::now(), was_set, number: 0 };
            self.send(epoll, place, sender, attempt, tally)?;
        }
        Ok(())
    }

    fn send<'a>(
        &self,
        epoll: &Epoll,
        place: usize,
        sender: &mut Sender<'a>,
        attempt: Attempt<'a>,
        tally: &mut Tally,
    ) -> io::Result<()> {
        let begun = sender.connection.begin(self.dataset.body(attempt.request));
        match (begun, sender.connection.stream()) {
            (Ok(()), Some(stream)) => {
                if !sender.is_watched {
                    epoll.add(stream, EpollEvent::new(EpollFlags::EPOLLIN, place as u64))?;
                    sender.is_watched = true;
                }
                sender.turn = Turn::Sent(attempt);
            }
            (begun, _) => {
                let broken = begun.err().unwrap_or_else(|| io::ErrorKind::NotConnected.into());
                self.end(sender, attempt, Err(broken), tally);
            }
        }
        Ok(())
    }

    fn take_answer(
        &self,
        epoll: &Epoll,
        place: usize,
        sender: &mut Sender<'_>,
        tally: &mut Tally,
    ) -> io::Result<()> {
        match std::mem::replace(&mut sender.turn, Turn::Ready) {
            Turn::Sent(attempt) => {
                let answer = sender.connection.finish();
                self.end(sender, attempt, answer, tally);
                self.send_next(epoll, place, sender, tally)
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
    fn end<'a>(
        &self,
        sender: &mut Sender<'a>,
        attempt: Attempt<'a>,
        answer: io::Result<Response>,
        tally: &mut Tally,
    ) {
        sender.is_watched &= sender.connection.stream().is_some();
        let is_wanted_again = tally.answered(attempt.request.samples, answer, self.acked);
        if is_wanted_again && attempt.number < self.retries {
            let number = attempt.number + 1;
            let at = Instant::now() + retry_delay(number);
            sender.turn = Turn::Again { at, attempt: Attempt { number, ..attempt } };
            return;
        }
        let latency = attempt.began.elapsed();
        tally.took(latency);
        if let Some(mark) = self.mark {
            tally.marked.push(latency, attempt.was_set || mark.is_set());
        }
        sender.turn = Turn::Ready;
    }

    /// Sends again what is due, and gives up what has waited too long.
    fn look(
        &self,
        epoll: &Epoll,
        place: usize,
        sender: &mut Sender<'_>,
        tally: &mut Tally,
    ) -> io::Result<()> {
        let now = Instant::now();
        match std::mem::replace(&mut sender.turn, Turn::Ready) {
            Turn::Again { at, attempt } if at <= now => {
                tally.retries += 1;
                self.send(epoll, place, sender, attempt, tally)?;
                self.send_next(epoll, place, sender, tally)
            }
            Turn::Sent(attempt) if attempt.began + self.timeout * (attempt.number + 1) <= now => {
                sender.close();
                self.end(sender, attempt, Err(io::ErrorKind::TimedOut.into()), tally);
                self.send_next(epoll, place, sender, tally)
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

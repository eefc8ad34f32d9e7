//! How many reads one core has in flight: a bounded number, so that reads cost bounded memory. More of
//! them wait for their turn, a bounded number too. Queries have a gate of their own before that of all reads.
//!
//! A read's permit stays taken until it has stopped on every core, also where its client is gone long
//! before.
//!
//! Connections share it fairly: next comes a read of the one that has the fewest in flight, of these the one that has
//! waited the longest since it had a turn; and where as many wait as may, a newcomer takes the turn of one that has more
//! of them waiting. So a client that asks much and reads slowly keeps one on another connection waiting no longer than
//! until a read ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures::channel::oneshot;

use super::large_answers::{LargeAnswer, LargeAnswers};
use silverback_model::limits::READS_WAITING_MAX;
use silverback_storage::message::ReadTicket;

/// One core's reads: those in flight, and those that wait in the order in which they came.
#[derive(Debug)]
pub struct ReadGate {
    max: usize,
    in_flight: Cell<usize>,
    /// Permits that were given so far: what turns are ordered by.
    given: Cell<u64>,
    waiting: RefCell<VecDeque<WaitingRead>>,
    large_answers: Rc<LargeAnswers>,
    /// Reads that were refused so far for the memory that others have.
    refused_for_room: Cell<u64>,
}

/// A connection's part in the reads of its core, and in the queries among them. A clone is the same connection's.
#[derive(Debug, Clone, Default)]
pub struct Asker {
    reads: Rc<AskerReads>,
    queries: Rc<AskerReads>,
}

#[derive(Debug, Default)]
struct AskerReads {
    in_flight: Cell<usize>,
    /// The number of the last permit that it was given.
    served: Cell<u64>,
}

impl Asker {
    /// Its part in the queries, whose turns are others than reads'.
    pub(crate) fn of_queries(&self) -> Self {
        Self { reads: Rc::clone(&self.queries), queries: Rc::default() }
    }

    fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.reads, &other.reads)
    }
}

/// A read that waits.
#[derive(Debug)]
struct WaitingRead {
    asker: Asker,
    /// How many permits were given before it came.
    came: u64,
    call: oneshot::Sender<ReadTurn>,
}

impl WaitingRead {
    /// The least comes next. Whoever has had a turn meanwhile comes after those that came meanwhile.
    fn order(&self) -> (usize, u64, bool) {
        let AskerReads { in_flight, served } = &*self.asker.reads;
        (in_flight.get(), served.get().max(self.came), served.get() >= self.came)
    }
}

/// As many reads wait as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("as many reads wait for others to end as this node allows: try again later")]
pub struct ReadGateRejected;

/// A read in flight. Dropping it cancels the read on all cores.
#[derive(Debug)]
pub struct ReadInFlight {
    lease: ReadLease,
}

/// What a read's requests to shards hold of it: its permit is given back after the last of them.
#[derive(Debug, Clone)]
pub struct ReadLease {
    ticket: ReadTicket,
    permit: Rc<ReadTurn>,
}

/// The right to one read, or to one query; given back when dropped.
#[derive(Debug)]
pub(crate) struct ReadTurn {
    gate: Rc<ReadGate>,
    asker: Asker,
}

impl ReadGate {
    /// A core's part of the node's reads, and no more than `max_here`. A core always has one.
    pub fn new(reads_max: usize, cores: usize, max_here: usize) -> Rc<Self> {
        let max = reads_max.div_ceil(cores).min(max_here).max(1);
        Rc::new(Self {
            max,
            in_flight: Cell::default(),
            given: Cell::default(),
            waiting: RefCell::default(),
            large_answers: Rc::default(),
            refused_for_room: Cell::default(),
        })
    }

    /// A read was refused because others have the memory for reads: who asks again finds it no sooner than they end.
    pub(crate) fn room_was_refused(&self) {
        self.refused_for_room.set(self.refused_for_room.get() + 1);
    }

    /// Reads that may be in flight.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Reads in flight, those that are stopping among them.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Reads that wait: to begin, or in flight for the memory that a large answer takes.
    pub(crate) fn waiting(&self) -> usize {
        self.in_line() + self.large_answers.waiting()
    }

    fn in_line(&self) -> usize {
        self.waiting.borrow().iter().filter(|turn| !turn.call.is_canceled()).count()
    }

    /// Waits for its turn: no longer than its caller does.
    pub async fn enter(self: &Rc<Self>, asker: Asker) -> Result<ReadInFlight, ReadGateRejected> {
        let permit = self.turn(asker).await?;
        Ok(ReadInFlight { lease: ReadLease { ticket: ReadTicket::issue(), permit: Rc::new(permit) } })
    }

    /// Waits for the turn alone.
    pub(crate) async fn turn(self: &Rc<Self>, asker: Asker) -> Result<ReadTurn, ReadGateRejected> {
        match self.in_flight.get() < self.max {
            true => Ok(self.permit(asker)),
            // Only a gate that is gone, or a turn that another connection takes, calls no more.
            false => self.queue(asker)?.await.map_err(|oneshot::Canceled| ReadGateRejected),
        }
    }

    /// A part of a read that waited for its turn on another core, and waits for none here: it would hold up those who
    /// wait for it.
    pub(crate) fn enter_beside(self: &Rc<Self>, ticket: ReadTicket) -> ReadLease {
        ReadLease { ticket, permit: Rc::new(self.permit(Asker::default())) }
    }

    fn queue(&self, asker: Asker) -> Result<oneshot::Receiver<ReadTurn>, ReadGateRejected> {
        let mut waiting = self.waiting.borrow_mut();
        // Some waited as long as they could.
        waiting.retain(|turn| !turn.call.is_canceled());
        if waiting.len() >= READS_WAITING_MAX {
            let turn = turn_to_take(&waiting, &asker).ok_or(ReadGateRejected)?;
            waiting.remove(turn);
        }
        let (call, called) = oneshot::channel();
        waiting.push_back(WaitingRead { asker, came: self.given.get(), call });
        Ok(called)
    }

    fn permit(self: &Rc<Self>, asker: Asker) -> ReadTurn {
        self.in_flight.set(self.in_flight.get() + 1);
        self.given.set(self.given.get() + 1);
        asker.reads.in_flight.set(asker.reads.in_flight.get() + 1);
        asker.reads.served.set(self.given.get());
        ReadTurn { gate: Rc::clone(self), asker }
    }

    fn call_next(self: &Rc<Self>) {
        while self.in_flight.get() < self.max {
            let Some(WaitingRead { asker, call, .. }) = self.next() else { return };
            if !call.is_canceled() {
                // Whoever leaves right now drops the permit, and so calls the next.
                drop(call.send(self.permit(asker)));
            }
        }
    }

    fn next(&self) -> Option<WaitingRead> {
        let mut waiting = self.waiting.borrow_mut();
        let (first, _) = waiting.iter().enumerate().min_by_key(|(_, turn)| turn.order())?;
        waiting.remove(first)
    }
}

/// The last turn of the connection with the most reads in the line, where the asker, with one more, still has fewer.
fn turn_to_take(waiting: &VecDeque<WaitingRead>, asker: &Asker) -> Option<usize> {
    let waiting_of = |asker: &Asker| waiting.iter().filter(|turn| turn.asker.is(asker)).count();
    let (last, most) =
        (0..waiting.len()).map(|at| (at, waiting_of(&waiting[at].asker))).max_by_key(|(_, of)| *of)?;
    (waiting_of(asker) + 1 < most).then_some(last)
}

impl Drop for ReadTurn {
    fn drop(&mut self) {
        for in_flight in [&self.gate.in_flight, &self.asker.reads.in_flight] {
            in_flight.set(in_flight.get() - 1);
        }
        self.gate.call_next();
    }
}

impl ReadInFlight {
    /// What its requests hold.
    pub fn lease(&self) -> &ReadLease {
        &self.lease
    }
}

impl Drop for ReadInFlight {
    fn drop(&mut self) {
        self.lease.ticket.cancel();
    }
}

impl ReadLease {
    /// Names the read on every core.
    pub(crate) fn ticket(&self) -> &ReadTicket {
        &self.ticket
    }

    /// Whether other reads wait for this core's to end or for this one's large answer to be sent, or have waited since
    /// this was asked last for what this one holds on a shard.
    pub(crate) fn is_waited_for(&self) -> bool {
        let ReadGate { large_answers, .. } = &*self.permit.gate;
        self.ticket.was_waited_for()
            || self.permit.gate.in_line() > 0
            || large_answers.is_waited_for(&self.ticket)
    }

    /// Reads of this core that were refused so far for the memory that others have, this one perhaps among them.
    pub(crate) fn refused_for_room(&self) -> u64 {
        self.permit.gate.refused_for_room.get()
    }

    /// Its turn to make an answer that takes much of the memory for reads, and to send it, where it needs not wait.
    pub(crate) fn try_large_answer(&self) -> Option<LargeAnswer> {
        self.permit.gate.large_answers.try_enter(&self.ticket)
    }

    /// Waits for that turn, and holds nothing on the shards meanwhile: who has it may wait for that.
    pub(crate) async fn large_answer(&self) -> LargeAnswer {
        self.permit.gate.large_answers.enter(&self.ticket).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn gate() -> Rc<ReadGate> {
        ReadGate::new(1, 1, usize::MAX)
    }

    #[test]
    fn a_gate_deals_the_node_s_reads_out_and_leaves_each_core_one() {
        let max = |reads_max, cores, max_here| ReadGate::new(reads_max, cores, max_here).max;
        assert_eq!((max(10, 1, 99), max(10, 8, 99), max(1, 64, 99)), (10, 2, 1));
        assert_eq!((max(10, 1, 3), max(10, 1, 0)), (3, 1));
    }

    #[test]
    fn reads_beyond_the_limit_get_their_turns_in_order() {
        let gate = gate();
        let first = gate.enter(Asker::default()).now_or_never().unwrap().unwrap();
        let (mut second, mut third) =
            (Box::pin(gate.enter(Asker::default())), Box::pin(gate.enter(Asker::default())));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        assert_eq!((gate.in_flight(), gate.waiting()), (1, 2));
        assert!(first.lease().is_waited_for());
        drop(first);
        assert!((&mut third).now_or_never().is_none());
        drop(second.now_or_never().unwrap().unwrap());
        drop(third.now_or_never().unwrap().unwrap());
        assert_eq!((gate.in_flight(), gate.waiting()), (0, 0));
    }

    #[test]
    fn a_read_that_stops_waiting_leaves_its_turn_to_the_next() {
        let gate = gate();
        let first = gate.enter(Asker::default()).now_or_never().unwrap().unwrap();
        let (mut leaving, mut called, mut last) = (
            Box::pin(gate.enter(Asker::default())),
            Box::pin(gate.enter(Asker::default())),
            Box::pin(gate.enter(Asker::default())),
        );
        for waiting in [&mut leaving, &mut called, &mut last] {
            assert!(waiting.now_or_never().is_none());
        }
        drop(leaving);
        assert_eq!(gate.waiting(), 2);
        drop(first);
        // Its turn came, and it goes without having seen that.
        drop(called);
        assert!(last.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn a_read_that_is_dropped_is_cancelled_and_keeps_its_permit_until_its_last_request_has_ended() {
        let gate = gate();
        let read = gate.enter(Asker::default()).now_or_never().unwrap().unwrap();
        let request = read.lease().clone();
        let mut next = Box::pin(gate.enter(Asker::default()));
        drop(read);
        assert!(request.ticket().is_cancelled());
        assert!((&mut next).now_or_never().is_none());
        drop(request);
        assert!(!next.now_or_never().unwrap().unwrap().lease().ticket().is_cancelled());
    }

    #[test]
    fn a_bounded_number_of_reads_waits() {
        let (gate, asker) = (gate(), Asker::default());
        let _first = gate.enter(asker.clone()).now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> =
            (0..READS_WAITING_MAX).map(|_| Box::pin(gate.enter(asker.clone()))).collect();
        assert!(waiting.iter_mut().all(|read| read.now_or_never().is_none()));
        assert_eq!(gate.enter(asker.clone()).now_or_never().unwrap().unwrap_err(), ReadGateRejected);
        waiting.pop();
        assert!(gate.enter(asker.clone()).now_or_never().is_none());
    }

    #[test]
    fn a_connection_with_many_reads_lets_one_with_few_go_first() {
        let (gate, [greedy, modest]) =
            (ReadGate::new(2, 1, usize::MAX), [Asker::default(), Asker::default()]);
        let first = gate.enter(greedy.clone()).now_or_never().unwrap().unwrap();
        let _second = gate.enter(greedy.clone()).now_or_never().unwrap().unwrap();
        let (mut third, mut own) =
            (Box::pin(gate.enter(greedy.clone())), Box::pin(gate.enter(modest.clone())));
        assert!((&mut third).now_or_never().is_none() && (&mut own).now_or_never().is_none());
        drop(first);
        let own = (&mut own).now_or_never().expect("it has none in flight").unwrap();
        assert!((&mut third).now_or_never().is_none());
        drop(own);
        assert!(third.now_or_never().unwrap().is_ok());
        assert_eq!([greedy, modest].map(|asker| asker.reads.in_flight.get()), [1, 0]);
    }

    #[test]
    fn a_connection_s_queries_and_its_other_reads_have_turns_of_their_own() {
        let ([reads, queries], asker) = ([gate(), gate()], Asker::default());
        let query = queries.turn(asker.of_queries()).now_or_never().unwrap().unwrap();
        let _read = reads.enter(asker.clone()).now_or_never().unwrap().unwrap();
        assert_eq!((asker.reads.in_flight.get(), asker.queries.in_flight.get()), (1, 1));
        let mut second = Box::pin(queries.turn(asker.of_queries()));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!((queries.waiting(), reads.waiting()), (1, 0));
        drop(query);
        assert!(second.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn connections_take_turns_where_there_is_one_read_at_a_time() {
        let (gate, [greedy, modest]) = (gate(), [Asker::default(), Asker::default()]);
        let mut in_flight = gate.enter(greedy.clone()).now_or_never().unwrap().unwrap();
        let mut line: Vec<_> = (0..6).map(|_| Box::pin(gate.enter(greedy.clone()))).collect();
        assert!(line.iter_mut().all(|read| read.now_or_never().is_none()));
        for of_greedy in line.iter_mut().take(3) {
            let mut own = Box::pin(gate.enter(modest.clone()));
            assert!((&mut own).now_or_never().is_none() && of_greedy.now_or_never().is_none());
            drop(in_flight);
            in_flight = own.now_or_never().expect("the other one had its turn").unwrap();
            assert!(of_greedy.now_or_never().is_none());
            drop(in_flight);
            in_flight = of_greedy.now_or_never().expect("who came first").unwrap();
        }
    }

    #[test]
    fn a_connection_that_asks_again_and_again_waits_no_longer_than_others_that_ask_once() {
        let (gate, pooled) = (gate(), Asker::default());
        let mut in_flight = gate.enter(pooled.clone()).now_or_never().unwrap().unwrap();
        let mut once: Vec<_> = (0..3).map(|_| Box::pin(gate.enter(Asker::default()))).collect();
        let mut again = Box::pin(gate.enter(pooled));
        assert!(once.iter_mut().all(|read| read.now_or_never().is_none()));
        assert!((&mut again).now_or_never().is_none());
        for read in once {
            drop(in_flight);
            in_flight = read.now_or_never().unwrap().unwrap();
        }
        let mut late = Box::pin(gate.enter(Asker::default()));
        assert!((&mut late).now_or_never().is_none());
        drop(in_flight);
        assert!(again.now_or_never().unwrap().is_ok(), "before who came later");
        drop(late);
    }

    #[test]
    fn a_line_that_one_connection_fills_has_room_for_others() {
        let (gate, [greedy, modest]) = (gate(), [Asker::default(), Asker::default()]);
        let _first = gate.enter(greedy.clone()).now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> =
            (0..READS_WAITING_MAX).map(|_| Box::pin(gate.enter(greedy.clone()))).collect();
        assert!(waiting.iter_mut().all(|read| read.now_or_never().is_none()));
        let half = READS_WAITING_MAX / 2;
        let mut others: Vec<_> = (0..half).map(|_| Box::pin(gate.enter(modest.clone()))).collect();
        assert!(others.iter_mut().all(|read| read.now_or_never().is_none()));
        let told: Vec<_> = waiting.iter_mut().map(FutureExt::now_or_never).collect();
        assert!(told[..half].iter().all(Option::is_none), "who came first goes on waiting");
        assert!(told[half..].iter().all(|told| matches!(told, Some(Err(ReadGateRejected)))));
        assert_eq!(
            gate.enter(modest.clone()).now_or_never().unwrap().unwrap_err(),
            ReadGateRejected,
            "it has its half"
        );
    }
}

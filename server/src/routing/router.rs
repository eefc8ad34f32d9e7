//! A core's router: asks shards, its own or another core's, and brings their replies home.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::routing::pending::{Pending, ReplyFuture, RequestAddress};
use crate::routing::{
    CoreReply, FanoutError, FoldReply, FoldRequest, LaneMessage, QueriesCall, QueriesReply,
};
use crate::routing::{ReadLease, RoutingTable, SharedReservation};
use silverback_host::waiters::Waiters;
use silverback_model::limits::{LANE_CONTROL, LANE_READS, LANE_WRITES};
use silverback_model::{Epoch, ShardId};
use silverback_storage::message::{
    Correlation, Deletion, ReadCall, ReadOf, ReadTicket, RouteChange, Selection, ShardCall, ShardReply,
    UnsentCall, WritePart,
};
use silverback_storage::shard::{Inbox, ReplyTo};

/// The lanes that leave a core.
pub trait Lanes {
    /// Sends without waiting, or gives the message back.
    fn offer(&self, to: usize, message: LaneMessage) -> Result<(), LaneMessage>;
}

/// What a request is to the lane that it takes: each has places of its own there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneUse {
    /// Writes of senders.
    Write,
    /// Reads of clients.
    Read,
    /// What the node itself asks, and the ends of reads.
    Control,
}

impl LaneUse {
    const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Control];

    /// How many requests of a core to a shard may be in flight.
    const fn max(self) -> usize {
        match self {
            Self::Write => LANE_WRITES,
            Self::Read => LANE_READS,
            Self::Control => LANE_CONTROL,
        }
    }
}

/// Requests in flight to one shard, by what they are.
#[derive(Debug, Default)]
struct InFlight([Cell<usize>; LaneUse::ALL.len()]);

impl InFlight {
    fn of(&self, lane_use: LaneUse) -> &Cell<usize> {
        &self.0[lane_use as usize]
    }

    fn end(&self, lane_use: LaneUse) {
        let in_flight = self.of(lane_use);
        in_flight.set(in_flight.get() - 1);
    }
}

/// Does a part of another core's query, and then replies.
type ServeFold = Box<dyn Fn(ReplyTo, FoldRequest)>;

/// Answers what is asked about a core's queries.
type ServeQueries = Box<dyn Fn(QueriesCall) -> QueriesReply>;

/// A shard has as many requests in flight as it may. Try again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node is overloaded: try again later")]
pub struct Overloaded;

impl<C> From<UnsentCall<C>> for Overloaded {
    fn from(_refused: UnsentCall<C>) -> Self {
        Self
    }
}

/// One core's way to all shards. Shard `i` lives on core `i`.
pub struct Router {
    core: usize,
    table: RefCell<Rc<RoutingTable>>,
    /// Reads are asked by it: the table's, or that of a table which is about to come.
    read_epoch: Cell<Epoch>,
    /// They wait for another table.
    waiting: Waiters,
    /// They wait for a place among what the node itself asks of a shard.
    without_slot: Waiters,
    /// They wait for every shard to take one more write.
    without_room: Waiters,
    inbox: Rc<Inbox>,
    /// What the core's queries do for those of others.
    folds: OnceCell<ServeFold>,
    queries: OnceCell<ServeQueries>,
    lanes: Box<dyn Lanes>,
    pending: Pending,
    in_flight: Box<[InFlight]>,
}

impl Router {
    /// The router of a core whose shard reads `inbox`.
    pub fn new(core: usize, table: RoutingTable, inbox: Rc<Inbox>, lanes: Box<dyn Lanes>) -> Self {
        let in_flight = (0..table.shards()).map(|_| InFlight::default()).collect();
        let read_epoch = Cell::new(table.epoch());
        let table = RefCell::new(Rc::new(table));
        let (waiting, without_slot, without_room, pending) = Default::default();
        Self {
            core,
            table,
            read_epoch,
            waiting,
            without_slot,
            without_room,
            inbox,
            folds: OnceCell::new(),
            queries: OnceCell::new(),
            lanes,
            pending,
            in_flight,
        }
    }

    /// The table as it is now.
    pub fn table(&self) -> Rc<RoutingTable> {
        Rc::clone(&self.table.borrow())
    }

    /// The epoch to ask reads by. All requests of one read have the same, so that each cell is
    /// answered for by one shard.
    pub fn read_epoch(&self) -> Epoch {
        self.read_epoch.get()
    }

    /// Puts another table in the place of this one.
    pub(crate) fn set_table(&self, table: RoutingTable) {
        self.read_epoch.set(self.read_epoch.get().max(table.epoch()));
        *self.table.borrow_mut() = Rc::new(table);
        self.waiting.wake_all();
    }

    /// Waits for a table that is newer than that of `epoch`.
    pub(crate) fn newer_than(&self, epoch: Epoch) -> impl Future<Output = ()> + '_ {
        self.waiting.until(move || (self.table.borrow().epoch() > epoch).then_some(()))
    }

    /// All shards.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.in_flight.len()).map(|shard| ShardId(shard as u16))
    }

    /// The core that this router is of.
    pub(crate) fn core(&self) -> usize {
        self.core
    }

    /// Whether every shard takes one more write.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.iter().all(|to| to.of(LaneUse::Write).get() < LaneUse::Write.max())
    }

    /// Waits until every shard takes one more write: those who came first look first.
    pub(crate) fn room(&self) -> impl Future<Output = ()> + '_ {
        self.without_room.until(|| self.has_room().then_some(()))
    }

    /// Asks a shard something for the node itself. Never waits for room: a full lane gives the question back.
    pub(crate) fn ask<C: ShardCall>(
        &self,
        shard: ShardId,
        question: impl Into<UnsentCall<C>>,
    ) -> Result<ReplyFuture<C>, UnsentCall<C>> {
        self.send(RequestAddress { shard, lane_use: LaneUse::Control }, question.into())
    }

    /// Whether a shard has a place for one more question of the node itself.
    pub(crate) fn has_slot(&self, shard: ShardId) -> bool {
        self.in_flight[usize::from(shard.0)].of(LaneUse::Control).get() < LaneUse::Control.max()
    }

    /// Waits until a shard has such a place.
    pub(crate) fn slot(&self, shard: ShardId) -> impl Future<Output = ()> + '_ {
        self.without_slot.until(move || self.has_slot(shard).then_some(()))
    }

    fn send<C: ShardCall>(
        &self,
        asked: RequestAddress,
        question: UnsentCall<C>,
    ) -> Result<ReplyFuture<C>, UnsentCall<C>> {
        question.offer(|request| {
            let Ok((correlation, answer)) = self.open(asked) else { return Err(request) };
            let to = usize::from(asked.shard.0);
            if to == self.core {
                self.inbox.push(ReplyTo { core: to, correlation }, request);
                return Ok(answer);
            }
            self.offer(asked, LaneMessage::Request(correlation, request), answer).map_err(|message| {
                let LaneMessage::Request(_, request) = message else {
                    unreachable!("a lane gives back what it got")
                };
                request
            })
        })
    }

    /// Has a shard read something. The read's permit stays taken until the shard has answered, also where
    /// nobody waits for it any more.
    pub(crate) fn ask_to_read<Q: ReadCall>(
        &self,
        shard: ShardId,
        epoch: Epoch,
        question: Q,
        lease: &ReadLease,
    ) -> Result<ReplyFuture<ReadOf<Q>>, Overloaded> {
        self.ask_with_lease(shard, ReadOf { ticket: lease.ticket().clone(), epoch, question }, lease)
    }

    /// Has a shard delete something, among reads.
    pub(crate) fn ask_to_delete(
        &self,
        shard: ShardId,
        epoch: Epoch,
        selections: &Arc<[Selection]>,
        (lease, wait_max): (&ReadLease, Duration),
    ) -> Result<ReplyFuture<Box<Deletion>>, Overloaded> {
        let (ticket, selections) = (lease.ticket().clone(), Arc::clone(selections));
        let deletion = Deletion { ticket, epoch, selections, wait_max };
        self.ask_with_lease(shard, Box::new(deletion), lease)
    }

    fn ask_with_lease<C: ShardCall>(
        &self,
        shard: ShardId,
        question: C,
        lease: &ReadLease,
    ) -> Result<ReplyFuture<C>, Overloaded> {
        let answer =
            self.send(RequestAddress { shard, lane_use: LaneUse::Read }, UnsentCall::from(question))?;
        Ok(answer.keeping(&SharedReservation::from(lease.clone())))
    }

    /// Has a shard read something small for the node itself.
    pub fn ask_to_look<Q: ReadCall>(
        &self,
        shard: ShardId,
        epoch: Epoch,
        question: Q,
    ) -> Result<ReplyFuture<ReadOf<Q>>, Overloaded> {
        Ok(self.ask(shard, ReadOf { ticket: ReadTicket::issue(), epoch, question })?)
    }

    /// Asks a shard to take in a part of a request. The request's room stays taken until the shard has
    /// answered: a client that goes away leaves the part where it is.
    pub fn ask_to_write(
        &self,
        shard: ShardId,
        part: WritePart,
        room: &SharedReservation,
    ) -> Result<ReplyFuture<WritePart>, Overloaded> {
        let asked = RequestAddress { shard, lane_use: LaneUse::Write };
        Ok(self.send(asked, part.into())?.keeping(room))
    }

    /// Asks the core of a shard to change its routing; [`ShardReply::Routed`] says that it did.
    pub(crate) fn tell(
        &self,
        shard: ShardId,
        change: RouteChange,
    ) -> Result<ReplyFuture<RouteChange>, Overloaded> {
        let asked = RequestAddress { shard, lane_use: LaneUse::Control };
        let (correlation, answer) = self.open(asked)?;
        if usize::from(shard.0) == self.core {
            self.change(change);
            self.complete(correlation, ShardReply::Routed);
            return Ok(answer);
        }
        self.offer(asked, LaneMessage::Route(correlation, change), answer).map_err(|_| Overloaded)
    }

    /// What a core does of other cores' queries, from now on.
    pub(crate) fn serve_folds(&self, serve: impl Fn(ReplyTo, FoldRequest) + 'static) {
        let is_first = self.folds.set(Box::new(serve)).is_ok();
        assert!(is_first, "a core is put together once");
    }

    /// Has another core do a part of a query, among reads.
    pub(crate) fn ask_to_fold(
        &self,
        shard: ShardId,
        request: FoldRequest,
        lease: &ReadLease,
    ) -> Result<ReplyFuture<FoldRequest>, Overloaded> {
        let asked = RequestAddress { shard, lane_use: LaneUse::Read };
        let (correlation, answer) = self.open(asked)?;
        let message = LaneMessage::Fold(correlation, Box::new(request));
        let answer = self.offer(asked, message, answer).map_err(|_| Overloaded)?;
        Ok(answer.keeping(&SharedReservation::from(lease.clone())))
    }

    fn fold(&self, to: ReplyTo, request: FoldRequest) {
        match self.folds.get() {
            Some(serve) => serve(to, request),
            None => self.reply(to, FoldReply::Err(FanoutError::from(Overloaded).into())),
        }
    }

    /// What answers questions about this core's queries, from now on.
    pub(crate) fn serve_queries(&self, serve: impl Fn(QueriesCall) -> QueriesReply + 'static) {
        let is_first = self.queries.set(Box::new(serve)).is_ok();
        assert!(is_first, "a core is put together once");
    }

    /// Asks the core of a shard about its queries.
    pub(crate) fn ask_about_queries(
        &self,
        shard: ShardId,
        call: QueriesCall,
    ) -> Result<ReplyFuture<QueriesCall>, Overloaded> {
        let asked = RequestAddress { shard, lane_use: LaneUse::Control };
        let (correlation, answer) = self.open(asked)?;
        if usize::from(shard.0) == self.core {
            self.complete(correlation, self.about_queries(call));
            return Ok(answer);
        }
        self.offer(asked, LaneMessage::Queries(correlation, call), answer).map_err(|_| Overloaded)
    }

    fn about_queries(&self, call: QueriesCall) -> QueriesReply {
        self.queries.get().map_or_else(|| call.of_none(), |serve| serve(call))
    }

    fn open<C>(&self, asked: RequestAddress) -> Result<(Correlation, ReplyFuture<C>), Overloaded> {
        let in_flight = self.in_flight[usize::from(asked.shard.0)].of(asked.lane_use);
        // A lane has room for all of them and as many replies: neither ever waits.
        if in_flight.get() == asked.lane_use.max() {
            return Err(Overloaded);
        }
        in_flight.set(in_flight.get() + 1);
        Ok(self.pending.open(asked))
    }

    fn offer<C>(
        &self,
        to: RequestAddress,
        message: LaneMessage,
        answer: ReplyFuture<C>,
    ) -> Result<ReplyFuture<C>, LaneMessage> {
        if let Err(message) = self.lanes.offer(usize::from(to.shard.0), message) {
            self.pending.withdraw(answer);
            self.in_flight[usize::from(to.shard.0)].end(to.lane_use);
            return Err(message);
        }
        Ok(answer)
    }

    /// Sends a reply to the core that asked.
    pub fn reply(&self, to: ReplyTo, reply: impl Into<CoreReply>) {
        let reply = reply.into();
        if to.core == self.core {
            return self.complete(to.correlation, reply);
        }
        if self.lanes.offer(to.core, LaneMessage::Reply(to.correlation, reply)).is_err() {
            // Room is reserved, so the lane is closed: that core has ended, and its askers with it.
            tracing::debug!(core = to.core, "a reply found its core gone");
        }
    }

    /// Takes in what a lane brought.
    pub fn deliver(&self, from: usize, message: LaneMessage) {
        match message {
            LaneMessage::Request(correlation, request) => {
                self.inbox.push(ReplyTo { core: from, correlation }, request);
            }
            LaneMessage::Reply(correlation, reply) => self.complete(correlation, reply),
            LaneMessage::Fold(correlation, request) => {
                self.fold(ReplyTo { core: from, correlation }, *request);
            }
            LaneMessage::Queries(correlation, call) => {
                self.reply(ReplyTo { core: from, correlation }, self.about_queries(call));
            }
            LaneMessage::Route(correlation, change) => {
                self.change(change);
                self.reply(ReplyTo { core: from, correlation }, ShardReply::Routed);
            }
        }
    }

    fn change(&self, change: RouteChange) {
        match change {
            RouteChange::Reads(epoch) => self.read_epoch.set(self.read_epoch.get().max(epoch)),
            RouteChange::Writes { epoch, cell, owner } => {
                let mut table = RoutingTable::clone(&self.table.borrow());
                table.give(cell, owner, epoch);
                self.set_table(table);
            }
        }
    }

    fn complete(&self, correlation: Correlation, reply: impl Into<CoreReply>) {
        let asked =
            self.pending.complete(correlation, reply.into()).expect("a reply answers a request in flight");
        self.in_flight[usize::from(asked.shard.0)].end(asked.lane_use);
        match asked.lane_use {
            LaneUse::Control => self.without_slot.wake_all(),
            LaneUse::Write => self.without_room.wake_all(),
            LaneUse::Read => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::routing::{Asker, ByteBudget, FoldPromise, ReadGate};
    use silverback_model::CellId;
    use silverback_promql::QueryError;
    use silverback_storage::message::{
        CellsRequest, CheckpointRequest, ControlRequest, PartPool, ShardReadError, ShardRequest, WriteReply,
    };
    use silverback_test_support::waking::check_is_woken;

    struct NoLanes;

    impl Lanes for NoLanes {
        fn offer(&self, _to: usize, message: LaneMessage) -> Result<(), LaneMessage> {
            Err(message)
        }
    }

    fn router() -> Router {
        Router::new(0, RoutingTable::even(2), Rc::default(), Box::new(NoLanes))
    }

    /// Requests in flight from this core, to all shards.
    fn in_flight(router: &Router) -> usize {
        router.in_flight.iter().flat_map(|to| to.0.iter().map(Cell::get)).sum()
    }

    #[test]
    fn a_change_of_the_own_core_is_made_at_once_and_wakes_those_who_wait_for_it() {
        let router = router();
        let mut newer = Box::pin(router.newer_than(Epoch::FIRST));
        assert!((&mut newer).now_or_never().is_none());
        let change = RouteChange::Writes { epoch: Epoch(2), cell: CellId(0), owner: ShardId(1) };
        assert!(router.tell(ShardId(0), change).unwrap().now_or_never().is_some());
        assert!(newer.now_or_never().is_some());
        assert_eq!((router.table().owner(CellId(0)), router.read_epoch()), (ShardId(1), Epoch(2)));
        assert_eq!(in_flight(&router), 0);
    }

    #[test]
    fn a_part_of_a_query_that_panics_is_answered_once() {
        let router = Rc::new(router());
        let open = || {
            router.open::<FoldRequest>(RequestAddress { shard: ShardId(1), lane_use: LaneUse::Read }).unwrap()
        };
        let promise = |correlation| FoldPromise::new(&router, ReplyTo { core: 0, correlation });
        let ((panicked, first), (kept, second)) = (open(), open());
        drop(promise(panicked));
        let error = first.now_or_never().unwrap().unwrap_err();
        assert_eq!(error, FanoutError::from(ShardReadError::Panicked).into());
        promise(kept).keep(Err(QueryError::Timeout.into()));
        assert_eq!(second.now_or_never().unwrap().unwrap_err(), QueryError::Timeout.into());
        assert_eq!(in_flight(&router), 0);
    }

    #[test]
    fn reads_go_by_an_epoch_before_writes_do() {
        let router = router();
        drop(router.tell(ShardId(0), RouteChange::Reads(Epoch(4))).unwrap());
        assert_eq!((router.read_epoch(), router.table().epoch()), (Epoch(4), Epoch::FIRST));
    }

    #[test]
    fn a_part_that_nobody_waits_for_any_more_keeps_its_request_s_room_until_the_shard_has_answered() {
        let (router, budget, pool) = (router(), ByteBudget::new(100), PartPool::default());
        let (mut request, definitions) = (budget.begin(), Rc::new(RefCell::new(budget.begin())));
        request.grow(60).unwrap();
        definitions.borrow_mut().grow(40).unwrap();
        let room = SharedReservation::from(request).with_definitions(&definitions);
        let part = WritePart { body: Default::default(), part: pool.take().unwrap() };
        let answer = router.ask_to_write(ShardId(0), part, &room).unwrap();
        let correlation = answer.correlation();
        drop((answer, room, definitions));
        assert_eq!(budget.taken_bytes(), 100);
        router.reply(ReplyTo { core: 0, correlation }, ShardReply::Write(WriteReply::MemoryFull));
        assert_eq!((budget.taken_bytes(), in_flight(&router)), (0, 0));
    }

    #[test]
    fn reads_leave_writes_their_places_and_the_end_of_a_read_its_own() {
        let (router, pool) = (router(), PartPool::default());
        let gate = ReadGate::new(1, 1, 1);
        let read = gate.enter(Asker::default()).now_or_never().unwrap().unwrap();
        let ask = || router.ask_to_read(ShardId(0), Epoch::FIRST, CellsRequest, read.lease());
        let asked: Vec<ReplyFuture<_>> = std::iter::from_fn(|| ask().ok()).collect();
        assert_eq!(asked.len(), LANE_READS);
        let part = WritePart { body: Default::default(), part: pool.take().unwrap() };
        assert!(
            router.has_room() && router.ask_to_write(ShardId(0), part, &SharedReservation::default()).is_ok()
        );
        assert!(router.ask_to_look(ShardId(0), Epoch::FIRST, CellsRequest).is_ok());
        let correlations: Vec<_> = asked.iter().map(ReplyFuture::correlation).collect();
        drop((asked, read));
        assert_eq!(gate.in_flight(), 1, "the shard may be at work on it");
        for correlation in correlations {
            router.reply(ReplyTo { core: 0, correlation }, ShardReply::Read(Err(ShardReadError::Cancelled)));
        }
        assert_eq!(gate.in_flight(), 0);
    }

    #[test]
    fn a_write_that_finds_a_shard_full_waits_until_one_of_its_writes_has_ended() {
        let (router, pool) = (router(), PartPool::default());
        let write = || {
            let part = WritePart { body: Default::default(), part: pool.take().unwrap() };
            router.ask_to_write(ShardId(0), part, &SharedReservation::default())
        };
        let mut asked: Vec<ReplyFuture<_>> = std::iter::from_fn(|| write().ok()).collect();
        assert_eq!(asked.len(), LANE_WRITES);
        check_is_woken(router.room(), || {
            let ended = asked.pop().unwrap();
            router.reply(
                ReplyTo { core: 0, correlation: ended.correlation() },
                ShardReply::Write(WriteReply::MemoryFull),
            );
        });
        assert!(router.room().now_or_never().is_some() && write().is_ok());
    }

    #[test]
    fn a_closed_lane_leaves_nothing_under_way() {
        let router = router();
        assert!(router.tell(ShardId(1), RouteChange::Reads(Epoch(4))).is_err());
        assert_eq!((in_flight(&router), router.read_epoch()), (0, Epoch::FIRST));
    }

    #[test]
    fn a_refused_question_comes_back_and_can_be_asked_again() {
        let router = router();
        let ask = |shard, question| router.ask::<CheckpointRequest>(ShardId(shard), question);
        let checkpoint = || UnsentCall::from(CheckpointRequest);
        let back = ask(1, checkpoint()).expect_err("the lane is closed");
        let is_it = |request| matches!(request, ShardRequest::Ask(ControlRequest::Checkpoint));
        assert!(back.offer(|request| Ok(is_it(request))).unwrap());
        let answers: Vec<_> = std::iter::from_fn(|| ask(0, checkpoint()).ok()).collect();
        let back = ask(0, checkpoint()).expect_err("all places are taken");
        assert_eq!(in_flight(&router), LANE_CONTROL);
        assert!(!router.has_slot(ShardId(0)) && router.has_slot(ShardId(1)));
        let of_first = ReplyTo { core: 0, correlation: answers[0].correlation() };
        check_is_woken(router.slot(ShardId(0)), || {
            router.reply(of_first, ShardReply::CheckpointAsked(1));
        });
        assert!(router.without_slot.is_empty() && ask(0, back).is_ok());
    }
}

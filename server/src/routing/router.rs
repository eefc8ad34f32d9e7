//! A core's router: asks shards, its own or another core's, and brings their replies home.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::limits::LANE_CAPACITY;
use crate::message::{Correlation, LaneMessage, RouteChange, ShardReply, ShardRequest, WritePart};
use crate::model::{Epoch, ShardId};
use crate::routing::pending::{Answer, Pending};
use crate::routing::{Room, RoutingTable};
use crate::shard::{Inbox, ReplyTo};

/// The lanes that leave a core.
pub trait Lanes {
    /// Sends without waiting, or gives the message back.
    fn offer(&self, to: usize, message: LaneMessage) -> Result<(), LaneMessage>;
}

/// A shard has as many requests under way as it may. Try again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node is overloaded: try again later")]
pub struct Overloaded;

/// One core's way to all shards. Shard `i` lives on core `i`.
pub struct Router {
    core: usize,
    table: RefCell<Rc<RoutingTable>>,
    /// Reads are asked by it: the table's, or that of a table which is about to come.
    read_epoch: Cell<Epoch>,
    /// They wait for another table.
    waiting: RefCell<Vec<Waker>>,
    inbox: Rc<Inbox>,
    lanes: Box<dyn Lanes>,
    pending: Pending,
    under_way: Box<[Cell<usize>]>,
}

impl Router {
    /// The router of a core whose shard reads `inbox`.
    pub fn new(core: usize, table: RoutingTable, inbox: Rc<Inbox>, lanes: Box<dyn Lanes>) -> Self {
        let under_way = (0..table.shards()).map(|_| Cell::new(0)).collect();
        let read_epoch = Cell::new(table.epoch());
        let table = RefCell::new(Rc::new(table));
        let waiting = RefCell::default();
        Self { core, table, read_epoch, waiting, inbox, lanes, pending: Pending::default(), under_way }
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
    pub fn set_table(&self, table: RoutingTable) {
        self.read_epoch.set(self.read_epoch.get().max(table.epoch()));
        *self.table.borrow_mut() = Rc::new(table);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Waits for a table that is newer than that of `epoch`.
    pub fn newer_than(&self, epoch: Epoch) -> impl Future<Output = ()> + '_ {
        poll_fn(move |context| match self.table.borrow().epoch() > epoch {
            true => Poll::Ready(()),
            false => {
                let mut waiting = self.waiting.borrow_mut();
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        })
    }

    /// All shards.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.under_way.len()).map(|shard| ShardId(shard as u16))
    }

    /// The core that this router is of.
    pub fn core(&self) -> usize {
        self.core
    }

    /// Requests under way from this core, to all shards.
    pub fn under_way(&self) -> usize {
        self.under_way.iter().map(Cell::get).sum()
    }

    /// Whether every shard may be asked once more.
    pub fn has_room(&self) -> bool {
        self.under_way.iter().all(|under_way| under_way.get() < LANE_CAPACITY)
    }

    /// Asks a shard. Never waits for room: a full lane is a refusal.
    pub fn ask(&self, shard: ShardId, request: ShardRequest) -> Result<Answer, Overloaded> {
        let (correlation, answer) = self.open(shard)?;
        let to = usize::from(shard.0);
        if to == self.core {
            self.inbox.push(ReplyTo { core: to, correlation }, request);
            return Ok(answer);
        }
        self.offer(shard, LaneMessage::Request(correlation, request), answer)
    }

    /// Asks a shard to take in a part of a request. The request's room stays taken until the shard has
    /// answered: a client that goes away leaves the part where it is.
    pub fn ask_to_write(&self, shard: ShardId, part: WritePart, room: &Room) -> Result<Answer, Overloaded> {
        self.ask(shard, ShardRequest::Write(part)).map(|answer| answer.keeping(room))
    }

    /// Tells the core of a shard to change its routing; [`ShardReply::Routed`] says that it did.
    pub fn tell(&self, shard: ShardId, change: RouteChange) -> Result<Answer, Overloaded> {
        let (correlation, answer) = self.open(shard)?;
        if usize::from(shard.0) == self.core {
            self.change(change);
            self.complete(correlation, ShardReply::Routed);
            return Ok(answer);
        }
        self.offer(shard, LaneMessage::Route(correlation, change), answer)
    }

    fn open(&self, shard: ShardId) -> Result<(Correlation, Answer), Overloaded> {
        let under_way = &self.under_way[usize::from(shard.0)];
        // A lane has room for this many requests and as many replies: neither ever waits.
        if under_way.get() == LANE_CAPACITY {
            return Err(Overloaded);
        }
        under_way.set(under_way.get() + 1);
        Ok(self.pending.open(shard))
    }

    fn offer(&self, to: ShardId, message: LaneMessage, answer: Answer) -> Result<Answer, Overloaded> {
        if self.lanes.offer(usize::from(to.0), message).is_err() {
            self.pending.withdraw(answer);
            let under_way = &self.under_way[usize::from(to.0)];
            under_way.set(under_way.get() - 1);
            return Err(Overloaded);
        }
        Ok(answer)
    }

    /// Sends a reply to the core that asked.
    pub fn reply(&self, to: ReplyTo, reply: ShardReply) {
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

    fn complete(&self, correlation: Correlation, reply: ShardReply) {
        let shard = self.pending.complete(correlation, reply).expect("a reply answers a request under way");
        let under_way = &self.under_way[usize::from(shard.0)];
        under_way.set(under_way.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::message::PartPool;
    use crate::model::CellId;
    use crate::routing::ByteBudget;

    struct NoLanes;

    impl Lanes for NoLanes {
        fn offer(&self, _to: usize, message: LaneMessage) -> Result<(), LaneMessage> {
            Err(message)
        }
    }

    fn router() -> Router {
        Router::new(0, RoutingTable::even(2), Rc::default(), Box::new(NoLanes))
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
        assert_eq!(router.under_way(), 0);
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
        let room = Room::from(request).with_definitions(&definitions);
        let part = WritePart { body: Default::default(), part: pool.take().unwrap() };
        let answer = router.ask_to_write(ShardId(0), part, &room).unwrap();
        let correlation = answer.correlation();
        drop((answer, room, definitions));
        assert_eq!(budget.taken_bytes(), 100);
        router.reply(ReplyTo { core: 0, correlation }, ShardReply::MemoryFull);
        assert_eq!((budget.taken_bytes(), router.under_way()), (0, 0));
    }

    #[test]
    fn a_closed_lane_leaves_nothing_under_way() {
        let router = router();
        assert!(router.tell(ShardId(1), RouteChange::Reads(Epoch(4))).is_err());
        assert_eq!((router.under_way(), router.read_epoch()), (0, Epoch::FIRST));
    }
}

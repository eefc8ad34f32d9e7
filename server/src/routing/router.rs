//! A core's router: asks shards, its own or another core's, and brings their replies home.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::limits::LANE_CAPACITY;
use crate::message::{Correlation, LaneMessage, ShardReply, ShardRequest};
use crate::model::ShardId;
use crate::routing::RoutingTable;
use crate::routing::pending::{Answer, Pending};
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
    inbox: Rc<Inbox>,
    lanes: Box<dyn Lanes>,
    pending: Pending,
    under_way: Box<[Cell<usize>]>,
}

impl Router {
    /// The router of a core whose shard reads `inbox`.
    pub fn new(core: usize, table: RoutingTable, inbox: Rc<Inbox>, lanes: Box<dyn Lanes>) -> Self {
        let under_way = (0..table.shards()).map(|_| Cell::new(0)).collect();
        let table = RefCell::new(Rc::new(table));
        Self { core, table, inbox, lanes, pending: Pending::default(), under_way }
    }

    /// The table as it is now.
    pub fn table(&self) -> Rc<RoutingTable> {
        Rc::clone(&self.table.borrow())
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
        let to = usize::from(shard.0);
        let under_way = &self.under_way[to];
        // A lane has room for this many requests and as many replies: neither ever waits.
        if under_way.get() == LANE_CAPACITY {
            return Err(Overloaded);
        }
        let (correlation, answer) = self.pending.open(shard);
        under_way.set(under_way.get() + 1);
        if to == self.core {
            self.inbox.push(ReplyTo { core: to, correlation }, request);
        } else if self.lanes.offer(to, LaneMessage::Request(correlation, request)).is_err() {
            self.pending.withdraw(answer);
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
        }
    }

    fn complete(&self, correlation: Correlation, reply: ShardReply) {
        let shard = self.pending.complete(correlation, reply).expect("a reply answers a request under way");
        let under_way = &self.under_way[usize::from(shard.0)];
        under_way.set(under_way.get() - 1);
    }
}

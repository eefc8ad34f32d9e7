//! Lanes of the simulated node: in order, in their own time, and not always with room.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use silverback::routing::{LaneMessage, Lanes, Router};
use silverback_host::Host;
use silverback_storage::message::{ControlRequest, MigrationStep, PieceStep, ShardRequest};

use crate::cells::node::{Defect, Drains};
use crate::executor::SimHost;
use crate::random::Random;

/// `None` closes a lane.
type Carried = Option<LaneMessage>;

/// All lanes' sending ends, by sender and receiver.
#[derive(Clone)]
pub(super) struct Mesh {
    senders: Rc<Vec<Vec<UnboundedSender<Carried>>>>,
    random: Rc<RefCell<Random>>,
}

/// The receiving end of one lane.
pub(super) struct Receiver {
    pub from: usize,
    pub to: usize,
    messages: UnboundedReceiver<Carried>,
}

impl Mesh {
    pub(super) fn new(cores: usize, random: Random) -> (Self, Vec<Receiver>) {
        let mut receivers = Vec::new();
        let mut lane = |from, to| {
            let (sender, messages) = unbounded();
            receivers.push(Receiver { from, to, messages });
            sender
        };
        let senders = (0..cores).map(|from| (0..cores).map(|to| lane(from, to)).collect()).collect();
        (Self { senders: Rc::new(senders), random: Rc::new(RefCell::new(random)) }, receivers)
    }

    /// The lanes that leave a core.
    pub(super) fn from(&self, from: usize) -> SimLanes {
        SimLanes { from, mesh: self.clone() }
    }

    pub(super) fn close(&self) {
        self.senders.iter().flatten().for_each(|sender| drop(sender.unbounded_send(None)));
    }
}

pub(super) struct SimLanes {
    from: usize,
    mesh: Mesh,
}

impl Lanes for SimLanes {
    fn offer(&self, to: usize, message: LaneMessage) -> Result<(), LaneMessage> {
        let has_room = match message {
            // They have reserved room.
            LaneMessage::Reply(..) => true,
            LaneMessage::Request(..)
            | LaneMessage::Route(..)
            | LaneMessage::Fold(..)
            | LaneMessage::Queries(..) => !self.mesh.random.borrow_mut().one_in(30),
        };
        if !has_room {
            return Err(message);
        }
        // A closed lane's core has ended.
        drop(self.mesh.senders[self.from][to].unbounded_send(Some(message)));
        Ok(())
    }
}

/// A drain without its draining: the source takes writes on.
fn undrained(mut request: ShardRequest) -> ShardRequest {
    if let ShardRequest::Ask(ControlRequest::Migration(request)) = &mut request
        && request.step == MigrationStep::Piece(PieceStep::Drain)
    {
        request.step = MigrationStep::Piece(PieceStep::Copy);
    }
    request
}

/// Delivers a lane's messages until it is closed.
pub(super) async fn deliver<D: Defect>(
    mut lane: Receiver,
    router: Rc<Router>,
    host: SimHost,
    mut random: Random,
) {
    while let Some(Some(message)) = lane.messages.next().await {
        match random.below(400) {
            0 => host.sleep(Duration::from_micros(random.by_magnitude(1 << 24) as u64)).await,
            1..40 => host.sleep(Duration::from_micros(random.by_magnitude(1 << 12) as u64)).await,
            _ => host.yield_up_to(3).await,
        }
        match (D::DRAINS, message) {
            (Drains::Forgotten, LaneMessage::Request(correlation, request)) => {
                router.deliver(lane.from, LaneMessage::Request(correlation, undrained(request)));
            }
            (Drains::Heeded | Drains::Forgotten, message) => router.deliver(lane.from, message),
        }
    }
}

//! The requests that a core waits for: replies find their waiter by correlation.
//!
//! All on one core: a reply is put in its slot and wakes the waiter with a plain waker. A waiter
//! that went away leaves its slot taken until the reply has come, so that what is in flight stays
//! counted: the request itself, and the room that it takes.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::routing::SharedReservation;
use crate::routing::lane_message::{CoreCall, CoreReply};
use crate::routing::router::LaneUse;
use silverback_model::ShardId;
use silverback_storage::message::Correlation;

#[derive(Debug)]
enum SlotState {
    Free,
    Waiting(RequestAddress, Option<Waker>),
    /// The shard may still hold what the room is taken for.
    Abandoned(RequestAddress, SharedReservation),
    Answered(CoreReply),
}

/// Whom a request is for, and of which requests it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestAddress {
    /// The shard.
    pub shard: ShardId,
    /// What it takes of the lane.
    pub(crate) lane_use: LaneUse,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: SlotState,
}

#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// The requests in flight from this core.
#[derive(Debug, Default, Clone)]
pub struct Pending {
    slots: Rc<RefCell<Slots>>,
}

/// The reply to one request, when it comes.
#[derive(Debug)]
#[must_use = "an answer that nobody waits for is lost"]
pub struct ReplyFuture<C> {
    slots: Rc<RefCell<Slots>>,
    correlation: Correlation,
    room: SharedReservation,
    call: PhantomData<fn() -> C>,
}

impl<C> ReplyFuture<C> {
    /// Keeps room taken until the reply has come, though nobody may wait for it any more.
    pub(crate) fn keeping(mut self, room: &SharedReservation) -> Self {
        self.room = room.clone();
        self
    }

    #[cfg(test)]
    pub(super) fn correlation(&self) -> Correlation {
        self.correlation
    }
}

impl Pending {
    /// A new request to a shard.
    pub(crate) fn open<C>(&self, asked: RequestAddress) -> (Correlation, ReplyFuture<C>) {
        let mut slots = self.slots.borrow_mut();
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot { generation: 0, state: SlotState::Free });
            slots.slots.len() as u32 - 1
        });
        let slot = &mut slots.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = SlotState::Waiting(asked, None);
        let correlation = Correlation { slot: index, generation: slot.generation };
        let (its_places, room) = (Rc::clone(&self.slots), SharedReservation::default());
        (correlation, ReplyFuture { slots: its_places, correlation, room, call: PhantomData })
    }

    /// Takes back a request that was never sent: no reply will come.
    pub(crate) fn withdraw<C>(&self, answer: ReplyFuture<C>) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots.slots[answer.correlation.slot as usize];
        slot.state = SlotState::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slots.free.push(answer.correlation.slot);
    }

    /// Puts a reply in its slot. Returns whom it came from; `None` for a reply that nobody can have asked
    /// for.
    pub(crate) fn complete(&self, correlation: Correlation, reply: CoreReply) -> Option<RequestAddress> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.slots.get_mut(correlation.slot as usize)?;
        if slot.generation != correlation.generation {
            return None;
        }
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Waiting(asked, waker) => {
                slot.state = SlotState::Answered(reply);
                drop(slots);
                if let Some(waker) = waker {
                    waker.wake();
                }
                Some(asked)
            }
            SlotState::Abandoned(asked, room) => {
                slots.free.push(correlation.slot);
                // Whoever gets the room next may ask at once.
                drop(slots);
                drop(room);
                Some(asked)
            }
            state @ (SlotState::Free | SlotState::Answered(_)) => {
                slot.state = state;
                None
            }
        }
    }
}

impl<C: CoreCall> Future for ReplyFuture<C> {
    type Output = C::Reply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Reply> {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots.slots[self.correlation.slot as usize];
        assert_eq!(slot.generation, self.correlation.generation, "an answer is awaited once");
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Waiting(asked, _) => {
                slot.state = SlotState::Waiting(asked, Some(context.waker().clone()));
                Poll::Pending
            }
            SlotState::Answered(reply) => {
                // Another generation, so that dropping this answer leaves the slot alone.
                slot.generation = slot.generation.wrapping_add(1);
                slots.free.push(self.correlation.slot);
                // Anything else is a broken invariant.
                Poll::Ready(C::reply_of(reply).expect("a core answers what it was asked"))
            }
            SlotState::Free | SlotState::Abandoned(..) => unreachable!("an answer holds its slot"),
        }
    }
}

impl<C> Drop for ReplyFuture<C> {
    fn drop(&mut self) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots.slots[self.correlation.slot as usize];
        if slot.generation != self.correlation.generation {
            return;
        }
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Waiting(asked, _) => {
                slot.state = SlotState::Abandoned(asked, std::mem::take(&mut self.room));
            }
            SlotState::Answered(_) => slots.free.push(self.correlation.slot),
            SlotState::Free | SlotState::Abandoned(..) => unreachable!("an answer holds its slot"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use silverback_storage::message::{CloseCursors, ReadOf, ReadReply, ShardReply};

    fn reply() -> CoreReply {
        ShardReply::Read(Ok(Box::new(ReadReply::Closed))).into()
    }

    fn open(pending: &Pending, asked: RequestAddress) -> (Correlation, ReplyFuture<ReadOf<CloseCursors>>) {
        pending.open(asked)
    }

    fn asked(shard: u16) -> RequestAddress {
        RequestAddress { shard: ShardId(shard), lane_use: LaneUse::Read }
    }

    #[test]
    fn a_reply_finds_its_waiter() {
        let pending = Pending::default();
        let (correlation, mut answer) = open(&pending, asked(3));
        assert!((&mut answer).now_or_never().is_none());
        assert_eq!(pending.complete(correlation, reply()), Some(asked(3)));
        assert!(answer.now_or_never().is_some());
    }

    #[test]
    fn an_abandoned_request_keeps_its_place_until_the_reply() {
        let pending = Pending::default();
        let (correlation, answer) = open(&pending, asked(1));
        drop(answer);
        let (other, _waiting) = open(&pending, asked(2));
        assert_ne!(other.slot, correlation.slot);
        assert_eq!(pending.complete(correlation, reply()), Some(asked(1)));
        assert_eq!(pending.complete(correlation, reply()), None, "a second reply is for nobody");
    }

    #[test]
    fn a_withdrawn_request_leaves_its_place_to_the_next() {
        let pending = Pending::default();
        let (withdrawn, answer) = open(&pending, asked(0));
        pending.withdraw(answer);
        let (next, _waiting) = open(&pending, asked(0));
        assert_eq!(next.slot, withdrawn.slot);
        assert_eq!(pending.complete(withdrawn, reply()), None);
    }

    #[test]
    fn a_late_reply_wakes_nobody_else() {
        let pending = Pending::default();
        let (first, answer) = open(&pending, asked(0));
        pending.complete(first, reply());
        drop(answer);
        let (second, mut answer) = open(&pending, asked(0));
        assert_eq!(second.slot, first.slot);
        assert_eq!(pending.complete(first, reply()), None);
        assert!((&mut answer).now_or_never().is_none());
    }
}

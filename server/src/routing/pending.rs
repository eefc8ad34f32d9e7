//! The requests that a core waits for: replies find their waiter by correlation.
//!
//! All on one core: a reply is put in its place and wakes the waiter with a plain waker. A waiter
//! that went away leaves its place taken until the reply has come, so that what is under way stays
//! counted: the request itself, and the room that it takes.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::routing::Room;
use crate::routing::router::LaneUse;
use silverback_model::ShardId;
use silverback_storage::message::{Correlation, ShardReply};

#[derive(Debug)]
enum State {
    Free,
    Waiting(Asked, Option<Waker>),
    /// The shard may still hold what the room is taken for.
    Abandoned(Asked, Room),
    Answered(ShardReply),
}

/// Whom a request is for, and of which requests it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The shard.
    pub shard: ShardId,
    /// What it takes of the lane.
    pub(crate) lane_use: LaneUse,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    state: State,
}

#[derive(Debug, Default)]
struct Places {
    places: Vec<Place>,
    free: Vec<u32>,
}

/// The requests under way from this core.
#[derive(Debug, Default, Clone)]
pub struct Pending {
    places: Rc<RefCell<Places>>,
}

/// The reply to one request, when it comes.
#[derive(Debug)]
#[must_use = "an answer that nobody waits for is lost"]
pub struct Answer {
    places: Rc<RefCell<Places>>,
    correlation: Correlation,
    room: Room,
}

impl Answer {
    /// Keeps room taken until the reply has come, though nobody may wait for it any more.
    pub(crate) fn keeping(mut self, room: &Room) -> Self {
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
    pub(crate) fn open(&self, asked: Asked) -> (Correlation, Answer) {
        let mut places = self.places.borrow_mut();
        let slot = places.free.pop().unwrap_or_else(|| {
            places.places.push(Place { generation: 0, state: State::Free });
            places.places.len() as u32 - 1
        });
        let place = &mut places.places[slot as usize];
        place.generation = place.generation.wrapping_add(1);
        place.state = State::Waiting(asked, None);
        let correlation = Correlation { slot, generation: place.generation };
        (correlation, Answer { places: Rc::clone(&self.places), correlation, room: Room::default() })
    }

    /// Takes back a request that was never sent: no reply will come.
    pub(crate) fn withdraw(&self, answer: Answer) {
        let mut places = self.places.borrow_mut();
        let place = &mut places.places[answer.correlation.slot as usize];
        place.state = State::Free;
        place.generation = place.generation.wrapping_add(1);
        places.free.push(answer.correlation.slot);
    }

    /// Puts a reply in its place. Tells whom it came from; `None` for a reply that nobody can have asked
    /// for.
    pub(crate) fn complete(&self, correlation: Correlation, reply: ShardReply) -> Option<Asked> {
        let mut places = self.places.borrow_mut();
        let place = places.places.get_mut(correlation.slot as usize)?;
        if place.generation != correlation.generation {
            return None;
        }
        match std::mem::replace(&mut place.state, State::Free) {
            State::Waiting(asked, waker) => {
                place.state = State::Answered(reply);
                drop(places);
                if let Some(waker) = waker {
                    waker.wake();
                }
                Some(asked)
            }
            State::Abandoned(asked, room) => {
                places.free.push(correlation.slot);
                // Whoever gets the room next may ask at once.
                drop(places);
                drop(room);
                Some(asked)
            }
            state @ (State::Free | State::Answered(_)) => {
                place.state = state;
                None
            }
        }
    }
}

impl Future for Answer {
    type Output = ShardReply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ShardReply> {
        let mut places = self.places.borrow_mut();
        let place = &mut places.places[self.correlation.slot as usize];
        assert_eq!(place.generation, self.correlation.generation, "an answer is awaited once");
        match std::mem::replace(&mut place.state, State::Free) {
            State::Waiting(asked, _) => {
                place.state = State::Waiting(asked, Some(context.waker().clone()));
                Poll::Pending
            }
            State::Answered(reply) => {
                // Another generation, so that dropping this answer leaves the place alone.
                place.generation = place.generation.wrapping_add(1);
                places.free.push(self.correlation.slot);
                Poll::Ready(reply)
            }
            State::Free | State::Abandoned(..) => unreachable!("an answer holds its place"),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut places = self.places.borrow_mut();
        let place = &mut places.places[self.correlation.slot as usize];
        if place.generation != self.correlation.generation {
            return;
        }
        match std::mem::replace(&mut place.state, State::Free) {
            State::Waiting(asked, _) => {
                place.state = State::Abandoned(asked, std::mem::take(&mut self.room));
            }
            State::Answered(_) => places.free.push(self.correlation.slot),
            State::Free | State::Abandoned(..) => unreachable!("an answer holds its place"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use silverback_storage::message::ReadReply;

    fn reply() -> ShardReply {
        ShardReply::Read(Ok(Box::new(ReadReply::Closed)))
    }

    fn asked(shard: u16) -> Asked {
        Asked { shard: ShardId(shard), lane_use: LaneUse::Read }
    }

    #[test]
    fn a_reply_finds_its_waiter() {
        let pending = Pending::default();
        let (correlation, mut answer) = pending.open(asked(3));
        assert!((&mut answer).now_or_never().is_none());
        assert_eq!(pending.complete(correlation, reply()), Some(asked(3)));
        assert!(answer.now_or_never().is_some());
    }

    #[test]
    fn an_abandoned_request_keeps_its_place_until_the_reply() {
        let pending = Pending::default();
        let (correlation, answer) = pending.open(asked(1));
        drop(answer);
        let (other, _waiting) = pending.open(asked(2));
        assert_ne!(other.slot, correlation.slot);
        assert_eq!(pending.complete(correlation, reply()), Some(asked(1)));
        assert_eq!(pending.complete(correlation, reply()), None, "a second reply is for nobody");
    }

    #[test]
    fn a_withdrawn_request_leaves_its_place_to_the_next() {
        let pending = Pending::default();
        let (withdrawn, answer) = pending.open(asked(0));
        pending.withdraw(answer);
        let (next, _waiting) = pending.open(asked(0));
        assert_eq!(next.slot, withdrawn.slot);
        assert_eq!(pending.complete(withdrawn, reply()), None);
    }

    #[test]
    fn a_late_reply_wakes_nobody_else() {
        let pending = Pending::default();
        let (first, answer) = pending.open(asked(0));
        pending.complete(first, reply());
        drop(answer);
        let (second, mut answer) = pending.open(asked(0));
        assert_eq!(second.slot, first.slot);
        assert_eq!(pending.complete(first, reply()), None);
        assert!((&mut answer).now_or_never().is_none());
    }
}

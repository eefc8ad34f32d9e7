//! Lanes: a bounded channel from each executor to each other one, generic over the message.
//!
//! To send never waits: a full lane gives the message back. A sleeping receiver is woken once,
//! however many messages follow; one that is awake finds them without any system call.
//! What a message means is nothing to it.
use std::{cell::RefCell, future::poll_fn, pin::Pin, rc::Rc, task::Poll, vec::Drain};

use futures::{Stream, future::join_all};
use glommio::{
    GlommioError, ResourceType,
    channels::shared_channel::{
        ConnectedReceiver, ConnectedSender, SharedReceiver, SharedSender, new_bounded,
    },
};

use super::{counters, tasks, timers::reactor_polled};

/// Messages handed over at once; after as many the reactor is polled, so that a lane that never
/// runs empty keeps nothing else waiting.
const BATCH_MAX: usize = 256;

/// A message that was not taken, and why.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferRejected<T> {
    /// The lane is full.
    #[error("the lane is full")]
    Full(T),
    /// The other executor has ended.
    #[error("the other executor has ended")]
    Closed(T),
}

impl<T> OfferRejected<T> {
    /// The message.
    pub fn into_message(self) -> T {
        match self {
            Self::Full(message) | Self::Closed(message) => message,
        }
    }
}

/// The lanes of one executor before it runs.
pub(super) struct Port<T: Send + 'static> {
    senders: Vec<Option<SharedSender<T>>>,
    receivers: Vec<Option<SharedReceiver<T>>>,
}

/// Makes the lanes between `executors`, as one port for each.
pub(super) fn mesh<T: Send + 'static>(executors: usize, capacity: usize) -> Vec<Port<T>> {
    let mut ports: Vec<_> =
        (0..executors).map(|_| Port { senders: Vec::new(), receivers: Vec::new() }).collect();
    for from in 0..executors {
        for to in 0..executors {
            let (sender, receiver) = if from == to {
                (None, None)
            } else {
                let (sender, receiver) = new_bounded(capacity);
                (Some(sender), Some(receiver))
            };
            ports[from].senders.push(sender);
            ports[to].receivers.push(receiver);
        }
    }
    ports
}

impl<T: Send + 'static> Port<T> {
    /// Ties the lanes to this executor; done when all the others have done it too.
    pub(super) async fn connect(self) -> (LaneSenders<T>, LaneReceivers<T>) {
        let senders = join_all(self.senders.into_iter().map(|sender| async {
            match sender {
                Some(sender) => Some(sender.connect().await),
                None => None,
            }
        }));
        let receivers = join_all(self.receivers.into_iter().map(|receiver| async {
            match receiver {
                Some(receiver) => Some(receiver.connect().await),
                None => None,
            }
        }));
        let (senders, receivers) = futures::join!(senders, receivers);
        (LaneSenders(senders), LaneReceivers(receivers))
    }
}

/// The lanes to the other executors.
#[derive(Debug)]
pub struct LaneSenders<T: Send + 'static>(Vec<Option<ConnectedSender<T>>>);

impl<T: Send + 'static> LaneSenders<T> {
    /// Puts `message` into the lane to executor `to`, or gives it back.
    ///
    /// # Panics
    /// If `to` is the sender itself or no executor.
    pub fn offer(&self, to: usize, message: T) -> Result<(), OfferRejected<T>> {
        let lane = self.0[to].as_ref().expect("an executor has no lane to itself");
        lane.try_send(message).map_err(|error| {
            counters::with(|c| c.lane_refusals += 1);
            match error {
                GlommioError::WouldBlock(ResourceType::Channel(message)) => OfferRejected::Full(message),
                GlommioError::Closed(ResourceType::Channel(message)) => OfferRejected::Closed(message),
                error => unreachable!("a channel refuses for one of two reasons, not {error:?}"),
            }
        })
    }
}

/// What comes out of a lane.
#[derive(Debug)]
pub enum Delivery<'a, T> {
    /// Messages in the order in which they were offered; those left in the drain are dropped.
    Messages {
        /// Who sent them.
        from: usize,
        /// At least one.
        messages: Drain<'a, T>,
    },
    /// The other executor has ended: nothing more comes from it.
    Closed {
        /// Who ended.
        from: usize,
    },
}

/// The lanes from the other executors.
#[derive(Debug)]
pub struct LaneReceivers<T: Send + 'static>(Vec<Option<ConnectedReceiver<T>>>);

impl<T: Send + 'static> LaneReceivers<T> {
    /// Calls `deliver` on this executor for all that comes, from now on. A panic in it ends the process.
    pub fn deliver_to(self, deliver: impl FnMut(Delivery<'_, T>) + 'static) {
        let deliver = Rc::new(RefCell::new(deliver));
        for (from, lane) in self.0.into_iter().enumerate() {
            if let Some(lane) = lane {
                let deliver = deliver.clone();
                tasks::spawn_essential(receive(from, lane, move |delivery| (deliver.borrow_mut())(delivery)));
            }
        }
    }
}

/// Why the messages at hand end.
enum BatchEnd {
    Full,
    Closed,
}

async fn receive<T: Send>(
    from: usize,
    mut lane: ConnectedReceiver<T>,
    mut deliver: impl FnMut(Delivery<'_, T>),
) {
    let mut messages = Vec::with_capacity(BATCH_MAX);
    loop {
        // Each empty look at the channel leaves one more waker with it, and a wake takes no more of
        // them than there are messages. So this task looks again only when it was woken, and the
        // batch is delivered before it goes to sleep on that one waker.
        let end = poll_fn(|cx| {
            let end = loop {
                match Pin::new(&mut lane).poll_next(cx) {
                    Poll::Ready(Some(message)) => messages.push(message),
                    Poll::Ready(None) => break Poll::Ready(BatchEnd::Closed),
                    Poll::Pending => break Poll::Pending,
                }
                if messages.len() == BATCH_MAX {
                    break Poll::Ready(BatchEnd::Full);
                }
            };
            if !messages.is_empty() {
                deliver(Delivery::Messages { from, messages: messages.drain(..) });
            }
            end
        })
        .await;
        match end {
            BatchEnd::Full => reactor_polled().await,
            BatchEnd::Closed => return deliver(Delivery::Closed { from }),
        }
    }
}

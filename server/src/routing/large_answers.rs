//! Answers that are made whole and take much of the memory for reads: one at a time on a core, where that is scarce,
//! from its making until it is sent. Others wait in a line; who comes first is served first. What takes how much is
//! not known here.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures::channel::oneshot;

use silverback_storage::message::ReadTicket;

/// One core's line. It is no longer than there are reads in flight.
#[derive(Debug, Default)]
pub(super) struct LargeAnswers {
    /// The read that has its turn.
    holder: Cell<Option<u64>>,
    waiting: RefCell<VecDeque<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    call: oneshot::Sender<LargeAnswer>,
}

/// The right to one such answer; the next in line has it when this is dropped.
#[derive(Debug)]
pub(crate) struct LargeAnswer {
    line: Rc<LargeAnswers>,
}

impl LargeAnswers {
    /// The turn of a read, where nobody else has it.
    pub(super) fn try_enter(self: &Rc<Self>, read: &ReadTicket) -> Option<LargeAnswer> {
        self.holder.get().is_none().then(|| self.begin(read.number()))
    }

    /// Waits for the turn of a read: no longer than its caller does. The owner of the turn may wait for what reads hold
    /// on the shards: who waits here holds nothing there.
    pub(super) async fn enter(self: &Rc<Self>, read: &ReadTicket) -> LargeAnswer {
        let number = read.number();
        if let Some(turn) = self.try_enter(read) {
            return turn;
        }
        let (call, called) = oneshot::channel();
        {
            let mut waiting = self.waiting.borrow_mut();
            // Some waited as long as they could.
            waiting.retain(|next| !next.call.is_canceled());
            waiting.push_back(Waiting { number, call });
        }
        called.await.expect("the line calls all that wait in it")
    }

    fn begin(self: &Rc<Self>, number: u64) -> LargeAnswer {
        self.holder.set(Some(number));
        LargeAnswer { line: Rc::clone(self) }
    }

    /// Reads that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.borrow().iter().filter(|next| !next.call.is_canceled()).count()
    }

    /// Whether others wait for this read's answer to be sent.
    pub(super) fn is_waited_for(&self, read: &ReadTicket) -> bool {
        self.holder.get() == Some(read.number()) && self.waiting() > 0
    }

    fn next(&self) -> Option<Waiting> {
        self.waiting.borrow_mut().pop_front()
    }
}

impl Drop for LargeAnswer {
    fn drop(&mut self) {
        self.line.holder.set(None);
        while let Some(Waiting { number, call }) = self.line.next() {
            if !call.is_canceled() {
                // Whoever leaves right now drops it, and so calls the next.
                drop(call.send(self.line.begin(number)));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn who_comes_first_is_served_first_and_who_leaves_is_passed_over() {
        let line = Rc::new(LargeAnswers::default());
        let reads = [(); 5].map(|()| ReadTicket::issue());
        let first = line.enter(&reads[0]).now_or_never().unwrap();
        assert!(!line.is_waited_for(&reads[0]));
        let mut others: Vec<_> = reads[1..4].iter().map(|read| Box::pin(line.enter(read))).collect();
        assert!(others.iter_mut().all(|other| other.now_or_never().is_none()));
        assert_eq!((line.waiting(), line.is_waited_for(&reads[0])), (3, true));
        assert!(!line.is_waited_for(&reads[1]), "it has nothing yet");
        drop(others.remove(0));
        assert_eq!(line.waiting(), 2);
        let mut late = Box::pin(line.enter(&reads[4]));
        assert!((&mut late).now_or_never().is_none());
        assert_eq!((line.waiting(), line.waiting.borrow().len()), (3, 3), "who left has no place any more");
        drop(late);
        drop(first);
        let mut last = others.pop().unwrap();
        assert!((&mut last).now_or_never().is_none());
        // Its turn came, and it goes without having seen that.
        drop(others);
        drop(last.now_or_never().unwrap());
        assert_eq!((line.waiting(), line.holder.get()), (0, None));
    }
}

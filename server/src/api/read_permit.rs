//! How many reads one core has under way: a bounded number, so that reads cost bounded memory. More of
//! them wait for their turn, a bounded number too.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures::channel::oneshot;

use crate::api::core::Core;
use crate::api::read_fault::ReadFault;
use crate::limits::READS_WAITING_MAX;

/// One core's reads: those under way, and those that wait in the order in which they came.
#[derive(Debug)]
pub struct ReadGate {
    max: usize,
    under_way: Cell<usize>,
    waiting: RefCell<VecDeque<oneshot::Sender<ReadPermit>>>,
}

/// The right to one read; given back when dropped.
#[derive(Debug)]
pub struct ReadPermit {
    gate: Rc<ReadGate>,
}

impl ReadGate {
    /// A core's share of the node's reads. A core always has one.
    pub fn new(reads_max: usize, cores: usize) -> Rc<Self> {
        let max = reads_max.div_ceil(cores).max(1);
        Rc::new(Self { max, under_way: Cell::default(), waiting: RefCell::default() })
    }

    /// Reads under way.
    pub fn under_way(&self) -> usize {
        self.under_way.get()
    }

    /// Reads that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().iter().filter(|turn| !turn.is_canceled()).count()
    }

    /// Waits for its turn: no longer than its caller does.
    async fn enter(self: &Rc<Self>) -> Result<ReadPermit, ReadFault> {
        if self.under_way.get() < self.max {
            return Ok(self.permit());
        }
        // Only a gate that is gone calls no more.
        self.queue()?.await.map_err(|oneshot::Canceled| ReadFault::TooManyReads)
    }

    fn queue(&self) -> Result<oneshot::Receiver<ReadPermit>, ReadFault> {
        let mut waiting = self.waiting.borrow_mut();
        // Some waited as long as they could.
        waiting.retain(|turn| !turn.is_canceled());
        if waiting.len() >= READS_WAITING_MAX {
            return Err(ReadFault::TooManyReads);
        }
        let (turn, called) = oneshot::channel();
        waiting.push_back(turn);
        Ok(called)
    }

    fn permit(self: &Rc<Self>) -> ReadPermit {
        self.under_way.set(self.under_way.get() + 1);
        ReadPermit { gate: Rc::clone(self) }
    }

    fn call_next(self: &Rc<Self>) {
        while self.under_way.get() < self.max {
            let next = self.waiting.borrow_mut().pop_front();
            let Some(turn) = next else { return };
            if !turn.is_canceled() {
                // Whoever leaves right now lets the permit go, and so calls the next.
                drop(turn.send(self.permit()));
            }
        }
    }
}

impl ReadPermit {
    /// One of this core's; refused before all data is back, and where too many wait already.
    pub async fn take(core: &Core) -> Result<Self, ReadFault> {
        core.check_replayed()?;
        core.reads.enter().await
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        let under_way = &self.gate.under_way;
        under_way.set(under_way.get() - 1);
        self.gate.call_next();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_gate_shares_the_node_s_reads_out_and_leaves_each_core_one() {
        let max = |reads_max, cores| ReadGate::new(reads_max, cores).max;
        assert_eq!((max(10, 1), max(10, 8), max(1, 64)), (10, 2, 1));
    }

    #[test]
    fn reads_beyond_the_limit_get_their_turns_in_order() {
        let gate = ReadGate::new(1, 1);
        let first = gate.enter().now_or_never().unwrap().unwrap();
        let (mut second, mut third) = (Box::pin(gate.enter()), Box::pin(gate.enter()));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        assert_eq!((gate.under_way(), gate.waiting()), (1, 2));
        drop(first);
        assert!((&mut third).now_or_never().is_none());
        drop(second.now_or_never().unwrap().unwrap());
        drop(third.now_or_never().unwrap().unwrap());
        assert_eq!((gate.under_way(), gate.waiting()), (0, 0));
    }

    #[test]
    fn a_read_that_stops_waiting_leaves_its_turn_to_the_next() {
        let gate = ReadGate::new(1, 1);
        let first = gate.enter().now_or_never().unwrap().unwrap();
        let (mut leaving, mut called, mut last) =
            (Box::pin(gate.enter()), Box::pin(gate.enter()), Box::pin(gate.enter()));
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
    fn a_bounded_number_of_reads_waits() {
        let gate = ReadGate::new(1, 1);
        let _first = gate.enter().now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> = (0..READS_WAITING_MAX).map(|_| Box::pin(gate.enter())).collect();
        assert!(waiting.iter_mut().all(|read| read.now_or_never().is_none()));
        assert_eq!(gate.enter().now_or_never().unwrap().unwrap_err(), ReadFault::TooManyReads);
        waiting.pop();
        assert!(gate.enter().now_or_never().is_none());
    }
}

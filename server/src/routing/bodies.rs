//! Decompressed bodies, kept from one request to the next on the core that decodes them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use crate::routing::{ByteBudget, Reservation};
use silverback_model::limits::{BODIES_KEPT, BODY_KEPT_BYTES_MAX};
use silverback_storage::message::WriteBody;

/// One core's bodies. A body that other cores still read is kept until they are done.
#[derive(Debug)]
pub struct BodyPool {
    /// In the order in which they were given back.
    kept: RefCell<VecDeque<Arc<WriteBody>>>,
    kept_bytes: Cell<usize>,
    kept_bytes_max: Cell<usize>,
    in_use: ByteBudget,
}

/// Kept bodies that are tried before a new one is made.
const TRIED_MAX: usize = 16;
/// A body of so many times what a request has, decompressed, is used for it; ...
const FITTING: usize = 4;
/// ... for the smallest ones, for so many bytes.
const FITTING_BYTES_MIN: usize = 16 << 10;

impl BodyPool {
    /// A pool for requests of `bytes_max` bytes at a time, all together, that keeps bodies of
    /// `kept_bytes_max` bytes for later ones.
    pub(crate) fn new(bytes_max: usize, kept_bytes_max: usize) -> Self {
        Self {
            kept: RefCell::default(),
            kept_bytes: Cell::new(0),
            kept_bytes_max: Cell::new(kept_bytes_max),
            in_use: ByteBudget::with_small_part(bytes_max),
        }
    }

    /// A request that has no room yet.
    pub(crate) fn begin(&self) -> Reservation {
        self.in_use.begin()
    }

    /// What requests in flight take their room in.
    pub(crate) fn budget(&self) -> ByteBudget {
        self.in_use.clone()
    }

    /// Bytes of the requests in flight, as they arrive and decompressed.
    pub(crate) fn in_use_bytes(&self) -> usize {
        self.in_use.taken_bytes()
    }

    /// Bytes of the bodies that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept_bytes.get()
    }

    /// For now, requests may have so many bytes in flight, and no more than `kept_bytes_max` are kept:
    /// what is beyond that is given back, what was used longest ago first.
    pub(crate) fn allow(&self, bytes: usize, kept_bytes_max: usize) {
        self.in_use.allow(bytes);
        self.kept_bytes_max.set(kept_bytes_max);
        self.keep_at_most(kept_bytes_max);
    }

    fn keep_at_most(&self, bytes_max: usize) {
        let mut kept = self.kept.borrow_mut();
        while self.kept_bytes.get() > bytes_max
            && let Some(body) = kept.pop_front()
        {
            self.kept_bytes.set(self.kept_bytes.get() - body.capacity_bytes());
        }
    }

    /// A body for a request of so many bytes that nobody else reads: of those, the one that was used last, because it
    /// is still near the core. None that is far too large: the request would take all of its room.
    pub(crate) fn take(&self, bytes: usize) -> Arc<WriteBody> {
        let fitting_bytes = FITTING.saturating_mul(bytes.max(FITTING_BYTES_MIN));
        let mut kept = self.kept.borrow_mut();
        let mut newest_first = (0..kept.len()).rev().take(TRIED_MAX);
        let fits = |body: &WriteBody| body.capacity_bytes() <= fitting_bytes;
        let found = newest_first.find(|place| Arc::get_mut(&mut kept[*place]).is_some_and(|body| fits(body)));
        match found.and_then(|place| kept.remove(place)) {
            Some(body) => {
                self.kept_bytes.set(self.kept_bytes.get() - body.capacity_bytes());
                body
            }
            None => Arc::default(),
        }
    }

    /// Keeps a body for a later request, unless it grew beyond the usual; those that were used longest ago make room
    /// for it. Parts may still refer to it: it is not given out again before they are gone.
    pub(crate) fn give_back(&self, body: Arc<WriteBody>) {
        let (bytes, bytes_max) = (body.capacity_bytes(), self.kept_bytes_max.get());
        let has_slot = self.kept.borrow().len() < BODIES_KEPT;
        if has_slot && bytes <= BODY_KEPT_BYTES_MAX.min(bytes_max) {
            self.keep_at_most(bytes_max - bytes);
            self.kept_bytes.set(self.kept_bytes.get() + bytes);
            self.kept.borrow_mut().push_back(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_used_again_once_nobody_reads_it() {
        let pool = BodyPool::new(100, 5000);
        let mut body = pool.take(1000);
        Arc::get_mut(&mut body).unwrap().bytes.prepare(1000);
        let reader = Arc::clone(&body);
        pool.give_back(body);
        assert_eq!(pool.take(1000).bytes.capacity(), 0, "the body is still read");
        drop(reader);
        assert!(pool.take(1000).bytes.capacity() >= 1000);
    }

    #[test]
    fn the_body_that_was_used_last_is_used_next() {
        let pool = BodyPool::new(100, 5000);
        let mut bodies: Vec<_> = (0..3).map(|_| pool.take(1000)).collect();
        Arc::get_mut(&mut bodies[2]).unwrap().bytes.prepare(1000);
        bodies.into_iter().for_each(|body| pool.give_back(body));
        assert!(pool.take(1000).bytes.capacity() >= 1000);
    }

    #[test]
    fn a_small_request_gets_no_body_that_a_large_one_left() {
        let pool = BodyPool::new(100, 1 << 20);
        let (mut large, mut small) = (pool.take(100_000), pool.take(10));
        Arc::get_mut(&mut large).unwrap().bytes.prepare(100_000);
        Arc::get_mut(&mut small).unwrap().bytes.prepare(10);
        pool.give_back(small);
        pool.give_back(large);
        assert_eq!(pool.take(10).bytes.capacity(), 10);
        assert_eq!(pool.take(10).bytes.capacity(), 0);
        assert_eq!(pool.take(25_000).bytes.capacity(), 100_000);
    }

    #[test]
    fn kept_bodies_go_where_fewer_may_be_kept() {
        let pool = BodyPool::new(100, 5000);
        let mut bodies: Vec<_> = (0..3).map(|_| pool.take(1000)).collect();
        for body in &mut bodies {
            Arc::get_mut(body).unwrap().bytes.prepare(1000);
        }
        bodies.into_iter().for_each(|body| pool.give_back(body));
        pool.allow(100, 2500);
        assert_eq!(pool.kept_bytes(), 2000);
        pool.allow(100, 0);
        assert_eq!((pool.kept_bytes(), pool.take(1000).bytes.capacity()), (0, 0));
    }

    #[test]
    fn what_large_requests_left_makes_room_for_what_comes_after_them() {
        let pool = BodyPool::new(1000, 2500);
        let sized = |bytes| {
            let mut body = Arc::<WriteBody>::default();
            Arc::get_mut(&mut body).unwrap().bytes.prepare(bytes);
            body
        };
        [1200, 1200, 100, 2501].into_iter().for_each(|bytes| pool.give_back(sized(bytes)));
        assert_eq!(pool.kept_bytes(), 2500);
        pool.give_back(sized(200));
        assert_eq!(pool.kept_bytes(), 1200 + 100 + 200, "the oldest has gone");
    }

    #[test]
    fn bodies_beyond_the_pool_s_room_are_not_kept() {
        let pool = BodyPool::new(100, 2500);
        let mut bodies: Vec<_> = (0..3).map(|_| pool.take(1000)).collect();
        for body in &mut bodies {
            Arc::get_mut(body).unwrap().bytes.prepare(1000);
        }
        bodies.into_iter().for_each(|body| pool.give_back(body));
        assert_eq!(pool.kept_bytes(), 2000);
        let kept: Vec<_> = (0..3).map(|_| pool.take(1000).bytes.capacity()).collect();
        assert_eq!((kept, pool.kept_bytes()), (vec![1000, 1000, 0], 0));
    }
}

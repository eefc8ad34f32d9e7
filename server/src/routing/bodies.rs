//! Decompressed bodies, kept from one request to the next on the core that decodes them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::limits::{BODIES_KEPT, BODY_KEPT_BYTES_MAX};
use crate::message::WriteBody;
use crate::routing::Overloaded;

/// One core's bodies. A body that other cores still read is kept until they are done.
#[derive(Debug)]
pub struct BodyPool {
    /// In the order in which they were given back.
    kept: RefCell<Vec<Arc<WriteBody>>>,
    kept_bytes: Cell<usize>,
    kept_bytes_max: usize,
    in_use_bytes: Cell<usize>,
    bytes_max: usize,
}

/// Kept bodies that are tried before a new one is made.
const TRIED_MAX: usize = 16;

/// Bytes of the pool's bound that a request holds until it is answered.
#[derive(Debug)]
pub struct Reserved<'a> {
    pool: &'a BodyPool,
    bytes: usize,
}

impl BodyPool {
    /// A pool for requests of `bytes_max` bytes at a time, all together, that keeps bodies of
    /// `kept_bytes_max` bytes for later ones.
    pub fn new(bytes_max: usize, kept_bytes_max: usize) -> Self {
        Self {
            kept: RefCell::default(),
            kept_bytes: Cell::new(0),
            kept_bytes_max,
            in_use_bytes: Cell::new(0),
            bytes_max,
        }
    }

    /// A request that has no room yet.
    pub fn begin(&self) -> Reserved<'_> {
        Reserved { pool: self, bytes: 0 }
    }

    /// Bytes of the requests under way, as they arrive and decompressed.
    pub fn in_use_bytes(&self) -> usize {
        self.in_use_bytes.get()
    }

    /// Bytes of the bodies that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes.get()
    }

    /// A body that nobody else reads: of those, the one that was used last, for it is still near
    /// the core.
    pub fn take(&self) -> Arc<WriteBody> {
        let mut kept = self.kept.borrow_mut();
        let mut newest_first = (0..kept.len()).rev().take(TRIED_MAX);
        match newest_first.find(|place| Arc::get_mut(&mut kept[*place]).is_some()) {
            Some(place) => {
                let body = kept.remove(place);
                self.kept_bytes.set(self.kept_bytes.get() - body.capacity_bytes());
                body
            }
            None => Arc::default(),
        }
    }

    /// Keeps a body for a later request, unless it grew beyond the usual. Parts may still refer to
    /// it: it is not given out again before they are gone.
    pub fn give_back(&self, body: Arc<WriteBody>) {
        let mut kept = self.kept.borrow_mut();
        let (bytes, kept_bytes) = (body.capacity_bytes(), self.kept_bytes.get());
        let has_room = kept.len() < BODIES_KEPT && kept_bytes + bytes <= self.kept_bytes_max;
        if bytes <= BODY_KEPT_BYTES_MAX && has_room {
            self.kept_bytes.set(kept_bytes + bytes);
            kept.push(body);
        }
    }
}

/// Why a request got no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Others have it: try again later.
    Overloaded,
    /// It alone would take more than all may.
    TooMuch {
        /// What all may take.
        bytes_max: usize,
    },
}

impl Reserved<'_> {
    /// Makes room for so many bytes more of the request, or refuses it.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Overloaded> {
        let in_use = self.pool.in_use_bytes.get();
        // One request always fits, so that none is refused for ever.
        if in_use + bytes > self.pool.bytes_max && in_use > self.bytes {
            return Err(Overloaded);
        }
        self.pool.in_use_bytes.set(in_use + bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Makes room for what the request takes in all, once that is known. Beyond the bound there is
    /// none, not even for a lone request.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let bytes_max = self.pool.bytes_max;
        if bytes > bytes_max {
            return Err(NoRoom::TooMuch { bytes_max });
        }
        self.grow(bytes.saturating_sub(self.bytes)).map_err(|_| NoRoom::Overloaded)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.pool.in_use_bytes.set(self.pool.in_use_bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_used_again_once_nobody_reads_it() {
        let pool = BodyPool::new(100, 5000);
        let mut body = pool.take();
        Arc::get_mut(&mut body).unwrap().bytes.prepare(1000);
        let reader = Arc::clone(&body);
        pool.give_back(body);
        assert_eq!(pool.take().bytes.capacity(), 0, "the body is still read");
        drop(reader);
        assert!(pool.take().bytes.capacity() >= 1000);
    }

    #[test]
    fn the_body_that_was_used_last_is_used_next() {
        let pool = BodyPool::new(100, 5000);
        let mut bodies: Vec<_> = (0..3).map(|_| pool.take()).collect();
        Arc::get_mut(&mut bodies[2]).unwrap().bytes.prepare(1000);
        bodies.into_iter().for_each(|body| pool.give_back(body));
        assert!(pool.take().bytes.capacity() >= 1000);
    }

    #[test]
    fn bodies_beyond_the_pool_s_room_are_not_kept() {
        let pool = BodyPool::new(100, 2500);
        let mut bodies: Vec<_> = (0..3).map(|_| pool.take()).collect();
        for body in &mut bodies {
            Arc::get_mut(body).unwrap().bytes.prepare(1000);
        }
        bodies.into_iter().for_each(|body| pool.give_back(body));
        assert_eq!(pool.kept_bytes(), 2000);
        let kept: Vec<_> = (0..3).map(|_| pool.take().bytes.capacity()).collect();
        assert_eq!((kept, pool.kept_bytes()), (vec![1000, 1000, 0], 0));
    }

    #[test]
    fn requests_beyond_the_bound_are_refused_but_never_a_lone_one() {
        let pool = BodyPool::new(100, 5000);
        let mut lone = pool.begin();
        lone.grow(300).unwrap();
        lone.grow(200).unwrap();
        assert!(pool.begin().grow(1).is_err());
        drop(lone);
        let (mut small, mut other) = (pool.begin(), pool.begin());
        small.grow(60).unwrap();
        assert!(other.grow(41).is_err());
        other.grow(40).unwrap();
        assert!(small.grow(1).is_err(), "a request that grows is not alone");
        drop((small, other));
        assert_eq!(pool.in_use_bytes(), 0);
    }

    #[test]
    fn a_request_that_turns_out_to_take_more_than_all_may_is_refused_for_good() {
        let pool = BodyPool::new(100, 5000);
        let (mut one, mut other) = (pool.begin(), pool.begin());
        assert_eq!(one.grow_to(60), Ok(()));
        assert_eq!(one.grow_to(50), Ok(()), "it has that already");
        assert_eq!(other.grow_to(50), Err(NoRoom::Overloaded));
        assert_eq!(one.grow_to(101), Err(NoRoom::TooMuch { bytes_max: 100 }));
        assert_eq!(pool.in_use_bytes(), 60);
    }
}

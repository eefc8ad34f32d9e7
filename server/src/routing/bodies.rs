//! Decompressed bodies, kept from one request to the next on the core that decodes them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits::{BODIES_KEPT, BODY_KEPT_BYTES_MAX};
use crate::message::WriteBody;
use crate::routing::Overloaded;

/// One core's bodies. A body that other cores still read is kept until they are done.
#[derive(Debug)]
pub struct BodyPool {
    kept: RefCell<VecDeque<Arc<WriteBody>>>,
    in_use_bytes: Cell<usize>,
    bytes_max: usize,
}

/// Bytes of the pool's bound that a request holds until it is answered.
#[derive(Debug)]
pub struct Reserved<'a> {
    pool: &'a BodyPool,
    bytes: usize,
}

impl BodyPool {
    /// A pool for requests of `bytes_max` decompressed bytes at a time, all together.
    pub fn new(bytes_max: usize) -> Self {
        Self { kept: RefCell::default(), in_use_bytes: Cell::new(0), bytes_max }
    }

    /// Makes room for a request of so many decompressed bytes, or refuses it.
    pub fn reserve(&self, bytes: usize) -> Result<Reserved<'_>, Overloaded> {
        let in_use = self.in_use_bytes.get() + bytes;
        // One request always fits, so that none is refused for ever.
        if in_use > self.bytes_max && self.in_use_bytes.get() > 0 {
            return Err(Overloaded);
        }
        self.in_use_bytes.set(in_use);
        Ok(Reserved { pool: self, bytes })
    }

    /// Bytes of the requests under way.
    pub fn in_use_bytes(&self) -> usize {
        self.in_use_bytes.get()
    }

    /// A body that nobody else reads.
    pub fn take(&self) -> Arc<WriteBody> {
        let mut kept = self.kept.borrow_mut();
        let Some(mut body) = kept.pop_front() else {
            return Arc::default();
        };
        if Arc::get_mut(&mut body).is_none() {
            kept.push_back(body);
            return Arc::default();
        }
        body
    }

    /// Keeps a body for a later request, unless it grew beyond the usual.
    pub fn give_back(&self, body: Arc<WriteBody>) {
        let mut kept = self.kept.borrow_mut();
        if body.capacity_bytes() <= BODY_KEPT_BYTES_MAX && kept.len() < BODIES_KEPT {
            kept.push_back(body);
        }
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
        let pool = BodyPool::new(100);
        let mut body = pool.take();
        Arc::get_mut(&mut body).unwrap().bytes.prepare(1000);
        let reader = Arc::clone(&body);
        pool.give_back(body);
        assert_eq!(pool.take().bytes.capacity(), 0, "the body is still read");
        drop(reader);
        assert!(pool.take().bytes.capacity() >= 1000);
    }

    #[test]
    fn requests_beyond_the_bound_are_refused_but_never_a_lone_one() {
        let pool = BodyPool::new(100);
        let lone = pool.reserve(500).unwrap();
        assert!(pool.reserve(1).is_err());
        drop(lone);
        let _small = pool.reserve(60).unwrap();
        assert!(pool.reserve(41).is_err());
        assert!(pool.reserve(40).is_ok());
    }
}

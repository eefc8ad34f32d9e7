//! hyper's executor: each HTTP/2 stream is a task of the executor that has the connection.
use std::{cell::Cell, future::Future, rc::Rc};

use hyper::rt::Executor;

use super::stream_watch::{StreamWatch, while_taken};
use crate::tasks::spawn;

/// Clones share it.
#[derive(Clone, Default)]
pub(super) struct LocalSpawner {
    /// The watch of the stream whose task comes next: hyper calls the service, and then spawns what
    /// it answers with before it does anything else.
    begun: Rc<Cell<Option<Rc<StreamWatch>>>>,
}

impl LocalSpawner {
    /// The service was called for a stream.
    pub(super) fn begins(&self, stream: Rc<StreamWatch>) {
        self.begun.set(Some(stream));
    }
}

impl<F: Future<Output = ()> + 'static> Executor<F> for LocalSpawner {
    fn execute(&self, future: F) {
        match self.begun.take() {
            Some(stream) => spawn(while_taken(stream, future)),
            None => spawn(future),
        };
    }
}

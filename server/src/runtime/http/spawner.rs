//! hyper's executor: each HTTP/2 stream is a task of the executor that has the connection.
use std::future::Future;

use hyper::rt::Executor;

use crate::runtime::tasks::spawn;

#[derive(Debug, Clone, Copy)]
pub(super) struct LocalSpawner;

impl<F: Future<Output = ()> + 'static> Executor<F> for LocalSpawner {
    fn execute(&self, future: F) {
        spawn(future);
    }
}

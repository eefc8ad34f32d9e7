//! Executors for tests: all on one CPU and with little memory, so that tests run on any machine and
//! beside each other.
use std::future::Future;

use silverback::runtime::{self, Executor, Options, Shutdown};

/// Options for that many executors on one CPU that this process may use.
pub fn options(executors: usize) -> Options {
    let cpu = *runtime::cpus::affinity_mask().unwrap().first().unwrap();
    Options { io_memory_bytes: 64 << 10, ..Options::on_cpus(vec![cpu; executors]) }
}

/// Runs `start` on that many executors and gives what it comes to on each.
#[allow(dead_code, reason = "not every test file runs executors of its own")]
pub fn on_executors<T, R, F, Fut>(options: &Options, start: F) -> Vec<R>
where
    T: Send + 'static,
    R: Send + 'static,
    F: Fn(Executor<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + 'static,
{
    runtime::run(options, &Shutdown::new(), start).unwrap()
}

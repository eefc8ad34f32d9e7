//! What a shard needs of the thread it runs on, so that a seeded simulation can be that thread.

use std::future::Future;

/// The thread's side of long work. Cheap to clone; a clone is the same job.
pub trait Host: Clone + 'static {
    /// Called at each step of a background job's loops: waits for a slice where the job has none,
    /// and gives way to traffic when the slice is spent.
    fn breathe(&self) -> impl Future<Output = ()>;

    /// Lets the reactor poll once before this task goes on, whatever the slice has left.
    fn give_way(&self) -> impl Future<Output = ()>;

    /// Runs a job of its own beside traffic, in slices of low shares. A panic in it ends it alone.
    fn spawn_background<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static);

    /// Microseconds on a clock that never goes back.
    fn monotonic_us(&self) -> u64;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A host that never gives way and runs background work to its end where it is spawned.
    #[derive(Debug, Clone)]
    pub(crate) struct Inline;

    impl Host for Inline {
        async fn breathe(&self) {}

        async fn give_way(&self) {}

        fn spawn_background<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
            futures::executor::block_on(job(self.clone()));
        }

        fn monotonic_us(&self) -> u64 {
            0
        }
    }
}

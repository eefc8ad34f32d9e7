//! An executor as the shard's host: slices and background tasks of the runtime.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use silverback_host::Host;
use silverback_runtime as runtime;
use silverback_runtime::{Slice, Slicer, reactor_polled, spawn_background, spawn_essential};

/// One job's view of its executor: the executor's slicer, and the slice that the job holds until
/// the last clone of this goes.
#[derive(Debug, Clone)]
pub(crate) struct ExecutorHost {
    slicer: Slicer,
    slice: Rc<RefCell<Option<Slice>>>,
}

impl ExecutorHost {
    /// The host of one executor.
    pub(crate) fn new(slicer: Slicer) -> Self {
        Self { slicer, slice: Rc::default() }
    }
}

impl Host for ExecutorHost {
    async fn yield_if_needed(&self) {
        // Out of the cell while this awaits.
        let held = self.slice.take();
        let mut slice = match held {
            Some(slice) => slice,
            None => self.slicer.begin().await,
        };
        slice.yield_if_needed().await;
        *self.slice.borrow_mut() = Some(slice);
    }

    fn is_slice_spent(&self) -> bool {
        self.slice.borrow().as_ref().is_none_or(Slice::is_spent)
    }

    fn release_slice(&self) {
        drop(self.slice.take());
    }

    fn shorten_slices(&self) -> impl Sized + 'static {
        self.slicer.shorten_slices()
    }

    async fn yield_now(&self) {
        reactor_polled().await;
    }

    async fn sleep(&self, time: Duration) {
        runtime::sleep(time).await;
    }

    fn spawn_essential(&self, task: impl Future<Output = ()> + 'static) {
        spawn_essential(task);
    }

    fn spawn_background<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        spawn_background(job(Self::new(self.slicer.clone())));
    }

    fn spawn_foreground<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        runtime::spawn(job(Self::new(self.slicer.clone())));
    }

    fn monotonic_us(&self) -> u64 {
        thread_local! {
            static BEGAN: std::time::Instant = runtime::now();
        }
        BEGAN.with(|began| runtime::now().duration_since(*began).as_micros() as u64)
    }
}

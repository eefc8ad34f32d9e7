//! Tasks of an executor, and what a panic in one of them ends.
//!
//! glommio lets a panic in any task, detached ones too, unwind through its executor and end it.
//! So every task is caught here: a plain one ends alone, an essential one ends the process.
use std::{any::Any, cell::OnceCell, future::Future, panic::AssertUnwindSafe};

use futures::FutureExt;
use glommio::{Latency, Shares, TaskQueueHandle};

use super::counters;

/// What the process exits with after a panic that it can't go on from (as Rust's own runtime does).
pub const PANIC_EXIT_CODE: i32 = 101;

const BACKGROUND_SHARES: usize = 100;

thread_local! {
    static BACKGROUND: OnceCell<TaskQueueHandle> = const { OnceCell::new() };
}

/// Makes this executor's background queue. `Latency::NotImportant`: a queue of any other kind would
/// bring preemption back.
pub(super) fn create_background_queue() {
    let queue = glommio::executor().create_task_queue(
        Shares::Static(BACKGROUND_SHARES),
        Latency::NotImportant,
        "background",
    );
    BACKGROUND.with(|background| background.set(queue).expect("one executor a thread, started once"));
}

/// Runs `future` on this executor on its own, in the foreground. A panic ends that task alone.
///
/// Nothing preempts it: what runs for longer than some 200 µs belongs into slices.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    spawn_into(TaskQueueHandle::default(), contained(future));
}

/// Like [`spawn`], in the queue of low shares: checkpoints, block cuts, reads.
pub fn spawn_background(future: impl Future<Output = ()> + 'static) {
    let queue = BACKGROUND.with(|background| *background.get().expect("called on an executor"));
    spawn_into(queue, contained(future));
}

/// Runs `future` in the foreground; the node can't go on without it, so a panic ends the process.
pub fn spawn_essential(future: impl Future<Output = ()> + 'static) {
    spawn_into(TaskQueueHandle::default(), essential(future));
}

fn spawn_into(queue: TaskQueueHandle, future: impl Future<Output = ()> + 'static) {
    glommio::spawn_local_into(future, queue).expect("a queue is never removed").detach();
}

async fn contained(future: impl Future<Output = ()>) {
    let _ended_or_panicked = catch_panic(future).await;
}

/// Runs `future` to its end. `None`: it panicked, which is logged and counted.
pub async fn catch_panic<T>(future: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(future)
        .catch_unwind()
        .await
        .map_err(|panic| {
            counters::with(|c| c.task_panics += 1);
            tracing::error!(panic = panic_text(&*panic), "a task panicked");
        })
        .ok()
}

/// Runs `future` to its end; a panic in it ends the process.
pub(super) async fn essential<T>(future: impl Future<Output = T>) -> T {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(output) => output,
        Err(panic) => exit_on_panic(&*panic),
    }
}

fn exit_on_panic(panic: &(dyn Any + Send)) -> ! {
    tracing::error!(panic = panic_text(panic), "an essential task panicked; the process ends");
    std::process::exit(PANIC_EXIT_CODE)
}

/// The message that a panic was raised with.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "(no message)",
    }
}

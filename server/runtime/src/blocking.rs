//! Calls that block, on the executor's thread for them: it makes one after the other. glommio's thread panics where a
//! call returns and its executor is gone, so none begins once the executor ends, and the last one is waited for.

use std::cell::Cell;
use std::time::Duration;

use crate::timers::timeout;

/// How long an executor that ends waits for the call in flight. For a disk that hangs nobody waits.
const CALL_MAX: Duration = Duration::from_secs(2);

thread_local! {
    /// Whether this thread's executor ends.
    static IS_ENDING: Cell<bool> = const { Cell::new(false) };
}

/// What `call` returns. On an executor that ends it isn't made, and whoever waits for it ends with the executor.
pub(crate) async fn call<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    if IS_ENDING.get() {
        return std::future::pending().await;
    }
    glommio::executor().spawn_blocking(call).await
}

/// The executor begins: a thread may have had another one before.
pub(crate) fn begin() {
    IS_ENDING.set(false);
}

/// The executor ends: no call begins any more, and those that have are waited for.
pub(crate) async fn end() {
    IS_ENDING.set(true);
    let last = glommio::executor().spawn_blocking(|| ());
    if timeout(CALL_MAX, last).await.is_err() {
        tracing::debug!("a blocking call is still in flight at the executor's end");
    }
}

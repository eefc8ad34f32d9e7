//! Each core's watchdog: asks its worker for a sign each second and notes whether it gave one.
//!
//! A worker that nothing wakes any more looks like an idle one by its queue alone.

use std::rc::Rc;
use std::time::Duration;

use crate::api::core::CoreContext;
use silverback_runtime::{now, sleep, spawn};
use silverback_storage::shard::Inbox;

/// How often a worker is asked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Watches a core's worker, from now on until the executor ends.
pub(crate) fn start(core: Rc<CoreContext>, inbox: Rc<Inbox>) {
    spawn(async move {
        loop {
            sleep(LOOK_INTERVAL).await;
            let now_ms = now().duration_since(core.node.started).as_millis() as u64;
            core.node.pulses.looked(core.router.core(), now_ms, inbox.ask_for_sign());
        }
    });
}

//! What each core does from time to time: retention.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::api::core::Core;
use crate::node::host::ExecutorHost;
use crate::runtime::{sleep, spawn_background};
use crate::shard::{Shard, maintenance};
use crate::wal::Log;

/// Retention passes are this far apart at the most.
const PASS_INTERVAL_MAX: Duration = Duration::from_secs(5 * 60);
/// A pass for each of so many parts of the retention, so that little is kept beyond it.
const PASSES_PER_RETENTION: u32 = 50;

/// Starts a core's retention passes; they end with the executor.
pub fn start<L: Log>(core: &Rc<Core>, shard: Rc<RefCell<Shard>>, log: L) {
    let core = Rc::clone(core);
    let retention = core.config.retention;
    let interval = (retention / PASSES_PER_RETENTION).min(PASS_INTERVAL_MAX);
    spawn_background(async move {
        while !core.shutdown.is_requested() {
            sleep(interval).await;
            // A job of its own for each pass: between passes it holds no slice.
            let host = ExecutorHost::new(core.slicer.clone());
            let horizon_ms = core.clock.now_ms().saturating_sub(retention.as_millis() as i64);
            maintenance::retain(&shard, &log, &host, horizon_ms).await;
        }
    });
}

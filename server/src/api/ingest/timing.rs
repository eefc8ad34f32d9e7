//! How long answers to writes take.

use std::time::Instant;

use silverback_runtime as runtime;

use crate::api::core::CoreContext;
use crate::api::response::NodeResponse;

/// Measures how long the answer to a write takes.
pub(crate) async fn timed(core: &CoreContext, answering: impl Future<Output = NodeResponse>) -> NodeResponse {
    let began = runtime::now();
    let response = answering.await;
    count_duration(core, began);
    response
}

/// Counts an answer that was begun then.
pub(crate) fn count_duration(core: &CoreContext, began: Instant) {
    let took_us = began.elapsed().as_micros() as u64;
    core.count(|counts| counts.write_durations.add(took_us));
}

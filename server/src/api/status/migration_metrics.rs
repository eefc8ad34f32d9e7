//! The metric families of migrations: cells that moved, what that cost, and those that stayed.

use crate::migration::{MigrationCounts, MigrationErrorKind};
use silverback_host::metrics::{Family, MetricKind};
use silverback_storage::message::CoreStats;

/// All of them, over all cores.
pub(crate) fn families(counts: MigrationCounts, cores: &[CoreStats]) -> Vec<Family> {
    let total = |name, help, value| Family::single(name, MetricKind::Counter, help, value);
    vec![
        total(
            "silverback_rebalance_handoffs_total",
            "Cells that were handed over.",
            counts.all_done() as f64,
        ),
        failures(
            "silverback_rebalance_handoffs_failed_total",
            "Handoffs that failed, by why; the cell stayed where it was.",
            |why| counts.all_failed(why),
        ),
        total(
            "silverback_rebalance_handoff_seconds_total",
            "Time that handoffs of cells took.",
            counts.took_us as f64 / 1e6,
        ),
        total(
            "silverback_rebalance_handoff_paused_seconds_total",
            "Time that cells took no writes because they were handed over.",
            counts.paused_us as f64 / 1e6,
        ),
        total("silverback_rebalance_handoff_series_total", "Series of the cells.", counts.series as f64),
        total(
            "silverback_rebalance_handoff_bytes_total",
            "Bytes that crossed for them.",
            counts.bytes as f64,
        ),
        total(
            "silverback_rebalance_parts_sent_again_total",
            "Parts of write requests that were sent again because a cell of theirs moved.",
            cores.iter().map(|core| core.acceptor.parts_sent_again).sum::<u64>() as f64,
        ),
    ]
}

/// A counter of migrations that failed, by why.
pub(super) fn failures(
    name: &'static str,
    help: &'static str,
    count: impl Fn(MigrationErrorKind) -> u64,
) -> Family {
    let numbers = MigrationErrorKind::ALL.map(|why| (why.as_str(), count(why) as f64));
    Family::by("reason", name, MetricKind::Counter, help, numbers)
}

//! The metric families of the rebalance: what was planned, what became of it, how even the loads are.

use crate::api::status::migration_metrics::failures;
use crate::api::status::node_metrics::of_shards;
use crate::config::RebalanceMode;
use crate::migration::Reason;
use crate::rebalance::{DrainState, Motion, Steering};
use silverback_host::metrics::{Family, MetricKind};
use silverback_storage::message::CoreStats;

/// All of them.
pub(crate) fn families(mode: RebalanceMode, steering: &Steering, cores: &[CoreStats]) -> Vec<Family> {
    let counts = steering.migrations.counts();
    let moves = |name, help, by: [u64; Reason::ALL.len()]| {
        let numbers = Reason::ALL.map(|reason| (reason.as_str(), by[reason as usize] as f64));
        Family::by("reason", name, MetricKind::Counter, help, numbers)
    };
    let planned = "Moves of cells that were planned, by why.";
    let done = "Planned moves that were done, by why they were planned.";
    vec![
        moves("silverback_rebalance_moves_planned_total", planned, counts.planned_by),
        moves("silverback_rebalance_moves_done_total", done, counts.done_by),
        failures(
            "silverback_rebalance_moves_failed_total",
            "Planned moves that failed, by why; the cell stayed where it was.",
            |why| counts.failed_by[why as usize],
        ),
        Family::single(
            "silverback_rebalance_paused",
            MetricKind::Gauge,
            "Whether no cell moves by itself: 1 when it is paused or off.",
            f64::from(u8::from(mode == RebalanceMode::Off || steering.motion() == Motion::Paused)),
        ),
        Family::single(
            "silverback_rebalance_imbalance_ratio",
            MetricKind::Gauge,
            "The busiest shard against the mean, as last seen: 1 is even.",
            steering.imbalance(),
        ),
        Family::single(
            "silverback_rebalance_pinned_cells",
            MetricKind::Gauge,
            "Cells that stay where they are.",
            steering.pinned().count() as f64,
        ),
        of_shards(
            cores,
            "silverback_rebalance_drained",
            "Whether the shard's cells are to leave it.",
            |core| f64::from(u8::from(steering.drain_state(core.shard.shard) == DrainState::Drained)),
        ),
    ]
}

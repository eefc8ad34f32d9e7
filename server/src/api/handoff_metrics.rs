//! The metric families of handoffs: cells that moved, what that cost, and those that stayed.

use silverback_host::metrics::{Family, Kind};
use silverback_storage::message::{CoreStats, HandoffCounts, HandoffReason};

/// All of them, over all cores.
pub(crate) fn families(cores: &[CoreStats]) -> Vec<Family> {
    let sum = |of: fn(&HandoffCounts) -> u64| cores.iter().map(|core| of(&core.handoffs)).sum::<u64>() as f64;
    let total = |name, help, value| Family::single(name, Kind::Counter, help, value);
    vec![
        total("silverback_rebalance_handoffs_total", "Cells that were handed over.", sum(|h| h.cells)),
        failures(cores),
        total(
            "silverback_rebalance_handoff_seconds_total",
            "Time that handoffs of cells took.",
            sum(|h| h.took_us) / 1e6,
        ),
        total(
            "silverback_rebalance_handoff_paused_seconds_total",
            "Time that cells took no writes because they were handed over.",
            sum(|h| h.paused_us) / 1e6,
        ),
        total("silverback_rebalance_handoff_series_total", "Series of the cells.", sum(|h| h.series)),
        total("silverback_rebalance_handoff_bytes_total", "Bytes that crossed for them.", sum(|h| h.bytes)),
        total(
            "silverback_rebalance_parts_sent_again_total",
            "Parts of write requests that were sent again because a cell of theirs moved.",
            cores.iter().map(|core| core.acceptor.parts_sent_again).sum::<u64>() as f64,
        ),
    ]
}

fn failures(cores: &[CoreStats]) -> Family {
    let help = "Handoffs that failed, by why; the cell stayed where it was.";
    let mut family = Family::new("silverback_rebalance_handoffs_failed_total", Kind::Counter, help);
    for reason in HandoffReason::ALL {
        let of_core = |core: &CoreStats| core.handoffs.failures(reason);
        family.push([("reason", reason.as_str().to_owned())], cores.iter().map(of_core).sum::<u64>() as f64);
    }
    family
}

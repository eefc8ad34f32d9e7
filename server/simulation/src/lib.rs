//! Shard, log and replay over a simulated disk: what was acknowledged outlives everything that a
//! disk may do.
//!
//! ```text
//! SIMULATION_SEEDS=10000 cargo test -p silverback-simulation    many seeds
//! SIMULATION_SEED=17 cargo test -p silverback-simulation        one, with all that happens
//! ```
//!
//! A seed decides everything: which task runs next, what clients send, what fails and when, what a
//! crash leaves. `world` runs one, `oracle` knows what must hold.
//!
//! A crate of its own, so that its loops over seeds are compiled with optimisations and the node isn't.
#![forbid(unsafe_code)]
#![cfg(test)]

mod cells;
mod client;
mod disk;
mod durable;
mod executor;
mod fleet;
mod found;
mod histograms;
mod life;
mod log;
mod node;
mod oracle;
mod plan;
mod random;
mod seeds;
mod trace;
mod volatile;
mod world;

use durable::{
    AcknowledgedTooEarly, DataNotSynced, Durable, HistogramsForgotten, NamesNotSynced, Sound, TailTrusted,
};
use node::Node;
use trace::Shown;
use volatile::{Forgets, Remembers, Volatile};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 1000;

#[test]
fn what_was_acknowledged_outlives_everything() {
    if let Some(seed) = number_from_environment("SIMULATION_SEED") {
        let tally = seeds::run_one(world::run::<Durable<Sound>>, seed, Shown::Printed)
            .unwrap_or_else(|told| panic!("{told}"));
        eprintln!("seed {seed}: {tally:?}");
        return;
    }
    let seeds = number_from_environment("SIMULATION_SEEDS").unwrap_or(SEEDS);
    let tally =
        seeds::run_all(world::run::<Durable<Sound>>, 0..seeds).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{seeds} seeds: {tally:?}");
    assert!(tally.crashes > seeds && tally.acknowledged > 100 * seeds, "little was tried: {tally:?}");
    assert!(tally.deleted > 5 * seeds, "little was deleted: {tally:?}");
}

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        let run = || seeds::run_one(world::run::<Durable<Sound>>, seed, Shown::Hidden).unwrap();
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// A node with a defect fails within so many seeds, in words that contain these.
fn check_found<N: Node>(seeds: u64, expect: &str) {
    seeds::find(world::run::<N>, seeds, expect).unwrap_or_else(|others| panic!("{others}"));
}

#[test]
fn a_log_that_keeps_nothing_is_found_out() {
    check_found::<Volatile<Forgets>>(20, "acknowledged samples are lost");
}

#[test]
fn data_that_are_not_synced_are_found_out() {
    check_found::<Durable<DataNotSynced>>(100, "the write-ahead log is damaged");
}

#[test]
fn names_that_are_not_synced_are_found_out() {
    check_found::<Durable<NamesNotSynced>>(100, " is lost. Nothing was changed");
}

#[test]
fn an_acknowledgement_before_the_sync_is_found_out() {
    check_found::<Durable<AcknowledgedTooEarly>>(100, "acknowledged samples are lost");
}

#[test]
fn trust_in_what_a_killed_process_wrote_is_found_out() {
    check_found::<Durable<TailTrusted>>(3000, " is lost");
}

#[test]
fn a_replay_without_native_histograms_is_found_out() {
    check_found::<Durable<HistogramsForgotten>>(100, "acknowledged samples are lost");
}

#[test]
fn a_shard_that_no_crash_touches_is_not_blamed() {
    let tally = seeds::run_all(world::run::<Volatile<Remembers>>, 0..300)
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tally.acknowledged > 10_000, "{tally:?}");
}

/// Seeds of an ordinary test run in which cells move.
const CELL_SEEDS: u64 = 300;

#[test]
fn cells_that_move_lose_double_and_reorder_nothing() {
    if let Some(seed) = number_from_environment("SIMULATION_SEED") {
        let tally = seeds::run_one(cells::run::<cells::Sound>, seed, Shown::Printed);
        eprintln!("seed {seed}: {:?}", tally.unwrap_or_else(|told| panic!("{told}")));
        return;
    }
    let seeds = number_from_environment("SIMULATION_SEEDS").unwrap_or(CELL_SEEDS);
    let run = seeds::run_all(cells::run::<cells::Sound>, 0..seeds);
    let tally = run.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{seeds} seeds: {tally:?}");
    assert!(tally.moved > seeds && tally.kept > seeds / 20 && tally.sent_again > seeds / 4, "{tally:?}");
    assert!(tally.common.deleted > 5 * seeds, "little was deleted: {tally:?}");
}

#[test]
fn the_same_seed_moves_the_same_cells() {
    for seed in 0..10 {
        let run = || seeds::run_one(cells::run::<cells::Sound>, seed, Shown::Hidden).unwrap();
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// A node whose migrations have a defect fails within so many seeds, in words that contain these.
fn check_migration_found<D: cells::Defect>(seeds: u64, expect: &str) {
    seeds::find(cells::run::<D>, seeds, expect).unwrap_or_else(|others| panic!("{others}"));
}

#[test]
fn a_source_that_goes_on_taking_writes_is_found_out() {
    check_migration_found::<cells::DrainForgotten>(300, " is read before ");
}

#[test]
fn a_source_that_lets_go_too_early_is_found_out() {
    check_migration_found::<cells::ReleasedTooEarly>(1000, "acknowledged samples are lost");
}

#[test]
fn owners_that_a_restart_forgets_are_found_out() {
    check_migration_found::<cells::OwnersForgotten>(300, "acknowledged samples are lost");
}

#[test]
fn a_stream_that_overtakes_itself_is_found_out() {
    check_migration_found::<cells::StreamHurried>(1000, "overtaken");
}

#[test]
fn a_part_that_overtakes_one_of_its_stream_that_is_set_aside_is_found_out() {
    check_migration_found::<cells::StreamUnnamed>(3000, "overtaken");
}

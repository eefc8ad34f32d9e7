//! Shard, log and replay over a simulated disk: what was acknowledged outlives everything that a
//! disk may do.
//!
//! ```text
//! SIMULATION_SEEDS=10000 cargo test -p silverback --test simulation    many seeds
//! SIMULATION_SEED=17 cargo test -p silverback --test simulation        one, with all that happens
//! ```
//!
//! A seed decides everything: which task runs next, what clients send, what fails and when, what a
//! crash leaves. [`world`] runs one, [`oracle`] knows what must hold.
mod client;
mod disk;
mod executor;
mod fleet;
mod life;
mod node;
mod oracle;
mod plan;
mod random;
mod seeds;
mod trace;
mod volatile;
mod world;

use volatile::{Forgets, Remembers, Volatile};

#[test]
fn a_log_that_keeps_nothing_is_found_out() {
    let failure = seeds::run_all::<Volatile<Forgets>>(0..20).unwrap_err();
    assert!(failure.told.contains("acknowledged samples are lost"), "{failure}");
}

#[test]
fn a_shard_that_no_crash_touches_is_not_blamed() {
    let tally = seeds::run_all::<Volatile<Remembers>>(0..300).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tally.acknowledged > 10_000, "{tally:?}");
}

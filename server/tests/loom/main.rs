//! What threads share in the node's own atomics, in every order with a bounded number of preemptions.
//!
//! The modules are the node's own files; only what they call `super::sync` is loom's here instead of
//! std's. Loom runs a model again and again, each time with other switches between its threads and
//! other values out of those that a load may see. Lanes and executors are glommio's, and not modelled.

// In the node they are reached from outside their crate.
#![allow(unreachable_pub)]

#[path = "../../runtime/src/acceptors.rs"]
mod acceptors;
#[path = "../../host/src/arrivals.rs"]
mod arrivals;
#[path = "../../runtime/src/beat.rs"]
mod beat;
#[path = "../../runtime/src/shutdown.rs"]
mod shutdown;
#[path = "../../src/migration/turn.rs"]
mod turn;

mod connections;
mod notice;
mod pings;
mod turns;

/// Loom's, for the modules above.
mod sync {
    pub(crate) use loom::sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    };
}

/// Switches away from a thread that could go on, in one run of a model: what bounds its time.
const PREEMPTIONS_MAX: usize = 3;

/// Runs a model in each of its orders; panics with the first that fails.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(model);
}

//! Shard, log and replay over a simulated disk: what was acknowledged outlives everything.
mod disk;
mod executor;
mod random;
mod trace;

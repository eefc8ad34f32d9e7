//! Remote write over one CPU and two, which the loader shares with the servers.

use super::Side::{Contender, Node};
use super::writes::{batches, many_connections, new_series, version_2};
use super::{Load, Place, Replay, Size, Work, steady};

/// All of them.
pub(super) fn all(size: Size) -> Vec<Load> {
    let placed = |shards, work: Replay| Replay { place: Place::Shards(shards), ..work };
    let over = |shards: usize, mut work: Replay| {
        work.options.connections = 16 * shards.min(work.options.targets / 2);
        placed(shards, Replay { settle_s: 0.0, ..work })
    };
    // Longer than others: cells move once loads have been uneven for three seconds.
    let mut skewed = Replay { settle_s: 0.0, ..steady(size, size.pick(12_000, 2_000, 12)) };
    skewed.options.skew = 1.0;
    skewed.options.interval_ms = 250;
    skewed.options.connections = size.pick(32, 32, 4);
    skewed.warmup = size.pick(2_000, 200, 4);
    let small = batches(size, 100, size.pick(60, 20, 6));
    vec![
        load("one-shard", "one shard on one CPU, 16 connections", over(1, steady(size, 0))),
        load("two-shards", "two shards on two CPUs, 32 connections", over(2, steady(size, 0))),
        load("two-steady-2", "the same over remote write 2", over(2, version_2(steady(size, 0)))),
        load("two-new-series", "`new-series` on two shards and two CPUs", placed(2, new_series(size))),
        load(
            "two-batch-100",
            "two shards on two CPUs, 32 connections, 100 samples a request",
            over(2, small),
        ),
        load(
            "two-connections-1000",
            "`connections-1000` on two shards and two CPUs",
            placed(2, many_connections(size)),
        ),
        load(
            "skewed",
            "two shards on two CPUs, 32 connections, the n-th of 200 targets scraped in one of n rounds",
            placed(2, skewed),
        ),
    ]
}

fn load(name: &'static str, what: &'static str, work: Replay) -> Load {
    Load { name, section: "scale", what, sides: vec![Node, Contender], work: Work::Replay(work) }
}

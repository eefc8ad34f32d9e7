//! The founding comparisons: what a core that owns its data is worth beside threads that share, and what
//! it costs.
//!
//! Each comparison is rows of the same work with the same checks, done by another way of running it. A
//! row is measured in a process of its own, round after round in turn; what came of it is a table and a
//! plot. In reading order: how a row is counted (`meter`, `events`) and run (`measure`), what becomes of
//! it (`results`, `plot`, `document`), and the comparisons themselves.

pub mod meter;

pub mod events;

pub mod measure;

pub mod results;

pub mod plot;

pub mod document;

pub mod cache;

pub mod refcounts;

pub mod mixed;

pub mod connections;

pub mod wakeups;

mod job;

pub use job::{Job, Size};

use silverback_runtime::cpus::affinity_mask;

use results::Comparison;

/// Who else is compared: our own side's name in every table.
pub const OURS: &str = "silverback";

/// A CPU for each core, from the first again where there are fewer.
fn cpus(cores: usize) -> std::io::Result<Vec<usize>> {
    let allowed: Vec<usize> = affinity_mask()?.into_iter().collect();
    Ok(allowed.into_iter().cycle().take(cores).collect())
}

/// All comparisons, in the document's order.
pub fn all(size: Size, cores: usize) -> Vec<Comparison> {
    vec![
        cache::comparison(size, cores),
        refcounts::comparison(size, cores),
        mixed::comparison(size),
        connections::comparison(size, cores),
        wakeups::comparison(size, cores),
    ]
}

//! Cells: a fixed fraction of the series-id space with all its series.
//!
//! What a series is in memory, and where its pieces are: one 64-byte line that an append touches
//! ([`Series`]), its open chunk ([`open`]) with its words in pooled blocks ([`blocks`]), the rest apart
//! ([`SeriesHistory`]), what it has at a time ([`find`]), samples that come late ([`late`]) and how they join the
//! others ([`merge`]), native histograms ([`histograms`]), which of them were looked into ([`histogram_lookup`]), and late ones ([`late_histograms`]) and floats beside them ([`beside`]), what is brought near ahead of its use ([`near`]), the chunk
//! that was looked into last ([`lookup`]), where others were found ([`cursors`]), what is left of it without a range of time ([`rest`]), and what all of it
//! takes of the allocator ([`heap`]). Knows nothing of other cells, of labels' text, or of requests.
mod beside;
pub mod blocks;
mod cursors;
mod find;
pub mod heap;
mod histogram_lookup;
pub(crate) mod histograms;
mod late;
mod late_histograms;
mod lookup;
mod merge;
mod near;
mod open;
pub mod pages;
pub mod rest;
pub mod series;
pub mod table;

use crate::cell::table::SeriesTable;

pub use series::{AppendError, Appended, Series, SeriesHistory, SeriesStore};
pub use silverback_model::SeriesRef;

/// A cell of this shard: the index of its series by id, and what was accepted for it.
#[derive(Debug, Default)]
pub struct Cell {
    /// Series id → series ref.
    pub table: SeriesTable,
    /// Samples appended since the start.
    pub samples: u64,
}

//! A shard: the cells that one core owns, their series, and the index over them.
//!
//! State changes are plain functions: no other task ever sees half of one. What awaits (commits,
//! reads in slices, maintenance) is in [`worker`], [`read`] and [`maintenance`].
pub mod append;
pub mod checkpoint;
pub mod delete;
mod exemplars;
pub(crate) mod histograms;
mod in_progress;
pub mod inbox;
pub mod index;
mod late_marks;
pub mod load;
pub mod maintenance;
pub mod memory;
mod metadata;
pub(crate) mod migration;
pub mod ownership;
mod position;
mod postings;
pub mod pulses;
pub mod read;
mod refusal_words;
pub mod restore;
mod series_limit;
pub mod singles;
mod sorting;
mod start_timestamps;
mod stats;

mod window;
pub mod worker;

#[cfg(test)]
mod cached_ref_tests;
#[cfg(test)]
mod commit_tests;
#[cfg(test)]
mod late_tests;
#[cfg(test)]
mod piece_tests;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod tests;

use crate::cell::{Cell, SeriesRef, SeriesStore};
use crate::message::ShardStats;
use crate::shard::exemplars::ring::ExemplarRing;
use crate::shard::late_marks::LateMarks;
use crate::shard::memory::MemoryGate;
use crate::shard::metadata::MetadataStore;
use crate::shard::migration::{IncomingMigration, OutgoingMigration};
use crate::shard::ownership::Ownership;
use crate::shard::series_limit::SeriesLimit;
use crate::shard::singles::Singles;
use crate::wal::{Journal, RefReuse};
use silverback_model::histogram::Histogram;
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, SeriesId, ShardId};

pub use inbox::{Inbox, ReplyTo};
pub use index::LabelIndex;
pub use maintenance::RetentionState;
pub use pulses::Pulses;
pub use read::Reads;
pub use silverback_host::Host;
pub use worker::Worker;

/// One core's data. It lives behind an `Rc` on its core.
#[derive(Debug)]
pub struct Shard {
    id: ShardId,
    cells: Box<[Cell; CELL_COUNT]>,
    store: SeriesStore,
    index: LabelIndex,
    /// Bytes of the cells' tables.
    table_bytes: usize,
    memory: MemoryGate,
    series_limit: SeriesLimit,
    singles: Singles,
    exemplars: ExemplarRing,
    late_marks: LateMarks,
    metadata: MetadataStore,
    /// Refs of removed series that the log may still name.
    removed: Vec<SeriesRef>,
    /// The oldest and the newest sample, in ms; `None` before the first one.
    range_ms: Option<(i64, i64)>,
    /// What happened since the start; sizes are filled in for whoever asks.
    counters: ShardStats,
    loads: load::LoadMeter,
    ownership: Ownership,
    /// The cell that leaves the shard.
    outgoing: Option<OutgoingMigration>,
    /// The cell that comes to it.
    incoming: Option<IncomingMigration>,
    /// What histograms are read into.
    histogram: Histogram,
}

const fn assert_send_and_sync<T: Send + Sync>() {}
// What compares this design with one of locks puts shards behind them.
const _: () = assert_send_and_sync::<Shard>();

impl Shard {
    /// An empty shard that is alone: it owns all cells. The node takes at most `series_max` series
    /// in; memory is unbounded until [`Self::set_memory_budget`].
    pub fn new(id: ShardId, series_max: usize) -> Self {
        Self {
            id,
            cells: Box::new(std::array::from_fn(|_| Cell::default())),
            store: SeriesStore::default(),
            index: LabelIndex::default(),
            table_bytes: 0,
            memory: MemoryGate::default(),
            series_limit: SeriesLimit::new(series_max),
            singles: Singles::default(),
            exemplars: ExemplarRing::default(),
            late_marks: LateMarks::default(),
            metadata: MetadataStore::default(),
            removed: Vec::new(),
            range_ms: None,
            counters: ShardStats { shard: id, ..ShardStats::default() },
            loads: load::LoadMeter::default(),
            ownership: Ownership::default(),
            outgoing: None,
            incoming: None,
            histogram: Histogram::default(),
        }
    }

    /// Whether a cell is the shard's.
    pub fn owns(&self, cell: CellId) -> bool {
        self.ownership.owns(cell)
    }

    /// Makes it own what a table says, and removes what it holds of other shards' cells: copies that a
    /// crash left behind. From the log, too: with the next claim of such a cell they would count again, and what
    /// was deleted where the cell was meanwhile would be back.
    pub fn set_ownership(&mut self, ownership: Ownership, journal: &mut impl Journal) {
        let held = self.cells.iter().flat_map(|cell| cell.table.iter());
        let foreign = held.filter(|series| !ownership.owns(self.store.id(*series).cell()));
        let foreign: Vec<SeriesRef> = foreign.collect();
        for series in foreign {
            self.remove_series(series, journal);
        }
        self.ownership = ownership;
        self.deal_series_limit();
    }

    /// Takes a series out of everything and gives its memory back. Its ref stays taken.
    fn forget_series(&mut self, series: SeriesRef) -> SeriesId {
        let id = self.store.id(series);
        let table = &mut self.cells[usize::from(id.cell().0)].table;
        self.table_bytes -= table.bytes();
        table.remove(id, series, |s| self.store.id(s));
        self.table_bytes += table.bytes();
        let labels = self.store.remove(series);
        self.index.remove(series, &labels);
        self.singles.forget(series);
        self.exemplars.forget(series);
        self.late_marks.forget(series);
        id
    }

    /// Forgets a series, and tells the log.
    fn remove_series(&mut self, series: SeriesRef, journal: &mut impl Journal) {
        let id = self.forget_series(series);
        match journal.removed(series, id) {
            RefReuse::AtOnce => self.store.free(series),
            RefReuse::AfterCheckpoint => self.removed.push(series),
        }
    }
}

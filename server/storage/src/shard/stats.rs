//! A shard's counters and sizes, gathered for whoever asks by message.

use crate::message::ShardStats;
use crate::shard::Shard;
use silverback_model::CellId;

impl Shard {
    /// Series of cells that are other shards': on their way here, or still read.
    pub fn foreign_series(&self) -> usize {
        let held: usize = self.cells.iter().map(|cell| cell.table.len()).sum();
        held - self.owned_series()
    }

    /// Series of the shard's own cells: neither those on their way here nor what is left of others.
    pub(super) fn owned_series(&self) -> usize {
        let numbered = (0..).map(CellId).zip(&*self.cells);
        let owned = numbered.filter(|(cell, _)| self.ownership.owns(*cell));
        owned.map(|(_, held)| held.table.len()).sum()
    }

    /// Counters since the start, sizes now. What is about reads, `queued` and `log` are the worker's to fill
    /// in.
    pub fn stats(&self) -> ShardStats {
        ShardStats {
            core_busy_us_per_s: self.loads.core_busy_us_per_s(),
            other_busy_us_per_s: self.loads.other_busy_us_per_s(),
            series: self.owned_series(),
            series_max: self.series_limit.of_shard(),
            sealed_chunks: self.store.size().sealed_chunks,
            late_chunks: self.store.size().late_chunks,
            exemplars_kept: self.exemplars.count(),
            exemplar_series: self.exemplars.series_count(),
            exemplars_evicted: self.exemplars.evicted(),
            metadata_metrics: self.metadata.metrics(),
            label_names: self.index.name_count(),
            label_pairs: self.index.pair_count(),
            memory: self.memory_bytes(),
            memory_budget_bytes: self.memory.budget_bytes(),
            memory_pressure: self.memory.pressure(),
            range_ms: self.range_ms,
            uncut: self.late_marks.uncut(),
            ..self.counters.clone()
        }
    }
}

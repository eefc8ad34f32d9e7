//! A shard's counters and sizes, gathered for whoever asks by message.

use crate::message::ShardStats;
use crate::shard::Shard;
use crate::wal::LogReport;

impl Shard {
    /// Counters since the start, sizes now. `queued` and `log` are the worker's to fill in.
    pub fn stats(&self) -> ShardStats {
        let size = self.store.size();
        let tables: usize = self.cells.iter().map(|cell| cell.table.bytes()).sum();
        ShardStats {
            shard: self.id,
            samples: self.counters.samples,
            already: self.counters.already,
            refused: self.counters.refused,
            series_created: self.counters.series_created,
            series_expired: self.counters.series_expired,
            parts: self.counters.parts,
            commits: self.counters.commits,
            reads: self.counters.reads,
            busy_us: self.counters.busy_us,
            series: size.series,
            sealed_chunks: size.sealed_chunks,
            label_names: self.index.name_count(),
            label_pairs: self.index.pair_count(),
            series_bytes: size.series_bytes,
            chunk_bytes: size.chunk_bytes,
            index_bytes: self.index.bytes() + tables,
            queued: 0,
            open_selects: self.selects.count(),
            log: LogReport::default(),
        }
    }
}

//! How many series a shard may take in: its cells' part of what the node may hold. A cell takes its
//! part along, so that a shard to which cells came has room for more, and only the cells' number
//! counts, which every shard knows of itself.

use crate::shard::Shard;
use silverback_model::CellId;
use silverback_model::limits::CELL_COUNT;

/// The node's limit, and the shard's for now.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesLimit {
    of_node: usize,
    of_shard: usize,
}

impl SeriesLimit {
    /// Of a shard that is alone.
    pub(crate) const fn new(of_node: usize) -> Self {
        Self { of_node, of_shard: of_node }
    }

    /// What the whole node may hold.
    pub(crate) const fn of_node(self) -> usize {
        self.of_node
    }

    /// The shard's part for now; `None` where the node has no limit.
    pub(crate) fn of_shard(self) -> Option<usize> {
        (self.of_node < usize::MAX).then_some(self.of_shard)
    }

    /// Whether a shard that holds so many takes no further ones.
    pub(crate) const fn is_reached_by(self, series: usize) -> bool {
        series >= self.of_shard
    }

    /// The shard has these of the cells. However they are dealt out, all shards together have what the node may hold.
    fn deal(&mut self, cells: impl Iterator<Item = CellId>) {
        self.of_shard = cells.map(|cell| self.of_cell(cell)).sum();
    }

    fn of_cell(self, CellId(cell): CellId) -> usize {
        let of_first = |cells: u16| self.of_node as u128 * u128::from(cells) / CELL_COUNT as u128;
        (of_first(cell + 1) - of_first(cell)) as usize
    }
}

impl Shard {
    /// To be called when cells have come or gone. Cells of which the shard still holds series, or
    /// holds the first, count: so do the series.
    pub(super) fn deal_series_limit(&mut self) {
        let arriving = self.incoming.as_ref().map(|incoming| incoming.cell);
        let has_series = |cell: CellId| !self.cells[usize::from(cell.0)].table.is_empty();
        let counts = |cell: &CellId| self.owns(*cell) || arriving == Some(*cell) || has_series(*cell);
        let mut limit = self.series_limit;
        limit.deal((0..CELL_COUNT as u16).map(CellId).filter(counts));
        self.series_limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(of_node: usize, cells: impl Iterator<Item = u16>) -> usize {
        let mut limit = SeriesLimit::new(of_node);
        limit.deal(cells.map(CellId));
        assert!(
            limit.is_reached_by(limit.of_shard)
                && !(limit.of_shard > 0 && limit.is_reached_by(limit.of_shard - 1))
        );
        assert_eq!(limit.of_shard(), (of_node < usize::MAX).then_some(limit.of_shard));
        limit.of_shard
    }

    #[test]
    fn a_shard_has_its_cells_part_of_the_node_s_limit() {
        const CELLS: u16 = CELL_COUNT as u16;
        assert_eq!(limit_of(1_000_000, 0..CELLS), 1_000_000);
        assert_eq!(limit_of(1_000_000, 0..CELLS / 2), 500_000);
        assert_eq!(limit_of(1_000_000, 0..0), 0);
        assert_eq!(limit_of(usize::MAX, 0..CELLS), usize::MAX);
    }

    #[test]
    fn however_cells_are_dealt_out_all_shards_together_have_the_node_s_limit() {
        for of_node in [0, 1, 2, 1023, 2000, 2001, 1_000_003, usize::MAX] {
            for shards in [1, 2, 3, 7, 128] {
                let of = |shard| (0..CELL_COUNT as u16).filter(move |cell| cell * 31 % shards == shard);
                let all: usize = (0..shards).map(|shard| limit_of(of_node, of(shard))).sum();
                assert_eq!(all, of_node, "{shards} shards");
            }
        }
    }
}

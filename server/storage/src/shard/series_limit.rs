//! How many series a shard may take in: its cells' part of what the node may hold. A cell takes its
//! part along, so that a shard to which cells came has room for more, and only the cells' number
//! counts, which every shard knows of itself.

use crate::shard::Shard;
use silverback_model::CellId;
use silverback_model::limits::CELL_COUNT;

/// The node's limit, and the shard's for now.
#[derive(Debug, Clone, Copy)]
pub struct SeriesLimit {
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

    /// The shard has so many of the cells.
    fn deal(&mut self, cells: usize) {
        let of_shard = (self.of_node as u128 * cells as u128).div_ceil(CELL_COUNT as u128);
        self.of_shard = usize::try_from(of_shard).unwrap_or(usize::MAX);
    }
}

impl Shard {
    /// To be called when cells have come or gone. Cells of which the shard still holds series, or
    /// holds the first, count: so do the series.
    pub(super) fn deal_series_limit(&mut self) {
        let arriving = self.incoming.as_ref().map(|incoming| incoming.cell);
        let counts = |at: usize| {
            let cell = CellId(at as u16);
            self.owns(cell) || arriving == Some(cell) || !self.cells[at].table.is_empty()
        };
        let cells = (0..CELL_COUNT).filter(|at| counts(*at)).count();
        self.series_limit.deal(cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(of_node: usize, cells: usize, expect: usize) {
        let mut limit = SeriesLimit::new(of_node);
        limit.deal(cells);
        assert!(limit.is_reached_by(expect) && !(expect > 0 && limit.is_reached_by(expect - 1)));
        assert_eq!(limit.of_shard(), (of_node < usize::MAX).then_some(expect));
    }

    #[test]
    fn a_shard_has_its_cells_part_of_the_node_s_limit() {
        check(1_000_000, CELL_COUNT, 1_000_000);
        check(1_000_000, CELL_COUNT / 2, 500_000);
        check(1_000_000, 0, 0);
        check(2, 1, 1);
        check(usize::MAX, CELL_COUNT, usize::MAX);
    }
}

//! Series in the order of what is seen of them.

use silverback_model::LabelBlock;

/// Label sets as they are seen, one after the other in one piece of memory, each with its series.
#[derive(Debug, Default)]
pub(super) struct LabelSetList {
    labels: Vec<u8>,
    series: Vec<(u32, usize)>,
}

impl LabelSetList {
    pub(super) fn push(&mut self, series: u32, labels: &[u8]) {
        self.labels.extend_from_slice(labels);
        self.series.push((series, self.labels.len()));
    }

    /// With the places that sorting takes.
    pub(super) fn bytes(&self) -> usize {
        self.labels.capacity() + 2 * self.series.capacity() * size_of::<(u32, usize)>()
    }

    /// Those that are the same stay as they came.
    pub(super) fn into_order(self) -> Vec<u32> {
        let labels_of = |at: usize| {
            let begin = at.checked_sub(1).map_or(0, |before| self.series[before].1);
            LabelBlock(&self.labels[begin..self.series[at].1])
        };
        let mut order: Vec<usize> = (0..self.series.len()).collect();
        order.sort_by(|left, right| labels_of(*left).compare(labels_of(*right)));
        order.into_iter().map(|at| self.series[at].0).collect()
    }
}

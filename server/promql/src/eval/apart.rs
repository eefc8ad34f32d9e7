//! Aggregations that are folded apart, by each who has some of the series: the rows of a part, and the rows of all parts
//! together.

use std::rc::Rc;

use silverback_model::Labels;

use super::Evaluator;
use super::aggregate::{Folding, Row};
use super::fold::{Fold, by_fold};
use super::series::{Series, Sink};
use crate::budget::Held;
use crate::error::QueryError;
use crate::plan::{Aggregating, Times};
use crate::queryable::QueryableSamples;
use crate::share::{PartialRows, Share};
use crate::sort::{placed, sorted_places};

/// A group of a part.
struct PartialRow<F: Fold> {
    /// Of the first series in it, in the order of all: groups come in the order of their first series.
    first: Labels,
    group: Labels,
    cells: Vec<Option<F::Cell>>,
    drop_name: bool,
}

/// What a group's labels are, in values' worth of work.
const GROUP_WORK: usize = 16;

/// A part's groups.
type Rows<F> = Vec<PartialRow<F>>;

impl Evaluator<'_> {
    /// The rows of the series that the source has. `None`: histograms among them are to be combined.
    pub(super) async fn rows_of(
        &self,
        aggregate: &Aggregating,
        times: Times,
    ) -> Result<Option<PartialRows>, QueryError> {
        self.room_for_steps(times)?;
        by_fold!(
            aggregate.aggregator,
            self.rows(aggregate, times),
            else self.ranked_rows(aggregate, times).await
        )
    }

    async fn rows<F: Fold>(
        &self,
        aggregate: &Aggregating,
        times: Times,
    ) -> Result<Option<PartialRows>, QueryError> {
        let folding = Folding::<F>::new(self, aggregate, times);
        let mut part = Part { folding, firsts: Vec::new(), has_histograms: false };
        let produced = self.produce(&aggregate.node, times, &mut part).await;
        let Part { folding: Folding { groups, rows, held, .. }, firsts, has_histograms } = part;
        if has_histograms {
            return Ok(None);
        }
        produced?;
        let (samples, bytes) = held.taken();
        let mut all: Rows<F> = Vec::with_capacity(rows.len());
        let groups = groups.labels.into_iter().zip(firsts).zip(rows);
        for ((group, first), Row { cells, drop_name, .. }) in groups {
            let (first, group) = (Rc::unwrap_or_clone(first), Rc::unwrap_or_clone(group));
            all.push(PartialRow { first, group, cells, drop_name });
            self.pacing.spent(GROUP_WORK).await?;
        }
        let (notes, queryable) = (Vec::new(), QueryableSamples::default());
        let rows = Box::new(all);
        Ok(Some(PartialRows { rows, notes, samples, bytes, samples_read: 0, samples_peak: 0, queryable }))
    }

    /// What all who have series make of an aggregation; `None`: it is folded here.
    pub(super) async fn folded_apart<'f, F: Fold>(
        &'f self,
        aggregate: &'f Aggregating,
        times: Times,
    ) -> Result<Option<Folding<'f, F>>, QueryError> {
        let mut held = self.budget.hold();
        let Some(parts) = self.parts_of::<Rows<F>>(aggregate, times, &mut held).await? else {
            return Ok(None);
        };
        let mut folding = Folding::<F>::new(self, aggregate, times);
        folding.held = held;
        let all: Rows<F> = parts.into_iter().flatten().collect();
        let places = sorted_places(&all, |left, right| left.first.cmp(&right.first), &self.pacing).await?;
        for PartialRow { group, cells, drop_name, .. } in placed(all, &places) {
            folding.merge(&group, cells, drop_name);
            self.pacing.spent(GROUP_WORK + times.count).await?;
        }
        Ok(Some(folding))
    }

    /// The rows that all who have series make of an aggregation, each of its part; `None`: it has no parts.
    pub(super) async fn parts_of<R: 'static>(
        &self,
        aggregate: &Aggregating,
        times: Times,
        held: &mut Held<'_>,
    ) -> Result<Option<Vec<R>>, QueryError> {
        let Some(number) = aggregate.share else { return Ok(None) };
        let Some(parts) = self.source.folded(Share { number, times }).await? else { return Ok(None) };
        let (mut all, mut read, mut peak) = (Vec::new(), 0, 0);
        for PartialRows { rows, notes, samples, bytes, samples_read, samples_peak, queryable } in parts {
            held.add(samples, bytes)?;
            self.queryable.merge(&queryable);
            (read, peak) = (read + samples_read, peak + samples_peak);
            notes.into_iter().for_each(|(note, span)| self.notes.add(note, span));
            all.push(*rows.downcast::<R>().map_err(|_other| QueryError::Source)?);
        }
        self.budget.count_apart(read, peak);
        Ok(Some(all))
    }
}

/// A fold that keeps of each group its first series' labels, and ends where histograms would have to be combined.
struct Part<'a, F: Fold> {
    folding: Folding<'a, F>,
    firsts: Vec<Rc<Labels>>,
    /// Such a histogram has come, and was the last that was taken.
    has_histograms: bool,
}

impl<F: Fold> Sink for Part<'_, F> {
    fn push(&mut self, series: Series) -> Result<(), QueryError> {
        if self.folding.histograms.are_combined() && series.values.histograms.is_some() {
            self.has_histograms = true;
            return Err(QueryError::Canceled);
        }
        let labels = Rc::clone(&series.labels);
        self.folding.push(series)?;
        if self.folding.rows.len() > self.firsts.len() {
            self.folding.held.add(0, super::labels::bytes(&labels))?;
            self.firsts.push(labels);
        }
        Ok(())
    }
}

impl<F: Fold> Folding<'_, F> {
    fn merge(&mut self, group: &Labels, cells: Vec<Option<F::Cell>>, drop_name: bool) {
        let (at, is_new) = self.groups.place(group);
        if is_new {
            return self.rows.push(Row::new(cells, drop_name));
        }
        let row = &mut self.rows[at];
        row.drop_name |= drop_name;
        for (cell, other) in row.cells.iter_mut().zip(cells) {
            match (&mut *cell, other) {
                (Some(cell), Some(other)) => F::merge(cell, other),
                (None, other) => *cell = other,
                (Some(_), None) => {}
            }
        }
    }
}

//! Aggregations that are folded apart, by each who has some of the series: the groups of a part, and the groups of all
//! parts together.

use std::rc::Rc;

use silverback_model::Labels;

use super::Evaluator;
use super::aggregate::{Folding, GroupRow, Groups, HistogramCell};
use super::chosen::as_stored;
use super::fold::{Fold, by_fold};
use crate::budget::Held;
use crate::error::QueryError;
use crate::plan::{Aggregating, Times};
use crate::queryable::QueryableSamples;
use crate::share::{PartialRows, Share};
use crate::sort::{placed, sorted_places};

/// A group of a part, and what was made of its series.
pub(super) struct PartialGroup<V> {
    /// Of the first series in it, in the order of all: groups come in the order of their first series.
    first: Rc<Labels>,
    pub(super) group: Rc<Labels>,
    pub(super) values: V,
}

/// The same on its way from one thread to another.
type SentGroup<V> = (Labels, Labels, V);

/// What a group's labels are, in values' worth of work.
const GROUP_WORK: usize = 16;

impl Evaluator<'_> {
    /// The rows of the series that the source has.
    pub(super) async fn rows_of(
        &self,
        aggregate: &Aggregating,
        times: Times,
    ) -> Result<PartialRows, QueryError> {
        self.room_for_steps(times)?;
        by_fold!(
            aggregate.aggregator,
            self.rows(aggregate, times),
            else self.ranked_rows(aggregate, times).await
        )
    }

    async fn rows<F: Fold>(&self, aggregate: &Aggregating, times: Times) -> Result<PartialRows, QueryError> {
        let mut folding = Folding::<F>::new(self, aggregate, times, Groups::with_firsts(aggregate));
        self.produce(&aggregate.node, times, &mut folding).await?;
        self.settle(&mut folding).await?;
        let Folding { groups, rows, held, .. } = folding;
        self.groups_of_part(groups.firsts.unwrap_or_default(), groups.labels, rows, &held).await
    }

    /// Folds what all who have series make of an aggregation; `false`: it is folded here.
    pub(super) async fn folded_apart<'f, F: Fold>(
        &'f self,
        aggregate: &'f Aggregating,
        times: Times,
        folding: &mut Folding<'f, F>,
    ) -> Result<bool, QueryError> {
        let Some(parts) = self.groups_of_parts(aggregate, times, &mut folding.held).await? else {
            return Ok(false);
        };
        for PartialGroup { first, group, values: row } in parts {
            let (at, is_new) = folding.groups.place(&group);
            if is_new {
                folding.rows.push(row);
            } else {
                self.merge::<F>(&mut folding.rows[at], row, &first, aggregate).await?;
            }
            self.pacing.spent(GROUP_WORK + times.count).await?;
        }
        Ok(true)
    }

    /// One row of two of the same group; `first` has the labels of the other's first series.
    async fn merge<F: Fold>(
        &self,
        row: &mut GroupRow<F>,
        other: GroupRow<F>,
        first: &Labels,
        aggregate: &Aggregating,
    ) -> Result<(), QueryError> {
        row.drop_name |= other.drop_name;
        for (cell, other) in row.cells.iter_mut().zip(other.cells) {
            merge_cell(cell, other, F::merge);
        }
        let Some(others) = other.tallies else { return Ok(()) };
        let Some(tallies) = &mut row.tallies else {
            row.tallies = Some(others);
            return Ok(());
        };
        for (tally, other) in tallies.iter_mut().zip(others) {
            let work = |cell: &Option<HistogramCell>| cell.as_ref().map_or(1, HistogramCell::work);
            self.pacing.spent(work(tally) + work(&other)).await?;
            merge_cell(tally, other, |tally, other| tally.merge(other, first, self, aggregate));
        }
        Ok(())
    }

    /// What goes to the core that asked for a part: its groups, what was made of each, and what all of them take.
    pub(super) async fn groups_of_part<V: Send + 'static>(
        &self,
        firsts: Vec<Rc<Labels>>,
        groups: Vec<Rc<Labels>>,
        values: Vec<V>,
        held: &Held<'_>,
    ) -> Result<PartialRows, QueryError> {
        let (samples, bytes) = held.taken();
        let mut all: Vec<SentGroup<V>> = Vec::with_capacity(values.len());
        for ((first, group), values) in firsts.into_iter().zip(groups).zip(values) {
            all.push((Rc::unwrap_or_clone(first), Rc::unwrap_or_clone(group), values));
            self.pacing.spent(GROUP_WORK).await?;
        }
        let (notes, queryable) = (Vec::new(), QueryableSamples::default());
        let rows = Box::new(all);
        Ok(PartialRows { rows, notes, samples, bytes, samples_read: 0, samples_peak: 0, queryable })
    }

    /// The groups of all parts in the order of their first series, those that several have as often; `None`: it has no
    /// parts.
    pub(super) async fn groups_of_parts<V: 'static>(
        &self,
        aggregate: &Aggregating,
        times: Times,
        held: &mut Held<'_>,
    ) -> Result<Option<impl Iterator<Item = PartialGroup<V>> + use<V>>, QueryError> {
        let Some(parts) = self.parts_of::<Vec<SentGroup<V>>>(aggregate, times, held).await? else {
            return Ok(None);
        };
        let all: Vec<SentGroup<V>> = parts.into_iter().flatten().collect();
        let places = sorted_places(&all, |left, right| as_stored(&left.0, &right.0), &self.pacing).await?;
        let received =
            |(first, group, values)| PartialGroup { first: Rc::new(first), group: Rc::new(group), values };
        Ok(Some(placed(all, &places).into_iter().map(received)))
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

/// One cell of two, where there are both.
fn merge_cell<C>(cell: &mut Option<C>, other: Option<C>, merge: impl FnOnce(&mut C, C)) {
    match (&mut *cell, other) {
        (Some(cell), Some(other)) => merge(cell, other),
        (None, other) => *cell = other,
        (Some(_), None) => {}
    }
}

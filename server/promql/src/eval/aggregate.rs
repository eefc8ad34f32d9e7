//! Aggregations that fold each series into its group's row as it comes: only rows are held.

use std::rc::Rc;

use hashbrown::HashTable;
use silverback_model::Labels;

use super::Evaluator;
use super::labels::{Chosen, bytes as labels_bytes, metric_name};
use super::math::{Mean, Sum};
use super::series::{ABSENT, Column, Series, Sink, is_absent};
use crate::ast::Aggregator;
use crate::budget::Held;
use crate::error::QueryError;
use crate::histogram::{Combined, Hints, Histogram, Incompatible, Tally};
use crate::notes::{HistogramOperation, Note};
use crate::plan::{Aggregating, Times};

/// How floats become one.
pub(super) trait Fold {
    /// What is kept at each step.
    type Cell: Clone;

    fn first(value: f64) -> Self::Cell;
    fn add(cell: &mut Self::Cell, value: f64);
    fn finish(cell: &Self::Cell) -> f64;
}

macro_rules! fold {
    ($name:ident, $cell:ty, $first:expr, $add:expr, $finish:expr) => {
        struct $name;

        impl Fold for $name {
            type Cell = $cell;

            fn first(value: f64) -> $cell {
                let first: fn(f64) -> $cell = $first;
                first(value)
            }

            #[inline]
            fn add(cell: &mut $cell, value: f64) {
                let add: fn(&mut $cell, f64) = $add;
                add(cell, value);
            }

            fn finish(cell: &$cell) -> f64 {
                let finish: fn(&$cell) -> f64 = $finish;
                finish(cell)
            }
        }
    };
}

fold!(SumFold, Sum, |value| Sum { value, lost: 0.0 }, |sum, value| sum.add(value), |sum| sum.total());
fold!(AvgFold, Mean, Mean::first, |mean, value| mean.add(value), |mean| mean.total());
fold!(CountFold, f64, |_| 1.0, |count, _| *count += 1.0, |count| *count);
fold!(GroupFold, (), |_| (), |(), _| (), |()| 1.0);
fold!(
    MinFold,
    f64,
    |value| value,
    |least, value| {
        if *least > value || least.is_nan() {
            *least = value;
        }
    },
    |least| *least
);
fold!(
    MaxFold,
    f64,
    |value| value,
    |most, value| {
        if *most < value || most.is_nan() {
            *most = value;
        }
    },
    |most| *most
);
fold!(VarianceFold, Variance, Variance::first, Variance::add, |variance| variance.squares / variance.count);
fold!(DeviationFold, Variance, Variance::first, Variance::add, |variance| {
    (variance.squares / variance.count).sqrt()
});

/// Welford's.
#[derive(Clone)]
struct Variance {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Variance {
    fn first(value: f64) -> Self {
        Self { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }
}

/// What histograms do in an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Histograms {
    /// They count as what they are: one value.
    Count,
    /// They are summed, or averaged.
    Sum,
    Mean,
    /// They are left out, and that is told.
    Ignore,
}

impl Evaluator<'_> {
    pub(super) async fn aggregate(
        &self,
        aggregate: &Aggregating,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.room_for_steps(times)?;
        match aggregate.aggregator {
            Aggregator::Sum => self.fold::<SumFold>(aggregate, times, Histograms::Sum, sink).await,
            Aggregator::Avg => self.fold::<AvgFold>(aggregate, times, Histograms::Mean, sink).await,
            Aggregator::Count => self.fold::<CountFold>(aggregate, times, Histograms::Count, sink).await,
            Aggregator::Group => self.fold::<GroupFold>(aggregate, times, Histograms::Count, sink).await,
            Aggregator::Min => self.fold::<MinFold>(aggregate, times, Histograms::Ignore, sink).await,
            Aggregator::Max => self.fold::<MaxFold>(aggregate, times, Histograms::Ignore, sink).await,
            Aggregator::Stdvar => self.fold::<VarianceFold>(aggregate, times, Histograms::Ignore, sink).await,
            Aggregator::Stddev => {
                self.fold::<DeviationFold>(aggregate, times, Histograms::Ignore, sink).await
            }
            Aggregator::Topk
            | Aggregator::Bottomk
            | Aggregator::Quantile
            | Aggregator::Limitk
            | Aggregator::LimitRatio
            | Aggregator::CountValues => self.ranked(aggregate, times, sink).await,
        }
    }

    async fn fold<F: Fold>(
        &self,
        aggregate: &Aggregating,
        times: Times,
        histograms: Histograms,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let mut folding = Folding::<F> {
            evaluator: self,
            aggregate,
            steps: times.count,
            histograms,
            groups: Groups::new(Chosen::grouping(&aggregate.grouping)),
            rows: Vec::new(),
            held: self.budget.hold(),
        };
        self.produce(&aggregate.node, times, &mut folding).await?;
        let Folding { groups, rows, held: _held, .. } = folding;
        for (labels, row) in groups.labels.into_iter().zip(rows) {
            let drop_name = row.drop_name;
            let values = row.finish(self, aggregate, histograms);
            self.pacing.spent(times.count).await?;
            if !values.is_empty() {
                sink.push(Series { labels, drop_name, values })?;
            }
        }
        Ok(())
    }
}

/// The groups of an aggregation, in the order of their first series.
pub(super) struct Groups {
    chosen: Chosen,
    places: HashTable<usize>,
    pub(super) labels: Vec<Rc<Labels>>,
}

impl Groups {
    pub(super) fn new(chosen: Chosen) -> Self {
        Self { chosen, places: HashTable::new(), labels: Vec::new() }
    }

    /// The place of a series' group, and whether it is new.
    pub(super) fn place(&mut self, labels: &Labels) -> (usize, bool) {
        let hashed = self.chosen.hash(labels);
        let found = self.places.find(hashed, |at| self.chosen.are_same(&self.labels[*at], labels));
        if let Some(at) = found {
            return (*at, false);
        }
        let at = self.labels.len();
        self.labels.push(Rc::new(self.chosen.labels(labels)));
        self.places.insert_unique(hashed, at, |at| self.chosen.hash(&self.labels[*at]));
        (at, true)
    }
}

/// One group at all steps.
struct Row<F: Fold> {
    cells: Vec<Option<F::Cell>>,
    tallies: Option<Vec<Option<HistogramCell>>>,
    drop_name: bool,
}

/// A group's histograms at one step.
#[derive(Clone)]
enum HistogramCell {
    Tally(Box<Tally>, Hints),
    /// Some have bounds of their own and others don't.
    Incompatible,
}

struct Folding<'a, F: Fold> {
    evaluator: &'a Evaluator<'a>,
    aggregate: &'a Aggregating,
    steps: usize,
    histograms: Histograms,
    groups: Groups,
    rows: Vec<Row<F>>,
    held: Held<'a>,
}

impl<F: Fold> Sink for Folding<'_, F> {
    fn push(&mut self, series: Series) -> Result<(), QueryError> {
        let (at, is_new) = self.groups.place(&series.labels);
        if is_new {
            let cells_bytes = self.steps * size_of::<Option<F::Cell>>();
            let bytes = cells_bytes + labels_bytes(&self.groups.labels[at]) + size_of::<Row<F>>();
            self.held.add(self.steps, bytes)?;
            self.rows.push(Row { cells: vec![None; self.steps], tallies: None, drop_name: false });
        }
        let row = &mut self.rows[at];
        row.drop_name |= series.drop_name;
        for (cell, value) in row.cells.iter_mut().zip(&series.values.floats) {
            if !is_absent(*value) {
                fold_value::<F>(cell, *value);
            }
        }
        for (step, histogram) in series.values.histograms.iter().flatten().enumerate() {
            if let Some(histogram) = histogram {
                self.histogram(at, step, histogram, &series.labels)?;
            }
        }
        Ok(())
    }
}

#[inline]
fn fold_value<F: Fold>(cell: &mut Option<F::Cell>, value: f64) {
    match cell {
        Some(cell) => F::add(cell, value),
        None => *cell = Some(F::first(value)),
    }
}

impl<F: Fold> Folding<'_, F> {
    fn histogram(
        &mut self,
        at: usize,
        step: usize,
        histogram: &Histogram,
        labels: &Labels,
    ) -> Result<(), QueryError> {
        let span = self.aggregate.expr_span;
        let notes = self.evaluator.notes;
        let row = &mut self.rows[at];
        let is_mean = match self.histograms {
            Histograms::Count => {
                fold_value::<F>(&mut row.cells[step], 1.0);
                return Ok(());
            }
            Histograms::Ignore => {
                notes.add(Note::HistogramIgnoredInAggregation(self.aggregate.aggregator.text()), span);
                return Ok(());
            }
            Histograms::Sum => false,
            Histograms::Mean => true,
        };
        let steps = self.steps;
        let cell = &mut row.tallies.get_or_insert_with(|| vec![None; steps])[step];
        match cell {
            None => {
                self.held.add(1, 2 * histogram.bytes())?;
                let mut hints = Hints::default();
                hints.see(histogram);
                *cell = Some(HistogramCell::Tally(Box::new(Tally::first(histogram)), hints));
            }
            Some(HistogramCell::Incompatible) => {}
            Some(HistogramCell::Tally(tally, hints)) => {
                hints.see(histogram);
                let added = if is_mean { tally.add_to_mean(histogram) } else { tally.add(histogram) };
                match added {
                    Ok(Combined { is_reconciled: true, .. }) => {
                        notes.add(Note::MismatchedCustomBuckets(HistogramOperation::Aggregation), span);
                    }
                    Ok(Combined { is_reconciled: false, .. }) => {}
                    Err(Incompatible) => {
                        notes.add(Note::MixedExponentialCustom(metric_name(labels).to_owned()), span);
                        *cell = Some(HistogramCell::Incompatible);
                    }
                }
            }
        }
        Ok(())
    }
}

impl<F: Fold> Row<F> {
    fn finish(self, evaluator: &Evaluator<'_>, aggregate: &Aggregating, histograms: Histograms) -> Column {
        let finish = |cell: &Option<F::Cell>| cell.as_ref().map_or(ABSENT, F::finish);
        let mut values = Column { floats: self.cells.iter().map(finish).collect(), histograms: None };
        for (step, cell) in self.tallies.into_iter().flatten().enumerate() {
            let Some(cell) = cell else { continue };
            if !is_absent(values.floats[step]) {
                evaluator.notes.add(Note::MixedFloatsHistogramsAggregation, aggregate.expr_span);
                values.clear(step);
                continue;
            }
            let HistogramCell::Tally(tally, hints) = cell else { continue };
            if hints.collide() {
                evaluator
                    .notes
                    .add(Note::ResetCollision(HistogramOperation::Aggregation), aggregate.expr_span);
            }
            let is_mean = histograms == Histograms::Mean;
            values.set_histogram(step, Rc::new(if is_mean { tally.mean() } else { tally.sum() }));
        }
        values
    }
}

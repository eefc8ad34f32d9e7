//! Aggregations that fold each series into its group's row as it comes: only rows are held.

use std::rc::Rc;

use hashbrown::HashTable;
use silverback_model::Labels;

use super::Evaluator;
use super::fold::{Fold, by_fold};
use super::labels::{Chosen, bytes as labels_bytes, metric_name};
use super::series::{ABSENT, AT_ONCE, EvalSeries, SeriesColumn, Sink, is_absent};
use crate::ast::Aggregator;
use crate::budget::Held;
use crate::error::QueryError;
use crate::histogram::{Combined, FloatHistogram, Hints, HistogramAccumulator, Incompatible};
use crate::notes::{HistogramOperation, Note};
use crate::plan::{Aggregating, Times};

/// What histograms do in an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistogramHandling {
    /// They count as what they are: one value.
    Count,
    /// They are summed, or averaged.
    Sum,
    Mean,
    /// They are left out, and that is noted.
    Ignore,
}

impl HistogramHandling {
    const fn of(aggregator: Aggregator) -> Self {
        match aggregator {
            Aggregator::Sum => Self::Sum,
            Aggregator::Avg => Self::Mean,
            Aggregator::Count | Aggregator::Group | Aggregator::CountValues => Self::Count,
            Aggregator::Min
            | Aggregator::Max
            | Aggregator::Stddev
            | Aggregator::Stdvar
            | Aggregator::Topk
            | Aggregator::Bottomk
            | Aggregator::Quantile
            | Aggregator::Limitk
            | Aggregator::LimitRatio => Self::Ignore,
        }
    }
}

impl Evaluator<'_> {
    pub(super) async fn aggregate(
        &self,
        aggregate: &Aggregating,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.room_for_steps(times)?;
        by_fold!(
            aggregate.aggregator,
            self.fold(aggregate, times, sink),
            else self.ranked(aggregate, times, sink).await
        )
    }

    async fn fold<F: Fold>(
        &self,
        aggregate: &Aggregating,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let mut folding = Folding::<F>::new(self, aggregate, times, Groups::of(aggregate));
        if !self.folded_apart(aggregate, times, &mut folding).await? {
            self.produce(&aggregate.node, times, &mut folding).await?;
            self.settle(&mut folding).await?;
        }
        let Folding { groups, rows, histograms, held: _held, .. } = folding;
        for (labels, row) in groups.labels.into_iter().zip(rows) {
            let drop_name = row.drop_name;
            let values = row.finish(self, aggregate, histograms);
            self.pacing.spent(times.count).await?;
            if !values.is_empty() {
                sink.push(EvalSeries { labels, drop_name, values })?;
                self.settle(sink).await?;
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
    /// Of each its first series' labels, where they are wanted.
    pub(super) firsts: Option<Vec<Rc<Labels>>>,
}

impl Groups {
    pub(super) fn of(aggregate: &Aggregating) -> Self {
        let chosen = Chosen::grouping(&aggregate.grouping);
        Self { chosen, places: HashTable::new(), labels: Vec::new(), firsts: None }
    }

    /// With the labels of each group's first series.
    pub(super) fn with_firsts(aggregate: &Aggregating) -> Self {
        Self { firsts: Some(Vec::new()), ..Self::of(aggregate) }
    }

    /// The place of a series' group, and whether it is new.
    pub(super) fn place(&mut self, labels: &Rc<Labels>) -> (usize, bool) {
        let hashed = self.chosen.hash(labels);
        let found = self.places.find(hashed, |at| self.chosen.are_same(&self.labels[*at], labels));
        if let Some(at) = found {
            return (*at, false);
        }
        let at = self.labels.len();
        self.labels.push(Rc::new(self.chosen.labels(labels)));
        if let Some(firsts) = &mut self.firsts {
            firsts.push(Rc::clone(labels));
        }
        self.places.insert_unique(hashed, at, |at| self.chosen.hash(&self.labels[*at]));
        (at, true)
    }

    /// What a group's labels take, and those of its first series where they are kept.
    pub(super) fn bytes(&self, at: usize) -> usize {
        let first = self.firsts.as_ref().map_or(0, |firsts| labels_bytes(&firsts[at]));
        first + labels_bytes(&self.labels[at])
    }
}

/// One group at all steps.
pub(super) struct GroupRow<F: Fold> {
    pub(super) cells: Vec<Option<F::Cell>>,
    pub(super) tallies: Option<Vec<Option<HistogramCell>>>,
    pub(super) drop_name: bool,
}

/// A group's histograms at one step.
#[derive(Clone)]
pub(super) enum HistogramCell {
    Tally(Box<HistogramAccumulator>, Hints),
    /// Some have bounds of their own and others don't.
    Incompatible,
}

pub(super) struct Folding<'a, F: Fold> {
    evaluator: &'a Evaluator<'a>,
    aggregate: &'a Aggregating,
    steps: usize,
    pub(super) histograms: HistogramHandling,
    pub(super) groups: Groups,
    pub(super) rows: Vec<GroupRow<F>>,
    /// The series with histograms that came last, its row, and the first step of it that isn't folded.
    left: Option<(EvalSeries, usize, usize)>,
    pub(super) held: Held<'a>,
}

impl<'a, F: Fold> Folding<'a, F> {
    pub(super) fn new(
        evaluator: &'a Evaluator<'a>,
        aggregate: &'a Aggregating,
        times: Times,
        groups: Groups,
    ) -> Self {
        Self {
            evaluator,
            aggregate,
            steps: times.count,
            histograms: HistogramHandling::of(aggregate.aggregator),
            groups,
            rows: Vec::new(),
            left: None,
            held: evaluator.budget.hold(),
        }
    }

    /// What the row of a group takes, in samples and bytes.
    fn size(&self, at: usize) -> (usize, usize) {
        let cells_bytes = self.steps * size_of::<Option<F::Cell>>();
        (self.steps, cells_bytes + self.groups.bytes(at) + size_of::<GroupRow<F>>())
    }
}

impl<F: Fold> Sink for Folding<'_, F> {
    fn push(&mut self, series: EvalSeries) -> Result<(), QueryError> {
        while self.go_on()? {}
        let (at, is_new) = self.groups.place(&series.labels);
        if is_new {
            let (samples, bytes) = self.size(at);
            self.held.add(samples, bytes)?;
            self.rows.push(GroupRow { cells: vec![None; self.steps], tallies: None, drop_name: false });
        }
        let row = &mut self.rows[at];
        row.drop_name |= series.drop_name;
        for (cell, value) in row.cells.iter_mut().zip(&series.values.floats) {
            if !is_absent(*value) {
                fold_value::<F>(cell, *value);
            }
        }
        if series.values.histograms.is_some() {
            self.left = Some((series, at, 0));
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<bool, QueryError> {
        let Some((series, at, first)) = self.left.take() else { return Ok(false) };
        let mut work = 0;
        for step in first..self.steps {
            if let Some(histogram) = series.values.histogram(step) {
                work += self.histogram(at, step, histogram, &series.labels)?;
            }
            if work >= AT_ONCE {
                self.left = Some((series, at, step + 1));
                return Ok(true);
            }
        }
        Ok(false)
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
    /// Takes a histogram in, and returns how much work that was, in values' worth of it.
    fn histogram(
        &mut self,
        at: usize,
        step: usize,
        histogram: &FloatHistogram,
        labels: &Labels,
    ) -> Result<usize, QueryError> {
        let row = &mut self.rows[at];
        let is_mean = match self.histograms {
            HistogramHandling::Count => {
                fold_value::<F>(&mut row.cells[step], 1.0);
                return Ok(1);
            }
            HistogramHandling::Ignore => {
                let note = Note::HistogramIgnoredInAggregation(self.aggregate.aggregator.as_str());
                self.evaluator.notes.add(note, self.aggregate.expr_span);
                return Ok(1);
            }
            HistogramHandling::Sum => false,
            HistogramHandling::Mean => true,
        };
        let tallies = match &mut row.tallies {
            Some(tallies) => tallies,
            none => {
                self.held.add(0, self.steps * size_of::<Option<HistogramCell>>())?;
                none.insert(vec![None; self.steps])
            }
        };
        let cell = &mut tallies[step];
        let bytes_before = cell.as_ref().map_or(0, HistogramCell::bytes);
        match cell {
            None => {
                let mut hints = Hints::default();
                hints.see(histogram);
                self.held.add(1, 0)?;
                *cell = Some(HistogramCell::Tally(Box::new(HistogramAccumulator::first(histogram)), hints));
            }
            Some(HistogramCell::Incompatible) => {}
            Some(HistogramCell::Tally(tally, hints)) => {
                hints.see(histogram);
                let added = if is_mean { tally.add_to_mean(histogram) } else { tally.add(histogram) };
                if !note_combined(added, labels, self.evaluator, self.aggregate) {
                    *cell = Some(HistogramCell::Incompatible);
                }
            }
        }
        let (bytes, work) = cell.as_ref().map_or((0, 0), |cell| (cell.bytes(), cell.work()));
        self.held.add(0, bytes.saturating_sub(bytes_before))?;
        Ok(work)
    }
}

/// Notes what was seen when histograms, of these labels among others, became one; `false`: they can't.
fn note_combined(
    combined: Result<Combined, Incompatible>,
    labels: &Labels,
    evaluator: &Evaluator<'_>,
    aggregate: &Aggregating,
) -> bool {
    let note = match combined {
        Ok(Combined { is_reconciled: false, .. }) => return true,
        Ok(Combined { is_reconciled: true, .. }) => {
            Note::MismatchedCustomBuckets(HistogramOperation::Aggregation)
        }
        Err(Incompatible) => Note::MixedExponentialCustom(metric_name(labels).to_owned()),
    };
    evaluator.notes.add(note, aggregate.expr_span);
    combined.is_ok()
}

impl HistogramCell {
    /// Takes the histograms of another part, of which `first` has the labels.
    pub(super) fn merge(
        &mut self,
        other: Self,
        first: &Labels,
        evaluator: &Evaluator<'_>,
        aggregate: &Aggregating,
    ) {
        let is_one = match (&mut *self, other) {
            (Self::Tally(tally, hints), Self::Tally(other, other_hints)) => {
                hints.merge(other_hints);
                let merged = match HistogramHandling::of(aggregate.aggregator) {
                    HistogramHandling::Mean => tally.merge_mean(*other),
                    HistogramHandling::Sum | HistogramHandling::Count | HistogramHandling::Ignore => {
                        tally.merge(&other)
                    }
                };
                note_combined(merged, first, evaluator, aggregate)
            }
            (Self::Incompatible, _) | (_, Self::Incompatible) => false,
        };
        if !is_one {
            *self = Self::Incompatible;
        }
    }

    /// What it takes, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Tally(tally, _) => tally.bytes(),
            Self::Incompatible => 0,
        }
    }

    /// What it takes to merge it, in values' worth of work.
    pub(super) fn work(&self) -> usize {
        match self {
            Self::Tally(tally, _) => 16 + 2 * tally.buckets(),
            Self::Incompatible => 1,
        }
    }
}

impl<F: Fold> GroupRow<F> {
    fn finish(
        self,
        evaluator: &Evaluator<'_>,
        aggregate: &Aggregating,
        histograms: HistogramHandling,
    ) -> SeriesColumn {
        let finish = |cell: &Option<F::Cell>| cell.as_ref().map_or(ABSENT, F::finish);
        let mut values = SeriesColumn { floats: self.cells.iter().map(finish).collect(), histograms: None };
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
            let is_mean = histograms == HistogramHandling::Mean;
            values.set_histogram(step, Rc::new(if is_mean { tally.mean() } else { tally.sum() }));
        }
        values
    }
}

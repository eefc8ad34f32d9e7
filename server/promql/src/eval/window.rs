//! Functions over ranges of samples: for each series one pass over its samples, with a window that slides from step
//! to step.

use std::rc::Rc;

use hashbrown::HashSet;
use silverback_model::Labels;

use super::labels::{metric_name, wide_hash, without_name};
use super::series::{EvalSeries, SeriesColumn, Sink};
use super::{Evaluator, Samples, over_time, rate, strides};
use crate::ast::Edge;
use crate::budget::Budget;
use crate::data::SAMPLE_BYTES;
use crate::error::{QueryError, same_labelset};
use crate::functions::Function;
use crate::histogram::FloatHistogram;
use crate::notes::Note;
use crate::plan::{Hinting, RangeFunction, SourceKind, Times};

/// The samples that a step sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepView<'a> {
    pub(super) float_times: &'a [i64],
    pub(super) floats: &'a [f64],
    pub(super) histogram_times: &'a [i64],
    pub(super) histograms: &'a [Rc<FloatHistogram>],
    /// The range's start, which isn't in it.
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    /// The step's own time.
    pub(super) step_ms: i64,
    /// Among these floats, the places of those below the one before them.
    pub(super) resets: &'a [usize],
    /// The first float's place, as resets count.
    pub(super) first: usize,
}

/// What a function gives at a step.
#[derive(Debug, Clone)]
pub(super) enum StepValue {
    Nothing,
    Float(f64),
    Histogram(Rc<FloatHistogram>),
}

/// What a function has beside a view.
pub(super) struct FunctionContext<'a> {
    pub(super) evaluator: &'a Evaluator<'a>,
    pub(super) window: &'a RangeFunction,
    pub(super) labels: &'a Labels,
    /// The numbers among its arguments at this step.
    pub(super) parameters: &'a [f64],
}

impl FunctionContext<'_> {
    pub(super) fn metric(&self) -> String {
        metric_name(self.labels).to_owned()
    }

    pub(super) fn note(&self, note: Note) {
        self.evaluator.notes.add(note, self.window.source.span);
    }

    pub(super) fn range_s(&self) -> f64 {
        self.window.source.range_ms as f64 / 1000.0
    }
}

/// Where the edges of each step's window are, in a series.
#[derive(Debug, Default)]
struct Edges {
    floats: (usize, usize),
    histograms: (usize, usize),
    resets: (usize, usize),
}

impl Evaluator<'_> {
    pub(super) async fn window(
        &self,
        window: &RangeFunction,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.room_for_steps(times)?;
        check_edge(window)?;
        let mut parameters = Vec::new();
        for parameter in &window.parameters {
            parameters.push(self.scalar(parameter, times).await?);
        }
        over_time::check_parameters(window, &parameters)?;
        let mut output = Output::new(self, window, times, sink);
        let (mut samples, mut held) = (Samples::default(), self.budget.hold());
        match &window.source.kind {
            SourceKind::Select(select) => {
                let (back_ms, ahead_ms) = self.beyond(window);
                let shift = window.source.shift;
                let after_ms = shift.of(times.start_ms).saturating_sub(window.source.range_ms + back_ms);
                let until_ms = shift.of(times.end_ms()).saturating_add(ahead_ms);
                while let Some(fetched) = self.source.next(*select).await? {
                    samples.read(&fetched, after_ms, until_ms, &mut held, &self.pacing).await?;
                    if window.source.hints == Hinting::Found {
                        samples.find_resets();
                    }
                    samples.drop_stale(&self.pacing).await?;
                    self.budget.count_read(samples.len());
                    let labels = fetched.labels;
                    self.slide(window, times, &parameters, &samples, labels, false, &mut output).await?;
                    samples.clear();
                }
            }
            SourceKind::Subquery { node, times: inner } => {
                // Its values count where a step's range has them.
                let before = self.queryable.apart();
                let mut collected = self.collect(node, *inner).await?;
                self.queryable.resume(before);
                for series in std::mem::take(&mut collected.series) {
                    from_column(&mut samples, &series.values, *inner);
                    self.pacing.spent(inner.count).await?;
                    held.release_all();
                    held.add(0, samples.len() * SAMPLE_BYTES)?;
                    collected.release(&series);
                    let EvalSeries { labels, drop_name, .. } = series;
                    self.slide(window, times, &parameters, &samples, labels, drop_name, &mut output).await?;
                }
            }
        }
        output.finish()
    }

    /// What a window reads before its range and after it.
    fn beyond(&self, window: &RangeFunction) -> (i64, i64) {
        let lookback_ms = self.plan.options.lookback_ms;
        match window.source.edge {
            Edge::Plain => (0, 0),
            Edge::Anchored => (lookback_ms, 0),
            Edge::Smoothed => (lookback_ms, lookback_ms),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one series with all that its steps need")]
    async fn slide(
        &self,
        window: &RangeFunction,
        times: Times,
        parameters: &[Vec<f64>],
        samples: &Samples,
        labels: Rc<Labels>,
        drop_name: bool,
        output: &mut Output<'_, '_>,
    ) -> Result<(), QueryError> {
        let mut held = self.budget.hold();
        // Their bytes are held by whoever has them.
        let weights = self.queryable.counts().then(|| Weights::of(&samples.histograms));
        let beside_bytes = strides::kept_bytes(window.function, samples.len());
        held.add(samples.len(), weights.as_ref().map_or(0, Weights::bytes) + beside_bytes)?;
        if samples.histograms.is_empty()
            && let Some(values) = self.strides(window, times, parameters, samples).await?
        {
            self.pacing.spent(samples.len()).await?;
            output.push(labels, drop_name, values)?;
            return self.settle(output.sink).await;
        }
        let (back_ms, ahead_ms) = self.beyond(window);
        let resets = match rate::wants_resets(window.function) {
            true => rate::resets(&samples.floats, &mut held, &self.pacing).await?,
            false => Vec::new(),
        };
        let mut edges = Edges::default();
        let mut values = SeriesColumn::absent(times.count);
        let mut arguments = vec![0.0; parameters.len()];
        let mut work = samples.len();
        for (step, step_ms) in times.all().enumerate() {
            let end_ms = window.source.shift.of(step_ms);
            let start_ms = end_ms.saturating_sub(window.source.range_ms);
            edges.slide(samples, &resets, start_ms.saturating_sub(back_ms), end_ms.saturating_add(ahead_ms));
            let view = edges.view(samples, &resets, start_ms, end_ms, step_ms);
            if view.floats.is_empty() && view.histograms.is_empty() {
                continue;
            }
            if let Some(weights) = &weights {
                self.queryable.add(step, view.floats.len() as u64 + weights.between(edges.histograms));
            }
            for (argument, parameter) in arguments.iter_mut().zip(parameters) {
                *argument = parameter[step];
            }
            let context =
                FunctionContext { evaluator: self, window, labels: &labels, parameters: &arguments };
            match over_time::apply(&context, &view) {
                StepValue::Nothing => {}
                StepValue::Float(value) => values.floats[step] = value,
                StepValue::Histogram(histogram) => values.set_histogram(step, histogram),
            }
            work += over_time::work(window.function, &view);
            if work > 2048 {
                self.pacing.spent(work).await?;
                work = 0;
            }
        }
        self.pacing.spent(work + times.count).await?;
        output.push(labels, drop_name, values)?;
        self.settle(output.sink).await
    }
}

/// As how many samples histograms count, those before each in front.
struct Weights(Vec<u64>);

impl Weights {
    fn of(histograms: &[Rc<FloatHistogram>]) -> Self {
        let sums = histograms.iter().scan(0, |sum, histogram| {
            *sum += histogram.weight();
            Some(*sum)
        });
        Self(sums.collect())
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }

    fn between(&self, (first, end): (usize, usize)) -> u64 {
        let before = |place: usize| place.checked_sub(1).map_or(0, |last| self.0[last]);
        before(end) - before(first)
    }
}

impl Edges {
    fn slide(&mut self, samples: &Samples, resets: &[usize], after_ms: i64, until_ms: i64) {
        advance(&mut self.floats, &samples.float_times, after_ms, until_ms);
        advance(&mut self.histograms, &samples.histogram_times, after_ms, until_ms);
        // A reset counts where the float before it is in the window too.
        let (first, end) = self.floats;
        self.resets.0 += resets[self.resets.0..].iter().take_while(|place| **place <= first).count();
        self.resets.1 = self.resets.1.max(self.resets.0);
        self.resets.1 += resets[self.resets.1..].iter().take_while(|place| **place < end).count();
    }

    fn view<'a>(
        &self,
        samples: &'a Samples,
        resets: &'a [usize],
        start_ms: i64,
        end_ms: i64,
        step_ms: i64,
    ) -> StepView<'a> {
        StepView {
            float_times: &samples.float_times[self.floats.0..self.floats.1],
            floats: &samples.floats[self.floats.0..self.floats.1],
            histogram_times: &samples.histogram_times[self.histograms.0..self.histograms.1],
            histograms: &samples.histograms[self.histograms.0..self.histograms.1],
            start_ms,
            end_ms,
            step_ms,
            resets: &resets[self.resets.0..self.resets.1],
            first: self.floats.0,
        }
    }
}

/// Moves a window's edges on: the first sample after a time, and the first after another.
#[inline]
fn advance((first, end): &mut (usize, usize), times: &[i64], after_ms: i64, until_ms: i64) {
    while times.get(*first).is_some_and(|time| *time <= after_ms) {
        *first += 1;
    }
    *end = (*end).max(*first);
    while times.get(*end).is_some_and(|time| *time <= until_ms) {
        *end += 1;
    }
}

fn from_column(samples: &mut Samples, values: &SeriesColumn, times: Times) {
    samples.clear();
    for (step, at_ms) in times.all().enumerate() {
        if let Some(histogram) = values.histogram(step) {
            samples.push_histogram(at_ms, histogram.without_reset_hint());
        } else if values.is_present(step) {
            samples.push_float(at_ms, values.floats[step]);
        }
    }
}

fn check_edge(window: &RangeFunction) -> Result<(), QueryError> {
    let (name, allowed) = match window.source.edge {
        Edge::Plain => return Ok(()),
        Edge::Anchored => ("anchored", &["changes", "delta", "increase", "rate", "resets"][..]),
        Edge::Smoothed => ("smoothed", &["delta", "increase", "rate"][..]),
    };
    let function = window.function.name();
    match allowed.contains(&function) {
        true => Ok(()),
        false => Err(QueryError::execution(format!(
            "{name} modifier can only be used with: {} - not with {function}",
            allowed.join(", ")
        ))),
    }
}

/// Where a window's series go.
struct Output<'a, 's> {
    evaluator: &'a Evaluator<'a>,
    window: &'a RangeFunction,
    times: Times,
    sink: &'s mut dyn Sink,
    seen: SeenLabelSets<'a>,
    /// For `absent_over_time`: at which steps some series has a value.
    found: Vec<bool>,
}

impl<'a, 's> Output<'a, 's> {
    fn new(
        evaluator: &'a Evaluator<'a>,
        window: &'a RangeFunction,
        times: Times,
        sink: &'s mut dyn Sink,
    ) -> Self {
        let is_absent = window.function == Function::AbsentOverTime;
        let found = if is_absent { vec![false; times.count] } else { Vec::new() };
        Self { evaluator, window, times, sink, seen: SeenLabelSets::new(evaluator.budget), found }
    }

    fn push(&mut self, labels: Rc<Labels>, drop_name: bool, values: SeriesColumn) -> Result<(), QueryError> {
        if values.is_empty() {
            return Ok(());
        }
        if self.window.function == Function::AbsentOverTime {
            for (step, found) in self.found.iter_mut().enumerate() {
                *found |= values.is_present(step);
            }
            return Ok(());
        }
        self.note_counter(&labels, &values);
        let mut series = EvalSeries { labels, drop_name, values };
        if !matches!(self.window.function, Function::LastOverTime | Function::FirstOverTime) {
            series.lose_name(self.evaluator.is_delayed());
        } else if drop_name && !self.evaluator.is_delayed() {
            series.labels = without_name(&series.labels);
        }
        if !self.evaluator.is_delayed() && !self.window.has_one_name {
            self.seen.check(&series.labels)?;
        }
        self.sink.push(series)
    }

    fn note_counter(&self, labels: &Labels, values: &SeriesColumn) {
        if !matches!(self.window.function, Function::Rate | Function::Increase) {
            return;
        }
        let name = metric_name(labels);
        let is_counter = ["_total", "_sum", "_count", "_bucket"].iter().any(|suffix| name.ends_with(suffix));
        let has_floats = || values.floats.iter().any(|value| !super::series::is_absent(*value));
        if !name.is_empty() && !is_counter && has_floats() {
            self.evaluator.notes.add(Note::PossibleNonCounter(name.to_owned()), self.window.first_span);
        }
    }

    fn finish(self) -> Result<(), QueryError> {
        if self.window.function != Function::AbsentOverTime || self.found.iter().all(|found| *found) {
            return Ok(());
        }
        let mut values = SeriesColumn::absent(self.times.count);
        for (value, _) in values.floats.iter_mut().zip(&self.found).filter(|(_, found)| !**found) {
            *value = 1.0;
        }
        let labels = Rc::new(self.window.absent_labels.clone());
        self.sink.push(EvalSeries { labels, drop_name: false, values })
    }
}

/// Label sets that were seen, to find the first that comes again: by 128 bits that nobody can choose, so that what is
/// folded is not held for its labels.
struct SeenLabelSets<'a> {
    sets: HashSet<u128>,
    held: crate::budget::Held<'a>,
}

impl<'a> SeenLabelSets<'a> {
    fn new(budget: &'a Budget) -> Self {
        Self { sets: HashSet::new(), held: budget.hold() }
    }

    fn check(&mut self, labels: &Labels) -> Result<(), QueryError> {
        self.held.add(0, 2 * size_of::<u128>())?;
        match self.sets.insert(wide_hash(labels)) {
            true => Ok(()),
            false => Err(same_labelset()),
        }
    }
}

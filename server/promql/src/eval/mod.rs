//! Evaluation: each part of a plan gives its series one by one, with the values of all steps, to what takes them.
//! Nothing is held that isn't needed: an aggregation folds each series as it comes.

mod abreast;
mod aggregate;
mod apart;
mod binary;
mod buckets;
mod calls;
mod chain;
mod chosen;
mod classic;
mod counted;
mod dates;
mod finish;
mod fold;
mod labels;
mod matched;
pub(crate) mod math;
mod natural;
mod over_time;
mod quantile;
mod ranked;
mod rate;
mod rate_histograms;
mod relabel;
mod select;
mod series;
mod smoothed;
mod strides;
mod window;
mod window_histograms;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::answer::Answer;
use crate::ast::Type;
use crate::budget::{Budget, Held, Pace, Pacing};
use crate::data::Samples;
use crate::error::QueryError;
use crate::notes::Notes;
use crate::plan::{Combining, Node, Times};
use crate::queryable::{Queryable, QueryableSamples};
use crate::share::{PartialRows, Share};
use crate::source::Source;
use crate::{Plan, SampleCounting};
use series::{AT_ONCE, Collected, EvalSeries, Merged, SeriesColumn, Sink, Through};

/// Evaluates a plan over what a source gives for it.
pub(crate) async fn evaluate(
    plan: &Plan,
    source: &dyn Source,
    budget: &Budget,
    pace: &dyn Pace,
) -> Result<Answer, QueryError> {
    let mut of_steps = budget.hold();
    let (notes, queryable) = (Notes::default(), begin_counting(plan, plan.times, &mut of_steps)?);
    let pacing = Pacing::new(pace);
    let evaluator = Evaluator { plan, source, budget, pacing, notes: &notes, queryable: &queryable };
    let (value, held) = evaluator.whole().await?;
    let (warnings, infos) = notes.in_text(plan.query.text());
    let bytes = held.leave() + of_steps.leave();
    Ok(Answer { value, warnings, infos, bytes, samples: queryable.into_counted() })
}

/// Folds one of a plan's shares.
pub(crate) async fn fold(
    plan: &Plan,
    share: Share,
    source: &dyn Source,
    budget: &Budget,
    pace: &dyn Pace,
) -> Result<PartialRows, QueryError> {
    let mut of_steps = budget.hold();
    let (notes, queryable) = (Notes::default(), begin_counting(plan, share.times, &mut of_steps)?);
    let pacing = Pacing::new(pace);
    let evaluator = Evaluator { plan, source, budget, pacing, notes: &notes, queryable: &queryable };
    let rows = evaluator.rows_of(&plan.shares[share.number], share.times).await?;
    let (_, step_bytes) = of_steps.taken();
    Ok(PartialRows {
        notes: notes.into_kept(),
        bytes: rows.bytes + step_bytes,
        samples_read: budget.samples_read(),
        samples_peak: budget.samples_peak(),
        queryable: queryable.into_counted(),
        ..rows
    })
}

/// Room for a count at each step, where it is wanted, and none of them counted yet.
fn begin_counting(plan: &Plan, times: Times, held: &mut Held<'_>) -> Result<Queryable, QueryError> {
    let counting = plan.options.counting;
    if counting == SampleCounting::PerStep {
        held.add(0, QueryableSamples::bytes_of(times.count))?;
    }
    Ok(Queryable::begin(times, counting))
}

/// A step of an evaluation in progress.
type Under<'f, T> = Pin<Box<dyn Future<Output = Result<T, QueryError>> + 'f>>;

struct Evaluator<'a> {
    plan: &'a Plan,
    source: &'a dyn Source,
    budget: &'a Budget,
    pacing: Pacing<'a>,
    notes: &'a Notes,
    queryable: &'a Queryable,
}

impl Evaluator<'_> {
    fn is_delayed(&self) -> bool {
        self.plan.options.delayed_name_removal
    }

    /// Gives a vector's series to a sink.
    fn produce<'f>(&'f self, node: &'f Node, times: Times, sink: &'f mut dyn Sink) -> Under<'f, ()> {
        match node {
            Node::Select(moment) => Box::pin(self.select(moment, times, sink)),
            Node::Window(window) => Box::pin(self.window(window, times, sink)),
            Node::Call(call) => Box::pin(self.call(call, times, sink)),
            Node::Aggregate(aggregate) => Box::pin(self.aggregate(aggregate, times, sink)),
            Node::Binary(binary) => Box::pin(self.binary(binary, times, sink)),
            Node::Negate(inner) => Box::pin(self.negate(inner, times, sink)),
            Node::Invariant(inner) => Box::pin(self.invariant(inner, times, sink)),
            Node::Number(_) | Node::Text(_) | Node::Time | Node::Samples(_) => {
                Box::pin(std::future::ready(Err(QueryError::execution("the expression gives no vector"))))
            }
        }
    }

    /// A number at each step.
    fn scalar<'f>(&'f self, node: &'f Node, times: Times) -> Under<'f, Vec<f64>> {
        Box::pin(async move {
            self.room_for_steps(times)?;
            match node {
                Node::Number(value) => Ok(vec![*value; times.count]),
                Node::Time => Ok(times.all().map(|at_ms| at_ms as f64 / 1000.0).collect()),
                Node::Invariant(inner) => {
                    let before = self.queryable.apart();
                    let value = self.scalar(inner, times.first()).await?;
                    self.count_at_each(times, before);
                    Ok(vec![value[0]; times.count])
                }
                Node::Negate(inner) => {
                    let mut values = self.scalar(inner, times).await?;
                    values.iter_mut().for_each(|value| *value = -*value);
                    Ok(values)
                }
                Node::Binary(binary) => {
                    let (first, links) = binary.chain();
                    self.scalars(first, &links, times).await
                }
                Node::Call(call) => self.scalar_call(call, times).await,
                Node::Text(_) | Node::Samples(_) | Node::Select(_) | Node::Window(_) | Node::Aggregate(_) => {
                    Err(QueryError::execution("the expression gives no scalar"))
                }
            }
        })
    }

    /// A column of these steps must fit the budget before any is made.
    fn room_for_steps(&self, times: Times) -> Result<(), QueryError> {
        self.budget.hold().add(times.count, times.count.saturating_mul(size_of::<f64>()))
    }

    /// A chain of operators on scalars, from its first operand on.
    async fn scalars(
        &self,
        first: &Node,
        links: &[&Combining],
        times: Times,
    ) -> Result<Vec<f64>, QueryError> {
        let mut left = self.scalar(first, times).await?;
        for link in links {
            let right = self.scalar(&link.right, times).await?;
            for (left, right) in left.iter_mut().zip(right) {
                let result = math::operate(link.operator, *left, right);
                *left = match link.operator.is_comparison() {
                    true => f64::from(u8::from(result.is_some())),
                    false => result.unwrap_or(f64::NAN),
                };
            }
            self.pacing.spent(times.count).await?;
        }
        Ok(left)
    }

    /// All series of a vector.
    async fn collect(&self, node: &Node, times: Times) -> Result<Collected<'_>, QueryError> {
        let mut collected = Collected::new(self.budget);
        self.produce(node, times, &mut collected).await?;
        Ok(collected)
    }

    async fn negate(&self, inner: &Node, times: Times, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let is_delayed = self.is_delayed();
        let negated = |mut series: EvalSeries| {
            series.lose_name(is_delayed);
            for value in series.values.floats.iter_mut().filter(|value| !series::is_absent(**value)) {
                *value = -*value;
            }
            for histogram in series.values.histograms.iter_mut().flatten().flatten() {
                *histogram = Rc::new(histogram.multiplied(-1.0));
            }
            series
        };
        if is_delayed {
            let mut take = Through::new(sink, |series| Some(negated(series)));
            return self.produce(inner, times, &mut take).await;
        }
        let mut merged = Merged::new(self.budget);
        self.produce(inner, times, &mut |series| merged.push(negated(series))).await?;
        self.pour(merged.into_series(), sink).await
    }

    async fn invariant(&self, inner: &Node, times: Times, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let repeated = |series: EvalSeries| {
            let values: SeriesColumn = series.values.repeated(times.count);
            Some(EvalSeries { values, ..series })
        };
        let mut repeat = Through::new(sink, repeated);
        let before = self.queryable.apart();
        self.produce(inner, times.first(), &mut repeat).await?;
        self.count_at_each(times, before);
        Ok(())
    }

    /// What was counted apart, at one step, is what each step sees.
    fn count_at_each(&self, times: Times, before: QueryableSamples) {
        let samples = self.queryable.resume(before);
        self.queryable.add_steps(std::iter::repeat_n(samples, times.count));
    }

    /// Gives what was collected to a sink.
    async fn pour(&self, mut collected: Collected<'_>, sink: &mut dyn Sink) -> Result<(), QueryError> {
        for series in std::mem::take(&mut collected.series) {
            let work = series.values.len();
            // The sink counts it from here on.
            collected.release(&series);
            sink.push(series)?;
            self.settle(sink).await?;
            self.pacing.spent(work).await?;
        }
        Ok(())
    }

    /// Lets a sink do all that there is to do for a series that it took.
    async fn settle(&self, sink: &mut dyn Sink) -> Result<(), QueryError> {
        while sink.go_on()? {
            self.pacing.spent(AT_ONCE).await?;
        }
        Ok(())
    }

    /// What the root gives.
    fn kind(&self) -> Type {
        self.plan.query.kind()
    }
}

//! Aggregations with a parameter: what it may be, and those that need all values of a group at a step: quantiles, counts
//! of values.

use std::rc::Rc;

use super::Evaluator;
use super::aggregate::Groups;
use super::calls::text;
use super::labels::{Chosen, set};
use super::math::{nan_first, quantile_of_sorted};
use super::series::{AT_ONCE, Collected, Column, Merged, Series, Sink, is_absent};
use crate::ast::{Aggregator, Grouping};
use crate::error::QueryError;
use crate::notes::Note;
use crate::number::{format_float, quote};
use crate::plan::{Aggregating, Times};
use crate::share::PartialRows;
use crate::sort::sort_numbers;

impl Evaluator<'_> {
    pub(super) async fn ranked(
        &self,
        aggregate: &Aggregating,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        if aggregate.aggregator == Aggregator::CountValues {
            return self.count_values(aggregate, times, sink).await;
        }
        let Some(parameter) = &aggregate.parameter else {
            return Err(QueryError::execution("the aggregation needs a parameter"));
        };
        let parameters = self.scalar(parameter, times).await?;
        if aggregate.aggregator.is_choosing() {
            check_counts(aggregate.aggregator, &parameters)?;
            self.note_ratios(aggregate, &parameters);
            return self.chosen(aggregate, times, &parameters, sink).await;
        }
        let collected = self.collect(&aggregate.node, times).await?;
        let mut groups = Groups::new(Chosen::grouping(&aggregate.grouping));
        let mut members: Vec<Vec<usize>> = Vec::new();
        for (i, series) in collected.series.iter().enumerate() {
            let (at, is_new) = groups.place(&series.labels);
            if is_new {
                members.push(Vec::new());
            }
            members[at].push(i);
            self.pacing.spent(8).await?;
        }
        self.quantiles(aggregate, times, &parameters, &collected, groups, &members, sink).await
    }

    /// What is chosen in a part.
    pub(super) async fn ranked_rows(
        &self,
        aggregate: &Aggregating,
        times: Times,
    ) -> Result<Option<PartialRows>, QueryError> {
        match &aggregate.parameter {
            Some(parameter) if aggregate.aggregator.is_choosing() => {
                let parameters = self.scalar(parameter, times).await?;
                check_counts(aggregate.aggregator, &parameters)?;
                self.chosen_rows(aggregate, times, &parameters).await.map(Some)
            }
            _none => Err(QueryError::execution("the aggregation isn't folded in parts")),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an aggregation's parts")]
    async fn quantiles(
        &self,
        aggregate: &Aggregating,
        times: Times,
        parameters: &[f64],
        collected: &Collected<'_>,
        groups: Groups,
        members: &[Vec<usize>],
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let (least, most) = extremes(parameters);
        let nan = parameters.iter().copied().find(|q| q.is_nan());
        for q in [nan, most.filter(|q| *q > 1.0), least.filter(|q| *q < 0.0)].into_iter().flatten() {
            self.notes.add(Note::InvalidQuantile(q), aggregate.parameter_span);
        }
        let members_max = members.iter().map(Vec::len).max().unwrap_or_default();
        let mut held = self.budget.hold();
        // The values of one step, and as many again where they are sorted.
        held.add(0, 2 * members_max * size_of::<f64>())?;
        let (mut values, mut merged) = (Vec::new(), Vec::new());
        for (labels, members) in groups.labels.into_iter().zip(members) {
            let mut column = Column::absent(times.count);
            for (step, q) in parameters.iter().enumerate() {
                values.clear();
                for members in members.chunks(AT_ONCE) {
                    for series in members.iter().map(|at| &collected.series[*at]) {
                        let value = series.values.floats[step];
                        if !is_absent(value) {
                            values.push(value);
                        } else if series.values.histogram(step).is_some() {
                            self.notes
                                .add(Note::HistogramIgnoredInAggregation("quantile"), aggregate.expr_span);
                        }
                    }
                    self.pacing.spent(members.len()).await?;
                }
                if !values.is_empty() {
                    sort_numbers(&mut values, &mut merged, nan_first, &self.pacing).await?;
                    column.floats[step] = quantile_of_sorted(*q, &values);
                }
            }
            let drop_name = members.iter().any(|at| collected.series[*at].drop_name);
            if !column.is_empty() {
                sink.push(Series { labels, drop_name, values: column })?;
                self.settle(sink).await?;
            }
        }
        Ok(())
    }

    fn note_ratios(&self, aggregate: &Aggregating, parameters: &[f64]) {
        if aggregate.aggregator != Aggregator::LimitRatio {
            return;
        }
        let (least, most) = extremes(parameters);
        for (given, used) in
            [(most.filter(|ratio| *ratio > 1.0), 1.0), (least.filter(|ratio| *ratio < -1.0), -1.0)]
        {
            if let Some(given) = given {
                self.notes.add(Note::InvalidRatio { given, used }, aggregate.parameter_span);
            }
        }
    }

    async fn count_values(
        &self,
        aggregate: &Aggregating,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let label = aggregate.parameter.as_ref().and_then(text).unwrap_or_default();
        if label.is_empty() {
            return Err(QueryError::execution(format!("invalid label name {}", quote(label))));
        }
        let mut grouping: Grouping = aggregate.grouping.clone();
        if !grouping.without {
            grouping.labels.push(label.into());
        }
        let chosen = Chosen::grouping(&grouping);
        let mut counts = Merged::new(self.budget);
        let mut take = |series: Series| {
            for step in 0..times.count {
                let value = match series.values.histogram(step) {
                    Some(histogram) => histogram.to_string(),
                    None if is_absent(series.values.floats[step]) => continue,
                    None => format_float(series.values.floats[step]),
                };
                let mut labels = (*series.labels).clone();
                set(&mut labels, label, &value);
                let group = Rc::new(chosen.labels(&labels));
                let count = &mut counts.entry(&group, false, times.count)?.values.floats[step];
                *count = if is_absent(*count) { 1.0 } else { *count + 1.0 };
            }
            Ok(())
        };
        self.produce(&aggregate.node, times, &mut take).await?;
        self.pour(counts.into_series(), sink).await
    }
}

/// What the number of `topk` and its likes may be.
fn check_counts(aggregator: Aggregator, parameters: &[f64]) -> Result<(), QueryError> {
    let chooses_none = match aggregator {
        Aggregator::LimitRatio => parameters.iter().all(|ratio| *ratio == 0.0),
        _count => parameters.iter().all(|count| *count < 1.0),
    };
    if chooses_none {
        return Ok(());
    }
    for value in parameters {
        let problem = match aggregator {
            Aggregator::LimitRatio if value.is_nan() => {
                return Err(QueryError::execution("Ratio value is NaN"));
            }
            Aggregator::LimitRatio => continue,
            _count if value.is_nan() => "Parameter value is NaN".to_owned(),
            _count if *value <= i64::MIN as f64 => {
                format!("Scalar value {} underflows int64", crate::number::format_general(*value))
            }
            _count if *value >= i64::MAX as f64 => {
                format!("Scalar value {} overflows int64", crate::number::format_general(*value))
            }
            _count => continue,
        };
        return Err(QueryError::execution(problem));
    }
    Ok(())
}

/// The least and the greatest, where no value is NaN.
fn extremes(values: &[f64]) -> (Option<f64>, Option<f64>) {
    let is_known = !values.iter().any(|value| value.is_nan());
    let known = || values.iter().copied().filter(|_| is_known);
    (known().reduce(f64::min), known().reduce(f64::max))
}

//! Aggregations that need all values of a group at a step: ranks, quantiles, counts of values.

use std::cmp::Ordering;
use std::rc::Rc;

use super::Evaluator;
use super::aggregate::Groups;
use super::calls::text;
use super::labels::{Chosen, set, stable_hash};
use super::math::quantile;
use super::series::{Collected, Column, Merged, Series, Sink, is_absent};
use crate::ast::{Aggregator, Grouping};
use crate::error::QueryError;
use crate::notes::Note;
use crate::number::{format_float, quote};
use crate::plan::{Aggregating, Times};

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
        if aggregate.aggregator == Aggregator::Quantile {
            return self.quantiles(aggregate, times, &parameters, &collected, groups, &members, sink).await;
        }
        check_counts(aggregate.aggregator, &parameters)?;
        self.note_ratios(aggregate, &parameters);
        self.chosen(aggregate, times, &parameters, collected, &members, sink).await
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
        let mut values = Vec::new();
        for (labels, members) in groups.labels.into_iter().zip(members) {
            let mut column = Column::absent(times.count);
            for (step, q) in parameters.iter().enumerate() {
                values.clear();
                for series in members.iter().map(|at| &collected.series[*at]) {
                    let value = series.values.floats[step];
                    if !is_absent(value) {
                        values.push(value);
                    } else if series.values.histogram(step).is_some() {
                        self.notes.add(Note::HistogramIgnoredInAggregation("quantile"), aggregate.expr_span);
                    }
                }
                if !values.is_empty() {
                    column.floats[step] = quantile(*q, &mut values);
                }
                self.pacing.spent(members.len()).await?;
            }
            let drop_name = members.iter().any(|at| collected.series[*at].drop_name);
            if !column.is_empty() {
                sink.push(Series { labels, drop_name, values: column })?;
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

    /// Some of the series as they are: of each group at each step those that are chosen.
    async fn chosen(
        &self,
        aggregate: &Aggregating,
        times: Times,
        parameters: &[f64],
        mut collected: Collected<'_>,
        members: &[Vec<usize>],
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let mut held = self.budget.hold();
        held.add(0, collected.series.len() * (times.count + size_of::<Vec<bool>>()))?;
        let mut keeps = vec![vec![false; times.count]; collected.series.len()];
        // In the order of the first step, which is the only one of an instant query.
        let mut order = Vec::new();
        for (step, parameter) in parameters.iter().enumerate() {
            for members in members {
                let chosen = self.choose(aggregate, *parameter, step, &collected, members);
                for at in &chosen {
                    keeps[*at][step] = true;
                }
                if step == 0 {
                    order.extend(chosen);
                }
                self.pacing.spent(members.len()).await?;
            }
        }
        let mut places: Vec<usize> = order.clone();
        let mut is_placed = vec![false; collected.series.len()];
        order.iter().for_each(|at| is_placed[*at] = true);
        places.extend((0..collected.series.len()).filter(|at| !is_placed[*at] && keeps[*at].contains(&true)));
        for at in places {
            let Series { labels, drop_name, values } = &mut collected.series[at];
            let (labels, drop_name, values) = (Rc::clone(labels), *drop_name, std::mem::take(values));
            let mut series = Series { labels, drop_name, values };
            collected.let_go(&series);
            for (step, keeps) in keeps[at].iter().enumerate() {
                if !keeps {
                    series.values.clear(step);
                }
            }
            sink.push(series)?;
            self.pacing.spent(times.count).await?;
        }
        Ok(())
    }

    /// The places of a group's series that are chosen at a step, the best first.
    fn choose(
        &self,
        aggregate: &Aggregating,
        parameter: f64,
        step: usize,
        collected: &Collected<'_>,
        members: &[usize],
    ) -> Vec<usize> {
        let series = |at: usize| &collected.series[at];
        let present = members.iter().copied().filter(|at| series(*at).values.is_present(step));
        // What is below one chooses nothing; whole numbers alone count.
        let count = parameter.min(collected.series.len() as f64).max(0.0) as usize;
        match aggregate.aggregator {
            Aggregator::Limitk => present.take(count).collect(),
            Aggregator::LimitRatio => present
                .filter(|at| is_in_ratio(stable_hash(&series(*at).labels), parameter.clamp(-1.0, 1.0)))
                .collect(),
            aggregator => {
                let mut floats: Vec<_> = present
                    .filter(|at| {
                        let is_float = !is_absent(series(*at).values.floats[step]);
                        if !is_float && count > 0 {
                            let note = Note::HistogramIgnoredInAggregation(aggregator.text());
                            self.notes.add(note, aggregate.span);
                        }
                        is_float
                    })
                    .collect();
                let value = |at: &usize| series(*at).values.floats[step];
                let compare = |left: &usize, right: &usize| {
                    let order = match aggregator {
                        Aggregator::Topk => best_first(value(left), value(right)),
                        _bottomk => best_first_reversed(value(left), value(right)),
                    };
                    order.then(left.cmp(right))
                };
                // Only those that are chosen are sorted.
                if count > 0 && count < floats.len() {
                    floats.select_nth_unstable_by(count - 1, compare);
                }
                floats.truncate(count);
                floats.sort_unstable_by(compare);
                floats
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

/// Greater values first, NaN last.
fn best_first(left: f64, right: f64) -> Ordering {
    by_nan(left, right).unwrap_or_else(|| right.total_cmp(&left))
}

fn best_first_reversed(left: f64, right: f64) -> Ordering {
    by_nan(left, right).unwrap_or_else(|| left.total_cmp(&right))
}

fn by_nan(left: f64, right: f64) -> Option<Ordering> {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => None,
        (left, right) => Some(left.cmp(&right)),
    }
}

/// Whether a series' hash lies within a ratio; the negative ratio chooses the others.
fn is_in_ratio(hashed: u64, ratio: f64) -> bool {
    let offset = hashed as f64 / u64::MAX as f64;
    if ratio >= 0.0 { offset < ratio } else { offset >= 1.0 + ratio }
}

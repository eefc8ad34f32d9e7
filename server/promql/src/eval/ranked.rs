//! Aggregations with a parameter: what it may be.

use super::Evaluator;
use super::series::Sink;
use crate::ast::Aggregator;
use crate::error::QueryError;
use crate::notes::Note;
use crate::plan::{Aggregating, Times};
use crate::share::PartialRows;

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
        self.quantile(aggregate, times, &parameters, sink).await
    }

    /// What is made of a part.
    pub(super) async fn ranked_rows(
        &self,
        aggregate: &Aggregating,
        times: Times,
    ) -> Result<PartialRows, QueryError> {
        match (aggregate.aggregator, &aggregate.parameter) {
            (Aggregator::Quantile, _) => self.ranked_values(aggregate, times).await,
            (Aggregator::CountValues, _) => self.counted_values(aggregate, times).await,
            (aggregator, Some(parameter)) if aggregator.is_choosing() => {
                let parameters = self.scalar(parameter, times).await?;
                check_counts(aggregator, &parameters)?;
                self.chosen_rows(aggregate, times, &parameters).await
            }
            _none => Err(QueryError::execution("the aggregation isn't folded in parts")),
        }
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
pub(super) fn extremes(values: &[f64]) -> (Option<f64>, Option<f64>) {
    let is_known = !values.iter().any(|value| value.is_nan());
    let known = || values.iter().copied().filter(|_| is_known);
    (known().reduce(f64::min), known().reduce(f64::max))
}

//! The aggregation `count_values`: each value becomes a label, and the series that have it at a step are counted. Parts
//! count theirs.

use std::rc::Rc;

use silverback_model::Labels;

use super::Evaluator;
use super::apart::PartialGroup;
use super::calls::text;
use super::labels::{Chosen, bytes as labels_bytes, set};
use super::series::{AT_ONCE, EvalSeries, Merged, Sink, is_absent};
use crate::ast::Grouping;
use crate::budget::Held;
use crate::error::QueryError;
use crate::number::{format_float, quote};
use crate::plan::{Aggregating, Times};
use crate::share::PartialRows;

/// A value that is written, and a label set made with it, in values' worth of work.
const VALUE_WORK: usize = 16;
/// As much as a value, in bytes of text.
const BYTES_OF_WORK: usize = 8;

impl Evaluator<'_> {
    pub(super) async fn count_values(
        &self,
        aggregate: &Aggregating,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let mut counting = Counting::new(self, aggregate, times)?;
        if !self.counted_apart(aggregate, times, &mut counting).await? {
            self.produce(&aggregate.node, times, &mut counting).await?;
            self.settle(&mut counting).await?;
        }
        self.pour(counting.counts.into_series(), sink).await
    }

    /// The counts of a part.
    pub(super) async fn counted_values(
        &self,
        aggregate: &Aggregating,
        times: Times,
    ) -> Result<PartialRows, QueryError> {
        let mut counting = Counting { firsts: Some(Vec::new()), ..Counting::new(self, aggregate, times)? };
        self.produce(&aggregate.node, times, &mut counting).await?;
        self.settle(&mut counting).await?;
        let Counting { counts, firsts, held, .. } = counting;
        let mut counted = counts.into_series();
        let (mut groups, mut floats) = (Vec::new(), Vec::new());
        for EvalSeries { labels, values, .. } in std::mem::take(&mut counted.series) {
            groups.push(labels);
            floats.push(values.floats);
        }
        let mut rows =
            self.groups_of_part(firsts.unwrap_or_default(), groups, floats, counted.held()).await?;
        rows.bytes += held.taken().1;
        Ok(rows)
    }

    async fn counted_apart(
        &self,
        aggregate: &Aggregating,
        times: Times,
        counting: &mut Counting<'_>,
    ) -> Result<bool, QueryError> {
        let Some(parts) = self.groups_of_parts::<Vec<f64>>(aggregate, times, &mut counting.held).await?
        else {
            return Ok(false);
        };
        for PartialGroup { group, values, .. } in parts {
            // They are counted again with what they are added to.
            counting.held.release(0, size_of_val(&*values) + labels_bytes(&group));
            let counts = &mut counting.counts.entry(&group, false, times.count)?.values.floats;
            for (count, more) in counts.iter_mut().zip(values) {
                if !is_absent(more) {
                    add(count, more);
                }
            }
            self.pacing.spent(VALUE_WORK + times.count).await?;
        }
        Ok(true)
    }
}

/// Counts values, and by which of them a series goes on.
struct Counting<'a> {
    label: &'a str,
    chosen: Chosen,
    steps: usize,
    counts: Merged<'a>,
    /// Of each count the labels of the first series that had the value, where they are wanted.
    firsts: Option<Vec<Rc<Labels>>>,
    /// The series that came last, and the first step of it that isn't counted.
    left: Option<(EvalSeries, usize)>,
    held: Held<'a>,
}

impl<'a> Counting<'a> {
    fn new(
        evaluator: &'a Evaluator<'_>,
        aggregate: &'a Aggregating,
        times: Times,
    ) -> Result<Self, QueryError> {
        let label = aggregate.parameter.as_ref().and_then(text).unwrap_or_default();
        if label.is_empty() {
            return Err(QueryError::execution(format!("invalid label name {}", quote(label))));
        }
        let mut grouping: Grouping = aggregate.grouping.clone();
        if !grouping.without {
            grouping.labels.push(label.into());
        }
        Ok(Self {
            label,
            chosen: Chosen::grouping(&grouping),
            steps: times.count,
            counts: Merged::new(evaluator.budget),
            firsts: None,
            left: None,
            held: evaluator.budget.hold(),
        })
    }

    /// Counts the value of a step, and returns how much work that was, in values' worth of it.
    fn count(&mut self, series: &EvalSeries, step: usize) -> Result<usize, QueryError> {
        let value = match series.values.histogram(step) {
            Some(histogram) => histogram.to_string(),
            None if is_absent(series.values.floats[step]) => return Ok(1),
            None => format_float(series.values.floats[step]),
        };
        let mut labels = (*series.labels).clone();
        set(&mut labels, self.label, &value);
        let group = Rc::new(self.chosen.labels(&labels));
        add(&mut self.counts.entry(&group, false, self.steps)?.values.floats[step], 1.0);
        if let Some(firsts) = &mut self.firsts
            && firsts.len() < self.counts.len()
        {
            self.held.add(0, labels_bytes(&series.labels))?;
            firsts.push(Rc::clone(&series.labels));
        }
        Ok(VALUE_WORK + value.len() / BYTES_OF_WORK)
    }
}

fn add(count: &mut f64, more: f64) {
    *count = if is_absent(*count) { more } else { *count + more };
}

impl Sink for Counting<'_> {
    fn push(&mut self, series: EvalSeries) -> Result<(), QueryError> {
        while self.go_on()? {}
        self.left = Some((series, 0));
        Ok(())
    }

    fn go_on(&mut self) -> Result<bool, QueryError> {
        let Some((series, first)) = self.left.take() else { return Ok(false) };
        let mut work = 0;
        for step in first..self.steps {
            work += self.count(&series, step)?;
            if work >= AT_ONCE {
                self.left = Some((series, step + 1));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

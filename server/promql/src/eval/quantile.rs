//! The aggregation `quantile`, which needs all values of a group at a step: values alone are kept of the series, each of
//! which gives its own at all steps. Parts give the values that they have.

use super::Evaluator;
use super::aggregate::Groups;
use super::apart::PartialGroup;
use super::math::{nan_first, quantile_of_sorted};
use super::ranked::extremes;
use super::series::{AT_ONCE, EvalSeries, SeriesColumn, Sink, is_absent};
use crate::budget::Held;
use crate::error::QueryError;
use crate::notes::Note;
use crate::plan::{Aggregating, Times};
use crate::share::PartialRows;
use crate::sort::sort_numbers;

impl Evaluator<'_> {
    pub(super) async fn quantile(
        &self,
        aggregate: &Aggregating,
        times: Times,
        parameters: &[f64],
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let (least, most) = extremes(parameters);
        let nan = parameters.iter().copied().find(|q| q.is_nan());
        for q in [nan, most.filter(|q| *q > 1.0), least.filter(|q| *q < 0.0)].into_iter().flatten() {
            self.notes.add(Note::InvalidQuantile(q), aggregate.parameter_span);
        }
        let mut ranking = Ranking::new(self, aggregate, Groups::of(aggregate));
        if !self.ranked_apart(aggregate, times, &mut ranking).await? {
            self.produce(&aggregate.node, times, &mut ranking).await?;
        }
        let Ranking { groups, members, mut held, .. } = ranking;
        let members_max = members.iter().map(|members| members.columns.len()).max().unwrap_or_default();
        // The values of one step, and as many again where they are sorted.
        held.add(0, 2 * members_max * size_of::<f64>())?;
        let (mut values, mut merged) = (Vec::new(), Vec::new());
        for (labels, Members { columns, drop_name }) in groups.labels.into_iter().zip(members) {
            let mut column = SeriesColumn::absent(times.count);
            for (step, q) in parameters.iter().enumerate() {
                values.clear();
                for columns in columns.chunks(AT_ONCE) {
                    let values_there = columns.iter().map(|column| column[step]);
                    values.extend(values_there.filter(|value| !is_absent(*value)));
                    self.pacing.spent(columns.len()).await?;
                }
                if !values.is_empty() {
                    sort_numbers(&mut values, &mut merged, nan_first, &self.pacing).await?;
                    column.floats[step] = quantile_of_sorted(*q, &values);
                }
            }
            if !column.is_empty() {
                sink.push(EvalSeries { labels, drop_name, values: column })?;
                self.settle(sink).await?;
            }
        }
        Ok(())
    }

    /// The values of a part's series.
    pub(super) async fn ranked_values(
        &self,
        aggregate: &Aggregating,
        times: Times,
    ) -> Result<PartialRows, QueryError> {
        let mut ranking = Ranking::new(self, aggregate, Groups::with_firsts(aggregate));
        self.produce(&aggregate.node, times, &mut ranking).await?;
        let Ranking { groups, members, held, .. } = ranking;
        self.groups_of_part(groups.firsts.unwrap_or_default(), groups.labels, members, &held).await
    }

    async fn ranked_apart(
        &self,
        aggregate: &Aggregating,
        times: Times,
        ranking: &mut Ranking<'_>,
    ) -> Result<bool, QueryError> {
        let Some(parts) = self.groups_of_parts::<Members>(aggregate, times, &mut ranking.held).await? else {
            return Ok(false);
        };
        for PartialGroup { group, values: Members { columns, drop_name }, .. } in parts {
            self.pacing.spent(columns.len()).await?;
            let (at, is_new) = ranking.groups.place(&group);
            if is_new {
                ranking.members.push(Members::default());
            }
            let members = &mut ranking.members[at];
            members.columns.extend(columns);
            members.drop_name |= drop_name;
        }
        Ok(true)
    }
}

/// Keeps the values of each series with its group.
struct Ranking<'a> {
    evaluator: &'a Evaluator<'a>,
    aggregate: &'a Aggregating,
    groups: Groups,
    members: Vec<Members>,
    held: Held<'a>,
}

/// What is kept of a group's series.
#[derive(Default)]
struct Members {
    /// Of each that has any its values at all steps.
    columns: Vec<Vec<f64>>,
    drop_name: bool,
}

impl<'a> Ranking<'a> {
    fn new(evaluator: &'a Evaluator<'a>, aggregate: &'a Aggregating, groups: Groups) -> Self {
        let held = evaluator.budget.hold();
        Self { evaluator, aggregate, groups, members: Vec::new(), held }
    }
}

impl Sink for Ranking<'_> {
    fn push(&mut self, EvalSeries { labels, drop_name, values }: EvalSeries) -> Result<(), QueryError> {
        let (at, is_new) = self.groups.place(&labels);
        if is_new {
            self.held.add(0, self.groups.bytes(at) + size_of::<Members>())?;
            self.members.push(Members::default());
        }
        if values.histograms.iter().flatten().any(Option::is_some) {
            let note = Note::HistogramIgnoredInAggregation(self.aggregate.aggregator.as_str());
            self.evaluator.notes.add(note, self.aggregate.expr_span);
        }
        let samples = values.floats.iter().filter(|value| !is_absent(**value)).count();
        if samples > 0 {
            self.held.add(samples, size_of_val(&*values.floats) + size_of::<Vec<f64>>())?;
            self.members[at].columns.push(values.floats);
            self.members[at].drop_name |= drop_name;
        }
        Ok(())
    }
}

//! The last of an evaluation: names that were to go, the order of series, the kind of answer.

use std::rc::Rc;

use super::labels::{bytes as labels_bytes, compare, without_name};
use super::series::{Collected, EvalSeries, Merged, SeriesColumn, Sink, is_absent};
use super::{Evaluator, Samples};
use crate::answer::{MatrixSeries, SampleValue, Value, VectorSample};
use crate::ast::Type;
use crate::budget::Held;
use crate::data::SAMPLE_BYTES;
use crate::error::QueryError;
use crate::plan::{Node, RangeSource, SourceKind, Times};
use crate::sort::{placed, sorted_places};

impl Evaluator<'_> {
    /// The value, and what is held for it.
    pub(super) async fn whole(&self) -> Result<(Value, Held<'_>), QueryError> {
        let (plan, times) = (self.plan, self.plan.times);
        let mut held = self.budget.hold();
        match self.kind() {
            Type::Text => {
                let Node::Text(text) = &plan.root else { return Err(QueryError::execution("no text")) };
                held.add(0, text.len())?;
                Ok((Value::Text { at_ms: times.start_ms, text: text.clone() }, held))
            }
            Type::Matrix => {
                let Node::Samples(source) = &plan.root else {
                    return Err(QueryError::execution("no samples"));
                };
                self.samples(source, times).await
            }
            Type::Scalar => {
                let values = self.scalar(&plan.root, times).await?;
                if plan.is_range {
                    held.add(times.count, times.count * SAMPLE_BYTES)?;
                    let floats = times.all().zip(values).collect();
                    let series = MatrixSeries { labels: Rc::default(), floats, histograms: Vec::new() };
                    let series = if times.count == 0 { Vec::new() } else { vec![series] };
                    return Ok((Value::Matrix(series), held));
                }
                Ok((Value::Scalar { at_ms: times.start_ms, value: values[0] }, held))
            }
            Type::Vector => {
                let collected = self.named(times).await?;
                match plan.is_range {
                    true => self.matrix(collected, times).await,
                    false => self.vector(collected, times).await,
                }
            }
        }
    }

    /// The root's series, without the names that were to go.
    async fn named(&self, times: Times) -> Result<Collected<'_>, QueryError> {
        if times.count == 0 {
            return Ok(Collected::new(self.budget));
        }
        if !self.is_delayed() {
            return self.collect(&self.plan.root, times).await;
        }
        let mut merged = Merged::new(self.budget);
        let mut rename = |mut series: EvalSeries| {
            if series.drop_name {
                series.labels = without_name(&series.labels);
            }
            merged.push(series)
        };
        self.produce(&self.plan.root, times, &mut rename).await?;
        Ok(merged.into_series())
    }

    async fn vector(
        &self,
        mut collected: Collected<'_>,
        times: Times,
    ) -> Result<(Value, Held<'_>), QueryError> {
        let (mut samples, mut held) = (Vec::new(), self.budget.hold());
        for series in std::mem::take(&mut collected.series) {
            collected.release(&series);
            let value = match series.values.histogram(0) {
                Some(histogram) => SampleValue::Histogram(Rc::clone(histogram)),
                None if is_absent(series.values.floats[0]) => continue,
                None => SampleValue::Float(series.values.floats[0]),
            };
            let histogram_bytes = series.values.histogram(0).map_or(0, |histogram| histogram.bytes());
            let bytes = size_of::<VectorSample>() + labels_bytes(&series.labels) + histogram_bytes;
            held.add(1, bytes)?;
            samples.push(VectorSample { labels: series.labels, at_ms: times.start_ms, value });
            self.pacing.spent(1).await?;
        }
        Ok((Value::Vector(samples), held))
    }

    async fn matrix(
        &self,
        mut collected: Collected<'_>,
        times: Times,
    ) -> Result<(Value, Held<'_>), QueryError> {
        let (mut matrix, mut held) = (Vec::new(), self.budget.hold());
        for series in std::mem::take(&mut collected.series) {
            // One and the same samples: as they were first, then as points.
            collected.release(&series);
            if !series.values.is_empty() {
                hold_points(&mut held, &series)?;
                matrix.push(points(Rc::clone(&series.labels), &series.values, times));
            }
            self.pacing.spent(times.count).await?;
        }
        Ok((Value::Matrix(self.by_labels(matrix).await?), held))
    }

    async fn by_labels(&self, matrix: Vec<MatrixSeries>) -> Result<Vec<MatrixSeries>, QueryError> {
        let by_labels = |left: &MatrixSeries, right: &MatrixSeries| compare(&left.labels, &right.labels);
        self.pacing.sorts();
        let places = sorted_places(&matrix, by_labels, &self.pacing).await?;
        Ok(placed(matrix, &places))
    }

    /// A range's samples as they are.
    async fn samples(&self, source: &RangeSource, times: Times) -> Result<(Value, Held<'_>), QueryError> {
        let until_ms = source.shift.of(times.start_ms);
        let after_ms = until_ms.saturating_sub(source.range_ms);
        let mut held = self.budget.hold();
        let mut matrix = Vec::new();
        match &source.kind {
            SourceKind::Select(select) => {
                let (mut samples, mut decoded) = (Samples::default(), self.budget.hold());
                while let Some(fetched) = self.source.next(*select).await? {
                    samples.read(&fetched, after_ms, until_ms, &mut decoded, &self.pacing).await?;
                    samples.drop_stale(&self.pacing).await?;
                    let read = samples.len();
                    self.budget.count_read(read);
                    if self.queryable.counts() {
                        let weights: u64 = samples.histograms.iter().map(|one| one.weight()).sum();
                        self.queryable.add(0, samples.floats.len() as u64 + weights);
                    }
                    if read > 0 {
                        let histogram_bytes: usize = samples.histograms.iter().map(|one| one.bytes()).sum();
                        let labels_bytes = labels_bytes(&fetched.labels) + size_of::<MatrixSeries>();
                        held.add(read, read * SAMPLE_BYTES + histogram_bytes + labels_bytes)?;
                        let Samples { float_times, floats, histogram_times, histograms } = &samples;
                        matrix.push(MatrixSeries {
                            labels: fetched.labels.clone(),
                            floats: float_times.iter().copied().zip(floats.iter().copied()).collect(),
                            histograms: histogram_times
                                .iter()
                                .copied()
                                .zip(histograms.iter().cloned())
                                .collect(),
                        });
                    }
                    self.pacing.spent(read + 1).await?;
                }
            }
            SourceKind::Subquery { node, times } => {
                let before = self.queryable.apart();
                let mut collected = self.collect(node, *times).await?;
                self.queryable.add(0, self.queryable.resume(before));
                for series in std::mem::take(&mut collected.series) {
                    let labels = match series.drop_name {
                        true => without_name(&series.labels),
                        false => Rc::clone(&series.labels),
                    };
                    collected.release(&series);
                    hold_points(&mut held, &series)?;
                    matrix.push(points(labels, &series.values, *times));
                    self.pacing.spent(times.count).await?;
                }
            }
        }
        Ok((Value::Matrix(self.by_labels(matrix).await?), held))
    }
}

/// Holds what a series takes as points.
fn hold_points(held: &mut Held<'_>, series: &EvalSeries) -> Result<(), QueryError> {
    let (samples, values) = (series.values.count(), series.values.histograms.iter().flatten().flatten());
    let histogram_bytes: usize = values.map(|histogram| histogram.bytes()).sum();
    let own_bytes = labels_bytes(&series.labels) + size_of::<MatrixSeries>();
    held.add(samples, samples * SAMPLE_BYTES + histogram_bytes + own_bytes)
}

fn points(labels: Rc<silverback_model::Labels>, values: &SeriesColumn, times: Times) -> MatrixSeries {
    let floats =
        times.all().zip(values.floats.iter().copied()).filter(|(_, value)| !is_absent(*value)).collect();
    let histograms = values.histograms.iter().flatten();
    let histograms = times.all().zip(histograms).filter_map(|(at_ms, value)| Some((at_ms, value.clone()?)));
    MatrixSeries { labels, floats, histograms: histograms.collect() }
}

//! The last of an evaluation: names that were to go, the order of series, the kind of answer.

use std::rc::Rc;

use super::labels::{compare, without_name};
use super::series::{Collected, Column, Merged, Series, Sink, is_absent};
use super::{Evaluator, Samples};
use crate::answer::{MatrixSeries, SampleValue, Value, VectorSample};
use crate::ast::Type;
use crate::error::QueryError;
use crate::plan::{Node, Source, SourceKind, Times};

impl Evaluator<'_> {
    pub(super) async fn whole(&self) -> Result<Value, QueryError> {
        let (plan, times) = (self.plan, self.plan.times);
        match self.kind() {
            Type::Text => {
                let Node::Text(text) = &plan.root else { return Err(QueryError::execution("no text")) };
                Ok(Value::Text { at_ms: times.start_ms, text: text.clone() })
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
                    let floats = times.all().zip(values).collect();
                    let series = MatrixSeries { labels: Rc::default(), floats, histograms: Vec::new() };
                    return Ok(Value::Matrix(if times.count == 0 { Vec::new() } else { vec![series] }));
                }
                Ok(Value::Scalar { at_ms: times.start_ms, value: values[0] })
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
        let mut rename = |mut series: Series| {
            if series.drop_name {
                series.labels = without_name(&series.labels);
            }
            merged.push(series)
        };
        self.produce(&self.plan.root, times, &mut rename).await?;
        Ok(merged.into_series())
    }

    async fn vector(&self, collected: Collected<'_>, times: Times) -> Result<Value, QueryError> {
        let mut samples = Vec::with_capacity(collected.series.len());
        for series in collected.series {
            let value = match series.values.histogram(0) {
                Some(histogram) => SampleValue::Histogram(Rc::clone(histogram)),
                None if is_absent(series.values.floats[0]) => continue,
                None => SampleValue::Float(series.values.floats[0]),
            };
            samples.push(VectorSample { labels: series.labels, at_ms: times.start_ms, value });
            self.pacing.spent(1).await?;
        }
        Ok(Value::Vector(samples))
    }

    async fn matrix(&self, collected: Collected<'_>, times: Times) -> Result<Value, QueryError> {
        let mut matrix = Vec::with_capacity(collected.series.len());
        for Series { labels, values, .. } in collected.series {
            matrix.push(points(labels, &values, times));
            self.pacing.spent(times.count).await?;
        }
        matrix.retain(|series| !series.floats.is_empty() || !series.histograms.is_empty());
        matrix.sort_by(|left, right| compare(&left.labels, &right.labels));
        Ok(Value::Matrix(matrix))
    }

    /// A range's samples as they are.
    async fn samples(&self, source: &Source, times: Times) -> Result<Value, QueryError> {
        let until_ms = source.shift.of(times.start_ms);
        let after_ms = until_ms.saturating_sub(source.range_ms);
        let mut held = self.budget.hold();
        let mut matrix = Vec::new();
        match &source.kind {
            SourceKind::Select(select) => {
                let mut samples = Samples::default();
                for fetched in self.fetched(*select) {
                    samples.read(fetched, after_ms, until_ms, &self.pacing).await?;
                    samples.drop_stale();
                    let read = samples.len();
                    self.budget.count_read(read);
                    held.add(read, read * size_of::<(i64, f64)>() + size_of::<MatrixSeries>())?;
                    if read > 0 {
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
                let collected = self.collect(node, *times).await?;
                for mut series in collected.series {
                    if series.drop_name {
                        series.labels = without_name(&series.labels);
                    }
                    matrix.push(points(series.labels, &series.values, *times));
                    self.pacing.spent(times.count).await?;
                }
            }
        }
        matrix.sort_by(|left, right| compare(&left.labels, &right.labels));
        Ok(Value::Matrix(matrix))
    }
}

fn points(labels: Rc<silverback_model::Labels>, values: &Column, times: Times) -> MatrixSeries {
    let floats =
        times.all().zip(values.floats.iter().copied()).filter(|(_, value)| !is_absent(*value)).collect();
    let histograms = values.histograms.iter().flatten();
    let histograms = times.all().zip(histograms).filter_map(|(at_ms, value)| Some((at_ms, value.clone()?)));
    MatrixSeries { labels, floats, histograms: histograms.collect() }
}

//! Functions over values: of one number each, and those that look at all series at once.

use std::rc::Rc;

use super::dates;
use super::math::{go_max, go_min};
use super::select::SelectorShows;
use super::series::{EvalSeries, Merged, SeriesColumn, Sink, Through, is_absent};
use super::{Collected, Evaluator};
use crate::error::QueryError;
use crate::functions::Function;
use crate::histogram::FloatHistogram;
use crate::notes::Note;
use crate::plan::{Calling, Node, Times};
use crate::sort::{placed, sorted_places};

impl Evaluator<'_> {
    /// A call that gives a vector.
    pub(super) async fn call(
        &self,
        call: &Calling,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        match call.function {
            Function::Vector => {
                let floats = self.scalar(&call.arguments[0], times).await?;
                sink.push(plain(floats))
            }
            Function::Absent => self.absent(call, times, sink).await,
            Function::LabelReplace => self.label_replace(call, times, sink).await,
            Function::LabelJoin => self.label_join(call, times, sink).await,
            Function::Info => Err(QueryError::execution("the function info() is not evaluated here")),
            Function::HistogramQuantile | Function::HistogramFraction | Function::HistogramQuantiles => {
                self.classic(call, times, sink).await
            }
            Function::Sort | Function::SortDesc | Function::SortByLabel | Function::SortByLabelDesc => {
                self.sorted(call, times, sink).await
            }
            Function::Timestamp => self.timestamp(call, times, sink).await,
            // The series fetched don't say when they began.
            Function::StartTimestamp => Ok(()),
            function if call.arguments.is_empty() => {
                let parts = times.all().map(|at_ms| dates::part(function, (at_ms.div_euclid(1000)) as f64));
                sink.push(plain(parts.map(|part| part.unwrap_or(f64::NAN)).collect()))
            }
            function => self.each_value(call, function, times, sink).await,
        }
    }

    /// A call that gives a number.
    pub(super) async fn scalar_call(&self, call: &Calling, times: Times) -> Result<Vec<f64>, QueryError> {
        match call.function {
            Function::Scalar => self.only(&call.arguments[0], times).await,
            Function::MaxOf | Function::MinOf => {
                let left = self.scalar(&call.arguments[0], times).await?;
                let right = self.scalar(&call.arguments[1], times).await?;
                let choose = if call.function == Function::MaxOf { go_max } else { go_min };
                Ok(left.into_iter().zip(right).map(|(left, right)| choose(left, right)).collect())
            }
            _other => Err(QueryError::execution("the function gives no scalar")),
        }
    }

    /// `scalar`: the value of the one series that has a float.
    async fn only(&self, node: &Node, times: Times) -> Result<Vec<f64>, QueryError> {
        let mut found = vec![0_u32; times.count];
        let mut values = vec![f64::NAN; times.count];
        let mut take = |series: EvalSeries| {
            for (step, value) in
                series.values.floats.iter().enumerate().filter(|(_, value)| !is_absent(**value))
            {
                found[step] = found[step].saturating_add(1);
                values[step] = if found[step] == 1 { *value } else { f64::NAN };
            }
            Ok(())
        };
        self.produce(node, times, &mut take).await?;
        Ok(values)
    }

    async fn absent(&self, call: &Calling, times: Times, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut found = vec![false; times.count];
        let mut take = |series: EvalSeries| {
            found.iter_mut().enumerate().for_each(|(step, found)| *found |= series.values.is_present(step));
            Ok(())
        };
        self.produce(&call.arguments[0], times, &mut take).await?;
        if found.iter().all(|found| *found) {
            return Ok(());
        }
        let mut values = SeriesColumn::absent(times.count);
        for (value, _) in values.floats.iter_mut().zip(&found).filter(|(_, found)| !**found) {
            *value = 1.0;
        }
        sink.push(EvalSeries { labels: Rc::new(call.absent_labels.clone()), drop_name: false, values })
    }

    /// Functions that change each value, whose series lose their names.
    async fn each_value(
        &self,
        call: &Calling,
        function: Function,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let mut parameters = Vec::new();
        for argument in &call.arguments[1..] {
            parameters.push(self.scalar(argument, times).await?);
        }
        let change = |mut series: EvalSeries| {
            match histogram_function(function) {
                Some(of_histogram) => histograms_to_floats(&mut series.values, of_histogram),
                None => {
                    series.values.histograms = None;
                    change_floats(&mut series.values, function, &parameters);
                }
            }
            series.lose_name(self.is_delayed());
            series
        };
        self.renamed(call, times, change, sink).await
    }

    async fn timestamp(&self, call: &Calling, times: Times, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let lose_name = |mut series: EvalSeries| {
            series.lose_name(self.is_delayed());
            series
        };
        let argument = &call.arguments[0];
        let (argument, first) = match argument {
            Node::Invariant(inner) => (&**inner, times.first()),
            other => (other, times),
        };
        if let Node::Select(moment) = argument {
            let mut merged = Merged::new(self.budget);
            let mut take = |mut series: EvalSeries| {
                if first.count != times.count {
                    series.values = series.values.repeated(times.count);
                }
                merged.push(lose_name(series))
            };
            self.select_shown(moment, first, SelectorShows::Time, &mut take).await?;
            return self.pour(merged.into_series(), sink).await;
        }
        let change = |mut series: EvalSeries| {
            for (step, at_ms) in times.all().enumerate() {
                if series.values.is_present(step) {
                    series.values.clear(step);
                    series.values.floats[step] = at_ms as f64 / 1000.0;
                }
            }
            lose_name(series)
        };
        self.renamed(call, times, change, sink).await
    }

    /// Gives the first argument's series, changed, to a sink; merged where they may have become the same.
    async fn renamed(
        &self,
        call: &Calling,
        times: Times,
        mut change: impl FnMut(EvalSeries) -> EvalSeries,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let argument = &call.arguments[0];
        if self.is_delayed() || call.has_one_name {
            let change = |series: EvalSeries| Some(change(series)).filter(|series| !series.values.is_empty());
            let mut take = Through::new(sink, change);
            return self.produce(argument, times, &mut take).await;
        }
        let mut merged = Merged::new(self.budget);
        let mut take = |series: EvalSeries| {
            let series = change(series);
            if series.values.is_empty() { Ok(()) } else { merged.push(series) }
        };
        self.produce(argument, times, &mut take).await?;
        self.pour(merged.into_series(), sink).await
    }

    async fn sorted(&self, call: &Calling, times: Times, sink: &mut dyn Sink) -> Result<(), QueryError> {
        if times.go_on {
            self.notes.add(Note::SortInRange, call.span);
        }
        let mut collected: Collected<'_> = self.collect(&call.arguments[0], times).await?;
        let by_value = matches!(call.function, Function::Sort | Function::SortDesc);
        if by_value {
            collected.series.iter_mut().for_each(|series| series.values.histograms = None);
            collected.series.retain(|series| !series.values.is_empty());
        }
        let is_descending = matches!(call.function, Function::SortDesc | Function::SortByLabelDesc);
        let names: Vec<&str> = call.arguments[1..].iter().filter_map(text).collect();
        let compare = |left: &EvalSeries, right: &EvalSeries| {
            let order = match by_value {
                true => {
                    let (left, right) = (left.values.floats[0], right.values.floats[0]);
                    match (left.is_nan(), right.is_nan()) {
                        // At the end in both directions.
                        (true, true) => return std::cmp::Ordering::Equal,
                        (true, false) => return std::cmp::Ordering::Greater,
                        (false, true) => return std::cmp::Ordering::Less,
                        (false, false) => left.total_cmp(&right),
                    }
                }
                false => super::natural::by_labels(&left.labels, &right.labels, &names)
                    .then_with(|| super::labels::compare(&left.labels, &right.labels)),
            };
            if is_descending { order.reverse() } else { order }
        };
        let places = sorted_places(&collected.series, compare, &self.pacing).await?;
        collected.series = placed(std::mem::take(&mut collected.series), &places);
        self.pour(collected, sink).await
    }
}

/// A text among a call's arguments.
pub(super) fn text(node: &Node) -> Option<&str> {
    if let Node::Text(text) = node { Some(text) } else { None }
}

/// A series without labels.
fn plain(floats: Vec<f64>) -> EvalSeries {
    EvalSeries { labels: Rc::default(), drop_name: false, values: SeriesColumn { floats, histograms: None } }
}

fn histogram_function(function: Function) -> Option<fn(&FloatHistogram) -> f64> {
    Some(match function {
        Function::HistogramCount => |histogram| histogram.count,
        Function::HistogramSum => |histogram| histogram.sum,
        Function::HistogramAvg => |histogram| histogram.sum / histogram.count,
        Function::HistogramStddev => |histogram| histogram.variance().sqrt(),
        Function::HistogramStdvar => |histogram| histogram.variance(),
        _other => return None,
    })
}

fn histograms_to_floats(values: &mut SeriesColumn, function: fn(&FloatHistogram) -> f64) {
    let histograms = values.histograms.take();
    *values = SeriesColumn::absent(values.len());
    for (step, histogram) in histograms.iter().flatten().enumerate() {
        if let Some(histogram) = histogram {
            values.floats[step] = function(histogram);
        }
    }
}

fn change_floats(values: &mut SeriesColumn, function: Function, parameters: &[Vec<f64>]) {
    if let Some(change) = float_function(function) {
        for value in values.floats.iter_mut().filter(|value| !is_absent(**value)) {
            *value = change(*value);
        }
        return;
    }
    for step in 0..values.len() {
        let value = values.floats[step];
        if is_absent(value) {
            continue;
        }
        let parameter = |at: usize| parameters[at][step];
        let bounds = match function {
            Function::Clamp => Some((parameter(0), parameter(1))),
            Function::ClampMin => Some((parameter(0), f64::INFINITY)),
            Function::ClampMax => Some((f64::NEG_INFINITY, parameter(0))),
            _other => None,
        };
        values.floats[step] = match (function, bounds) {
            (_, Some((least, most))) if most < least => super::series::ABSENT,
            (_, Some((least, most))) => go_max(least, go_min(most, value)),
            (Function::Round, None) => {
                let inverse = 1.0 / parameters.first().map_or(1.0, |nearest| nearest[step]);
                (value * inverse + 0.5).floor() / inverse
            }
            (function, None) => dates::part(function, value).unwrap_or(f64::NAN),
        };
    }
}

fn float_function(function: Function) -> Option<fn(f64) -> f64> {
    Some(match function {
        Function::Abs => f64::abs,
        Function::Ceil => f64::ceil,
        Function::Floor => f64::floor,
        Function::Exp => f64::exp,
        Function::Sqrt => f64::sqrt,
        Function::Ln => f64::ln,
        Function::Log2 => f64::log2,
        Function::Log10 => f64::log10,
        Function::Sin => f64::sin,
        Function::Cos => f64::cos,
        Function::Tan => f64::tan,
        Function::Asin => f64::asin,
        Function::Acos => f64::acos,
        Function::Atan => f64::atan,
        Function::Sinh => f64::sinh,
        Function::Cosh => f64::cosh,
        Function::Tanh => f64::tanh,
        Function::Asinh => f64::asinh,
        Function::Acosh => f64::acosh,
        Function::Atanh => f64::atanh,
        Function::Rad => |value| value * std::f64::consts::PI / 180.0,
        Function::Deg => |value| value * 180.0 / std::f64::consts::PI,
        Function::Sgn => |value| {
            if value < 0.0 {
                -1.0
            } else if value > 0.0 {
                1.0
            } else {
                value
            }
        },
        _other => return None,
    })
}

//! Binary operators on vectors: series of both sides are matched once by their labels, then all steps are computed.

use std::cell::OnceCell;
use std::rc::Rc;

use hashbrown::HashTable;

use super::Evaluator;
use super::labels::Chosen;
use super::matched::Match;
use super::math::operate;
use super::series::{Collected, EvalSeries, Merged, SeriesColumn, Sink, is_absent};
use crate::ast::{Card, Operator};
use crate::error::QueryError;
use crate::histogram::{FloatHistogram, HistogramAccumulator, Keep, ResetHint};
use crate::notes::{HistogramOperation, Note};
use crate::plan::{Combining, Times};

/// A value of a series at a step.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Float(f64),
    Histogram(Rc<FloatHistogram>),
}

/// What an operator gives for two values.
pub(super) enum BinaryOutcome {
    /// Nothing that can be computed.
    None,
    /// A value; whether a comparison keeps it.
    Value(Operand, bool),
}

impl Operand {
    pub(super) fn at(values: &SeriesColumn, step: usize) -> Option<Self> {
        match values.histogram(step) {
            Some(histogram) => Some(Self::Histogram(Rc::clone(histogram))),
            None => Some(values.floats[step]).filter(|value| !is_absent(*value)).map(Self::Float),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Float(_) => "float",
            Self::Histogram(_) => "histogram",
        }
    }

    pub(super) fn put(self, values: &mut SeriesColumn, step: usize) {
        match self {
            Self::Float(value) => values.floats[step] = value,
            Self::Histogram(histogram) => values.set_histogram(step, histogram),
        }
    }
}

/// The series of both sides that match, by their places.
#[derive(Debug, Default)]
struct Pairing {
    left: Vec<usize>,
    right: Vec<usize>,
}

impl Evaluator<'_> {
    #[inline]
    pub(super) fn scalar_step(
        &self,
        binary: &Combining,
        values: &mut SeriesColumn,
        step: usize,
        scalar: f64,
        scalar_is_left: bool,
    ) {
        let value = values.floats[step];
        if is_absent(value) {
            if values.histogram(step).is_some() {
                self.scalar_histogram_step(binary, values, step, scalar, scalar_is_left);
            }
            return;
        }
        let (left, right) = if scalar_is_left { (scalar, value) } else { (value, scalar) };
        if matches!(binary.operator, Operator::TrimLower | Operator::TrimUpper) {
            self.note_types(binary, "float", "float");
            return values.clear(step);
        }
        let result = operate(binary.operator, left, right);
        if binary.returns_bool {
            values.floats[step] = f64::from(u8::from(result.is_some()));
            return;
        }
        match result {
            // A comparison keeps the vector's value, whichever side it is on.
            Some(_) if binary.operator.is_comparison() => {}
            Some(result) => values.floats[step] = result,
            None => values.clear(step),
        }
    }

    fn scalar_histogram_step(
        &self,
        binary: &Combining,
        values: &mut SeriesColumn,
        step: usize,
        scalar: f64,
        scalar_is_left: bool,
    ) {
        let Some(operand) = Operand::at(values, step) else { return };
        let (left, right) = match scalar_is_left {
            true => (Operand::Float(scalar), operand),
            false => (operand, Operand::Float(scalar)),
        };
        match self.operate(binary, left, right) {
            BinaryOutcome::None => values.clear(step),
            BinaryOutcome::Value(result, _) => {
                values.clear(step);
                result.put(values, step);
            }
        }
    }

    fn note_types(&self, binary: &Combining, left: &'static str, right: &'static str) {
        let operator = binary.operator.as_str();
        self.notes.add(Note::IncompatibleTypes { operator, left, right }, binary.span);
    }

    pub(super) fn operate(&self, binary: &Combining, left: Operand, right: Operand) -> BinaryOutcome {
        let operator = binary.operator;
        let of_histogram = |histogram: FloatHistogram| {
            BinaryOutcome::Value(Operand::Histogram(Rc::new(histogram.compacted())), true)
        };
        match (&left, &right, operator) {
            (_, Operand::Float(_), Operator::TrimLower | Operator::TrimUpper)
            | (Operand::Float(_), _, Operator::TrimLower | Operator::TrimUpper)
                if !matches!(left, Operand::Histogram(_)) => {}
            (Operand::Float(left), Operand::Float(right), _) => {
                return match operate(operator, *left, *right) {
                    Some(value) => BinaryOutcome::Value(Operand::Float(value), true),
                    None => BinaryOutcome::Value(Operand::Float(*left), false),
                };
            }
            (Operand::Float(factor), Operand::Histogram(histogram), Operator::Mul)
            | (Operand::Histogram(histogram), Operand::Float(factor), Operator::Mul) => {
                return of_histogram(histogram.multiplied(*factor));
            }
            (Operand::Histogram(histogram), Operand::Float(divisor), Operator::Div) => {
                return of_histogram(histogram.divided(*divisor));
            }
            (Operand::Histogram(histogram), Operand::Float(value), Operator::TrimUpper) => {
                return of_histogram(histogram.trimmed(*value, Keep::Below));
            }
            (Operand::Histogram(histogram), Operand::Float(value), Operator::TrimLower) => {
                return of_histogram(histogram.trimmed(*value, Keep::Above));
            }
            (Operand::Histogram(one), Operand::Histogram(other), Operator::Add) => {
                return self.combine(binary, one, other, HistogramOperation::Addition);
            }
            (Operand::Histogram(one), Operand::Histogram(other), Operator::Sub) => {
                return self.combine(binary, one, other, HistogramOperation::Subtraction);
            }
            (Operand::Histogram(one), Operand::Histogram(other), Operator::Equal) => {
                return BinaryOutcome::Value(left.clone(), one.equals(other));
            }
            (Operand::Histogram(one), Operand::Histogram(other), Operator::NotEqual) => {
                return BinaryOutcome::Value(left.clone(), !one.equals(other));
            }
            (_, _, _) => {}
        }
        self.note_types(binary, left.kind(), right.kind());
        BinaryOutcome::None
    }

    fn combine(
        &self,
        binary: &Combining,
        left: &FloatHistogram,
        right: &FloatHistogram,
        operation: HistogramOperation,
    ) -> BinaryOutcome {
        let mut tally = HistogramAccumulator::first(left);
        let combined = match operation {
            HistogramOperation::Subtraction => tally.subtract(right),
            HistogramOperation::Addition | HistogramOperation::Aggregation => tally.add(right),
        };
        let Ok(combined) = combined else {
            self.notes.add(Note::IncompatibleLayout(binary.operator.as_str()), binary.span);
            return BinaryOutcome::None;
        };
        if combined.collides {
            self.notes.add(Note::ResetCollision(operation), binary.span);
        }
        if combined.is_reconciled {
            self.notes.add(Note::MismatchedCustomBuckets(operation), binary.span);
        }
        let mut result = tally.sum();
        if operation == HistogramOperation::Subtraction {
            result.reset_hint = ResetHint::Gauge;
        }
        BinaryOutcome::Value(Operand::Histogram(Rc::new(result)), true)
    }

    /// The right side's series, and which of both sides match.
    async fn right_side(
        &self,
        binary: &Combining,
        left: &Collected<'_>,
        times: Times,
    ) -> Result<(Collected<'_>, Vec<Pairing>), QueryError> {
        let right = self.collect(&binary.right, times).await?;
        let chosen = Chosen::new(&binary.matching.labels, binary.matching.on);
        let mut pairings: Vec<Pairing> = Vec::new();
        let mut places: HashTable<(u64, usize)> = HashTable::new();
        for (is_left, series) in [(true, &left.series), (false, &right.series)] {
            for (at, one) in series.iter().enumerate() {
                let hashed = chosen.hash(&one.labels);
                let place = {
                    let labels_of = |pairing: &Pairing| match pairing.left.first() {
                        Some(first) => left.series[*first].labels.clone(),
                        None => right.series[pairing.right[0]].labels.clone(),
                    };
                    let is_same = |place: &(u64, usize)| {
                        place.0 == hashed && chosen.are_same(&labels_of(&pairings[place.1]), &one.labels)
                    };
                    places.find(hashed, is_same).map(|place| place.1)
                };
                let place = place.unwrap_or_else(|| {
                    pairings.push(Pairing::default());
                    places.insert_unique(hashed, (hashed, pairings.len() - 1), |place| place.0);
                    pairings.len() - 1
                });
                let side = if is_left { &mut pairings[place].left } else { &mut pairings[place].right };
                side.push(at);
                self.pacing.spent(8).await?;
            }
        }
        Ok((right, pairings))
    }

    /// At which steps any of these series has a value.
    pub(super) async fn present(
        &self,
        series: impl Iterator<Item = &EvalSeries>,
        times: Times,
    ) -> Result<Vec<bool>, QueryError> {
        let mut present = vec![false; times.count];
        for values in series.map(|series| &series.values) {
            present.iter_mut().enumerate().for_each(|(step, found)| *found |= values.is_present(step));
            self.pacing.spent(times.count).await?;
        }
        Ok(present)
    }

    pub(super) async fn sets(
        &self,
        binary: &Combining,
        mut left: Collected<'_>,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let (mut right, pairings) = self.right_side(binary, &left, times).await?;
        for pairing in &pairings {
            let (changed, places, other, keeps) = match binary.operator {
                Operator::And => {
                    let other = self.present(of(&right, &pairing.right), times).await?;
                    (&mut left.series, &pairing.left, other, true)
                }
                Operator::Unless => {
                    let other = self.present(of(&right, &pairing.right), times).await?;
                    (&mut left.series, &pairing.left, other, false)
                }
                _or => {
                    let other = self.present(of(&left, &pairing.left), times).await?;
                    (&mut right.series, &pairing.right, other, false)
                }
            };
            for at in places {
                let values = &mut changed[*at].values;
                for (step, found) in other.iter().enumerate() {
                    if *found != keeps {
                        values.clear(step);
                    }
                }
                self.pacing.spent(times.count).await?;
            }
        }
        if binary.operator != Operator::Or {
            left.series.retain(|series| !series.values.is_empty());
            return self.pour(left, sink).await;
        }
        // The same labels may come from both sides, at different steps.
        let mut merged = Merged::new(self.budget);
        for side in [left, right] {
            for series in side.series.into_iter().filter(|series| !series.values.is_empty()) {
                merged.push(series)?;
                self.pacing.spent(times.count).await?;
            }
        }
        self.pour(merged.into_series(), sink).await
    }

    pub(super) async fn vectors(
        &self,
        binary: &Combining,
        left: Collected<'_>,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let (right, pairings) = self.right_side(binary, &left, times).await?;
        let is_swapped = binary.matching.card == Card::OneToMany;
        let (mut merged, matched_steps) = (Merged::new(self.budget), OnceCell::new());
        for Pairing { left: of_left, right: of_right } in &pairings {
            let ((many_side, many), (one_side, one)) = match is_swapped {
                true => ((&right, of_right), (&left, of_left)),
                false => ((&left, of_left), (&right, of_right)),
            };
            let (many, one) = (of(many_side, many).collect(), of(one_side, one).collect());
            let (all_many, matched_steps) = (&many_side.series, &matched_steps);
            Match { evaluator: self, binary, times, all_many, matched_steps, many, one, is_swapped }
                .evaluate(&mut merged)
                .await?;
        }
        let mut collected = merged.into_series();
        collected.series.retain(|series| !series.values.is_empty());
        self.pour(collected, sink).await
    }
}

fn of<'a>(collected: &'a Collected<'_>, places: &'a [usize]) -> impl Iterator<Item = &'a EvalSeries> {
    places.iter().map(|at| &collected.series[*at])
}

/// Whether an operator's result means something else than its operands.
pub(super) const fn changes_meaning(operator: Operator) -> bool {
    use Operator::{Add, Atan2, Div, Mod, Mul, Pow, Sub};
    matches!(operator, Add | Sub | Mul | Div | Mod | Pow | Atan2)
}

//! Arithmetic that has to give what Prometheus gives.

use crate::ast::Operator;

/// A sum with what rounding took from it (Neumaier).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) value: f64,
    pub(crate) lost: f64,
}

impl Sum {
    #[inline]
    pub(crate) fn add(&mut self, term: f64) {
        let total = self.value + term;
        if total.is_infinite() {
            self.lost = 0.0;
        } else if self.value.abs() >= term.abs() {
            self.lost += (self.value - total) + term;
        } else {
            self.lost += (term - total) + self.value;
        }
        self.value = total;
    }

    /// Takes another sum.
    pub(crate) fn merge(&mut self, other: Self) {
        self.add(other.value);
        if self.value.is_finite() {
            self.lost += other.lost;
        }
    }

    #[inline]
    pub(crate) fn total(self) -> f64 {
        self.value + self.lost
    }
}

/// A mean that doesn't overflow where the sum would.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mean {
    /// The sum; once it would overflow, the mean.
    sum: Sum,
    count: f64,
    is_incremental: bool,
}

impl Mean {
    #[inline]
    pub(crate) fn first(value: f64) -> Self {
        Self { sum: Sum { value, lost: 0.0 }, count: 1.0, is_incremental: false }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        if !self.is_incremental {
            let mut sum = self.sum;
            sum.add(value);
            if !sum.value.is_infinite() {
                self.sum = sum;
                return;
            }
            self.is_incremental = true;
            self.sum.value /= self.count - 1.0;
            self.sum.lost /= self.count - 1.0;
        }
        let share = (self.count - 1.0) / self.count;
        self.sum = Sum { value: share * self.sum.value, lost: share * self.sum.lost };
        self.sum.add(value / self.count);
    }

    /// Takes the mean of other values.
    pub(crate) fn merge(&mut self, other: Self) {
        let count = self.count + other.count;
        if !self.is_incremental && !other.is_incremental {
            let mut sum = self.sum;
            sum.merge(other.sum);
            if !sum.value.is_infinite() {
                *self = Self { sum, count, is_incremental: false };
                return;
            }
        }
        let mut sum = self.part_of(count);
        sum.merge(other.part_of(count));
        *self = Self { sum, count, is_incremental: true };
    }

    /// What it is in a mean of so many values.
    fn part_of(self, count: f64) -> Sum {
        let factor = if self.is_incremental { self.count / count } else { count.recip() };
        Sum { value: self.sum.value * factor, lost: self.sum.lost * factor }
    }

    #[inline]
    pub(crate) fn total(self) -> f64 {
        match self.is_incremental {
            true => self.sum.value + self.sum.lost,
            // Of the whole sum: so the order of the values doesn't show.
            false => self.sum.total() / self.count,
        }
    }
}

/// The quantile of some values, which are sorted here.
pub(crate) fn quantile(q: f64, values: &mut [f64]) -> f64 {
    values.sort_unstable_by(nan_first);
    quantile_of_sorted(q, values)
}

/// The order of values for their quantile.
pub(crate) fn nan_first(left: &f64, right: &f64) -> std::cmp::Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => std::cmp::Ordering::Equal,
        (true, false) => std::cmp::Ordering::Less,
        (false, true) => std::cmp::Ordering::Greater,
        (false, false) => left.total_cmp(right),
    }
}

/// The quantile of values that are sorted, [NaN first](nan_first).
pub(crate) fn quantile_of_sorted(q: f64, values: &[f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let count = values.len() as f64;
    let rank = q * (count - 1.0);
    let lower = (rank.floor().max(0.0)) as usize;
    let upper = (lower + 1).min(values.len() - 1);
    let weight = rank - rank.floor();
    values[lower] * (1.0 - weight) + values[upper] * weight
}

/// An operator between two numbers. A comparison gives the left one or `None`.
#[inline]
pub(crate) fn operate(operator: Operator, left: f64, right: f64) -> Option<f64> {
    let compared = |holds: bool| holds.then_some(left);
    match operator {
        Operator::Add => Some(left + right),
        Operator::Sub => Some(left - right),
        Operator::Mul => Some(left * right),
        Operator::Div => Some(left / right),
        Operator::Mod => Some(left % right),
        Operator::Pow => Some(left.powf(right)),
        Operator::Atan2 => Some(left.atan2(right)),
        Operator::Equal => compared(left == right),
        Operator::NotEqual => compared(left != right),
        Operator::Less => compared(left < right),
        Operator::LessOrEqual => compared(left <= right),
        Operator::Greater => compared(left > right),
        Operator::GreaterOrEqual => compared(left >= right),
        Operator::TrimUpper | Operator::TrimLower | Operator::And | Operator::Or | Operator::Unless => None,
    }
}

/// As Go's `Max`: NaN where either is, but infinity goes before it.
pub(crate) fn go_max(left: f64, right: f64) -> f64 {
    match (left, right) {
        (f64::INFINITY, _) | (_, f64::INFINITY) => f64::INFINITY,
        (left, right) if left.is_nan() || right.is_nan() => f64::NAN,
        (left, right) => left.max(right),
    }
}

/// As Go's `Min`: likewise.
pub(crate) fn go_min(left: f64, right: f64) -> f64 {
    -go_max(-left, -right)
}
